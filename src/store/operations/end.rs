//! What the board decides: a run ends on evidence, or has lost its claim.
//!
//! Each names the exact binding that was looked at. If the row is another one by now, nothing is written.

use super::super::records::key_of;
use super::super::transition::{Entry, Loaded, write};
use super::super::{StoreError, Tx};
use super::Operation;
use crate::domain::{Assignment, Binding, Change, Evidence, FailCause, Timestamp};

/// Makes an assignment terminal. Replies whether it did.
#[derive(Clone, Debug)]
pub struct End {
    /// The exact assignment, in whatever state.
    pub binding: Binding,
    /// What was read from its board or written to it.
    pub evidence: Evidence,
    /// What a worker that still works on it is told; [`FailCause::Superseded`] if this is `None`.
    pub cause: Option<FailCause>,
}

impl Operation for End {
    type Reply = bool;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<bool, StoreError> {
        let cause = self.cause.unwrap_or(FailCause::Superseded);
        change_exact(tx, &self.binding, |assignment| match assignment {
            Assignment::Assigned(state) => Some(state.end(&self.evidence, cause, now)),
            Assignment::Running(state) => Some(state.end(&self.evidence, cause, now)),
            Assignment::Submitted(state) => Some(state.end(&self.evidence, now)),
            Assignment::LeaseFailed(state) => Some(state.end(&self.evidence, now)),
            Assignment::Ended(_) => None,
        })
    }
}

/// Gives up a run whose claim could not be confirmed on its board for too long. Replies whether it did.
#[derive(Clone, Debug)]
pub struct Unconfirmed {
    /// The exact assignment.
    pub binding: Binding,
}

impl Operation for Unconfirmed {
    type Reply = bool;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<bool, StoreError> {
        change_exact(tx, &self.binding, |assignment| match assignment {
            Assignment::Assigned(state) => Some(state.unconfirmed(now)),
            Assignment::Running(state) => Some(state.unconfirmed(now)),
            _ => None,
        })
    }
}

/// Gives up a run that has passed its limit of time, before its board is told. Replies whether it did: a result that came
/// first is settled instead.
#[derive(Clone, Debug)]
pub struct PastLimit {
    /// The exact assignment.
    pub binding: Binding,
}

impl Operation for PastLimit {
    type Reply = bool;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<bool, StoreError> {
        change_exact(tx, &self.binding, |assignment| match assignment {
            Assignment::Assigned(state) => Some(state.past_limit(now)),
            Assignment::Running(state) => Some(state.past_limit(now)),
            _ => None,
        })
    }
}

/// The assignment, if it is still under this binding.
fn load_exact(tx: &Tx<'_>, binding: &Binding) -> Result<Option<(Assignment, Entry)>, StoreError> {
    let loaded = Loaded::by_key(tx, key_of(&binding.key))?;
    Ok(loaded
        .filter(|loaded| loaded.assignment.binding() == binding)
        .map(|loaded| (loaded.assignment, loaded.entry)))
}

/// Writes what is decided about the exact assignment; `false` if it is another one or nothing is decided.
fn change_exact(
    tx: &Tx<'_>,
    binding: &Binding,
    decide: impl FnOnce(Assignment) -> Option<Change>,
) -> Result<bool, StoreError> {
    let Some((assignment, entry)) = load_exact(tx, binding)? else {
        return Ok(false);
    };
    let Some(change) = decide(assignment) else {
        return Ok(false);
    };
    write(tx, &change, &entry, None)?;
    Ok(true)
}
