//! Cards and their attempts, as far as a worker is told of them.

use rusqlite::{OptionalExtension, Row};

use super::connection::Visit;
use super::{row, text};
use crate::board::BoardError;
use crate::protocol::Json;

/// Closed runs that a worker is told of.
const ATTEMPTS: usize = 10;

/// A task, as far as its worker is told of it.
pub(super) struct Card {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) body: Option<String>,
    pub(super) assignee: Option<String>,
    pub(super) status: String,
    pub(super) priority: i64,
    pub(super) tenant: Option<String>,
    pub(super) workspace_kind: String,
    pub(super) workspace_path: Option<String>,
    pub(super) branch: Option<String>,
    pub(super) max_runtime_seconds: Option<i64>,
    pub(super) skills: Vec<String>,
    pub(super) model_override: Option<String>,
    pub(super) result: Option<String>,
    pub(super) completed_at: Option<i64>,
}

/// A closed run, as far as a worker is told of it.
pub(super) struct Attempt {
    pub(super) profile: Option<String>,
    pub(super) status: String,
    pub(super) outcome: Option<String>,
    pub(super) started_at: i64,
    pub(super) ended_at: Option<i64>,
    pub(super) summary: Option<String>,
    pub(super) error: Option<String>,
    pub(super) metadata: Option<Json>,
}

/// The card of a task.
pub(super) fn find(visit: &Visit<'_>, task: &str) -> Result<Option<Card>, BoardError> {
    let read = |found: &Row<'_>| {
        Ok(Card {
            id: row::text(found, "id").unwrap_or_default(),
            title: row::text(found, "title").unwrap_or_default(),
            body: row::text(found, "body"),
            assignee: row::text(found, "assignee"),
            status: row::text(found, "status").unwrap_or_default(),
            priority: row::integer(found, "priority").unwrap_or(0),
            tenant: row::text(found, "tenant"),
            workspace_kind: row::text(found, "workspace_kind").unwrap_or_default(),
            workspace_path: row::text(found, "workspace_path"),
            branch: row::text(found, "branch_name"),
            max_runtime_seconds: row::integer(found, "max_runtime_seconds"),
            skills: skills(row::text(found, "skills").as_deref()),
            model_override: row::text(found, "model_override").filter(|model| !model.is_empty()),
            result: row::text(found, "result"),
            completed_at: row::integer(found, "completed_at"),
        })
    };
    Ok(visit
        .sql
        .prepare_cached("SELECT * FROM tasks WHERE id = ?1")?
        .query_row([task], read)
        .optional()?)
}

fn skills(stored: Option<&str>) -> Vec<String> {
    text::parse(stored)
        .as_ref()
        .and_then(Json::as_array)
        .unwrap_or_default()
        .iter()
        .filter_map(Json::as_str)
        .filter(|skill| !skill.is_empty())
        .map(str::to_owned)
        .collect()
}

fn attempt(found: &Row<'_>) -> Attempt {
    Attempt {
        profile: row::text(found, "profile"),
        status: row::text(found, "status").unwrap_or_default(),
        outcome: row::text(found, "outcome"),
        started_at: row::integer(found, "started_at").unwrap_or(0),
        ended_at: row::integer(found, "ended_at"),
        summary: row::text(found, "summary"),
        error: row::text(found, "error"),
        metadata: text::parse(row::text(found, "metadata").as_deref()).filter(says_something),
    }
}

/// Whether a value is worth a line: Hermes leaves out what its language takes for false.
fn says_something(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(false) => false,
        Json::Bool(true) => true,
        Json::Int(_) => value.as_i64() != Some(0),
        Json::Float(number) => *number != 0.0,
        Json::String(text) => !text.as_bytes().is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(members) => !members.is_empty(),
    }
}

/// How many closed runs a task has, and the last few of them in the order in which they began.
pub(super) fn closed_runs(
    visit: &Visit<'_>,
    task: &str,
) -> Result<(usize, Vec<Attempt>), BoardError> {
    let total: i64 = visit
        .sql
        .prepare_cached(
            "SELECT COUNT(*) FROM task_runs WHERE task_id = ?1 AND ended_at IS NOT NULL",
        )?
        .query_row([task], |found| found.get(0))?;
    let mut statement = visit.sql.prepare_cached(
        "SELECT * FROM task_runs WHERE task_id = ?1 AND ended_at IS NOT NULL
          ORDER BY started_at DESC, id DESC LIMIT ?2",
    )?;
    let limit = i64::try_from(ATTEMPTS).unwrap_or(i64::MAX);
    let rows = statement.query_map((task, limit), |found| Ok(attempt(found)))?;
    let mut shown = rows.collect::<Result<Vec<_>, _>>()?;
    shown.reverse();
    Ok((usize::try_from(total).unwrap_or(0).max(shown.len()), shown))
}

/// The completed run that began last.
pub(super) fn latest_completed_run(
    visit: &Visit<'_>,
    task: &str,
) -> Result<Option<Attempt>, BoardError> {
    Ok(visit
        .sql
        .prepare_cached(
            "SELECT * FROM task_runs WHERE task_id = ?1 AND outcome = 'completed' ORDER BY started_at DESC, id LIMIT 1",
        )?
        .query_row([task], |found| Ok(attempt(found)))
        .optional()?)
}

/// The ids of a task's parents, in their order.
pub(super) fn parent_ids(visit: &Visit<'_>, task: &str) -> Result<Vec<String>, BoardError> {
    let mut statement = visit.sql.prepare_cached(
        "SELECT parent_id FROM task_links WHERE child_id = ?1 ORDER BY parent_id",
    )?;
    let rows = statement.query_map([task], |found| Ok(row::text(found, "parent_id")))?;
    Ok(rows
        .collect::<Result<Vec<_>, _>>()?
        .into_iter()
        .flatten()
        .collect())
}
