//! What a board says became of a run, free of how the board keeps it.

use super::ClaimLock;

/// What makes a board recognisable later on, recorded before a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Anchor {
    /// Last run id that the board had issued.
    pub run_sequence: i64,
    /// Last event id that the board had issued.
    pub event_sequence: i64,
    /// The oldest task: its id and the second of its creation.
    pub oldest_task: Option<(String, i64)>,
}

/// The answer of a board that could be read. A board that is gone or unreadable gives no fate but an error.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// The run is open and ours.
    Current {
        /// The claim's time is over, though nobody has taken the run back yet.
        expired: bool,
        /// When this run began, seconds since the epoch.
        started_at: i64,
        /// The task's limit for one run.
        max_runtime_seconds: Option<i64>,
    },
    /// The run is closed, which is final.
    Ended(EndedRun),
    /// The run is open but not current, or current under another lock: a foreign writer; treat it as lost.
    Superseded {
        /// What was seen instead, for people.
        why: String,
    },
    /// Task and run are gone while the board is provably the same one: the task was deleted.
    TaskGone,
    /// The run is not there although its task is: the board was restored from an older copy.
    RunGone,
    /// The file is another board than the one the run was claimed on.
    BoardReplaced {
        /// How that shows, for people.
        why: String,
    },
}

/// A closed run, with all that tells who closed it.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedRun {
    /// How it ended.
    pub outcome: Outcome,
    /// The summary that was left.
    pub summary: Option<String>,
    /// The error that was left.
    pub error: Option<String>,
    /// The pool's mark found in the run's metadata.
    pub mark: Option<String>,
    /// The lock that the ending itself names (a release, a crash, a quota).
    pub by_lock: Option<ClaimLock>,
    /// Whether the run's claim is proved to be ours by its own record. `None` where that record is gone.
    pub claimed_by_us: Option<bool>,
    /// Where a block put the task, told by the run's own event.
    pub landing: Option<Landing>,
    /// The task's status now, if the task is still there.
    pub task_status: Option<String>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "each variant is the board's outcome of that name"
)]
pub enum Outcome {
    Completed,
    Blocked,
    Scheduled,
    Reclaimed,
    Stale,
    Crashed,
    RateLimited,
    TimedOut,
    SpawnFailed,
    GaveUp,
    /// An outcome this pool does not know.
    Other(String),
}

impl Outcome {
    const NAMES: [(Self, &'static str); 10] = [
        (Self::Completed, "completed"),
        (Self::Blocked, "blocked"),
        (Self::Scheduled, "scheduled"),
        (Self::Reclaimed, "reclaimed"),
        (Self::Stale, "stale"),
        (Self::Crashed, "crashed"),
        (Self::RateLimited, "rate_limited"),
        (Self::TimedOut, "timed_out"),
        (Self::SpawnFailed, "spawn_failed"),
        (Self::GaveUp, "gave_up"),
    ];

    /// The board's spelling.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Other(text) => text,
            known => Self::NAMES
                .iter()
                .find(|(outcome, _)| outcome == known)
                .map_or("", |(_, name)| name),
        }
    }

    /// The outcome with this spelling.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self::NAMES
            .into_iter()
            .find(|(_, name)| *name == text)
            .map_or_else(|| Self::Other(text.to_owned()), |(outcome, _)| outcome)
    }
}

/// Where a block put its task: three different things for the people who wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landing {
    /// Blocked: somebody has to act.
    Blocked,
    /// Waiting for its parents.
    Todo,
    /// Blocked again for the same reason: sent back for a human to look at, and nobody is notified.
    Triage,
}

impl Landing {
    /// The task status that this landing means.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Todo => "todo",
            Self::Triage => "triage",
        }
    }
}
