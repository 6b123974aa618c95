//! Runs that failed, met a quota or ran out of time, booked as Hermes books its own workers.
//!
//! Hermes writes these in two transactions, the run's end and the count. Here they are one, so that a crash cannot lose
//! the count.

use rusqlite::{OptionalExtension, params};

use super::connection::Visit;
use super::events::{self, Payload};
use super::run::{self, Closing};
use super::{row, text};
use crate::board::BoardError;
use crate::protocol::Json;

/// Characters of an error that are kept on the task and in events.
const ERROR_CHARACTERS: usize = 500;
/// The exit code by which a worker of Hermes tells that it met a quota.
const QUOTA_EXIT_CODE: i64 = 75;

/// The exact run to book, and the lock under which it was claimed.
#[derive(Clone, Copy)]
pub(super) struct Held<'a> {
    /// The task.
    pub(super) task: &'a str,
    /// Its run.
    pub(super) run: i64,
    /// The lock of its claim.
    pub(super) lock: &'a str,
}

/// Books a worker that crashed: counted, and given up at the limit. `false` if the run is not current.
pub(super) fn crash(
    visit: &Visit<'_>,
    held: Held<'_>,
    reason: &str,
    failure_limit: i64,
) -> Result<bool, BoardError> {
    let worker = Payload::empty()
        .with("pid", Json::Null)
        .with("claimer", held.lock);
    if !give_back(visit, held, "crashed", reason, &worker, "")? {
        return Ok(false);
    }
    count(visit, held.task, "crashed", reason, failure_limit, &worker)?;
    Ok(true)
}

/// Books a worker that met a quota: never counted. `false` if the run is not current.
pub(super) fn meet_quota(
    visit: &Visit<'_>,
    held: Held<'_>,
    reason: &str,
) -> Result<bool, BoardError> {
    let worker = Payload::empty()
        .with("pid", Json::Null)
        .with("claimer", held.lock)
        .with("exit_code", QUOTA_EXIT_CODE);
    if !give_back(visit, held, "rate_limited", reason, &worker, "")? {
        return Ok(false);
    }
    visit
        .sql
        .prepare_cached("UPDATE tasks SET last_failure_error = ?2 WHERE id = ?1")?
        .execute([held.task, text::cut(reason, ERROR_CHARACTERS)])?;
    Ok(true)
}

/// Books a run that took longer than its task allows: counted. `false` if the run is not current.
pub(super) fn time_out(
    visit: &Visit<'_>,
    held: Held<'_>,
    elapsed_seconds: i64,
    limit_seconds: i64,
    failure_limit: i64,
) -> Result<bool, BoardError> {
    let error = format!("elapsed {elapsed_seconds}s > limit {limit_seconds}s");
    let details = Payload::empty()
        .with("pid", Json::Null)
        .with("elapsed_seconds", elapsed_seconds)
        .with("limit_seconds", limit_seconds)
        .with("sigkill", false);
    let forget_heartbeat = ", last_heartbeat_at = NULL";
    if !give_back(visit, held, "timed_out", &error, &details, forget_heartbeat)? {
        return Ok(false);
    }
    let worker = Payload::empty()
        .with("pid", Json::Null)
        .with("sigkill", false);
    count(
        visit,
        held.task,
        "timed_out",
        &error,
        failure_limit,
        &worker,
    )?;
    Ok(true)
}

/// Returns the task to `ready` and closes its run; outcome and event have the same name.
fn give_back(
    visit: &Visit<'_>,
    held: Held<'_>,
    outcome: &'static str,
    error: &str,
    payload: &Payload,
    also_set: &'static str,
) -> Result<bool, BoardError> {
    let returned = visit
        .sql
        .prepare_cached(&format!(
            "UPDATE tasks SET status = 'ready', claim_lock = NULL, claim_expires = NULL, worker_pid = NULL{also_set}
              WHERE id = ?1 AND status = 'running' AND current_run_id = ?2 AND claim_lock = ?3",
        ))?
        .execute(params![held.task, held.run, held.lock])?;
    if returned != 1 {
        return Ok(false);
    }
    let metadata = payload.to_text()?;
    let closing = Closing {
        status: outcome,
        outcome,
        error: Some(error),
        metadata: metadata.as_deref(),
        ..Closing::default()
    };
    let run = run::close(visit, held.task, &closing)?;
    events::append(visit, held.task, run, outcome, payload)?;
    Ok(true)
}

/// Counts a failure of a task that was just given back, and gives it up at its limit.
fn count(
    visit: &Visit<'_>,
    task: &str,
    trigger: &'static str,
    error: &str,
    failure_limit: i64,
    worker: &Payload,
) -> Result<(), BoardError> {
    let counted = visit
        .sql
        .prepare_cached("SELECT consecutive_failures, max_retries FROM tasks WHERE id = ?1")?
        .query_row([task], |found| {
            Ok((
                row::integer(found, "consecutive_failures").unwrap_or(0),
                row::integer(found, "max_retries"),
            ))
        })
        .optional()?;
    let Some((earlier, own_limit)) = counted else {
        return Ok(());
    };
    let failures = earlier.saturating_add(1);
    let limit = own_limit.unwrap_or(failure_limit);
    let error = text::cut(error, ERROR_CHARACTERS);
    let gives_up = failures >= limit;
    visit
        .sql
        .prepare_cached(
            "UPDATE tasks SET consecutive_failures = ?2, last_failure_error = ?3,
                    status = CASE WHEN ?4 THEN 'blocked' ELSE status END
              WHERE id = ?1",
        )?
        .execute(params![task, failures, error, gives_up])?;
    if gives_up {
        let source = if own_limit.is_some() {
            "task"
        } else {
            "dispatcher"
        };
        let payload = Payload::empty()
            .with("failures", failures)
            .with("effective_limit", limit)
            .with("limit_source", source)
            .with("error", error)
            .with("trigger_outcome", trigger)
            .and(worker);
        events::append(visit, task, None, "gave_up", &payload)?;
    }
    Ok(())
}
