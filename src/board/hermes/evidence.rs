//! What became of a run: everything is read in one transaction, then decided without the board.
//!
//! Only an ended run, a current one and a provably deleted task are certain. A board that cannot be read is an error and
//! never gets here; an UPDATE that touched no row is only a reason to look.
//!
//! Nor is a value evidence that Hermes never writes: a status that is none, a pointer to a run that was never there, an end
//! without an outcome. Where the fate rests on one ([`Cell`]), it is an error of that row, with the column and what stands
//! in it, until the row is mended.

use rusqlite::{OptionalExtension, Row};

use super::cell::Cell;
use super::connection::Visit;
use super::{row, text};
use crate::board::{BoardError, PoolClaim, mark};
use crate::domain::{Anchor, ClaimLock, EndedRun, Fate, Landing, Outcome};

/// Every status that Hermes gives a task but that of one that is running.
const STATUSES: [&str; 8] = [
    "triage",
    "todo",
    "scheduled",
    "ready",
    "blocked",
    "review",
    "done",
    "archived",
];

/// What a board shows of a task and one of its runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// Whether it is a board at all; if not, nothing else is filled.
    pub is_board: bool,
    /// Whether a run of this number was ever issued.
    pub was_issued: bool,
    /// Last numbers given out, and the oldest task.
    pub anchor: Anchor,
    /// The row of the run.
    pub run: Option<RunRow>,
    /// The row of the task.
    pub task: Option<TaskRow>,
    /// Whether the recorded anchor's oldest task is still the same.
    pub anchor_task_stands: bool,
}

/// A run, as far as evidence needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunRow {
    /// The task it belongs to.
    pub task: Cell<String>,
    /// Status of the row.
    pub status: Option<String>,
    /// How it ended.
    pub outcome: Cell<String>,
    /// When it was closed, seconds since the epoch.
    pub ended_at: Cell<i64>,
    /// When it began, seconds since the epoch.
    pub started_at: Option<i64>,
    /// The summary that was left.
    pub summary: Option<String>,
    /// The error that was left.
    pub error: Option<String>,
    /// The pool's mark in its metadata.
    pub mark: Option<String>,
    /// The lock that its metadata or its event names as the one it was ended under.
    pub by_lock: Option<String>,
    /// Locks of its `claimed` events.
    pub claimed_locks: Vec<String>,
    /// Where its own event says that a block put the task.
    pub landing: Option<Landing>,
}

/// A task, as far as evidence needs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskRow {
    /// Its status.
    pub status: Cell<String>,
    /// The run it points at.
    pub current_run: Cell<i64>,
    /// The lock it is held under.
    pub lock: Cell<String>,
    /// Until when.
    pub claim_expires_at: Option<i64>,
    /// Its limit of time for one run.
    pub max_runtime_seconds: Option<i64>,
}

/// Looks at a task and its run. `recorded` is the anchor of the claim, where it is known.
pub(super) fn observe(
    visit: &Visit<'_>,
    task: &str,
    run: i64,
    recorded: Option<&Anchor>,
) -> Result<Observation, BoardError> {
    if !visit.features.initialised {
        return Ok(Observation::default());
    }
    let anchor = anchor(visit)?;
    Ok(Observation {
        is_board: true,
        was_issued: anchor.run_sequence >= run,
        run: run_row(visit, run)?,
        task: task_row(visit, task)?,
        anchor_task_stands: match recorded.and_then(|recorded| recorded.oldest_task.as_ref()) {
            Some((id, created_at)) => visit
                .sql
                .prepare_cached("SELECT 1 FROM tasks WHERE id = ?1 AND created_at = ?2")?
                .exists((id, created_at))?,
            None => true,
        },
        anchor,
    })
}

/// What makes the board recognisable.
pub(super) fn anchor(visit: &Visit<'_>) -> Result<Anchor, BoardError> {
    if !visit.features.initialised {
        return Ok(Anchor::default());
    }
    let sequence = |table: &str| -> Result<i64, BoardError> {
        let last = visit
            .sql
            .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = ?1")?
            .query_row([table], |found| Ok(row::integer(found, "seq")))
            .optional()?;
        Ok(last.flatten().unwrap_or(0))
    };
    let oldest_task = visit
        .sql
        .prepare_cached("SELECT id, created_at FROM tasks ORDER BY rowid LIMIT 1")?
        .query_row([], |found| {
            Ok(row::text(found, "id").zip(row::integer(found, "created_at")))
        })
        .optional()?;
    Ok(Anchor {
        run_sequence: sequence("task_runs")?,
        event_sequence: sequence("task_events")?,
        oldest_task: oldest_task.flatten(),
    })
}

/// The locks that a run's own `claimed` events name.
pub(super) fn claimed_locks(visit: &Visit<'_>, run: i64) -> Result<Vec<String>, BoardError> {
    if !visit.features.initialised {
        return Ok(Vec::new());
    }
    let mut statement = visit.sql.prepare_cached(
        "SELECT payload FROM task_events WHERE run_id = ?1 AND kind = 'claimed' ORDER BY id",
    )?;
    let payloads = statement.query_map([run], |found| Ok(row::text(found, "payload")))?;
    let mut locks = Vec::new();
    for payload in payloads {
        locks.extend(member(payload?.as_deref(), "lock"));
    }
    Ok(locks)
}

/// Every running task whose lock begins with `prefix`.
pub(super) fn claims_with(visit: &Visit<'_>, prefix: &str) -> Result<Vec<PoolClaim>, BoardError> {
    if !visit.features.initialised {
        return Ok(Vec::new());
    }
    // A schema that may not be written to may lack the columns, too: that is what is wrong with it, not the reading.
    visit.features.writable()?;
    let mut statement = visit.sql.prepare_cached(
        "SELECT id, claim_lock FROM tasks WHERE status = 'running' AND substr(claim_lock, 1, length(?1)) = ?1",
    )?;
    let claims = statement.query_map([prefix], |found| {
        Ok(row::text(found, "id").zip(row::text(found, "claim_lock")))
    })?;
    let mut known = Vec::new();
    for claim in claims {
        known.extend(claim?.map(|(task, lock)| PoolClaim {
            task,
            lock: ClaimLock::recorded(&lock),
        }));
    }
    Ok(known)
}

/// The run of a task whose own `claimed` event names this lock.
pub(super) fn claimed_run(
    visit: &Visit<'_>,
    task: &str,
    lock: &str,
) -> Result<Option<i64>, BoardError> {
    if !visit.features.initialised {
        return Ok(None);
    }
    let mut statement = visit.sql.prepare_cached(
        "SELECT run_id, payload FROM task_events WHERE task_id = ?1 AND kind = 'claimed' ORDER BY id DESC",
    )?;
    let mut claims = statement.query([task])?;
    while let Some(claim) = claims.next()? {
        if member(row::text(claim, "payload").as_deref(), "lock").as_deref() == Some(lock) {
            return Ok(row::integer(claim, "run_id"));
        }
    }
    Ok(None)
}

fn task_row(visit: &Visit<'_>, task: &str) -> Result<Option<TaskRow>, BoardError> {
    let read = |found: &Row<'_>| {
        Ok(TaskRow {
            status: row::text_cell(found, "status"),
            current_run: row::integer_cell(found, "current_run_id"),
            lock: row::text_cell(found, "claim_lock"),
            claim_expires_at: row::integer(found, "claim_expires"),
            max_runtime_seconds: row::integer(found, "max_runtime_seconds"),
        })
    };
    Ok(visit
        .sql
        .prepare_cached(
            "SELECT status, current_run_id, claim_lock, claim_expires, max_runtime_seconds FROM tasks WHERE id = ?1",
        )?
        .query_row([task], read)
        .optional()?)
}

fn run_row(visit: &Visit<'_>, run: i64) -> Result<Option<RunRow>, BoardError> {
    let read = |found: &Row<'_>| {
        let metadata = text::parse(row::text(found, "metadata").as_deref());
        let metadata = metadata.as_ref();
        Ok(RunRow {
            task: row::text_cell(found, "task_id"),
            status: row::text(found, "status"),
            outcome: row::text_cell(found, "outcome"),
            ended_at: row::integer_cell(found, "ended_at"),
            started_at: row::integer(found, "started_at"),
            summary: row::text(found, "summary"),
            error: row::text(found, "error"),
            mark: metadata.and_then(mark::find),
            by_lock: metadata
                .and_then(|metadata| metadata.get("claimer")?.as_str())
                .map(str::to_owned),
            ..RunRow::default()
        })
    };
    let found = visit
        .sql
        .prepare_cached("SELECT * FROM task_runs WHERE id = ?1")?
        .query_row([run], read)
        .optional()?;
    let Some(mut found) = found else {
        return Ok(None);
    };
    found.claimed_locks = claimed_locks(visit, run)?;
    let mut statement = visit.sql.prepare_cached(
        "SELECT kind, payload FROM task_events WHERE run_id = ?1 AND kind IN
                ('reclaimed', 'blocked', 'dependency_wait', 'block_loop_detected') ORDER BY id",
    )?;
    let mut endings = statement.query([run])?;
    while let Some(ending) = endings.next()? {
        match row::text(ending, "kind").as_deref() {
            Some("reclaimed") => {
                found.by_lock = member(row::text(ending, "payload").as_deref(), "prev_lock");
            }
            Some("blocked") => found.landing = Some(Landing::Blocked),
            Some("dependency_wait") => found.landing = Some(Landing::Todo),
            Some("block_loop_detected") => found.landing = Some(Landing::Triage),
            _ => {}
        }
    }
    Ok(Some(found))
}

/// A text member of a payload.
fn member(payload: Option<&str>, key: &str) -> Option<String> {
    Some(text::parse(payload)?.get(key)?.as_str()?.to_owned())
}

impl Observation {
    /// What the observation means for the run of `task` that was claimed under `lock` when the board showed `recorded`.
    ///
    /// # Errors
    /// [`BoardError::BadRow`] where it rests on a value that cannot be understood.
    pub fn fate(
        &self,
        task: &str,
        run: i64,
        lock: Option<&ClaimLock>,
        recorded: Option<&Anchor>,
        now: i64,
    ) -> Result<Fate, BoardError> {
        let bad_row = |why| BoardError::BadRow {
            task: task.to_owned(),
            why,
        };
        let replaced = |why: &str| {
            Ok(Fate::BoardReplaced {
                why: why.to_owned(),
            })
        };
        if !self.is_board {
            return replaced("tables missing");
        }
        // A counter that was spoilt does not outweigh the run itself with our own claim.
        let claimed_by_us = self.claimed_by(lock);
        if !self.was_issued && claimed_by_us != Some(true) {
            return replaced("run id was never issued here");
        }
        let Some(found) = &self.run else {
            return match &self.task {
                Some(_) => Ok(Fate::RunGone),
                None if self.is_same_board(recorded) => Ok(Fate::TaskGone),
                None => replaced(
                    "neither task nor run is there, and nothing proves that it is the same board",
                ),
            };
        };
        match found.task.known("task_runs.task_id").map_err(bad_row)? {
            Some(owner) if owner == task => {}
            Some(owner) if !owner.is_empty() => return replaced("run belongs to another task"),
            _ => return Err(bad_row(found.task.told("task_runs.task_id"))),
        }
        if claimed_by_us == Some(false) {
            return replaced("claimed under another lock");
        }
        if found.ended_at != Cell::Nothing {
            let ending = self.ending(found, claimed_by_us).map_err(bad_row)?;
            return Ok(Fate::Ended(ending));
        }
        self.open_run(run, lock, found, now).map_err(bad_row)
    }

    /// Whether the run's own record names this lock; `None` where one of the two is not known.
    fn claimed_by(&self, lock: Option<&ClaimLock>) -> Option<bool> {
        let claims = &self.run.as_ref()?.claimed_locks;
        let lock = lock.filter(|_| !claims.is_empty())?;
        Some(claims.iter().any(|known| known == lock.as_str()))
    }

    /// Whether a board without our rows is still the one that was claimed on.
    fn is_same_board(&self, recorded: Option<&Anchor>) -> bool {
        recorded.is_some_and(|recorded| {
            self.anchor.run_sequence >= recorded.run_sequence
                && self.anchor.event_sequence >= recorded.event_sequence
                && self.anchor_task_stands
        })
    }

    /// How a run with an end has ended. An end that cannot be understood is one only with an outcome that Hermes knows.
    fn ending(&self, found: &RunRow, claimed_by_us: Option<bool>) -> Result<EndedRun, String> {
        let outcome = match found.outcome.known("task_runs.outcome")? {
            Some(outcome) if !outcome.is_empty() => Outcome::parse(outcome),
            _ => {
                return Err(format!(
                    "{}: the run has no outcome",
                    found.ended_at.told("task_runs.ended_at")
                ));
            }
        };
        if matches!(outcome, Outcome::Other(_)) {
            found.ended_at.known("task_runs.ended_at")?;
        }
        let task_status = self.task.as_ref().and_then(|task| task.status.value());
        Ok(EndedRun {
            outcome,
            summary: found.summary.clone(),
            error: found.error.clone(),
            mark: found.mark.clone(),
            by_lock: found.by_lock.as_deref().map(ClaimLock::recorded),
            claimed_by_us,
            landing: found.landing,
            task_status: task_status.cloned(),
        })
    }

    fn open_run(
        &self,
        run: i64,
        lock: Option<&ClaimLock>,
        found: &RunRow,
        now: i64,
    ) -> Result<Fate, String> {
        let superseded = |why: String| Ok(Fate::Superseded { why });
        let Some(task) = &self.task else {
            return superseded("its task is not there".to_owned());
        };
        match task.status.known("tasks.status")? {
            Some(status) if status == "running" => {}
            Some(status) if STATUSES.contains(&status.as_str()) => {
                return superseded(format!("the task is {status}"));
            }
            _ => return Err(task.status.told("tasks.status")),
        }
        match task.current_run.known("tasks.current_run_id")? {
            Some(current) if *current == run => {}
            Some(other) if (1..=self.anchor.run_sequence).contains(other) => {
                return superseded(format!("the task is running, its run is {other}"));
            }
            _ => return Err(task.current_run.told("tasks.current_run_id")),
        }
        if let Some(lock) = lock {
            match task.lock.known("tasks.claim_lock")? {
                Some(held) if held == lock.as_str() => {}
                Some(held) if !held.is_empty() => {
                    return superseded("the run is held under another lock".to_owned());
                }
                _ => return Err(task.lock.told("tasks.claim_lock")),
            }
        }
        Ok(Fate::Current {
            expired: task.claim_expires_at.is_some_and(|end| end < now),
            started_at: found.started_at.unwrap_or(now),
            max_runtime_seconds: task.max_runtime_seconds,
        })
    }
}
