//! The states, each with the transitions that lead out of it. Every one of them consumes its state.

use super::change::{Change, Kept, Submission};
use super::row::{FailCause, StateName};
use crate::domain::{
    Attempt, Binding, Evidence, LeasePolicy, SETTLE_PATIENCE_SECONDS, Terminal, Timestamp,
};

macro_rules! state {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name(pub(super) Kept);

        impl $name {
            /// Who holds the run, under which attempt.
            #[must_use]
            pub fn binding(&self) -> &Binding {
                &self.0.binding
            }
        }
    };
}

state!(
    /// Bound to a slot; not yet fetched under this attempt.
    Assigned
);
state!(
    /// Fetched by its worker; its lease runs.
    Running
);

/// Its result is durable and waits to be settled.
#[derive(Clone, Debug, PartialEq)]
pub struct Submitted {
    pub(super) kept: Kept,
    pub(super) result_digest: String,
}

/// Its slot is released; its outcome on the board is not confirmed.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseFailed {
    pub(super) kept: Kept,
    pub(super) cause: FailCause,
    pub(super) result_digest: Option<String>,
}

/// Over, on evidence. It still answers its own repeated result.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    pub(super) kept: Kept,
    pub(super) terminal: Terminal,
    pub(super) result_digest: Option<String>,
}

/// An attempt that was ended by time or by too many offers.
#[derive(Debug, PartialEq)]
pub enum Fenced {
    /// Not yet due: the same state, and when to look again.
    NotDue(Timestamp),
    /// Due: what to write.
    Due(Change),
}

impl Assigned {
    /// Hands the run to its worker. A repeated poll counts no offer; the offer after the last one fences the attempt.
    pub fn offer(self, now: Timestamp, policy: &LeasePolicy, repeated: bool) -> Change {
        self.0.offer(StateName::Assigned, now, policy, repeated)
    }

    /// A sign of the worker; it may come before the reply to its poll was seen.
    pub fn heartbeat(self, now: Timestamp, policy: &LeasePolicy) -> Change {
        self.0.renew(StateName::Assigned, now, policy)
    }

    /// The worker's result.
    pub fn submit(self, submission: Submission, now: Timestamp) -> Change {
        self.0.submit(StateName::Assigned, submission, now)
    }

    /// When it counts as not fetched.
    #[must_use]
    pub fn due(&self, policy: &LeasePolicy) -> Timestamp {
        self.0.updated_at + policy.offer_timeout_seconds()
    }

    /// Gives up waiting for the worker to fetch it: a first attempt goes back to its board, a later one counts as expired.
    #[must_use]
    pub fn expire(self, now: Timestamp, policy: &LeasePolicy) -> Fenced {
        let due = self.due(policy);
        if now.0 <= due.0 {
            return Fenced::NotDue(due);
        }
        Fenced::Due(if self.0.binding.attempt == Attempt::FIRST {
            self.0
                .fail(StateName::Assigned, FailCause::NeverFetched, now)
        } else {
            self.0.fence(StateName::Assigned, now, policy)
        })
    }

    /// The board could not be told for too long.
    pub fn unconfirmed(self, now: Timestamp) -> Change {
        self.0
            .fail(StateName::Assigned, FailCause::Unconfirmed, now)
    }

    /// The run has passed its limit of time.
    pub fn past_limit(self, now: Timestamp) -> Change {
        self.0
            .fail(StateName::Assigned, FailCause::LimitPassed, now)
    }

    /// What its worker would be offered cannot be understood.
    pub fn unreadable(self, now: Timestamp) -> Change {
        self.0.fail(StateName::Assigned, FailCause::Unreadable, now)
    }

    /// The board ended it; `cause` is what the worker is told.
    pub fn end(self, evidence: &Evidence, cause: FailCause, now: Timestamp) -> Change {
        self.0.end(StateName::Assigned, evidence, Some(cause), now)
    }
}

impl Running {
    /// Hands the run to its worker again (it restarted): the same attempt, a fresh lease.
    pub fn offer(self, now: Timestamp, policy: &LeasePolicy, repeated: bool) -> Change {
        self.0.offer(StateName::Running, now, policy, repeated)
    }

    /// Whether the lease is over. One that ends exactly now is alive.
    #[must_use]
    pub fn is_lapsed(&self, now: Timestamp) -> bool {
        self.0.lease_until.0 < now.0
    }

    /// When the lease is over.
    #[must_use]
    pub fn due(&self) -> Timestamp {
        self.0.lease_until
    }

    /// Extends the lease.
    ///
    /// # Errors
    /// Hands the state back if the lease is over.
    pub fn heartbeat(self, now: Timestamp, policy: &LeasePolicy) -> Result<Change, Self> {
        if self.is_lapsed(now) {
            return Err(self);
        }
        Ok(self.0.renew(StateName::Running, now, policy))
    }

    /// The worker's result.
    ///
    /// # Errors
    /// Hands the state back if the lease is over.
    pub fn submit(self, submission: Submission, now: Timestamp) -> Result<Change, Self> {
        if self.is_lapsed(now) {
            return Err(self);
        }
        Ok(self.0.submit(StateName::Running, submission, now))
    }

    /// Fences the attempt if its lease is over.
    #[must_use]
    pub fn expire(self, now: Timestamp, policy: &LeasePolicy) -> Fenced {
        if self.is_lapsed(now) {
            return Fenced::Due(self.0.fence(StateName::Running, now, policy));
        }
        Fenced::NotDue(self.0.lease_until)
    }

    /// The board could not be told for too long.
    pub fn unconfirmed(self, now: Timestamp) -> Change {
        self.0.fail(StateName::Running, FailCause::Unconfirmed, now)
    }

    /// The run has passed its limit of time.
    pub fn past_limit(self, now: Timestamp) -> Change {
        self.0.fail(StateName::Running, FailCause::LimitPassed, now)
    }

    /// What its worker would be offered again cannot be understood.
    pub fn unreadable(self, now: Timestamp) -> Change {
        self.0.fail(StateName::Running, FailCause::Unreadable, now)
    }

    /// The board ended it; `cause` is what the worker is told.
    pub fn end(self, evidence: &Evidence, cause: FailCause, now: Timestamp) -> Change {
        self.0.end(StateName::Running, evidence, Some(cause), now)
    }
}

impl Submitted {
    /// Digest of the remembered result.
    #[must_use]
    pub fn result_digest(&self) -> &str {
        &self.result_digest
    }

    /// Until when its board may take the result before its slot is released.
    #[must_use]
    pub fn due(&self) -> Timestamp {
        self.kept.updated_at + SETTLE_PATIENCE_SECONDS
    }

    /// Releases the slot of a result that its board does not take; settling goes on.
    #[must_use]
    pub fn defer(self, now: Timestamp) -> Fenced {
        let due = self.due();
        if now.0 < due.0 {
            return Fenced::NotDue(due);
        }
        Fenced::Due(self.kept.fail(StateName::Result, FailCause::Unsettled, now))
    }

    /// The board shows the outcome.
    pub fn end(self, evidence: &Evidence, now: Timestamp) -> Change {
        self.kept.end(StateName::Result, evidence, None, now)
    }
}

impl LeaseFailed {
    /// Who held the run last.
    #[must_use]
    pub fn binding(&self) -> &Binding {
        &self.kept.binding
    }

    /// Why the slot was released.
    #[must_use]
    pub fn cause(&self) -> FailCause {
        self.cause
    }

    /// Digest of the remembered result, if there is one.
    #[must_use]
    pub fn result_digest(&self) -> Option<&str> {
        self.result_digest.as_deref()
    }

    /// The board shows the outcome.
    pub fn end(self, evidence: &Evidence, now: Timestamp) -> Change {
        self.kept.end(StateName::LeaseFailed, evidence, None, now)
    }
}

impl Ended {
    /// Digest of the remembered result, if there is one.
    #[must_use]
    pub fn result_digest(&self) -> Option<&str> {
        self.result_digest.as_deref()
    }

    /// Why it ended, where it was not by its own result.
    #[must_use]
    pub fn cause(&self) -> Option<FailCause> {
        self.kept.cause
    }

    /// How it ended.
    #[must_use]
    pub fn terminal(&self) -> Terminal {
        self.terminal
    }
}
