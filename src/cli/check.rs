//! `check`: whether a coordinator could work with this configuration. It looks, and changes nothing.
//!
//! What does not exist yet and is made at the start (the state folder, the store, the operator's token) is no problem.

use clap::Args;

use crate::board::hermes::HermesBoards;
use crate::board::{Board, BoardError, Found};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Problem};
use crate::faults::Faults;
use crate::http::bearer_token;
use crate::protocol::read_key;
use crate::store::{FileProblem, Reader, STORE_FILE, StoreError};

use super::failure::Failure;
use super::key::{key_problem, token_problem};
use super::output::{one_line, say};
use super::{ConfigOption, home, process_environment};

#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    config: ConfigOption,
}

pub(super) fn run(arguments: &CheckArguments) -> Result<(), Failure> {
    // For this command a wrong configuration is what was looked for, so it fails rather than being misused.
    let config = arguments.config.load().map_err(Failure::failed)?;
    let mut problems = Vec::new();
    problems.extend(check_key(&config));
    problems.extend(check_token(&config));
    problems.extend(check_store(&config));
    let boards = home::boards(
        config.boards.hermes_home.as_deref(),
        &process_environment(),
        Faults::default(),
    )?;
    let served = check_boards(&config, &boards, &mut problems);
    if problems.is_empty() {
        let source = config
            .file
            .map_or_else(|| "built in".into(), |file| file.display().to_string());
        let root = boards.root().display();
        say(&format!(
            "ok: configuration ({source}), key, store, boards ({served} in {root})"
        ))
    } else {
        let lines: Vec<String> = problems
            .iter()
            .map(|problem| one_line(&problem.to_string()))
            .collect();
        Err(Failure::Failed(lines.join("\n")))
    }
}

fn problem(at: impl Into<String>, what: impl ToString) -> Problem {
    Problem {
        at: at.into(),
        what: what.to_string(),
    }
}

fn check_key(config: &Config) -> Option<Problem> {
    let path = &config.pool.key_file;
    let error = read_key(path).err()?;
    Some(problem("pool.key_file", key_problem(path, &error)))
}

fn check_token(config: &Config) -> Option<Problem> {
    let path = &config.operator.token_file;
    let error = path.exists().then(|| bearer_token(path).err())??;
    Some(problem("operator.token_file", token_problem(&error)))
}

fn check_store(config: &Config) -> Option<Problem> {
    let path = config.pool.state_dir.join(STORE_FILE);
    let error = path.exists().then(|| Reader::open(&path).err())??;
    match error {
        // Written by the reference: it is brought up to date at the start.
        StoreError::File {
            problem: FileProblem::NotPrepared,
            ..
        } => None,
        error => Some(problem("pool.state_dir", error)),
    }
}

/// Looks at every board that would be served, and returns how many there are.
fn check_boards(config: &Config, boards: &HermesBoards, problems: &mut Vec<Problem>) -> usize {
    let (lanes, include) = (&config.boards.lanes, &config.boards.include);
    let profiles = lanes.iter().filter(|lane| boards.is_profile(lane.as_str()));
    problems.extend(profiles.map(|lane| {
        let what = format!(
            "{lane} is also a profile of Hermes, which runs its tasks itself: name another lane"
        );
        problem("boards.lanes", what)
    }));
    let found = match boards.serving() {
        Ok(entries) => entries.into_iter().map(|entry| entry.found),
        Err(error) => {
            problems.push(problem("boards.hermes_home", error));
            return 0;
        }
    };
    let found: Vec<Found> = found.collect();
    for slug in include {
        if !found.iter().any(|board| board.slug == *slug) {
            let root = boards.root().display();
            problems.push(problem(
                "boards.include",
                format!("there is no board {slug} in {root}"),
            ));
        }
    }
    let served = found
        .iter()
        .filter(|board| !board.archived && (include.is_empty() || include.contains(&board.slug)));
    let mut count = 0;
    for board in served {
        count += 1;
        if let Err(error) = look_at(boards, board, config) {
            problems.push(problem(format!("board {}", board.slug), error));
        }
    }
    count
}

/// Reads what a dispatcher would read.
fn look_at(boards: &HermesBoards, board: &Found, config: &Config) -> Result<(), BoardError> {
    let now = SystemClock::new().now().whole_seconds();
    let mut board = boards.open(&board.slug)?;
    board.ready(&config.boards.lanes, 1, now).map(|_| ())
}
