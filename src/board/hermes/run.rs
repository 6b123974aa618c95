//! The rows of attempts: opening, closing, and the one that never was open.
//!
//! Invariant: a task is `running` exactly when `current_run_id` names its open run. Closing a run and clearing that pointer
//! happen together; no run is ever opened again.

use rusqlite::{OptionalExtension, params};

use super::connection::Visit;
use crate::board::BoardError;

/// How a run is closed.
#[derive(Clone, Copy, Default)]
pub(super) struct Closing<'a> {
    /// Status of the row.
    pub(super) status: &'a str,
    /// Its outcome.
    pub(super) outcome: &'a str,
    /// What was achieved, for people.
    pub(super) summary: Option<&'a str>,
    /// What went wrong, for people.
    pub(super) error: Option<&'a str>,
    /// Everything else, as JSON text.
    pub(super) metadata: Option<&'a str>,
}

/// The run that a task's pointer names; Hermes takes 0 for none.
pub(super) fn current(visit: &Visit<'_>, task: &str) -> Result<Option<i64>, BoardError> {
    let pointer = visit
        .sql
        .prepare_cached("SELECT current_run_id FROM tasks WHERE id = ?1")?
        .query_row([task], |row| Ok(super::row::integer(row, "current_run_id")))
        .optional()?;
    Ok(pointer.flatten().filter(|run| *run != 0))
}

/// Closes the task's current run and clears the pointer; `None` if there was none.
pub(super) fn close(
    visit: &Visit<'_>,
    task: &str,
    closing: &Closing<'_>,
) -> Result<Option<i64>, BoardError> {
    let Some(run) = current(visit, task)? else {
        return Ok(None);
    };
    visit
        .sql
        .prepare_cached(
            "UPDATE task_runs SET status = ?1, outcome = ?2, summary = ?3, error = ?4, metadata = ?5, ended_at = ?6,
                    claim_lock = NULL, claim_expires = NULL, worker_pid = NULL
              WHERE id = ?7 AND ended_at IS NULL",
        )?
        .execute(params![
            closing.status,
            closing.outcome,
            closing.summary,
            closing.error,
            closing.metadata,
            visit.now,
            run
        ])?;
    visit
        .sql
        .prepare_cached("UPDATE tasks SET current_run_id = NULL WHERE id = ?1")?
        .execute([task])?;
    Ok(Some(run))
}

/// Inserts a run that is closed already, for a task that was never claimed and yet leaves something to keep.
pub(super) fn insert_closed(
    visit: &Visit<'_>,
    task: &str,
    closing: &Closing<'_>,
) -> Result<i64, BoardError> {
    visit
        .sql
        .prepare_cached(
            "INSERT INTO task_runs (task_id, profile, step_key, status, outcome, summary, error, metadata, started_at, ended_at)
             SELECT id, assignee, current_step_key, ?2, ?2, ?3, ?4, ?5, ?6, ?6 FROM tasks WHERE id = ?1",
        )?
        .execute(params![
            task,
            closing.outcome,
            closing.summary,
            closing.error,
            closing.metadata,
            visit.now
        ])?;
    Ok(visit.sql.last_insert_rowid())
}
