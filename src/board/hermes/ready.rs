//! What waits for the pool's lanes, in the order in which Hermes would take it, and what is left alone.
//!
//! Children of open parents are listed like any other ready task: the one attempt to claim them sends them back to `todo`,
//! as Hermes' own would, and they are not listed again until they are promoted.

use std::ops::ControlFlow;

use rusqlite::{OptionalExtension, Row, params};

use super::connection::Visit;
use super::features::Generation;
use super::{row, text};
use crate::board::{BoardError, Listing, ReadyTask, Refusal};
use crate::domain::{Lane, TaskId};

/// How long a task rests after its worker met a quota.
const QUOTA_REST_SECONDS: i64 = 300;
/// How long a task rests after a completion, unless somebody put it back on purpose.
const SUCCESS_REST_SECONDS: i64 = 3600;
/// Characters of an id that a refusal repeats: as many as a valid one can have.
const SHOWN_ID_CHARACTERS: usize = 128;
/// Refusals reported at a time: whoever reads them needs no more.
const MAX_REFUSALS: usize = 100;

/// A ready task, as it stands on the board.
#[derive(Clone, Debug, PartialEq)]
pub struct Waiting {
    /// Its id.
    pub id: String,
    /// Its assignee, as it is stored.
    pub assignee: Option<String>,
    /// Its priority.
    pub priority: Option<i64>,
    /// When it was made, seconds since the epoch.
    pub created_at: Option<i64>,
    /// Whether a judge decides when it is done.
    pub is_goal: bool,
    /// A claim lock that was left over.
    pub lock: Option<String>,
    /// Why it should rest.
    pub guard: Option<Guard>,
}

/// Why a ready task should rest for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The rule.
    pub rule: GuardRule,
    /// When the rest is over, seconds since the epoch.
    pub until: i64,
}

/// The rules of rest that this pool honours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardRule {
    /// Its last worker met a quota a moment ago.
    RateLimitCooldown,
    /// It was completed a moment ago and nobody put it back on purpose.
    RecentSuccess,
}

impl GuardRule {
    /// Hermes' name of the rule.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RateLimitCooldown => "rate_limit_cooldown",
            Self::RecentSuccess => "recent_success",
        }
    }
}

/// Shows `each` the ready tasks of these lanes (of all, if `None`), first things first, until it breaks off.
pub(super) fn for_each(
    visit: &Visit<'_>,
    lanes: Option<&[Lane]>,
    mut each: impl FnMut(Waiting) -> ControlFlow<()>,
) -> Result<(), BoardError> {
    if !visit.features.initialised {
        return Ok(());
    }
    let mut statement = visit.sql.prepare_cached(&format!(
        "{} WHERE status = 'ready' ORDER BY priority DESC, created_at ASC, rowid ASC",
        select(visit)
    ))?;
    let mut rows = statement.query([])?;
    while let Some(found) = rows.next()? {
        let mut waiting = decode(found);
        if lanes.is_some_and(|lanes| !is_of(lanes, waiting.assignee.as_deref())) {
            continue;
        }
        waiting.guard = guard(visit, &waiting.id)?;
        if each(waiting).is_break() {
            break;
        }
    }
    Ok(())
}

/// The task, if it is ready.
pub(super) fn one(visit: &Visit<'_>, task: &str) -> Result<Option<Waiting>, BoardError> {
    if !visit.features.initialised {
        return Ok(None);
    }
    let found = visit
        .sql
        .prepare_cached(&format!(
            "{} WHERE id = ?1 AND status = 'ready'",
            select(visit)
        ))?
        .query_row([task], |found| Ok(decode(found)))
        .optional()?;
    let Some(mut waiting) = found else {
        return Ok(None);
    };
    waiting.guard = guard(visit, task)?;
    Ok(Some(waiting))
}

/// What waits for these lanes, at most `limit` tasks that can be claimed. `unreleased` tells why nothing may be claimed.
pub(super) fn list(
    visit: &Visit<'_>,
    lanes: &[Lane],
    limit: usize,
    unreleased: Option<&str>,
    is_profile: impl Fn(&str) -> bool,
) -> Result<Listing, BoardError> {
    let mut listing = Listing::default();
    for_each(visit, Some(lanes), |waiting| {
        match judge(&waiting, unreleased, &is_profile) {
            Ok(ready) => listing.ready.push(ready),
            Err(refusal) if listing.refused.len() < MAX_REFUSALS => listing.refused.push(refusal),
            Err(_) => {}
        }
        if listing.ready.len() < limit {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    Ok(listing)
}

/// Whether a ready task may be taken.
pub(super) fn judge(
    waiting: &Waiting,
    unreleased: Option<&str>,
    is_profile: impl Fn(&str) -> bool,
) -> Result<ReadyTask, Refusal> {
    let refuse = |why: String, until| {
        Err(Refusal {
            task: text::cut(&waiting.id, SHOWN_ID_CHARACTERS).to_owned(),
            why,
            until,
        })
    };
    let lane = text::normalised(waiting.assignee.as_deref().unwrap_or_default());
    let (task, lane) = match (TaskId::parse(&waiting.id), Lane::parse(&lane)) {
        (Ok(task), Ok(lane)) => (task, lane),
        (Err(invalid), _) | (_, Err(invalid)) => return refuse(invalid.to_string(), None),
    };
    if let Some(lock) = &waiting.lock {
        return refuse(format!("a claim lock was left over on it: {lock}"), None);
    }
    if waiting.is_goal {
        return refuse(
            "it is in goal mode, which only Hermes' own workers keep".to_owned(),
            None,
        );
    }
    if is_profile(lane.as_str()) {
        return refuse(
            format!("{lane} is a profile of Hermes, which runs it itself"),
            None,
        );
    }
    if let Some(why) = unreleased {
        return refuse(why.to_owned(), None);
    }
    match waiting.guard {
        Some(guard) => refuse(
            format!("it rests ({})", guard.rule.as_str()),
            Some(guard.until),
        ),
        None => Ok(ReadyTask { task, lane }),
    }
}

fn is_of(lanes: &[Lane], assignee: Option<&str>) -> bool {
    let assignee = text::normalised(assignee.unwrap_or_default());
    lanes.iter().any(|lane| lane.as_str() == assignee)
}

/// The columns that decide. They are named, since sorting whole rows would drag their bodies along.
fn select(visit: &Visit<'_>) -> &'static str {
    if visit.features.generation >= Generation::V16 {
        "SELECT id, assignee, priority, created_at, claim_lock, goal_mode, rowid AS number FROM tasks"
    } else {
        "SELECT id, assignee, priority, created_at, claim_lock, 0 AS goal_mode, rowid AS number FROM tasks"
    }
}

fn decode(found: &Row<'_>) -> Waiting {
    Waiting {
        id: row::name(found, "id", "number"),
        assignee: row::text(found, "assignee"),
        priority: row::integer(found, "priority"),
        created_at: row::integer(found, "created_at"),
        is_goal: row::truth(found, "goal_mode"),
        lock: row::anything(found, "claim_lock"),
        guard: None,
    }
}

/// Why a task should rest. An end that is no number is none: SQLite sorts texts behind all numbers, so that a garbled end
/// would count as the latest for ever.
fn guard(visit: &Visit<'_>, task: &str) -> Result<Option<Guard>, BoardError> {
    let latest = visit
        .sql
        .prepare_cached(
            "SELECT outcome, ended_at FROM task_runs WHERE task_id = ?1 AND typeof(ended_at) = 'integer'
              ORDER BY ended_at DESC, started_at, id LIMIT 1",
        )?
        .query_row([task], |found| {
            Ok((row::text(found, "outcome"), row::integer(found, "ended_at")))
        })
        .optional()?;
    if let Some((Some(outcome), ended_at)) = &latest
        && outcome == "rate_limited"
    {
        let until = ended_at.unwrap_or(0).saturating_add(QUOTA_REST_SECONDS);
        return Ok((visit.now < until).then_some(Guard {
            rule: GuardRule::RateLimitCooldown,
            until,
        }));
    }
    let since = visit.now.saturating_sub(SUCCESS_REST_SECONDS);
    let completed_at = visit
        .sql
        .prepare_cached(
            "SELECT ended_at FROM task_runs WHERE task_id = ?1 AND outcome = 'completed'
                AND ended_at >= ?2 AND typeof(ended_at) = 'integer'
              ORDER BY ended_at DESC LIMIT 1",
        )?
        .query_row(params![task, since], |found| {
            Ok(row::integer(found, "ended_at"))
        })
        .optional()?;
    let Some(completed_at) = completed_at.map(|end| end.unwrap_or(0)) else {
        return Ok(None);
    };
    let was_put_back = visit
        .sql
        .prepare_cached(
            "SELECT 1 FROM task_events WHERE task_id = ?1 AND created_at >= ?2
                AND kind IN ('status', 'promoted', 'unblocked', 'reclaimed') LIMIT 1",
        )?
        .exists(params![task, completed_at])?;
    Ok((!was_put_back).then_some(Guard {
        rule: GuardRule::RecentSuccess,
        until: completed_at.saturating_add(SUCCESS_REST_SECONDS + 1),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting() -> Waiting {
        Waiting {
            id: "t_00000001".to_owned(),
            assignee: Some(" Codex-CLI".to_owned()),
            priority: Some(1),
            created_at: Some(1),
            is_goal: false,
            lock: None,
            guard: None,
        }
    }

    #[test]
    fn a_task_is_left_alone_for_a_reason_that_names_it() {
        type Change = fn(&mut Waiting);
        let cases: [(Change, &str, Option<i64>); 6] = [
            (|w| w.id = "t 1".to_owned(), "no valid task id", None),
            (|w| w.assignee = None, "no valid lane", None),
            (|w| w.lock = Some("host:1".to_owned()), "left over", None),
            (|w| w.is_goal = true, "goal mode", None),
            (|w| w.assignee = Some("writer".to_owned()), "profile", None),
            (
                |w| {
                    w.guard = Some(Guard {
                        rule: GuardRule::RecentSuccess,
                        until: 9,
                    });
                },
                "rests",
                Some(9),
            ),
        ];
        for (change, why, until) in cases {
            let mut task = waiting();
            change(&mut task);
            let refusal = judge(&task, None, |lane| lane == "writer").unwrap_err();
            assert!(refusal.why.contains(why), "{}", refusal.why);
            assert_eq!(refusal.until, until, "{why}");
        }
        let ready = judge(&waiting(), None, |_| false).unwrap();
        assert_eq!(ready.lane.as_str(), "codex-cli");
        assert!(judge(&waiting(), Some("a later schema"), |_| false).is_err());
    }
}
