//! Handing a run to the worker of its slot.

use super::super::records::{Columns, key_of};
use super::super::transition::{Loaded, write};
use super::super::{StoreError, Tx, sql};
use super::Operation;
use crate::domain::{
    Assignment, Binding, Change, FailCause, LeasePolicy, Ordinal, StateName, Timestamp,
};

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
    fn take(&self, tx: &Tx<'_>, now: Timestamp) -> Result<Option<Change>, StoreError> {
        let Some(Loaded { assignment, entry }) = Loaded::of_ordinal(tx, self.ordinal)? else {
            return Ok(None);
        };
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
}

impl Operation for Offer {
    type Reply = OfferReply;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<OfferReply, StoreError> {
        let mut change = self.take(tx, now)?;
        let fenced = change
            .as_ref()
            .is_some_and(|change| change.columns().state == StateName::Assigned);
        if fenced {
            // The attempt was fenced; the next one has no offer yet, so this one is taken.
            change = self.take(tx, now)?;
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
        let (payload_json, assignment_digest) = payload(tx, change.expect())?;
        Ok(OfferReply::Offered(Offered {
            binding: change.binding(),
            payload_json,
            assignment_digest,
            lease_until: change.columns().lease_until,
            fenced,
        }))
    }
}

/// The text of a payload and its digest.
fn payload(tx: &Tx<'_>, binding: &Binding) -> Result<(String, String), StoreError> {
    tx.first(sql::PAYLOAD, key_of(&binding.key), |row| {
        let columns = Columns::of(row);
        Ok((
            columns.text(3, "payload_json")?,
            columns.text(4, "assignment_digest")?,
        ))
    })?
    .ok_or_else(|| StoreError::Changed(binding.clone()))
}
