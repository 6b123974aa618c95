//! `guard`: what a worker starts between itself and its command. Nothing for people, so it is not listed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::worker::guard::{self, GuardSettings};

#[derive(Debug, Args)]
pub(super) struct GuardArguments {
    /// File whose lock says that a command of this slot is alive.
    #[arg(long, value_name = "FILE")]
    lock_file: PathBuf,
    /// Command to guard, and its arguments.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub(super) fn run(arguments: GuardArguments) -> ExitCode {
    guard::main(&GuardSettings {
        lock_file: arguments.lock_file,
        command: arguments.command,
    })
}
