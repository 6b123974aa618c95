//! `board create`, `add`, `list` and `show`: boards without Hermes installed, as Hermes itself would make and read them.

mod add;
mod create;
mod list;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::board::BoardError;
use crate::board::hermes::{HermesBoard, HermesBoards};
use crate::clock::{Clock, SystemClock};
use crate::domain::BoardSlug;
use crate::faults::Faults;

use super::failure::Failure;
use super::{ConfigOption, home, process_environment};

#[derive(Debug, Subcommand)]
pub(super) enum BoardCommand {
    /// Make an empty board.
    Create(create::CreateArguments),
    /// Add a task to a board and print its id.
    Add(add::AddArguments),
    /// List the boards.
    List(list::ListArguments),
    /// Show the tasks of a board, or one task with its runs and events.
    Show(show::ShowArguments),
}

/// Where the boards are.
#[derive(Debug, Args)]
struct HomeOption {
    /// Home of Hermes' boards; else the one in the configuration, else Hermes' own resolution.
    #[arg(long, value_name = "DIR")]
    hermes_home: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigOption,
}

impl HomeOption {
    fn boards(&self) -> Result<HermesBoards, Failure> {
        let configured = match &self.hermes_home {
            Some(home) => Some(home.clone()),
            None => self.config.load()?.boards.hermes_home,
        };
        home::boards(
            configured.as_deref(),
            &process_environment(),
            Faults::default(),
        )
    }

    fn open(&self, slug: &BoardSlug) -> Result<HermesBoard, Failure> {
        self.boards()?.open(slug).map_err(|error| match error {
            BoardError::Gone(_) => Failure::Failed(format!(
                "there is no board {slug}: see hermes-pool board list, or make it with hermes-pool board create {slug}"
            )),
            error => refused(slug, &error),
        })
    }
}

pub(super) fn run(command: &BoardCommand) -> Result<(), Failure> {
    match command {
        BoardCommand::Create(arguments) => create::run(arguments),
        BoardCommand::Add(arguments) => add::run(arguments),
        BoardCommand::List(arguments) => list::run(arguments),
        BoardCommand::Show(arguments) => show::run(arguments),
    }
}

fn refused(slug: &BoardSlug, error: &BoardError) -> Failure {
    Failure::Failed(format!("board {slug}: {error}"))
}

/// Boards count whole seconds.
fn now() -> i64 {
    SystemClock::new().now().whole_seconds()
}
