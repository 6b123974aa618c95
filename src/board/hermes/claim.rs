//! Claiming a task: the one transition from `ready` to `running`.

use rusqlite::{OptionalExtension, params};

use super::connection::Visit;
use super::events::{self, Payload};
use super::{row, run};
use crate::board::BoardError;

/// A claim that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewClaim {
    /// The new run's row.
    pub run: i64,
    /// Until when it stands, seconds since the epoch.
    pub expires_at: i64,
    /// The task's assignee, as it is stored.
    pub assignee: Option<String>,
}

/// Claims a task under `lock`; `None` if it cannot be had. A task with an open parent is sent back to `todo`, which
/// leaves an event at every attempt: only tasks listed as ready are worth trying.
pub(super) fn claim(
    visit: &Visit<'_>,
    task: &str,
    lock: &str,
    ttl_seconds: i64,
) -> Result<Option<NewClaim>, BoardError> {
    if has_open_parent(visit, task)? {
        visit
            .sql
            .prepare_cached("UPDATE tasks SET status = 'todo' WHERE id = ?1 AND status = 'ready'")?
            .execute([task])?;
        let payload = Payload::empty().with("reason", "parents_not_done");
        events::append(visit, task, None, "claim_rejected", &payload)?;
        return Ok(None);
    }
    close_leaked_run(visit, task)?;
    let expires_at = visit.now.saturating_add(ttl_seconds.max(1));
    let taken = visit
        .sql
        .prepare_cached(
            "UPDATE tasks SET status = 'running', claim_lock = ?2, claim_expires = ?3,
                    started_at = COALESCE(started_at, ?4)
              WHERE id = ?1 AND status = 'ready' AND claim_lock IS NULL",
        )?
        .execute(params![task, lock, expires_at, visit.now])?;
    if taken != 1 {
        return Ok(None);
    }
    let run = open_run(visit, task, lock, expires_at)?;
    let payload = Payload::empty()
        .with("lock", lock)
        .with("expires", expires_at)
        .with("run_id", run);
    events::append(visit, task, Some(run), "claimed", &payload)?;
    let assignee = visit
        .sql
        .prepare_cached("SELECT assignee FROM tasks WHERE id = ?1")?
        .query_row([task], |found| Ok(row::text(found, "assignee")))?;
    Ok(Some(NewClaim {
        run,
        expires_at,
        assignee,
    }))
}

/// Whether a parent of the task is neither done nor archived.
pub(super) fn has_open_parent(visit: &Visit<'_>, task: &str) -> Result<bool, BoardError> {
    if !visit.features.initialised {
        return Ok(false);
    }
    Ok(visit
        .sql
        .prepare_cached(
            "SELECT 1 FROM task_links AS link JOIN tasks AS parent ON parent.id = link.parent_id
              WHERE link.child_id = ?1 AND parent.status NOT IN ('done', 'archived') LIMIT 1",
        )?
        .exists([task])?)
}

/// Closes a run that somebody left open on a ready task, so that it is not stranded when the pointer moves on.
fn close_leaked_run(visit: &Visit<'_>, task: &str) -> Result<(), BoardError> {
    let leaked = visit
        .sql
        .prepare_cached("SELECT current_run_id FROM tasks WHERE id = ?1 AND status = 'ready'")?
        .query_row([task], |found| Ok(row::integer(found, "current_run_id")))
        .optional()?
        .flatten();
    if let Some(run) = leaked.filter(|run| *run != 0) {
        visit
            .sql
            .prepare_cached(
                "UPDATE task_runs SET status = 'reclaimed', outcome = 'reclaimed',
                        summary = COALESCE(summary, 'invariant recovery on re-claim'), ended_at = ?2,
                        claim_lock = NULL, claim_expires = NULL, worker_pid = NULL
                  WHERE id = ?1 AND ended_at IS NULL",
            )?
            .execute([run, visit.now])?;
    }
    Ok(())
}

/// Inserts the run of a task that was just taken and points the task at it.
fn open_run(visit: &Visit<'_>, task: &str, lock: &str, expires_at: i64) -> Result<i64, BoardError> {
    visit
        .sql
        .prepare_cached(
            "INSERT INTO task_runs (task_id, profile, step_key, status, claim_lock, claim_expires,
                                    max_runtime_seconds, started_at)
             SELECT id, assignee, current_step_key, 'running', ?2, ?3, max_runtime_seconds, ?4
               FROM tasks WHERE id = ?1",
        )?
        .execute(params![task, lock, expires_at, visit.now])?;
    let run = visit.sql.last_insert_rowid();
    visit
        .sql
        .prepare_cached("UPDATE tasks SET current_run_id = ?2 WHERE id = ?1")?
        .execute(params![task, run])?;
    debug_assert_eq!(run::current(visit, task).ok().flatten(), Some(run));
    Ok(run)
}
