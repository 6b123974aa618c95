//! The command line: one file per command, and what they share.
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage or configuration. A command's answer goes to stdout; what went wrong goes to
//! stderr as one line that says what to do (of a configuration: one line per problem).

mod board;
mod check;
mod demo;
mod failure;
mod guard;
mod home;
mod key;
mod logging;
mod open_files;
mod output;
mod serve;
mod signals;
mod status;
mod table;
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand, error::ErrorKind};

use crate::config::{Config, Environment};
use crate::protocol::MAX_SLOTS;

use failure::Failure;
use output::{complain, say};

/// Coordinator that gives runs from Hermes Kanban boards to a fixed pool of fenced workers.
#[derive(Debug, Parser)]
#[command(
    name = "hermes-pool",
    version,
    disable_help_subcommand = true,
    arg_required_else_help = false
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the coordinator.
    Serve(serve::ServeArguments),
    /// Make a pool key, or the key of one worker.
    #[command(subcommand, arg_required_else_help = false)]
    Key(key::KeyCommand),
    /// Make a board and look at it, without Hermes.
    #[command(subcommand, arg_required_else_help = false)]
    Board(board::BoardCommand),
    /// Show slots, leases, boards and deferrals of the running coordinator.
    Status(status::StatusArguments),
    /// Validate the configuration and what it points to.
    Check(check::CheckArguments),
    /// Run a command for each assignment of one slot: the reference worker.
    Worker(worker::WorkerArguments),
    /// Show a pool at work, in a temporary folder.
    Demo(demo::DemoArguments),
    #[command(hide = true)]
    Guard(guard::GuardArguments),
    #[command(hide = true)]
    DemoTask,
}

/// The last ordinal that a pool of any number of slots can have.
const LAST_ORDINAL: i64 = MAX_SLOTS as i64 - 1;

/// The option of every command that reads the configuration.
#[derive(Debug, Args)]
struct ConfigOption {
    /// Configuration file; else ./config/pool.toml if it exists, else built-in values.
    #[arg(long = "config", value_name = "FILE")]
    file: Option<PathBuf>,
}

impl ConfigOption {
    fn load(&self) -> Result<Config, crate::config::ConfigError> {
        Config::load(self.file.as_deref(), &process_environment())
    }
}

/// The variables of this process. A name that is no text is none of ours.
fn process_environment() -> Environment {
    std::env::vars_os()
        .filter_map(|(name, text)| Some((name.into_string().ok()?, text)))
        .collect()
}

/// Runs the program on the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return misread(&error),
    };
    match run(arguments.command) {
        Ok(code) => code,
        Err(failure) => {
            complain(failure.text());
            failure.exit_code()
        }
    }
}

fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve(arguments) => serve::run(&arguments)?,
        Command::Key(command) => key::run(&command)?,
        Command::Board(command) => board::run(&command)?,
        Command::Status(arguments) => status::run(&arguments)?,
        Command::Check(arguments) => check::run(&arguments)?,
        Command::Worker(arguments) => worker::run(arguments)?,
        Command::Demo(arguments) => demo::run(&arguments)?,
        Command::DemoTask => demo::task::run()?,
        Command::Guard(arguments) => return Ok(guard::run(arguments)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Help and versions are answers; everything else that cannot be parsed is told in one line.
fn misread(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            match say(error.render().to_string().trim_end()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => failure.exit_code(),
            }
        }
        _ => {
            complain(&usage_error(error, std::env::args_os()));
            ExitCode::from(2)
        }
    }
}

/// What clap says in paragraphs, in one line: what is wrong and how to find out what is right.
fn usage_error(error: &clap::Error, arguments: impl Iterator<Item = OsString>) -> String {
    let (command, names) = named_command(arguments);
    if error.kind() == ErrorKind::MissingSubcommand {
        let shown = command
            .get_subcommands()
            .filter(|command| !command.is_hide_set());
        let shown: Vec<&str> = shown.map(clap::Command::get_name).collect();
        return format!(
            "{names} needs a command: {}; see {names} --help",
            shown.join(", ")
        );
    }
    let text = error.render().to_string();
    let told: Vec<String> = text
        .split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|paragraph| !paragraph.is_empty())
        .take_while(|paragraph| !paragraph.starts_with("Usage:"))
        .filter(|paragraph| !paragraph.starts_with("For more information"))
        .collect();
    let told = told.join("; ");
    let told = told.strip_prefix("error: ").unwrap_or(&told);
    format!("{told}; see {names} --help")
}

/// The command that the arguments name, and its name with the program's before it.
fn named_command(arguments: impl Iterator<Item = OsString>) -> (clap::Command, String) {
    let mut command = Arguments::command();
    let mut names = command.get_name().to_owned();
    for argument in arguments.skip(1) {
        let Some(named) = command.find_subcommand(argument).cloned() else {
            break;
        };
        names.push(' ');
        names.push_str(named.get_name());
        command = named;
    }
    (command, names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(arguments: &[&str]) -> String {
        let error = Arguments::try_parse_from(arguments).unwrap_err();
        usage_error(&error, arguments.iter().map(OsString::from))
    }

    #[test]
    fn wrong_usage_is_told_in_one_line_that_names_the_help() {
        for (arguments, expected) in [
            (
                &["hermes-pool", "key", "generate"][..],
                "the following required arguments were not provided: --out <FILE>; \
                 see hermes-pool key generate --help",
            ),
            (
                &["hermes-pool", "key", "derive", "--ordinal", "10000"],
                "invalid value '10000' for '--ordinal <N>': 10000 is not in 0..=9999; \
                 see hermes-pool key derive --help",
            ),
            (
                &["hermes-pool"],
                "hermes-pool needs a command: serve, key, board, status, check, worker, demo; \
                 see hermes-pool --help",
            ),
            (
                &["hermes-pool", "stats"],
                "unrecognized subcommand 'stats'; tip: a similar subcommand exists: 'status'; \
                 see hermes-pool --help",
            ),
        ] {
            assert_eq!(told(arguments), expected);
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
