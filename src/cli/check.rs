//! `check`: whether a coordinator could work with this configuration. It looks, and changes nothing.
//!
//! What does not exist yet and is made at the start (the state folder, the store, the operator's token) is no problem.

use clap::Args;

use crate::board::hermes::HermesBoards;
use crate::board::{Board, BoardError, Found};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Problem};
use crate::domain::BoardSlug;
use crate::faults::Faults;
use crate::http::bearer_token;
use crate::protocol::read_key;
use crate::store::{STORE_FILE, Store};

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
    let Boards { served, empty } = check_boards(&config, &boards, &mut problems);
    if problems.is_empty() {
        let source = config
            .file
            .map_or_else(|| "built in".into(), |file| file.display().to_string());
        let root = boards.root().display();
        say(&format!(
            "ok: configuration ({source}), key, store, boards ({served} in {root}{})",
            without_tables(&empty)
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
    let error = path.exists().then(|| Store::inspect(&path).err())??;
    Some(problem("pool.state_dir", error))
}

/// The boards that would be served.
#[derive(Default)]
struct Boards {
    served: usize,
    /// Those of which there is only a file so far.
    empty: Vec<BoardSlug>,
}

/// What is said of boards on which nothing can be found yet. Hermes makes a board so, and it is no problem.
fn without_tables(boards: &[BoardSlug]) -> String {
    let notes = boards
        .iter()
        .map(|slug| format!("; {slug} has no tables until Hermes looks at it"));
    notes.collect()
}

/// Looks at every board that would be served.
fn check_boards(config: &Config, boards: &HermesBoards, problems: &mut Vec<Problem>) -> Boards {
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
            return Boards::default();
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
    let mut looked_at = Boards::default();
    for board in served {
        looked_at.served += 1;
        if let Some(why) = &board.unclear {
            problems.push(problem(format!("board {}", board.slug), why));
        }
        match look_at(boards, board, config) {
            Ok(true) => {}
            Ok(false) => looked_at.empty.push(board.slug.clone()),
            Err(error) => problems.push(problem(format!("board {}", board.slug), error)),
        }
    }
    looked_at
}

/// Reads what a dispatcher would read, and tells whether there is anything to be read.
fn look_at(boards: &HermesBoards, board: &Found, config: &Config) -> Result<bool, BoardError> {
    let now = SystemClock::new().now().whole_seconds();
    let mut board = boards.open_to_write(&board.slug)?;
    board.ready(&config.boards.lanes, 1, now)?;
    Ok(board.has_tables())
}
