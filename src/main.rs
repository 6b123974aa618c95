//! The `hermes-pool` program. This stands in for the command line until `cli` is there.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use hermes_pool::worker::{self, WorkerSettings, guard};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next().as_deref().and_then(|name| name.to_str()) {
        Some("guard") => guard::main(&guard_settings(arguments)),
        Some("worker") => {
            env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info"))
                .init();
            match worker::run(worker_settings(arguments)) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("hermes-pool: {error}");
                    ExitCode::from(if error.is_wrong_usage() { 2 } else { 1 })
                }
            }
        }
        _ => ExitCode::from(2),
    }
}

fn guard_settings(mut arguments: impl Iterator<Item = OsString>) -> guard::GuardSettings {
    let lock_file = arguments.nth(1).unwrap_or_default().into();
    guard::GuardSettings {
        lock_file,
        command: arguments.skip(1).collect(),
    }
}

fn worker_settings(mut arguments: impl Iterator<Item = OsString>) -> WorkerSettings {
    let mut settings = WorkerSettings {
        ordinal: 0,
        coordinator: String::new(),
        key_file: PathBuf::new(),
        workspace: PathBuf::from("workspace"),
        once: false,
        command: Vec::new(),
        guard_executable: worker::own_executable().unwrap_or_default(),
    };
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().unwrap_or_default();
        match flag.to_str() {
            Some("--ordinal") => {
                settings.ordinal = value().to_string_lossy().parse().unwrap_or_default()
            }
            Some("--coordinator") => settings.coordinator = value().to_string_lossy().into_owned(),
            Some("--key-file") => settings.key_file = value().into(),
            Some("--workspace") => settings.workspace = value().into(),
            Some("--once") => settings.once = true,
            _ => settings.command = arguments.by_ref().collect(),
        }
    }
    settings
}
