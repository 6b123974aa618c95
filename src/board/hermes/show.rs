//! Looking at a board, for people.

use super::connection::Visit;
use super::row;
use crate::board::BoardError;

/// A task, as a list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskLine {
    /// Its id.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Its status.
    pub status: String,
    /// Who should do it.
    pub assignee: Option<String>,
    /// Higher comes first.
    pub priority: i64,
    /// The run that works on it.
    pub current_run: Option<i64>,
}

/// A run of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLine {
    /// Its number.
    pub id: i64,
    /// How it ended, or its status while it has not.
    pub outcome: String,
    /// When it began, seconds since the epoch.
    pub started_at: i64,
    /// When it ended.
    pub ended_at: Option<i64>,
    /// What was achieved.
    pub summary: Option<String>,
    /// What went wrong.
    pub error: Option<String>,
}

/// An event of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventLine {
    /// Its number.
    pub id: i64,
    /// The run it belongs to.
    pub run: Option<i64>,
    /// Its kind.
    pub kind: String,
    /// Its content as JSON text.
    pub payload: Option<String>,
    /// When it happened, seconds since the epoch.
    pub created_at: i64,
}

/// All tasks that are not archived, in the order in which Hermes lists them.
pub(super) fn tasks(visit: &Visit<'_>) -> Result<Vec<TaskLine>, BoardError> {
    if !visit.features.initialised {
        return Ok(Vec::new());
    }
    let mut statement = visit.sql.prepare_cached(
        "SELECT id, title, status, assignee, priority, current_run_id FROM tasks
          WHERE status <> 'archived' ORDER BY priority DESC, created_at, rowid",
    )?;
    let rows = statement.query_map([], |found| {
        Ok(TaskLine {
            id: row::text(found, "id").unwrap_or_default(),
            title: row::text(found, "title").unwrap_or_default(),
            status: row::text(found, "status").unwrap_or_default(),
            assignee: row::text(found, "assignee"),
            priority: row::integer(found, "priority").unwrap_or(0),
            current_run: row::integer(found, "current_run_id"),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The runs of a task in the order in which they began.
pub(super) fn runs(visit: &Visit<'_>, task: &str) -> Result<Vec<RunLine>, BoardError> {
    let mut statement = visit.sql.prepare_cached(
        "SELECT id, COALESCE(outcome, status) AS outcome, started_at, ended_at, summary, error
           FROM task_runs WHERE task_id = ?1 ORDER BY started_at, id",
    )?;
    let rows = statement.query_map([task], |found| {
        Ok(RunLine {
            id: row::integer(found, "id").unwrap_or(0),
            outcome: row::text(found, "outcome").unwrap_or_default(),
            started_at: row::integer(found, "started_at").unwrap_or(0),
            ended_at: row::integer(found, "ended_at"),
            summary: row::text(found, "summary"),
            error: row::text(found, "error"),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The events of a task in the order in which they happened.
pub(super) fn events(visit: &Visit<'_>, task: &str) -> Result<Vec<EventLine>, BoardError> {
    let mut statement = visit.sql.prepare_cached(
        "SELECT id, run_id, kind, payload, created_at FROM task_events WHERE task_id = ?1 ORDER BY created_at, id",
    )?;
    let rows = statement.query_map([task], |found| {
        Ok(EventLine {
            id: row::integer(found, "id").unwrap_or(0),
            run: row::integer(found, "run_id"),
            kind: row::text(found, "kind").unwrap_or_default(),
            payload: row::text(found, "payload"),
            created_at: row::integer(found, "created_at").unwrap_or(0),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
