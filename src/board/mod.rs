//! The port to the boards that hold the work, and the values that cross it.
//!
//! A [`Board`] is one opened board, used by one thread at a time (its own). Every method is one visit: what it writes is
//! one short transaction, or the same few that Hermes itself uses, and it either happened or it did not. The pool's
//! policies (what to block, what to give back, when) are not here; an adapter only does exactly what its board's owner
//! would do. Adding a backend means implementing this trait and one arm where boards are opened.
//!
//! Invariants: nothing is ever written without the exact run or the exact lock; a write that touched no row is reported as
//! `None`/`false` and is never evidence; a board that cannot be read is an error and never a fate.

pub mod hermes;
pub mod mark;

use std::collections::BTreeSet;

use crate::domain::{
    Anchor, BoardSlug, ClaimLock, Fate, Landing, Lane, PoolId, Receipt, RunId, RunRef, TaskId,
};
use crate::protocol::{BlockKind, Json};

/// Why a visit to a board failed. Nothing was written, unless the method says otherwise: then the run's fate tells.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// The board is not where it was.
    #[error("the board is gone: {0}")]
    Gone(String),
    /// The path now names another file. The connection must be opened again.
    #[error("the board's file was replaced")]
    Replaced,
    /// Busy, I/O error, malformed, no permission: it says nothing about any task.
    #[error("the board cannot be read: {0}")]
    Unreadable(String),
    /// It can be read, but its schema is none that may be written to.
    #[error("the board must not be written to: {0}")]
    ReadOnly(String),
    /// The board's owner would refuse this very call too (for example a summary of nothing but white space).
    #[error("the board refuses: {0}")]
    Refused(String),
    /// One row cannot be understood. The others can.
    #[error("task {task}: {why}")]
    BadRow {
        /// The task, as it stands in the row.
        task: String,
        /// What is wrong with it.
        why: String,
    },
}

/// A task that waits for a lane of this pool, in the order in which the board's owner would take it.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyTask {
    /// The task.
    pub task: TaskId,
    /// Its lane: the assignee, normalised.
    pub lane: Lane,
}

/// A task of the pool's lanes that may not be taken, and why. It is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The task, as it stands in the row, cut to 128 characters.
    pub task: String,
    /// Why it is left alone, for people.
    pub why: String,
    /// Whether waiting mends it: seconds since the epoch.
    pub until: Option<i64>,
}

/// What waits on a board.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// Tasks that can be claimed, first things first.
    pub ready: Vec<ReadyTask>,
    /// Tasks that are left alone.
    pub refused: Vec<Refusal>,
}

/// A running task whose claim carries the id of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolClaim {
    /// The task, as it stands in the row.
    pub task: String,
    /// The lock of the claim.
    pub lock: ClaimLock,
}

/// A claim that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The new run.
    pub run: RunId,
    /// Until when it stands, seconds since the epoch.
    pub expires_at: i64,
}

/// What a worker is told of its task.
#[derive(Clone, Debug, PartialEq)]
pub struct Brief {
    /// The assignee, normalised.
    pub lane: String,
    /// Title of the card.
    pub title: String,
    /// Its body, cut as the board's owner cuts it.
    pub body: Option<String>,
    /// Priority; higher comes first.
    pub priority: i64,
    /// Tenant.
    pub tenant: Option<String>,
    /// Skills the task asks for.
    pub skills: Vec<String>,
    /// Model the task asks for.
    pub model_override: Option<String>,
    /// The text that the board's owner would hand its own worker.
    pub context: String,
    /// Kind of workspace: `scratch`, `dir` or `worktree`.
    pub workspace_kind: String,
    /// Path of the workspace, if the task names one.
    pub workspace_path: Option<String>,
    /// Branch of the workspace, if the task names one.
    pub branch: Option<String>,
    /// The task's limit for one run.
    pub max_runtime_seconds: Option<i64>,
}

/// How a run is ended on its board.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// Done. `metadata` is an object that already carries the pool's mark.
    Complete {
        /// Summary for people.
        summary: Option<String>,
        /// The result itself.
        result: Option<String>,
        /// Everything else.
        metadata: Json,
    },
    /// Somebody or something has to act first.
    Block {
        /// What kind of obstacle it is.
        kind: BlockKind,
        /// The obstacle.
        reason: Option<String>,
    },
    /// Booked as a worker that crashed: counted, given up at the limit.
    Fail {
        /// What went wrong.
        reason: String,
        /// Failures after which a task without its own limit is given up.
        failure_limit: i64,
    },
    /// Booked as a worker that met a quota: not counted.
    RateLimit {
        /// What the quota said.
        reason: String,
    },
    /// Given back, uncounted.
    Release {
        /// Why.
        reason: Option<String>,
    },
    /// Stopped by the task's limit for one run: counted.
    TimeOut {
        /// How long it ran.
        elapsed_seconds: i64,
        /// The limit.
        limit_seconds: i64,
        /// Failures after which a task without its own limit is given up.
        failure_limit: i64,
    },
}

/// An ending that the board took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The board's word for it.
    pub receipt: Receipt,
    /// Where a block put the task.
    pub landing: Option<Landing>,
}

/// One opened board.
pub trait Board: Send {
    /// Whether anything was committed on the board since the last look, by anybody but this connection. Cheap.
    ///
    /// # Errors
    /// [`BoardError`] when the board is no longer the one that was opened or cannot be read.
    fn changed(&mut self) -> Result<bool, BoardError>;

    /// What waits for these lanes, at most `limit` tasks that can be claimed.
    ///
    /// # Errors
    /// [`BoardError`] when the list as a whole cannot be read; one bad row is a [`Refusal`].
    fn ready(&mut self, lanes: &[Lane], limit: usize, now: i64) -> Result<Listing, BoardError>;

    /// What makes this board recognisable.
    ///
    /// # Errors
    /// [`BoardError`] when it cannot be read.
    fn anchor(&mut self) -> Result<Anchor, BoardError>;

    /// Claims a ready task under `lock` for `ttl_seconds`; `None` if it cannot be had (any more).
    ///
    /// # Errors
    /// [`BoardError`]; nothing is claimed then, or the claim carries the lock and is found by [`Board::claimed_run`].
    fn claim(
        &mut self,
        task: &TaskId,
        lock: &ClaimLock,
        ttl_seconds: i64,
        now: i64,
    ) -> Result<Option<Claimed>, BoardError>;

    /// The run whose own record names this lock, open or not.
    ///
    /// # Errors
    /// [`BoardError`] when it cannot be read.
    fn claimed_run(&mut self, task: &TaskId, lock: &ClaimLock)
    -> Result<Option<RunId>, BoardError>;

    /// The lock that the run's own record names; `None` where there is no record.
    ///
    /// # Errors
    /// [`BoardError`] when it cannot be read.
    fn lock_of(&mut self, run: &RunRef) -> Result<Option<ClaimLock>, BoardError>;

    /// Every running task whose claim carries this pool's id, whoever made it.
    ///
    /// # Errors
    /// [`BoardError`] when they cannot be read.
    fn pool_claims(&mut self, pool: &PoolId) -> Result<Vec<PoolClaim>, BoardError>;

    /// What a worker is told of a task.
    ///
    /// # Errors
    /// [`BoardError::BadRow`] when the task cannot be described, others when the board cannot be read.
    fn brief(&mut self, task: &TaskId, now: i64) -> Result<Brief, BoardError>;

    /// Extends the claim to `now + ttl_seconds`; `false` if it is not ours (any more).
    ///
    /// # Errors
    /// [`BoardError`]; nothing is extended then.
    fn extend(
        &mut self,
        task: &TaskId,
        lock: &ClaimLock,
        ttl_seconds: i64,
        now: i64,
    ) -> Result<bool, BoardError>;

    /// Records that the worker of the exact run lives; `false` if the run is not current.
    ///
    /// # Errors
    /// [`BoardError`]; nothing is recorded then.
    fn heartbeat(&mut self, run: &RunRef, note: Option<&str>, now: i64)
    -> Result<bool, BoardError>;

    /// Ends the exact run; `None` if it is not current (any more), which is only a reason to read its fate.
    ///
    /// # Errors
    /// [`BoardError`]; the run stays as it was, or its fate shows the ending.
    fn end(
        &mut self,
        run: &RunRef,
        lock: &ClaimLock,
        ending: &Ending,
        now: i64,
    ) -> Result<Option<Ended>, BoardError>;

    /// Repeats what follows a completion in transactions of its own (counters, promotion of children). Changes nothing
    /// where it was done.
    ///
    /// # Errors
    /// [`BoardError`]; it can be repeated.
    fn finish_completion(&mut self, task: &TaskId, now: i64) -> Result<(), BoardError>;

    /// Whether the task still waits for a parent.
    ///
    /// # Errors
    /// [`BoardError`] when it cannot be read.
    fn has_open_parent(&mut self, task: &TaskId) -> Result<bool, BoardError>;

    /// What became of a run. `lock` and `anchor` are those of its claim, where they are known.
    ///
    /// # Errors
    /// [`BoardError::Gone`] or [`BoardError::Unreadable`]: neither is a fate. [`BoardError::BadRow`] where the fate rests on
    /// a value that cannot be understood.
    fn fate(
        &mut self,
        run: &RunRef,
        lock: Option<&ClaimLock>,
        anchor: Option<&Anchor>,
        now: i64,
    ) -> Result<Fate, BoardError>;
}

/// A board that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub slug: BoardSlug,
    /// Its owner no longer works on it: nothing is claimed there, outcomes of held runs are still written.
    pub archived: bool,
    /// Why it cannot be told whether it is archived: no reason to begin to claim there.
    pub unclear: Option<String>,
}

/// The place that holds the boards.
pub trait BoardHost: Send + Sync + 'static {
    /// Every board that is there, archived ones included; each file once. One that has several names goes under that of
    /// `kept` which it has, else under its first.
    ///
    /// # Errors
    /// [`BoardError`] when the place cannot be listed.
    fn list(&self, kept: &BTreeSet<BoardSlug>) -> Result<Vec<Found>, BoardError>;

    /// Opens a board by name, found or not: one that is referenced by a run may be gone.
    ///
    /// # Errors
    /// [`BoardError`] when it is gone, or is nothing that can be opened as a board.
    fn open(&self, slug: &BoardSlug) -> Result<Box<dyn Board>, BoardError>;

    /// Identity of the directory that holds a board; `None` while it is not there. Cheap.
    fn root_identity(&self, slug: &BoardSlug) -> Option<(u64, u64)>;

    /// Whether anything of any board stands in that directory.
    fn holds_boards(&self, slug: &BoardSlug) -> bool;
}
