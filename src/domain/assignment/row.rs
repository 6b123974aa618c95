//! The columns of an assignment as they stand in the store, and the names in them.

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
    /// What the store holds of the run could not be understood when it was needed.
    Unreadable,
}

impl FailCause {
    const ALL: [Self; 7] = [
        Self::Exhausted,
        Self::NeverFetched,
        Self::Unsettled,
        Self::Unconfirmed,
        Self::Superseded,
        Self::LimitPassed,
        Self::Unreadable,
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
            Self::Unreadable => "unreadable",
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
            Self::Unconfirmed | Self::Superseded | Self::LimitPassed | Self::Unreadable
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
    /// Whether there is anything in `result_json`.
    pub has_result: bool,
    pub created_at: f64,
    pub updated_at: f64,
    /// Offers of this attempt (0 for a row that has no entry of ours).
    pub offers: i64,
    /// [`FailCause`] as text.
    pub cause: Option<String>,
}

/// A row whose columns form no legal assignment. It is reported and left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("illegal {column} {value:?} in row {run}")]
pub struct IllegalRow {
    /// Board, task and run as they stand in the row.
    pub run: String,
    /// The column at fault.
    pub column: &'static str,
    /// Its value, cut to 80 characters.
    pub value: String,
}
