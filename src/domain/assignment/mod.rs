//! The life of an assignment: its states as types, each transition a method that consumes the state it leaves.
//!
//! ```text
//!                 offer, heartbeat                    submit               end(evidence)
//!   Assigned ───────────────────────> Running ──────────────────> Submitted ───────────> Ended
//!      ^  │                            │   │                          │ defer              ^
//!      │  │ never fetched, unconfirmed │   │ unconfirmed, given up    v                    │
//!      │  └────────────────────────────┼───┴──────────────────> LeaseFailed ───────────────┘
//!      └───────────────────────────────┘ expire, offers spent: attempt + 1     end(evidence)
//! ```
//! A live assignment (assigned, running, submitted) occupies its slot. `LeaseFailed` has released the slot but its outcome
//! on the board is not confirmed; it is retried until there is evidence.
//!
//! Each transition yields a [`Change`]: the columns to write and the exact (run, ordinal, attempt, state) that must still
//! stand. The store writes it in one place, as one compare-and-set; no `Change` can be made elsewhere:
//!
//! ```compile_fail,E0451
//! # use hermes_pool::domain::*;
//! fn forge(expect: Binding, columns: Columns) -> Change { Change { expect, from: StateName::Running, columns } }
//! ```
//! A submitted result cannot be offered again, an ended assignment does nothing any more, and no state is used twice:
//! ```compile_fail,E0599
//! # use hermes_pool::domain::*;
//! fn again(s: Submitted, now: Timestamp, p: &LeasePolicy) { s.offer(now, p, false); }
//! ```
//! ```compile_fail,E0599
//! # use hermes_pool::domain::*;
//! fn revive(e: Ended, now: Timestamp, p: &LeasePolicy) { e.heartbeat(now, p); }
//! ```
//! ```compile_fail,E0382
//! # use hermes_pool::domain::*;
//! fn twice(a: Assigned, now: Timestamp, p: &LeasePolicy) { a.heartbeat(now, p); a.heartbeat(now, p); }
//! ```
//! Nothing ends without evidence:
//! ```compile_fail,E0061
//! # use hermes_pool::domain::*;
//! fn end(r: Running, now: Timestamp) { r.end(now); }
//! ```

mod change;
mod row;
mod states;
#[cfg(test)]
mod tests;

pub use change::{Change, Columns, Submission};
pub use row::{FailCause, IllegalRow, Row, StateName};
pub use states::{Assigned, Ended, Fenced, LeaseFailed, Running, Submitted};

use change::Kept;

use super::{Binding, LeasePolicy, Terminal, Timestamp};

/// One assignment, in the state in which the store holds it.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant is the state of that name")]
pub enum Assignment {
    Assigned(Assigned),
    Running(Running),
    Submitted(Submitted),
    LeaseFailed(LeaseFailed),
    Ended(Ended),
}

impl Assignment {
    /// Reads a row. This is the only way in.
    ///
    /// # Errors
    /// [`IllegalRow`] names the first column that fits no state.
    pub fn rehydrate(row: Row) -> Result<Self, IllegalRow> {
        let run = format!("{}/{}/{}", row.board, row.task_id, row.run_id);
        let illegal = |column, value: &str| IllegalRow {
            run: run.clone(),
            column,
            value: value.chars().take(80).collect(),
        };
        let state = StateName::parse(&row.state).ok_or_else(|| illegal("state", &row.state))?;
        let kept = Kept::read(&row, &illegal)?;
        // A result and its digest come together and stay together, so that no result is ever taken for none.
        match (&row.result_digest, row.has_result) {
            (None, true) => return Err(illegal("result_json", "a result without its digest")),
            (Some(_), false) if !matches!(state, StateName::Assigned | StateName::Running) => {
                return Err(illegal("result_json", "NULL"));
            }
            _ => {}
        }
        let cause = kept.cause;
        Ok(match (state, row.result_digest) {
            (StateName::Assigned, None) => Self::Assigned(Assigned(kept)),
            (StateName::Running, None) => Self::Running(Running(kept)),
            (StateName::Result, Some(result_digest)) => Self::Submitted(Submitted {
                kept,
                result_digest,
            }),
            (StateName::LeaseFailed, result_digest) => Self::LeaseFailed(LeaseFailed {
                // A row without an entry was given up by the Python coordinator.
                cause: cause.unwrap_or(FailCause::Exhausted),
                kept,
                result_digest,
            }),
            (StateName::Finalized, result_digest) => Self::Ended(Ended {
                kept,
                terminal: Terminal::Finalized,
                result_digest,
            }),
            (StateName::Stale, result_digest) => Self::Ended(Ended {
                kept,
                terminal: Terminal::Stale,
                result_digest,
            }),
            (_, digest) => {
                return Err(illegal(
                    "result_digest",
                    digest.as_deref().unwrap_or("NULL"),
                ));
            }
        })
    }

    /// Who holds the run, or held it last.
    #[must_use]
    pub fn binding(&self) -> &Binding {
        match self {
            Self::Assigned(state) => state.binding(),
            Self::Running(state) => state.binding(),
            Self::Submitted(state) => &state.kept.binding,
            Self::LeaseFailed(state) => state.binding(),
            Self::Ended(state) => &state.kept.binding,
        }
    }

    /// The state as the store spells it.
    #[must_use]
    pub fn state(&self) -> StateName {
        match self {
            Self::Assigned(_) => StateName::Assigned,
            Self::Running(_) => StateName::Running,
            Self::Submitted(_) => StateName::Result,
            Self::LeaseFailed(_) => StateName::LeaseFailed,
            Self::Ended(ended) => match ended.terminal {
                Terminal::Finalized => StateName::Finalized,
                Terminal::Stale => StateName::Stale,
            },
        }
    }

    /// When the timer of its slot has to look at it again; `None` where no time ends it.
    #[must_use]
    pub fn due(&self, policy: &LeasePolicy) -> Option<Timestamp> {
        match self {
            Self::Assigned(state) => Some(state.due(policy)),
            Self::Running(state) => Some(state.due()),
            Self::Submitted(state) => Some(state.due()),
            Self::LeaseFailed(_) | Self::Ended(_) => None,
        }
    }
}
