//! Blocking a task, and where that puts it.
//!
//! From 0.18.0 a block has a kind, and the kind decides: waiting for another task goes to `todo`; anything else goes to
//! `blocked` for a person, but the second time for the same kind to `triage`, of which nobody is notified.

use rusqlite::{OptionalExtension, params};

use super::connection::Visit;
use super::events::{self, Payload};
use super::features::Generation;
use super::row;
use super::run::{self, Closing};
use crate::board::BoardError;
use crate::domain::Landing;
use crate::protocol::BlockKind;

/// The block of the same kind that sends a task to triage.
const RECURRENCE_LIMIT: i64 = 2;

/// Where a block goes and what it leaves.
struct Route {
    landing: Landing,
    event: &'static str,
    /// The task's new count; `None` where it stays.
    recurrences: Option<i64>,
    payload: Payload,
}

/// Blocks a task; `None` if `expected_run` is not its current run or it cannot be blocked.
pub(super) fn block(
    visit: &Visit<'_>,
    task: &str,
    expected_run: Option<i64>,
    kind: Option<BlockKind>,
    reason: Option<&str>,
) -> Result<Option<Landing>, BoardError> {
    let Some(route) = route(visit, task, kind, reason)? else {
        return Ok(None);
    };
    if !move_task(visit, task, expected_run, kind, &route)? {
        return Ok(None);
    }
    let closing = Closing {
        status: "blocked",
        outcome: "blocked",
        summary: reason,
        ..Closing::default()
    };
    let mut run = run::close(visit, task, &closing)?;
    if run.is_none() && reason.is_some_and(|reason| !reason.is_empty()) {
        run = Some(run::insert_closed(visit, task, &closing)?);
    }
    events::append(visit, task, run, route.event, &route.payload)?;
    Ok(Some(route.landing))
}

fn route(
    visit: &Visit<'_>,
    task: &str,
    kind: Option<BlockKind>,
    reason: Option<&str>,
) -> Result<Option<Route>, BoardError> {
    if visit.features.generation < Generation::V18 {
        return Ok(Some(Route {
            landing: Landing::Blocked,
            event: "blocked",
            recurrences: None,
            payload: Payload::empty().with("reason", reason),
        }));
    }
    let earlier = visit
        .sql
        .prepare_cached("SELECT block_kind, block_recurrences FROM tasks WHERE id = ?1")?
        .query_row([task], |found| {
            Ok((
                row::text(found, "block_kind"),
                row::integer(found, "block_recurrences").unwrap_or(0),
            ))
        })
        .optional()?;
    Ok(earlier.map(|(earlier_kind, count)| {
        let is_same = earlier_kind.as_deref() == kind.map(BlockKind::as_str);
        decide(
            kind,
            if is_same { count.saturating_add(1) } else { 1 },
            reason,
        )
    }))
}

/// Where a block of this kind goes, the `recurrences`-th in a row.
fn decide(kind: Option<BlockKind>, recurrences: i64, reason: Option<&str>) -> Route {
    let payload = Payload::empty()
        .with("reason", reason)
        .with("kind", kind.map(BlockKind::as_str));
    if kind == Some(BlockKind::Dependency) {
        return Route {
            landing: Landing::Todo,
            event: "dependency_wait",
            recurrences: None,
            payload,
        };
    }
    let payload = payload.with("recurrences", recurrences);
    if recurrences < RECURRENCE_LIMIT {
        Route {
            landing: Landing::Blocked,
            event: "blocked",
            recurrences: Some(recurrences),
            payload,
        }
    } else {
        Route {
            landing: Landing::Triage,
            event: "block_loop_detected",
            recurrences: Some(recurrences),
            payload: payload.with("limit", RECURRENCE_LIMIT),
        }
    }
}

/// Moves the task to where the block puts it and remembers the kind, for the next block to compare with.
fn move_task(
    visit: &Visit<'_>,
    task: &str,
    expected_run: Option<i64>,
    kind: Option<BlockKind>,
    route: &Route,
) -> Result<bool, BoardError> {
    let moved = visit
        .sql
        .prepare_cached(
            "UPDATE tasks SET status = ?2, claim_lock = NULL, claim_expires = NULL, worker_pid = NULL
              WHERE id = ?1 AND status IN ('running', 'ready') AND (?3 IS NULL OR current_run_id = ?3)",
        )?
        .execute(params![task, route.landing.as_str(), expected_run])?;
    if moved == 1 && visit.features.generation >= Generation::V18 {
        visit
            .sql
            .prepare_cached(
                "UPDATE tasks SET block_kind = ?2, block_recurrences = COALESCE(?3, block_recurrences) WHERE id = ?1",
            )?
            .execute(params![task, kind.map(BlockKind::as_str), route.recurrences])?;
    }
    Ok(moved == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_and_the_count_decide_where_a_block_goes() {
        use BlockKind as Kind;
        for (kind, count, landing, event) in [
            (Some(Kind::Capability), 1, Landing::Blocked, "blocked"),
            (
                Some(Kind::Capability),
                2,
                Landing::Triage,
                "block_loop_detected",
            ),
            (
                Some(Kind::Transient),
                7,
                Landing::Triage,
                "block_loop_detected",
            ),
            (None, 1, Landing::Blocked, "blocked"),
            (Some(Kind::Dependency), 9, Landing::Todo, "dependency_wait"),
        ] {
            let route = decide(kind, count, None);
            assert_eq!(
                (route.landing, route.event),
                (landing, event),
                "{kind:?} {count}"
            );
        }
    }
}
