//! One look at the pool, as the operator API shows it and `status` reads it.
//!
//! Times are seconds since the epoch; `None` is *never* or *none*. Fields are only ever added.

use serde::{Deserialize, Serialize};

/// One look at everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolSnapshot {
    /// The pool as a whole.
    pub pool: PoolView,
    /// Its slots, by ordinal.
    pub slots: Vec<SlotView>,
    /// Its boards, by slug.
    pub boards: Vec<BoardView>,
    /// Work that waits for something to mend.
    pub deferrals: Vec<DeferralView>,
    /// Assignments by state.
    pub counts: AssignmentCounts,
}

/// The pool as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolView {
    /// Its identity.
    pub id: String,
    /// The program's version.
    pub version: String,
    /// Number of slots.
    pub slots: u16,
    /// Whether it serves.
    pub ready: bool,
    /// Whether it is about to end.
    pub draining: bool,
    /// Why it is not ready.
    pub reasons: Vec<String>,
    /// When the process started.
    pub started_at: f64,
    /// When this look was taken.
    pub now: f64,
    /// How often a part that serves the whole pool was rebuilt.
    #[serde(default)]
    pub restarts: u64,
}

/// One slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlotView {
    /// Its number.
    pub ordinal: u16,
    /// What it does.
    pub state: SlotState,
    /// Board of its run.
    pub board: Option<String>,
    /// Task of its run.
    pub task: Option<String>,
    /// Its run.
    pub run: Option<String>,
    /// The attempt that holds it.
    pub attempt: Option<i64>,
    /// End of the lease.
    pub lease_until: Option<f64>,
    /// Last sign of the worker.
    pub last_seen: Option<f64>,
    /// How often its actor was rebuilt.
    pub restarts: u64,
}

/// What a slot does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlotState {
    /// Its worker was seen lately, it has no run.
    Idle,
    /// Its worker waits in a poll.
    Waiting,
    /// It has a run that its worker has not fetched.
    Assigned,
    /// Its worker has the run.
    Running,
    /// Its worker has delivered a result that its board has not taken yet.
    Result,
    /// Its worker was not seen for a lease.
    Absent,
    /// It has a run whose row cannot be understood; the deferrals say why.
    Unreadable,
}

impl SlotState {
    /// The state as the document spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Waiting => "waiting",
            Self::Assigned => "assigned",
            Self::Running => "running",
            Self::Result => "result",
            Self::Absent => "absent",
            Self::Unreadable => "unreadable",
        }
    }
}

/// One board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoardView {
    /// Its name.
    pub slug: String,
    /// How it stands.
    pub state: BoardState,
    /// Why it stands so.
    pub reason: Option<String>,
    /// When it was last gone through.
    pub last_pass: Option<f64>,
    /// Tasks that wait for a slot, at the last pass.
    pub ready: u64,
    /// How often its actors were rebuilt.
    pub restarts: u64,
}

/// How a board stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BoardState {
    /// Served.
    Ok,
    /// Cannot be read.
    Unreadable,
    /// Not served: archived, left out, or no longer listed. Runs that are held there are still seen through.
    Closed,
    /// No longer there.
    Gone,
    /// Must not be written to.
    ReadOnly,
}

impl BoardState {
    /// The state as the document spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unreadable => "unreadable",
            Self::Closed => "closed",
            Self::Gone => "gone",
            Self::ReadOnly => "read_only",
        }
    }
}

/// A piece of work that was put off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeferralView {
    /// What it belongs to: a board, a task or a run.
    pub scope: String,
    /// The work.
    pub what: String,
    /// What stands in its way.
    pub why: String,
    /// Since when.
    pub since: f64,
    /// How often it was tried.
    pub times: u64,
    /// When it is tried again.
    pub next_try: Option<f64>,
}

/// Assignments by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "each field is the state of that name")]
pub struct AssignmentCounts {
    pub assigned: u64,
    pub running: u64,
    pub result: u64,
    pub lease_failed: u64,
    pub finalized: u64,
    pub stale: u64,
}
