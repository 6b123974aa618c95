//! `board add`.

use clap::Args;

use crate::board::hermes::NewTask;
use crate::domain::{BoardSlug, Lane};

use super::super::failure::Failure;
use super::super::output::say;
use super::{HomeOption, now, refused};

/// Who a task says it was made by.
const AUTHOR: &str = "hermes-pool";

#[derive(Debug, Args)]
pub(in crate::cli) struct AddArguments {
    /// The board.
    #[arg(value_name = "SLUG", value_parser = BoardSlug::parse)]
    slug: BoardSlug,
    /// Title of the task.
    #[arg(long)]
    title: String,
    /// What is to be done.
    #[arg(long)]
    body: Option<String>,
    /// Assignee; a pool takes the tasks of its lanes.
    #[arg(long, value_parser = Lane::parse)]
    lane: Option<Lane>,
    /// Higher comes first.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    priority: i64,
    /// Task that must be done before; may be repeated.
    #[arg(long = "parent", value_name = "ID")]
    parents: Vec<String>,
    /// Limit for one run.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    max_runtime_seconds: Option<i64>,
    /// Failures in a row after which the task is given up.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    max_retries: Option<i64>,
    #[command(flatten)]
    home: HomeOption,
}

pub(super) fn run(arguments: &AddArguments) -> Result<(), Failure> {
    let task = NewTask {
        title: arguments.title.clone(),
        body: arguments.body.clone(),
        assignee: arguments.lane.as_ref().map(ToString::to_string),
        created_by: Some(AUTHOR.to_owned()),
        priority: arguments.priority,
        parents: arguments.parents.clone(),
        max_runtime_seconds: arguments.max_runtime_seconds,
        max_retries: arguments.max_retries,
        ..NewTask::default()
    };
    let id = arguments
        .home
        .open(&arguments.slug)?
        .create_task(&task, now())
        .map_err(|error| refused(&arguments.slug, &error))?;
    say(&id)
}
