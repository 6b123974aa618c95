//! The last completed runs of an assignee, without reading its whole history each time.
//!
//! Hermes scans all runs of the board for every brief. Here a lane's history is scanned once per connection; after that
//! only the completions among new events are looked at, so the cost follows live work. Only the ids of runs are kept:
//! what is shown is read afresh, and rows that were deleted are noticed.

use std::collections::HashMap;

use rusqlite::{OptionalExtension, params};

use super::connection::Visit;
use super::row;
use crate::board::BoardError;

/// Runs shown in a brief.
const SHOWN: usize = 5;
/// Runs kept of each assignee: more than are shown, since those of the task itself are left out.
const KEPT: usize = 32;
/// Assignees kept; there are as many as the pool has lanes.
const MAX_ASSIGNEES: usize = 64;

/// A completed run of another task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RecentRun {
    pub(super) task: String,
    pub(super) title: String,
    pub(super) summary: Option<String>,
    pub(super) ended_at: i64,
}

/// What is remembered of the assignees of one board.
#[derive(Debug, Default)]
pub(super) struct RecentWork {
    histories: HashMap<String, History>,
}

#[derive(Debug, Default)]
struct History {
    /// The newest event that was looked at.
    seen_event: i64,
    /// Ends and ids of runs, the latest first; equal ends in the order of their ids.
    runs: Vec<(i64, i64)>,
    /// Whether older runs exist that are not kept.
    is_cut: bool,
}

impl RecentWork {
    /// The last runs that `assignee` completed on other tasks than `task`, the latest first.
    pub(super) fn of(
        &mut self,
        visit: &Visit<'_>,
        assignee: &str,
        task: &str,
    ) -> Result<Vec<RecentRun>, BoardError> {
        let newest_event = newest_event(visit)?;
        if let Some(history) = self.histories.get_mut(assignee)
            && history.seen_event <= newest_event
        {
            history.update(visit, assignee, newest_event)?;
            let (shown, is_whole) = history.show(visit, assignee, task)?;
            if is_whole {
                return Ok(shown);
            }
        }
        if self.histories.len() >= MAX_ASSIGNEES {
            self.histories.clear();
        }
        let history = History::scan(visit, assignee, newest_event)?;
        let (shown, _) = history.show(visit, assignee, task)?;
        self.histories.insert(assignee.to_owned(), history);
        Ok(shown)
    }
}

impl History {
    /// Reads the whole history once.
    fn scan(visit: &Visit<'_>, assignee: &str, newest_event: i64) -> Result<Self, BoardError> {
        let mut statement = visit.sql.prepare_cached(
            "SELECT run.ended_at, run.id FROM task_runs AS run JOIN tasks AS task ON task.id = run.task_id
              WHERE run.profile = ?1 AND run.outcome = 'completed'
              ORDER BY run.ended_at DESC, run.id LIMIT ?2",
        )?;
        let mut history = Self {
            seen_event: newest_event,
            ..Self::default()
        };
        let limit = i64::try_from(KEPT + 1).unwrap_or(i64::MAX);
        let mut rows = statement.query(params![assignee, limit])?;
        while let Some(found) = rows.next()? {
            let ended_at = row::integer(found, "ended_at").unwrap_or(0);
            history
                .runs
                .extend(row::integer(found, "id").map(|run| (ended_at, run)));
        }
        history.cut();
        Ok(history)
    }

    /// Adds what was completed since the last look.
    fn update(
        &mut self,
        visit: &Visit<'_>,
        assignee: &str,
        newest_event: i64,
    ) -> Result<(), BoardError> {
        let mut statement = visit.sql.prepare_cached(
            "SELECT run.ended_at, run.id FROM task_events AS event CROSS JOIN task_runs AS run ON run.id = event.run_id
              WHERE event.id > ?1 AND event.kind = 'completed' AND run.profile = ?2 AND run.outcome = 'completed'",
        )?;
        let mut rows = statement.query(params![self.seen_event, assignee])?;
        while let Some(found) = rows.next()? {
            if let Some(run) = row::integer(found, "id")
                && !self.runs.iter().any(|(_, known)| *known == run)
            {
                self.runs
                    .push((row::integer(found, "ended_at").unwrap_or(0), run));
            }
        }
        self.seen_event = newest_event;
        self.runs.sort_by_key(|(ended_at, run)| (-ended_at, *run));
        self.cut();
        Ok(())
    }

    fn cut(&mut self) {
        self.is_cut |= self.runs.len() > KEPT;
        self.runs.truncate(KEPT);
    }

    /// The runs to show, and whether they are certainly all there are to show.
    fn show(
        &self,
        visit: &Visit<'_>,
        assignee: &str,
        task: &str,
    ) -> Result<(Vec<RecentRun>, bool), BoardError> {
        let mut statement = visit.sql.prepare_cached(
            "SELECT task.id, task.title, run.summary, run.ended_at
               FROM task_runs AS run JOIN tasks AS task ON task.id = run.task_id
              WHERE run.id = ?1 AND run.profile = ?2 AND run.outcome = 'completed'",
        )?;
        let mut shown = Vec::with_capacity(SHOWN);
        for (_, run) in &self.runs {
            let read = statement.query_row(params![run, assignee], |found| {
                Ok(RecentRun {
                    task: row::text(found, "id").unwrap_or_default(),
                    title: row::text(found, "title").unwrap_or_default(),
                    summary: row::text(found, "summary"),
                    ended_at: row::integer(found, "ended_at").unwrap_or(0),
                })
            });
            shown.extend(read.optional()?.filter(|other| other.task != task));
            if shown.len() == SHOWN {
                return Ok((shown, true));
            }
        }
        Ok((shown, !self.is_cut))
    }
}

fn newest_event(visit: &Visit<'_>) -> Result<i64, BoardError> {
    Ok(visit
        .sql
        .prepare_cached("SELECT COALESCE(MAX(id), 0) FROM task_events")?
        .query_row([], |found| found.get(0))?)
}
