//! A worker's sign of life: the hot path, two writes.

use rusqlite::params;

use super::super::records::Columns;
use super::super::transition::{Loaded, write};
use super::super::{Refusal, StoreError, Tx, sql};
use super::presented::is_superseded;
use super::{Operation, Presented};
use crate::domain::{Assignment, IllegalRow, LeasePolicy, Timestamp};
use crate::protocol::{Digest, Members};

/// Renews the lease of a run, also when the message is a repeat.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    presented: Presented,
    policy: LeasePolicy,
    delivery_digest: Digest,
}

/// A heartbeat that was taken.
#[derive(Clone, Debug, PartialEq)]
pub struct Beat {
    /// The same message was taken before.
    pub duplicate: bool,
    /// The new end of the lease.
    pub lease_until: Timestamp,
    /// What is remembered of the same message cannot be understood, so that nothing speaks against this one.
    pub unreadable: Option<IllegalRow>,
}

impl Heartbeat {
    /// Prepares the operation. The digest is made here, on the caller's thread: the store's has enough to do.
    #[must_use]
    pub fn new(presented: Presented, policy: LeasePolicy) -> Self {
        Self {
            delivery_digest: delivery_digest(&presented),
            presented,
            policy,
        }
    }

    /// Remembers the message; returns whether this very message was taken before, and what is wrong with the memory of it.
    /// Nearly every message is new, so it is added first and looked for only where it is known.
    fn remember(
        &self,
        tx: &Tx<'_>,
        now: Timestamp,
    ) -> Result<(bool, Option<IllegalRow>), StoreError> {
        let (id, digest) = (&self.presented.delivery_id, self.delivery_digest.as_str());
        if tx.execute(sql::ADD_DELIVERY, params![id, digest, now.0])? == 1 {
            return Ok((false, None));
        }
        let remembered = tx.first(sql::DELIVERY, [id], |row| {
            let columns = Columns::of(row);
            let known = columns.text(3, "digest")?;
            match Digest::parse(&known) {
                Some(known) => Ok(known),
                None => Err(columns.illegal("digest", &known)),
            }
        });
        match remembered {
            Ok(Some(known)) if known.as_str() == digest => Ok((true, None)),
            Ok(_) => Err(Refusal::DeliveryReused.into()),
            Err(StoreError::Illegal(row)) => Ok((true, Some(row))),
            Err(other) => Err(other),
        }
    }
}

impl Operation for Heartbeat {
    type Reply = Beat;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<Beat, StoreError> {
        let Loaded { assignment, entry } = self.presented.held(tx)?;
        if is_superseded(&assignment, &entry) {
            return Err(Refusal::RunSuperseded.into());
        }
        let change = match assignment {
            Assignment::Assigned(state) => state.heartbeat(now, &self.policy),
            Assignment::Running(state) => state
                .heartbeat(now, &self.policy)
                .map_err(|_| Refusal::LeaseExpired)?,
            _ => return Err(Refusal::NotRunning.into()),
        };
        let (duplicate, unreadable) = self.remember(tx, now)?;
        write(tx, &change, &entry, None)?;
        Ok(Beat {
            duplicate,
            lease_until: change.columns().lease_until,
            unreadable,
        })
    }
}

/// Room for what the digest is made of.
const USUAL_FACTS_BYTES: usize = 320;

/// What makes two messages the same delivery: everything but their identifier and their times.
fn delivery_digest(presented: &Presented) -> Digest {
    let binding = &presented.binding;
    let mut facts = Members::with_capacity(USUAL_FACTS_BYTES);
    facts.integer("attempt", &binding.attempt);
    facts.string("board", &binding.board);
    facts.string("kind", presented.kind.as_str());
    facts.string("payload_digest", &presented.payload_digest);
    facts.string("run_id", &binding.run_id);
    facts.string("task_id", &binding.task_id);
    facts.integer("worker_ordinal", binding.worker_ordinal);
    Digest::of(facts.end().as_bytes())
}
