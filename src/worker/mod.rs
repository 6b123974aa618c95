//! The reference worker: fetches one run after the other, runs a command for each, and reports how it ended.
//!
//! ```text
//! worker ── poll, heartbeat, result ──> coordinator
//!   │ socket: deadlines                 (signed both ways, `client` and `exchange`)
//! guard            leader of a process group of its own (`guard`)
//!   └ command      context on standard input; output read by the worker (`command`, `output`)
//! ```
//!
//! | on | the worker |
//! |---|---|
//! | an assignment | runs the command in `<workspace>/<board>/<task>`, with a heartbeat at once and every third of a lease |
//! | the end of the command | keeps its result on disk, delivers it, forgets it (`outcome`, `outbox`) |
//! | a refused heartbeat, or none answered until the lease is over | kills the group, says nothing, polls again |
//! | no answer that can be trusted | asks again, after a growing, jittered wait or the `Retry-After` it was given |
//! | SIGTERM, SIGINT | kills the group, gives the run back as `released`, exits; within about five seconds |
//!
//! Invariants:
//! - A command lives only while its worker lives and holds the lease, and one command at most lives per ordinal; the
//!   guard sees to both.
//! - Nothing is decided by a reply that is not signed with the own key and about the own request.
//! - Neither key nor payload nor output is logged, and the key is in no file, argument or variable made here.
//!
//! What survives a crash: a result whose command had ended; it is delivered before anything else. A run that was in
//! progress does not: its group is killed, the next poll brings the same attempt again, and the command starts anew in
//! the same folder. A command that runs as the same user can read whatever its worker can; where that matters, the
//! operator runs it as another.
//!
//! Deliberately absent: actix and async. Threads that block cannot be held up by each other.

mod attempt;
mod backoff;
mod client;
mod command;
mod control;
mod exchange;
pub mod guard;
mod lease;
mod moment;
mod outbox;
mod outcome;
mod output;
mod program;
mod service;
mod signals;
mod workspace;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use log::info;

use crate::protocol::ProtocolError;

pub use program::ProgramError;
use service::Worker;

/// What a worker is started with.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// The slot to serve.
    pub ordinal: u16,
    /// Where the coordinator's worker endpoints are, such as `http://127.0.0.1:8750`.
    pub coordinator: String,
    /// The file with the key of this ordinal.
    pub key_file: PathBuf,
    /// The folder below which commands work; made if it is missing.
    pub workspace: PathBuf,
    /// End after one assignment, or after delivering the result that an earlier worker left.
    pub once: bool,
    /// The command to run for each assignment, and its arguments.
    pub command: Vec<OsString>,
    /// An executable that is a [guard](guard::main) when called as `guard --lock-file FILE -- COMMAND…`: this one, see
    /// [`own_executable`].
    pub guard_executable: PathBuf,
}

/// Why a worker cannot work.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The address of the coordinator cannot be used.
    #[error("{url:?} is no address of a coordinator; give one like http://127.0.0.1:8750")]
    InvalidUrl {
        /// The address as it was given.
        url: String,
    },
    /// There is nothing to run.
    #[error("no command to run; give it after --")]
    NoCommand,
    /// The command cannot be run.
    #[error("the command {} cannot be run: {error}", program.display())]
    Command {
        /// Its program as it was given.
        program: OsString,
        /// What is wrong with it.
        #[source]
        error: ProgramError,
    },
    /// The key cannot be read.
    #[error("{}: {error}", path.display())]
    Key {
        /// The key file as it was given.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        error: ProtocolError,
    },
    /// The workspace cannot be used.
    #[error("the workspace {} cannot be used: {error}", path.display())]
    Workspace {
        /// The workspace as it was given.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// Another worker serves this ordinal here.
    #[error(
        "ordinal {ordinal} is served by another worker in {} (pid {pid}); stop it, or give another --workspace",
        path.display()
    )]
    AlreadyServed {
        /// The ordinal.
        ordinal: u16,
        /// The process that serves it.
        pid: String,
        /// The workspace.
        path: PathBuf,
    },
    /// Signals cannot be waited for.
    #[error("signals cannot be handled: {0}")]
    Signals(#[source] io::Error),
}

impl WorkerError {
    /// Whether the settings are wrong, rather than the world they meet.
    #[must_use]
    pub fn is_wrong_usage(&self) -> bool {
        matches!(
            self,
            Self::InvalidUrl { .. } | Self::NoCommand | Self::Command { .. }
        )
    }
}

/// The path under which this process can start itself again, even if its file was replaced meanwhile.
///
/// # Errors
/// What the system says if it does not know.
pub fn own_executable() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() {
        return Ok(running);
    }
    std::env::current_exe()
}

/// Works until told to stop, or for one assignment with `once`.
///
/// # Errors
/// [`WorkerError`] if the work cannot begin. A coordinator that cannot be reached is waited for.
pub fn run(settings: WorkerSettings) -> Result<(), WorkerError> {
    let WorkerSettings { once, ordinal, .. } = settings;
    let worker = Worker::new(settings)?;
    info!("the worker of ordinal {ordinal} is up");
    worker.serve(once);
    info!("the worker of ordinal {ordinal} is done");
    Ok(())
}
