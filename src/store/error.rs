//! What can go wrong with the store, told apart by who has to do something about it.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::domain::{Binding, IllegalRow};

/// Why an operation was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The worker may not do this. Nothing was written.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The run cannot be assigned. Nothing was written.
    #[error(transparent)]
    NotAdded(#[from] AddRefusal),
    /// The row cannot be understood. It was left as it is.
    #[error(transparent)]
    Illegal(#[from] IllegalRow),
    /// The row was no longer what was read from it. Nothing was written.
    #[error("assignment {0} changed while it was being worked on")]
    Changed(Binding),
    /// The operation panicked, which is a bug. Nothing was written.
    #[error("a store operation panicked: {0}")]
    Panicked(String),
    /// It cannot be told whether the operation was stored.
    #[error("it is unknown whether this was stored; ask again")]
    Unknown,
    /// Too much is waiting already. Nothing was stored.
    #[error("the store is overloaded; try again")]
    Overloaded,
    /// Nobody works on the store at the moment. Nothing was stored.
    #[error("the store is down; try again")]
    Down,
    /// The file, or what it stands on, is at fault. Nothing was stored.
    #[error("store {}: {problem}", path.display())]
    File {
        /// The store's file.
        path: PathBuf,
        /// What is wrong with it.
        problem: FileProblem,
    },
}

impl StoreError {
    pub(super) fn file(path: &Path, problem: FileProblem) -> Self {
        Self::File {
            path: path.to_owned(),
            problem,
        }
    }

    /// Whether it tells of damaged pages or tables, whatever became of the rest.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::File {
                problem: FileProblem::Malformed(_) | FileProblem::Altered(_),
                ..
            }
        )
    }

    /// Whether only the log of the file is gone, so that it can be saved ([`Store::save_log`](super::Store::save_log)).
    #[must_use]
    pub fn is_log_gone(&self) -> bool {
        matches!(
            self,
            Self::File {
                problem: FileProblem::LogGone,
                ..
            }
        )
    }

    /// What an error of a statement of ours means. Those fit the tables that this program made, so that one which SQLite
    /// does not even understand tells of other tables.
    pub(super) fn statement(path: &Path, error: &rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::Unknown | ErrorCode::SchemaChanged) => {
                let text = match error {
                    // Without the text of the statement, which is long and nobody's business.
                    rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
                    other => other.to_string(),
                };
                Self::file(path, FileProblem::Altered(text))
            }
            _ => Self::sqlite(path, error),
        }
    }

    pub(super) fn sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        Self::file(path, FileProblem::of(error))
    }
}

/// What is wrong with a store's file, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// It cannot be opened or created.
    #[error("cannot be opened: {0}; check that its folder exists and belongs to this user")]
    CannotOpen(String),
    /// Another process has held it for longer than this one waits.
    #[error(
        "is locked by another process; stop the other coordinator or close the tool that holds it"
    )]
    Locked,
    /// It is no database, or a damaged one.
    #[error(
        "is malformed: {0}; restore it from a backup, or move it away to begin with an empty store"
    )]
    Malformed(String),
    /// A newer program has written it. It was left untouched.
    #[error(
        "has version {found}, this program knows versions up to {known}; run the newer program"
    )]
    Newer {
        /// The version of the file.
        found: i64,
        /// The newest version that is known here.
        known: i64,
    },
    /// No program of this kind has written it. It was left untouched.
    #[error("is not a store of this pool: {0}; check `state_dir`")]
    Foreign(String),
    /// It is there, but no coordinator has prepared it yet.
    #[error("has not been prepared yet; start the coordinator once")]
    NotPrepared,
    /// It was taken away under the open connection. Nothing more is written to what is left of it.
    #[error(
        "was removed, replaced or emptied while it was in use; put it back, or restart to begin with what is there"
    )]
    Removed,
    /// Its write-ahead log was taken away under the open connection, which still has it.
    #[error(
        "lost its write-ahead log (its -wal file was removed while it was in use); it is being put back"
    )]
    LogGone,
    /// The same, and the log of somebody else stands there, which would be applied to the file.
    #[error(
        "has another write-ahead log than its own (its -wal file was replaced while it was in use); put the old one back, \
         or take the new one away"
    )]
    LogReplaced,
    /// Another program has changed its tables.
    #[error(
        "was altered by another program: {0}; restore it from a backup, or move it away to begin with an empty store"
    )]
    Altered(String),
    /// It may not be written.
    #[error(
        "is read-only; check its permissions, those of its folder, and how the disk is mounted"
    )]
    ReadOnly,
    /// Its file system has no shared memory for the write-ahead log.
    #[error(
        "cannot use a write-ahead log (its journal mode is {0}); put `state_dir` on a local disk"
    )]
    NoLog(String),
    /// There is no room for it.
    #[error("cannot grow: the disk is full; make room")]
    Full,
    /// Reading or writing failed below SQLite.
    #[error("cannot be read or written: {0}; check the disk")]
    Io(String),
    /// Anything else that SQLite reports.
    #[error("failed: {0}")]
    Other(String),
}

impl FileProblem {
    fn of(error: &rusqlite::Error) -> Self {
        let text = error.to_string();
        // Shared memory that cannot be made long enough is all that SQLite says of a disk that was full before the log was.
        let extended = error.sqlite_error().map(|error| error.extended_code);
        if extended == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE) {
            return Self::Full;
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Self::CannotOpen(text),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Malformed(text),
            Some(ErrorCode::ReadOnly) => Self::ReadOnly,
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::SystemIoFailure) => Self::Io(text),
            _ => Self::Other(text),
        }
    }
}

/// Why a worker's message is refused. The texts are those of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such run.
    #[error("assignment is unknown or stale")]
    UnknownAssignment,
    /// Another slot holds the run.
    #[error("worker ordinal does not own this assignment")]
    WrongOrdinal,
    /// Another attempt than the current one.
    #[error("assignment attempt is stale")]
    StaleAttempt,
    /// A heartbeat for a run that no longer runs.
    #[error("assignment is no longer running")]
    NotRunning,
    /// A result for a run that takes none.
    #[error("assignment cannot accept a result")]
    NotAccepting,
    /// The lease is over.
    #[error("assignment lease expired")]
    LeaseExpired,
    /// The delivery identifier was used for something else.
    #[error("delivery identifier was reused")]
    DeliveryReused,
    /// Another result than the remembered one.
    #[error("conflicting result for completed delivery")]
    ConflictingResult,
    /// The pool itself ended the run: its worker must stop.
    #[error("the pool ended this run; stop working on it")]
    RunSuperseded,
}

impl Refusal {
    /// The code under which the refusal is sent.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::UnknownAssignment => "unknown_assignment",
            Self::WrongOrdinal => "wrong_ordinal",
            Self::StaleAttempt => "stale_attempt",
            Self::NotRunning | Self::NotAccepting => "not_running",
            Self::LeaseExpired => "lease_expired",
            Self::DeliveryReused => "delivery_reused",
            Self::ConflictingResult => "conflicting_result",
            Self::RunSuperseded => "run_superseded",
        }
    }
}

/// Why a run cannot be assigned. The texts are those of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddRefusal {
    /// The run is known, with another payload, slot or attempt.
    #[error("conflicting duplicate assignment")]
    Conflicting,
    /// The slot holds another run, or is none that this file allows.
    #[error("worker ordinal already has a live assignment")]
    Occupied,
}
