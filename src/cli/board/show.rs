//! `board show`.

use clap::Args;
use serde_json::{Value, json};

use crate::board::hermes::{EventLine, HermesBoard, RunLine, TaskLine};
use crate::domain::BoardSlug;

use super::super::failure::Failure;
use super::super::output::say;
use super::super::table::table;
use super::{HomeOption, refused};

#[derive(Debug, Args)]
pub(in crate::cli) struct ShowArguments {
    /// The board.
    #[arg(value_name = "SLUG", value_parser = BoardSlug::parse)]
    slug: BoardSlug,
    /// One task of it, to be shown with its runs and events.
    #[arg(value_name = "TASK")]
    task: Option<String>,
    /// Print one JSON document: an array of tasks, or one task.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    home: HomeOption,
}

pub(super) fn run(arguments: &ShowArguments) -> Result<(), Failure> {
    let slug = &arguments.slug;
    let mut board = arguments.home.open(slug)?;
    let tasks = board.tasks().map_err(|error| refused(slug, &error))?;
    let Some(id) = &arguments.task else {
        return say(&show_board(&tasks, arguments.json));
    };
    let task = tasks.iter().find(|task| task.id == *id).ok_or_else(|| {
        Failure::Failed(format!(
            "there is no task {id} on board {slug}: see hermes-pool board show {slug}"
        ))
    })?;
    let history = History::read(&mut board, id).map_err(|error| refused(slug, &error))?;
    say(&if arguments.json {
        history.document(task).to_string()
    } else {
        history.text(task)
    })
}

fn show_board(tasks: &[TaskLine], as_json: bool) -> String {
    if as_json {
        return tasks
            .iter()
            .map(task_document)
            .collect::<Value>()
            .to_string();
    }
    let rows: Vec<[String; 6]> = tasks
        .iter()
        .map(|task| {
            [
                task.id.clone(),
                task.status.clone(),
                or_dash(task.assignee.as_deref()),
                task.priority.to_string(),
                or_dash(task.current_run.map(|run| run.to_string()).as_deref()),
                task.title.clone(),
            ]
        })
        .collect();
    table(
        ["TASK", "STATUS", "LANE", "PRIORITY", "RUN", "TITLE"],
        &rows,
    )
}

fn task_document(task: &TaskLine) -> Value {
    json!({
        "id": task.id,
        "title": task.title,
        "status": task.status,
        "lane": task.assignee,
        "priority": task.priority,
        "current_run": task.current_run,
    })
}

/// What happened to one task.
struct History {
    runs: Vec<RunLine>,
    events: Vec<EventLine>,
}

impl History {
    fn read(board: &mut HermesBoard, task: &str) -> Result<Self, crate::board::BoardError> {
        Ok(Self {
            runs: board.runs(task)?,
            events: board.events(task)?,
        })
    }

    fn text(&self, task: &TaskLine) -> String {
        let runs: Vec<[String; 5]> = self
            .runs
            .iter()
            .map(|run| {
                [
                    run.id.to_string(),
                    run.outcome.clone(),
                    utc(run.started_at),
                    run.ended_at.map_or_else(|| or_dash(None), utc),
                    or_dash(run.error.as_deref().or(run.summary.as_deref())),
                ]
            })
            .collect();
        let events: Vec<[String; 4]> = self
            .events
            .iter()
            .map(|event| {
                [
                    utc(event.created_at),
                    event.kind.clone(),
                    or_dash(event.run.map(|run| run.to_string()).as_deref()),
                    or_dash(event.payload.as_deref()),
                ]
            })
            .collect();
        [
            show_board(std::slice::from_ref(task), false),
            table(
                ["RUN", "OUTCOME", "STARTED", "ENDED", "SUMMARY OR ERROR"],
                &runs,
            ),
            table(["TIME", "EVENT", "RUN", "PAYLOAD"], &events),
        ]
        .join("\n\n")
    }

    fn document(&self, task: &TaskLine) -> Value {
        let mut document = task_document(task);
        let runs = self.runs.iter().map(|run| {
            json!({
                "id": run.id,
                "outcome": run.outcome,
                "started_at": run.started_at,
                "ended_at": run.ended_at,
                "summary": run.summary,
                "error": run.error,
            })
        });
        let events = self.events.iter().map(|event| {
            json!({
                "id": event.id,
                "run": event.run,
                "kind": event.kind,
                "payload": event.payload.as_deref().map(payload_document),
                "created_at": event.created_at,
            })
        });
        if let Some(fields) = document.as_object_mut() {
            fields.insert("runs".into(), runs.collect());
            fields.insert("events".into(), events.collect());
        }
        document
    }
}

/// A payload is JSON by Hermes' hand; what is not stays as the text it is.
fn payload_document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

fn or_dash(text: Option<&str>) -> String {
    text.unwrap_or("-").to_owned()
}

/// A time as people read it.
fn utc(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| seconds.to_string(), |time| time.to_string())
}
