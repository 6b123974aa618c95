//! Handing a run to the worker of its slot.

use super::super::records::{Columns, key_of};
use super::super::transition::{Loaded, write};
use super::super::{StoreError, Tx, sql};
use super::Operation;
use crate::domain::{
    Assignment, Binding, Change, FailCause, IllegalRow, LeasePolicy, Ordinal, StateName, Timestamp,
};
use crate::protocol::Digest;

/// Offers a slot's run to its worker: for the first time, or again because the worker asks again.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The slot.
    pub ordinal: Ordinal,
    /// The poll that is answered. One that was answered before counts no offer.
    pub delivery_id: String,
    /// The rules of the lease.
    pub policy: LeasePolicy,
}

/// What became of an offer.
#[derive(Clone, Debug, PartialEq)]
pub enum OfferReply {
    /// The slot has no run that could be offered.
    Nothing,
    /// The run to hand out.
    Offered(Offered),
    /// The attempt had been offered too often, and it was the last: the slot is free.
    GivenUp {
        /// Who held the run.
        binding: Binding,
        /// Why it was given up.
        cause: FailCause,
    },
    /// What is to be offered cannot be understood, so the run is given up: the slot is free.
    Unreadable {
        /// Who held the run.
        binding: Binding,
        /// What is wrong with its row.
        row: IllegalRow,
    },
}

/// A run that is handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct Offered {
    /// The run, the slot, and the attempt to work under.
    pub binding: Binding,
    /// Canonical text of the payload, the same with every offer.
    pub payload_json: String,
    /// Digest of the payload.
    pub assignment_digest: String,
    /// End of the lease.
    pub lease_until: Timestamp,
    /// The attempt before this one had been offered too often and was fenced.
    pub fenced: bool,
}

impl Offer {
    /// Writes one offer, or the fence in place of it.
    fn take(
        &self,
        tx: &Tx<'_>,
        Loaded { assignment, entry }: Loaded,
        now: Timestamp,
    ) -> Result<Option<Change>, StoreError> {
        let repeated = entry.last_poll.as_deref() == Some(self.delivery_id.as_str());
        let change = match assignment {
            Assignment::Assigned(state) => state.offer(now, &self.policy, repeated),
            Assignment::Running(state) => state.offer(now, &self.policy, repeated),
            _ => return Ok(None),
        };
        let is_offer = change.columns().state == StateName::Running;
        let poll = is_offer.then_some(self.delivery_id.as_str());
        write(tx, &change, &entry, poll)?;
        Ok(Some(change))
    }

    /// Hands out what `payload` is, or fences the attempt that had too many offers and hands out the next one.
    fn hand_out(
        &self,
        tx: &Tx<'_>,
        held: Loaded,
        (payload_json, assignment_digest): (String, String),
        now: Timestamp,
    ) -> Result<OfferReply, StoreError> {
        let mut change = self.take(tx, held, now)?;
        let is_fence = |change: &Change| change.columns().state == StateName::Assigned;
        let fenced = change.as_ref().is_some_and(is_fence);
        if fenced {
            // The next attempt has no offer yet, so this one is taken.
            change = match Loaded::of_ordinal(tx, self.ordinal)? {
                Some(held) => self.take(tx, held, now)?,
                None => None,
            };
        }
        let Some(change) = change else {
            return Ok(OfferReply::Nothing);
        };
        if change.columns().state != StateName::Running {
            return Ok(OfferReply::GivenUp {
                binding: change.binding(),
                cause: change.columns().cause.unwrap_or(FailCause::Exhausted),
            });
        }
        Ok(OfferReply::Offered(Offered {
            binding: change.binding(),
            payload_json,
            assignment_digest,
            lease_until: change.columns().lease_until,
            fenced,
        }))
    }
}

impl Operation for Offer {
    type Reply = OfferReply;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<OfferReply, StoreError> {
        let Some(held) = Loaded::of_ordinal(tx, self.ordinal)? else {
            return Ok(OfferReply::Nothing);
        };
        match payload(tx, held.assignment.binding()) {
            Ok(payload) => self.hand_out(tx, held, payload, now),
            Err(StoreError::Illegal(row)) => give_up(tx, held, row, now),
            Err(other) => Err(other),
        }
    }
}

/// Gives a run up that no worker can be offered, so that it goes back to its board before anybody is blamed for it.
fn give_up(
    tx: &Tx<'_>,
    Loaded { assignment, entry }: Loaded,
    row: IllegalRow,
    now: Timestamp,
) -> Result<OfferReply, StoreError> {
    let change = match assignment {
        Assignment::Assigned(state) => state.unreadable(now),
        Assignment::Running(state) => state.unreadable(now),
        _ => return Ok(OfferReply::Nothing),
    };
    write(tx, &change, &entry, None)?;
    let binding = change.binding();
    Ok(OfferReply::Unreadable { binding, row })
}

/// The text of a payload and its digest, which must fit each other.
fn payload(tx: &Tx<'_>, binding: &Binding) -> Result<(String, String), StoreError> {
    tx.first(sql::PAYLOAD, key_of(&binding.key), |row| {
        let columns = Columns::of(row);
        let text = columns.text(3, "payload_json")?;
        let digest = columns.text(4, "assignment_digest")?;
        if Digest::parse(&digest).is_none() {
            return Err(columns.illegal("assignment_digest", &digest));
        }
        if Digest::of(text.as_bytes()).as_str() != digest {
            return Err(columns.illegal("payload_json", "a text of another digest"));
        }
        Ok((text, digest))
    })?
    .ok_or_else(|| StoreError::Changed(binding.clone()))
}
