//! Promotion: tasks whose parents are all done become ready.
//!
//! Hermes looks at the whole board after each completion, and so does this; it is idempotent.

use super::connection::Visit;
use super::events::{self, Payload};
use super::features::Generation;
use super::row;
use crate::board::BoardError;

/// The failure limit that Hermes applies here, whatever its dispatcher is configured to.
const FAILURE_LIMIT: i64 = 2;

struct Waiting {
    task: String,
    is_blocked: bool,
    failures: i64,
    failure_limit: i64,
}

/// Promotes every eligible task of the board.
pub(super) fn promote(visit: &Visit<'_>) -> Result<(), BoardError> {
    for waiting in waiting(visit)? {
        if is_eligible(visit, &waiting)? {
            let set = if waiting.is_blocked && visit.features.generation == Generation::V15 {
                "status = 'ready', consecutive_failures = 0, last_failure_error = NULL"
            } else {
                "status = 'ready'"
            };
            let promoted = visit
                .sql
                .prepare_cached(&format!("UPDATE tasks SET {set} WHERE id = ?1"))?
                .execute([&waiting.task])?;
            if promoted == 0 {
                // Its id is no text: it cannot be named, and an event under another name would be nobody's.
                continue;
            }
            events::append(visit, &waiting.task, None, "promoted", &Payload::empty())?;
        }
    }
    Ok(())
}

/// Forgets the failures of a task that has succeeded, or that somebody has looked at.
pub(super) fn clear_failures(visit: &Visit<'_>, task: &str) -> Result<(), BoardError> {
    visit
        .sql
        .prepare_cached(
            "UPDATE tasks SET consecutive_failures = 0, last_failure_error = NULL WHERE id = ?1",
        )?
        .execute([task])?;
    Ok(())
}

/// Tasks that may be promoted, in the order in which Hermes meets them: by its index on the status.
fn waiting(visit: &Visit<'_>) -> Result<Vec<Waiting>, BoardError> {
    let mut statement = visit.sql.prepare_cached(
        "SELECT id, status, consecutive_failures, max_retries FROM tasks
          WHERE status IN ('blocked', 'todo') ORDER BY status, rowid",
    )?;
    let rows = statement.query_map([], |found| {
        Ok(Waiting {
            task: row::text(found, "id").unwrap_or_default(),
            is_blocked: row::text(found, "status").as_deref() == Some("blocked"),
            failures: row::integer(found, "consecutive_failures").unwrap_or(0),
            failure_limit: row::integer(found, "max_retries").unwrap_or(FAILURE_LIMIT),
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn is_eligible(visit: &Visit<'_>, waiting: &Waiting) -> Result<bool, BoardError> {
    if waiting.is_blocked {
        let generation = visit.features.generation;
        let gave_up = generation >= Generation::V16 && waiting.failures >= waiting.failure_limit;
        if generation < Generation::V15 || gave_up || is_sticky(visit, &waiting.task)? {
            return Ok(false);
        }
    }
    Ok(!super::claim::has_open_parent(visit, &waiting.task)?)
}

/// Whether somebody blocked the task on purpose and nobody has unblocked it since.
fn is_sticky(visit: &Visit<'_>, task: &str) -> Result<bool, BoardError> {
    Ok(visit
        .sql
        .prepare_cached(
            "SELECT 1 FROM (SELECT kind FROM task_events WHERE task_id = ?1 AND kind IN ('blocked', 'unblocked')
                             ORDER BY id DESC LIMIT 1)
              WHERE kind = 'blocked'",
        )?
        .exists([task])?)
}
