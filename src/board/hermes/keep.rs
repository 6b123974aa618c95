//! Keeping a claim: extending it, and telling that its worker lives.
//!
//! The two are different columns and different things. A run whose claim is extended every minute but which never records
//! a heartbeat is taken away after four hours, whoever holds it.

use rusqlite::params;

use super::connection::Visit;
use super::events::{self, Payload};
use super::run;
use crate::board::BoardError;

/// Moves the end of a claim to `now + ttl_seconds`; `false` if the lock is not the task's (any more). A claim that has
/// expired but was not taken back is extended too.
pub(super) fn extend(
    visit: &Visit<'_>,
    task: &str,
    lock: &str,
    ttl_seconds: i64,
) -> Result<bool, BoardError> {
    let expires_at = visit.now.saturating_add(ttl_seconds.max(1));
    let extended = visit
        .sql
        .prepare_cached(
            "UPDATE tasks SET claim_expires = ?3 WHERE id = ?1 AND status = 'running' AND claim_lock = ?2",
        )?
        .execute(params![task, lock, expires_at])?;
    if extended != 1 {
        return Ok(false);
    }
    if let Some(run) = run::current(visit, task)? {
        visit
            .sql
            .prepare_cached("UPDATE task_runs SET claim_expires = ?2 WHERE id = ?1")?
            .execute([run, expires_at])?;
    }
    Ok(true)
}

/// Records a sign of life; `false` if the run is not current. Without `expected_run` it is the current run's, whichever
/// that is.
pub(super) fn heartbeat(
    visit: &Visit<'_>,
    task: &str,
    expected_run: Option<i64>,
    note: Option<&str>,
) -> Result<bool, BoardError> {
    let touched = visit
        .sql
        .prepare_cached(
            "UPDATE tasks SET last_heartbeat_at = ?2
              WHERE id = ?1 AND status = 'running' AND (?3 IS NULL OR current_run_id = ?3)",
        )?
        .execute(params![task, visit.now, expected_run])?;
    if touched != 1 {
        return Ok(false);
    }
    let run = match expected_run {
        Some(run) => Some(run),
        None => run::current(visit, task)?,
    };
    if let Some(run) = run {
        visit
            .sql
            .prepare_cached("UPDATE task_runs SET last_heartbeat_at = ?2 WHERE id = ?1")?
            .execute([run, visit.now])?;
    }
    let payload = match note.filter(|note| !note.is_empty()) {
        Some(note) => Payload::empty().with("note", note),
        None => Payload::empty(),
    };
    events::append(visit, task, run, "heartbeat", &payload)?;
    Ok(true)
}
