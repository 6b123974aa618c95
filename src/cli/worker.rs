//! `worker`: the reference worker.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::worker::{self, WorkerError, WorkerSettings, own_executable};

use super::failure::Failure;
use super::{LAST_ORDINAL, logging};

#[derive(Debug, Args)]
pub(super) struct WorkerArguments {
    /// Slot to serve, 0 to 9999. One worker serves one slot.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=LAST_ORDINAL))]
    ordinal: u16,
    /// Address of the coordinator's worker endpoints.
    #[arg(long, value_name = "http://HOST:PORT")]
    coordinator: String,
    /// Key of this slot, made with hermes-pool key derive.
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    /// Folder below which the command works; made if missing.
    #[arg(long, value_name = "DIR", default_value = "workspace")]
    workspace: PathBuf,
    /// End after one assignment.
    #[arg(long)]
    once: bool,
    /// End at once when standard input is closed, for a parent whose workers must not outlive it.
    #[arg(long, hide = true)]
    end_with_stdin: bool,
    /// Command to run for each assignment, and its arguments. Its path counts from the current folder, and it runs in a
    /// folder of its task below --workspace. It gets the task's context on standard input and
    /// `HERMES_POOL_BOARD`, `_TASK`, `_RUN`, `_ATTEMPT`, `_WORKSPACE` in its environment; exit status 0 means completed,
    /// 75 rate limited, others failed. A last line of output that is a JSON object with "outcome" is the result itself.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) fn run(arguments: WorkerArguments) -> Result<(), Failure> {
    logging::start(logging::NEWS);
    if arguments.end_with_stdin {
        std::thread::spawn(end_with_stdin);
    }
    let guard_executable = own_executable().map_err(|error| {
        Failure::Failed(format!("the program cannot find its own file: {error}"))
    })?;
    let settings = WorkerSettings {
        ordinal: arguments.ordinal,
        coordinator: arguments.coordinator,
        key_file: arguments.key_file,
        workspace: arguments.workspace,
        once: arguments.once,
        command: arguments.command,
        guard_executable,
    };
    worker::run(settings).map_err(|error: WorkerError| {
        if error.is_wrong_usage() {
            Failure::Usage(error.to_string())
        } else {
            Failure::failed(error)
        }
    })
}

/// Reads until the other end is closed. The guard of a command ends it when this process is gone.
fn end_with_stdin() {
    match std::io::copy(&mut std::io::stdin(), &mut std::io::sink()) {
        Ok(_) => log::info!("standard input was closed"),
        Err(error) => log::warn!("standard input cannot be read: {error}"),
    }
    std::process::exit(1);
}
