//! What the store writes for a transition, and what every state keeps. A [`Change`] is made in this file only.

use super::row::{FailCause, IllegalRow, Row, StateName};
use crate::domain::{
    Attempt, Binding, BoardSlug, Evidence, LeasePolicy, OFFERS_PER_ATTEMPT, Ordinal, RunId, RunKey,
    TaskId, Terminal, Timestamp,
};

/// What a worker's result adds to its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submission {
    /// Digest of the payload.
    pub digest: String,
    /// Canonical text of the payload.
    pub payload_json: String,
}

/// What the store writes for a transition.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// The state to be in.
    pub state: StateName,
    /// The attempt to be under.
    pub attempt: Attempt,
    /// End of the lease; 0 for none.
    pub lease_until: Timestamp,
    /// Last sign of the worker; 0 for none.
    pub last_heartbeat: Timestamp,
    /// The time of the transition.
    pub updated_at: Timestamp,
    /// A result that arrives with it.
    pub submission: Option<Submission>,
    /// Offers of the attempt so far.
    pub offers: u32,
    /// Why the assignment left the ordinary path, if it did.
    pub cause: Option<FailCause>,
}

/// One transition, ready to be written: what must still stand, and what stands afterwards.
#[must_use = "a transition changes nothing until the store writes it"]
#[derive(Debug, PartialEq)]
pub struct Change {
    expect: Binding,
    from: StateName,
    columns: Columns,
}

impl Change {
    /// The run, ordinal and attempt that must still stand.
    #[must_use]
    pub fn expect(&self) -> &Binding {
        &self.expect
    }

    /// The state that must still stand.
    #[must_use]
    pub fn from(&self) -> StateName {
        self.from
    }

    /// What is written.
    #[must_use]
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// The binding after the change.
    #[must_use]
    pub fn binding(&self) -> Binding {
        Binding {
            attempt: self.columns.attempt,
            ..self.expect.clone()
        }
    }
}

/// What every state keeps.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) binding: Binding,
    pub(super) lease_until: Timestamp,
    pub(super) last_heartbeat: Timestamp,
    pub(super) updated_at: Timestamp,
    pub(super) offers: u32,
    pub(super) cause: Option<FailCause>,
}

impl Kept {
    /// The change that keeps everything but the state and its time.
    fn change(self, from: StateName, to: StateName, now: Timestamp) -> Change {
        Change {
            columns: Columns {
                state: to,
                attempt: self.binding.attempt,
                lease_until: self.lease_until,
                last_heartbeat: self.last_heartbeat,
                updated_at: now,
                submission: None,
                offers: self.offers,
                cause: self.cause,
            },
            expect: self.binding,
            from,
        }
    }

    pub(super) fn renew(mut self, from: StateName, now: Timestamp, policy: &LeasePolicy) -> Change {
        self.lease_until = now + policy.lease_seconds();
        self.last_heartbeat = now;
        self.change(from, StateName::Running, now)
    }

    pub(super) fn offer(
        mut self,
        from: StateName,
        now: Timestamp,
        policy: &LeasePolicy,
        repeated: bool,
    ) -> Change {
        if !repeated {
            if self.offers >= OFFERS_PER_ATTEMPT {
                return self.fence(from, now, policy);
            }
            self.offers += 1;
        }
        self.renew(from, now, policy)
    }

    pub(super) fn submit(self, from: StateName, submission: Submission, now: Timestamp) -> Change {
        let mut change = self.change(from, StateName::Result, now);
        change.columns.submission = Some(submission);
        change
    }

    /// Ends the attempt: the next one is offered, or after the last one the assignment is given up and keeps its number.
    pub(super) fn fence(mut self, from: StateName, now: Timestamp, policy: &LeasePolicy) -> Change {
        if self.binding.attempt.0 >= policy.max_attempts() {
            return self.fail(from, FailCause::Exhausted, now);
        }
        (self.lease_until, self.last_heartbeat, self.offers) = Default::default();
        let next = self.binding.attempt.next();
        let mut change = self.change(from, StateName::Assigned, now);
        change.columns.attempt = next;
        change
    }

    pub(super) fn fail(mut self, from: StateName, cause: FailCause, now: Timestamp) -> Change {
        if cause != FailCause::Unsettled {
            (self.lease_until, self.last_heartbeat) = Default::default();
        }
        self.cause = Some(cause);
        self.change(from, StateName::LeaseFailed, now)
    }

    pub(super) fn end(
        mut self,
        from: StateName,
        evidence: &Evidence,
        cause: Option<FailCause>,
        now: Timestamp,
    ) -> Change {
        self.cause = cause.or(self.cause);
        let to = match evidence.terminal() {
            Terminal::Finalized => StateName::Finalized,
            Terminal::Stale => StateName::Stale,
        };
        self.change(from, to, now)
    }

    /// Reads what every state keeps; the error names the first column at fault.
    pub(super) fn read(
        row: &Row,
        illegal: &impl Fn(&'static str, &str) -> IllegalRow,
    ) -> Result<Self, IllegalRow> {
        let key = RunKey {
            board: BoardSlug::parse(&row.board).map_err(|_| illegal("board", &row.board))?,
            task: TaskId::parse(&row.task_id).map_err(|_| illegal("task_id", &row.task_id))?,
            run: RunId::parse(&row.run_id).map_err(|_| illegal("run_id", &row.run_id))?,
        };
        let ordinal = u16::try_from(row.worker_ordinal)
            .map_err(|_| illegal("worker_ordinal", &row.worker_ordinal.to_string()))?;
        if row.attempt < 0 {
            return Err(illegal("attempt", &row.attempt.to_string()));
        }
        for (column, value) in [
            ("lease_until", row.lease_until),
            ("last_heartbeat", row.last_heartbeat),
            ("created_at", row.created_at),
            ("updated_at", row.updated_at),
        ] {
            if Timestamp::parse(value).is_none() {
                return Err(illegal(column, &value.to_string()));
            }
        }
        let cause = match row.cause.as_deref() {
            None => None,
            Some(text) => Some(FailCause::parse(text).ok_or_else(|| illegal("cause", text))?),
        };
        Ok(Self {
            binding: Binding {
                key,
                ordinal: Ordinal(ordinal),
                attempt: Attempt(row.attempt),
            },
            lease_until: Timestamp(row.lease_until),
            last_heartbeat: Timestamp(row.last_heartbeat),
            updated_at: Timestamp(row.updated_at),
            offers: u32::try_from(row.offers).unwrap_or(u32::MAX),
            cause,
        })
    }
}
