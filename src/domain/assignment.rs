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

use super::{
    Attempt, Binding, BoardSlug, Evidence, LeasePolicy, OFFERS_PER_ATTEMPT, Ordinal, RunId, RunKey,
    SETTLE_PATIENCE_SECONDS, TaskId, Terminal, Timestamp,
};

/// A state as the store spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateName {
    /// Bound to a slot, not yet fetched under this attempt.
    Assigned,
    /// Fetched; its lease runs.
    Running,
    /// Its result is durable and waits to be settled on the board.
    Result,
    /// Its slot is released, its outcome on the board is not confirmed.
    LeaseFailed,
    /// Ended on its board as the pool would have ended it.
    Finalized,
    /// Ended on its board otherwise, or provably gone from it.
    Stale,
}

impl StateName {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::Assigned,
        Self::Running,
        Self::Result,
        Self::LeaseFailed,
        Self::Finalized,
        Self::Stale,
    ];

    /// The spelling in the store.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Assigned => "assigned",
            Self::Running => "running",
            Self::Result => "result",
            Self::LeaseFailed => "lease_failed",
            Self::Finalized => "finalized",
            Self::Stale => "stale",
        }
    }

    /// The state with this spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// Why an assignment left the ordinary path. Kept beside the row in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailCause {
    /// The lease of the last attempt ran out, or its offers were used up.
    Exhausted,
    /// The first attempt was never fetched by its worker.
    NeverFetched,
    /// The result could not be settled on the board in time.
    Unsettled,
    /// The board could not be told for so long that the claim is about to be given to others.
    Unconfirmed,
    /// The board no longer considers the run current.
    Superseded,
    /// The run's limit of time passed.
    LimitPassed,
}

impl FailCause {
    const ALL: [Self; 6] = [
        Self::Exhausted,
        Self::NeverFetched,
        Self::Unsettled,
        Self::Unconfirmed,
        Self::Superseded,
        Self::LimitPassed,
    ];

    /// The spelling in the store and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::NeverFetched => "never_fetched",
            Self::Unsettled => "unsettled",
            Self::Unconfirmed => "unconfirmed",
            Self::Superseded => "superseded",
            Self::LimitPassed => "limit_passed",
        }
    }

    /// The cause with this spelling.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == text)
    }

    /// Whether the pool itself ended the run, so that its worker is told `run_superseded`.
    #[must_use]
    pub fn supersedes(self) -> bool {
        matches!(
            self,
            Self::Unconfirmed | Self::Superseded | Self::LimitPassed
        )
    }
}

/// The columns that decide, as they were read; legal or not. Payloads are not among them: no decision needs them.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each field is the column of that name")]
pub struct Row {
    pub board: String,
    pub task_id: String,
    pub run_id: String,
    pub worker_ordinal: i64,
    pub attempt: i64,
    pub state: String,
    pub lease_until: f64,
    pub last_heartbeat: f64,
    pub result_digest: Option<String>,
    pub created_at: f64,
    pub updated_at: f64,
    /// Offers of this attempt (0 for a row that has no entry of ours).
    pub offers: i64,
    /// [`FailCause`] as text.
    pub cause: Option<String>,
}

/// A row whose columns form no legal assignment. It is reported and left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("assignment {run} has an illegal {column}: {value}")]
pub struct IllegalRow {
    /// Board, task and run as they stand in the row.
    pub run: String,
    /// The column at fault.
    pub column: &'static str,
    /// Its value, cut to 80 characters.
    pub value: String,
}

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
struct Kept {
    binding: Binding,
    lease_until: Timestamp,
    last_heartbeat: Timestamp,
    updated_at: Timestamp,
    offers: u32,
    cause: Option<FailCause>,
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

    fn renew(mut self, from: StateName, now: Timestamp, policy: &LeasePolicy) -> Change {
        self.lease_until = now + policy.lease_seconds();
        self.last_heartbeat = now;
        self.change(from, StateName::Running, now)
    }

    fn offer(
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

    fn submit(self, from: StateName, submission: Submission, now: Timestamp) -> Change {
        let mut change = self.change(from, StateName::Result, now);
        change.columns.submission = Some(submission);
        change
    }

    /// Ends the attempt: the next one is offered, or after the last one the assignment is given up and keeps its number.
    fn fence(mut self, from: StateName, now: Timestamp, policy: &LeasePolicy) -> Change {
        if self.binding.attempt.0 >= policy.max_attempts() {
            return self.fail(from, FailCause::Exhausted, now);
        }
        (self.lease_until, self.last_heartbeat, self.offers) = Default::default();
        let next = self.binding.attempt.next();
        let mut change = self.change(from, StateName::Assigned, now);
        change.columns.attempt = next;
        change
    }

    fn fail(mut self, from: StateName, cause: FailCause, now: Timestamp) -> Change {
        if cause != FailCause::Unsettled {
            (self.lease_until, self.last_heartbeat) = Default::default();
        }
        self.cause = Some(cause);
        self.change(from, StateName::LeaseFailed, now)
    }

    fn end(
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
}

macro_rules! state {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name(Kept);

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
    kept: Kept,
    result_digest: String,
}

/// Its slot is released; its outcome on the board is not confirmed.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaseFailed {
    kept: Kept,
    cause: FailCause,
    result_digest: Option<String>,
}

/// Over, on evidence. It still answers its own repeated result.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    kept: Kept,
    terminal: Terminal,
    result_digest: Option<String>,
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

    /// Fences the attempt if its lease is over. A lease of 0 never ends by itself.
    #[must_use]
    pub fn expire(self, now: Timestamp, policy: &LeasePolicy) -> Fenced {
        if self.0.lease_until.0 > 0.0 && self.is_lapsed(now) {
            return Fenced::Due(self.0.fence(StateName::Running, now, policy));
        }
        Fenced::NotDue(self.0.lease_until)
    }

    /// The board could not be told for too long.
    pub fn unconfirmed(self, now: Timestamp) -> Change {
        self.0.fail(StateName::Running, FailCause::Unconfirmed, now)
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

    /// Releases the slot of a result that its board does not take; settling goes on.
    #[must_use]
    pub fn defer(self, now: Timestamp) -> Fenced {
        let due = self.kept.updated_at + SETTLE_PATIENCE_SECONDS;
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
            Self::Running(state) => (state.due().0 > 0.0).then(|| state.due()),
            Self::Submitted(_) | Self::LeaseFailed(_) | Self::Ended(_) => None,
        }
    }
}

impl Kept {
    fn read(
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
            if !value.is_finite() {
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

#[cfg(test)]
#[path = "assignment_tests.rs"]
mod tests;
