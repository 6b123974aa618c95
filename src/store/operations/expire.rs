//! What time does to a slot's run.

use rusqlite::params;

use super::super::transition::{Loaded, write};
use super::super::{StoreError, Tx, sql};
use super::Operation;
use crate::domain::{
    Assignment, Binding, FailCause, Fenced, IllegalRow, LeasePolicy, Ordinal, StateName, Timestamp,
};

/// Ends the attempt of a slot's run, if its time is over, or frees the slot of a result that its board has not taken for
/// too long; settling goes on.
#[derive(Clone, Copy, Debug)]
pub struct Expire {
    /// The slot.
    pub ordinal: Ordinal,
    /// The rules of the lease.
    pub policy: LeasePolicy,
}

/// What time did.
#[derive(Clone, Debug, PartialEq)]
pub enum Expiry {
    /// The slot has no run.
    Idle,
    /// Nothing yet.
    NotDue {
        /// When to look again; `None` where no time ends it.
        next: Option<Timestamp>,
    },
    /// The attempt is fenced; the run waits to be fetched under the next one.
    Reoffered {
        /// The run under its new attempt.
        binding: Binding,
        /// When that attempt counts as not fetched.
        next: Timestamp,
    },
    /// The run is given up; the slot is free.
    GivenUp {
        /// Who held the run.
        binding: Binding,
        /// Why it was given up.
        cause: FailCause,
    },
}

impl Operation for Expire {
    type Reply = Expiry;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<Expiry, StoreError> {
        let Some(Loaded { assignment, entry }) = Loaded::of_ordinal(tx, self.ordinal)? else {
            return Ok(Expiry::Idle);
        };
        let next = assignment.due(&self.policy);
        let fenced = match assignment {
            Assignment::Assigned(state) => state.expire(now, &self.policy),
            Assignment::Running(state) => state.expire(now, &self.policy),
            Assignment::Submitted(state) => state.defer(now),
            _ => return Ok(Expiry::NotDue { next }),
        };
        let Fenced::Due(change) = fenced else {
            return Ok(Expiry::NotDue { next });
        };
        write(tx, &change, &entry, None)?;
        let binding = change.binding();
        Ok(if change.columns().state == StateName::Assigned {
            Expiry::Reoffered {
                binding,
                next: now + self.policy.offer_timeout_seconds(),
            }
        } else {
            Expiry::GivenUp {
                binding,
                cause: change.columns().cause.unwrap_or(FailCause::Exhausted),
            }
        })
    }
}

/// Frees a slot from a row that cannot be understood, and that nobody can have renewed for a whole lease therefore. Only
/// the row's state and its cause are touched: what it is, is left to people. Replies which row it was, if any.
#[derive(Clone, Copy, Debug)]
pub struct LetGo {
    /// The slot.
    pub ordinal: Ordinal,
}

impl Operation for LetGo {
    type Reply = Option<IllegalRow>;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<Self::Reply, StoreError> {
        let row = match Loaded::of_ordinal(tx, self.ordinal) {
            // Somebody mended it, or took it away.
            Ok(_) => return Ok(None),
            Err(StoreError::Illegal(row)) => row,
            Err(other) => return Err(other),
        };
        tx.execute(sql::LET_GO_CAUSE, params![self.ordinal.0, now.0])?;
        tx.execute(sql::LET_GO, [self.ordinal.0])?;
        Ok(Some(row))
    }
}

/// Reads what a slot holds, to arm its timer.
#[derive(Clone, Copy, Debug)]
pub struct LiveOf {
    /// The slot.
    pub ordinal: Ordinal,
    /// The rules of the lease.
    pub policy: LeasePolicy,
}

/// What a slot holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// The run and its attempt.
    pub binding: Binding,
    /// Its state.
    pub state: StateName,
    /// When to look at it; `None` where no time ends it.
    pub due: Option<Timestamp>,
}

impl Live {
    /// What a slot holds that this assignment occupies.
    #[must_use]
    pub fn of(assignment: &Assignment, policy: &LeasePolicy) -> Self {
        Self {
            binding: assignment.binding().clone(),
            state: assignment.state(),
            due: assignment.due(policy),
        }
    }
}

impl Operation for LiveOf {
    type Reply = Option<Live>;

    fn apply(self, tx: &Tx<'_>, _now: Timestamp) -> Result<Option<Live>, StoreError> {
        let loaded = Loaded::of_ordinal(tx, self.ordinal)?;
        Ok(loaded.map(|loaded| Live::of(&loaded.assignment, &self.policy)))
    }
}
