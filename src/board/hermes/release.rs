//! Giving a run back without counting a failure, as an operator's reclaim does it.

use rusqlite::{OptionalExtension, params};

use super::connection::Visit;
use super::events::{self, Payload};
use super::row;
use super::run::{self, Closing};
use crate::board::BoardError;

/// Gives back what is held under `lock`; `false` if the task is not held under it (any more).
pub(super) fn release(
    visit: &Visit<'_>,
    task: &str,
    lock: &str,
    reason: Option<&str>,
) -> Result<bool, BoardError> {
    let worker = visit
        .sql
        .prepare_cached("SELECT worker_pid FROM tasks WHERE id = ?1 AND claim_lock = ?2")?
        .query_row([task, lock], |found| Ok(row::integer(found, "worker_pid")))
        .optional()?;
    let Some(pid) = worker else {
        return Ok(false);
    };
    let released = visit
        .sql
        .prepare_cached(
            "UPDATE tasks SET status = 'ready', claim_lock = NULL, claim_expires = NULL, worker_pid = NULL
              WHERE id = ?1 AND status IN ('running', 'ready', 'blocked') AND claim_lock = ?2",
        )?
        .execute(params![task, lock])?;
    if released != 1 {
        return Ok(false);
    }
    let reason = reason.filter(|reason| !reason.is_empty());
    let error = match reason {
        Some(reason) => format!("manual_reclaim: {reason}"),
        None => format!("manual_reclaim lock={lock}"),
    };
    let termination = termination(pid);
    let metadata = termination.to_text()?;
    let closing = Closing {
        status: "reclaimed",
        outcome: "reclaimed",
        error: Some(&error),
        metadata: metadata.as_deref(),
        ..Closing::default()
    };
    let run = run::close(visit, task, &closing)?;
    let payload = Payload::empty()
        .with("manual", true)
        .with("reason", reason)
        .with("prev_lock", lock)
        .and(&termination);
    events::append(visit, task, run, "reclaimed", &payload)?;
    Ok(true)
}

/// What Hermes notes on ending the worker's process. The pool's workers are no processes of this host: nothing is ended.
fn termination(pid: Option<i64>) -> Payload {
    Payload::empty()
        .with("prev_pid", pid)
        .with("host_local", false)
        .with("termination_attempted", false)
        .with("terminated", false)
        .with("sigkill", false)
}
