//! One look at the whole pool, for operators.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering as Atomic;

use serde::Serialize;

use super::boards::BoardActors;
use super::ledger::{Deferral, Item};
use super::metrics::Gauges;
use super::pool::Pool;
use crate::domain::{Ordinal, StateName};
use crate::store::{Record, StoreError};

/// The pool at one moment. Times are seconds since the epoch.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the names of the operator API say what each field is"
)]
pub struct Snapshot {
    pub pool: PoolView,
    pub slots: Vec<SlotView>,
    pub boards: Vec<BoardView>,
    pub deferrals: Vec<DeferralView>,
    /// Assignments by state, those that are over included.
    pub counts: BTreeMap<String, i64>,
}

/// The pool itself.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the names of the operator API say what each field is"
)]
pub struct PoolView {
    pub id: String,
    pub version: &'static str,
    pub slots: u16,
    pub ready: bool,
    pub draining: bool,
    pub reasons: Vec<String>,
    pub started_at: f64,
    pub now: f64,
}

/// One slot.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the names of the operator API say what each field is"
)]
pub struct SlotView {
    pub ordinal: u16,
    /// `assigned`, `running`, `result`, or without a run `waiting`, `idle` (seen within one lease) or `absent`.
    pub state: &'static str,
    pub board: Option<String>,
    pub task: Option<String>,
    pub run: Option<String>,
    pub attempt: Option<i64>,
    pub lease_until: Option<f64>,
    pub last_seen: Option<f64>,
    pub restarts: u64,
}

/// One board.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the names of the operator API say what each field is"
)]
pub struct BoardView {
    pub slug: String,
    /// `ok`, `gone`, `unreadable`, `read_only`, or `closed` when no new work is claimed there.
    pub state: &'static str,
    pub reason: Option<String>,
    pub last_pass: Option<f64>,
    pub ready: usize,
    pub restarts: u64,
}

/// One piece of work that is put off.
#[derive(Clone, Debug, Serialize)]
#[expect(
    missing_docs,
    reason = "the names of the operator API say what each field is"
)]
pub struct DeferralView {
    pub scope: String,
    pub what: &'static str,
    pub why: String,
    pub since: f64,
    pub times: u64,
    pub next_try: Option<f64>,
}

impl Pool {
    /// One look at the whole pool.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let (live, counts) = self
            .readers()
            .read(|reader| Ok((reader.live()?, reader.counts()?)))
            .await?;
        let live: BTreeMap<Ordinal, Record> = live
            .into_iter()
            .flatten()
            .map(|record| (record.assignment.binding().ordinal, record))
            .collect();
        let reasons = self.reasons();
        Ok(Snapshot {
            pool: PoolView {
                id: self.settings().id.as_str().to_owned(),
                version: env!("CARGO_PKG_VERSION"),
                slots: self.settings().slots,
                ready: reasons.is_empty(),
                draining: self.is_draining(),
                reasons,
                started_at: self.started_at().0,
                now: self.clock().now().0,
            },
            slots: self.slot_views(&live),
            boards: self.directory().all().iter().map(board_view).collect(),
            deferrals: self
                .ledger()
                .entries()
                .into_iter()
                .map(deferral_view)
                .collect(),
            counts: counts.into_iter().collect(),
        })
    }

    fn slot_views(&self, live: &BTreeMap<Ordinal, Record>) -> Vec<SlotView> {
        let (now, lease_seconds) = (self.clock().now(), self.settings().policy.lease_seconds());
        let view = |(ordinal, slot): (Ordinal, super::OrdinalHandle)| {
            let record = live.get(&ordinal);
            let binding = record.map(|record| record.assignment.binding());
            let presence = slot.presence();
            SlotView {
                ordinal: ordinal.0,
                state: match record {
                    Some(record) => record.assignment.state().as_str(),
                    None if presence.is_waiting() => "waiting",
                    None if presence.is_alive(now, lease_seconds) => "idle",
                    None => "absent",
                },
                board: binding.map(|binding| binding.key.board.as_str().to_owned()),
                task: binding.map(|binding| binding.key.task.as_str().to_owned()),
                run: binding.map(|binding| binding.key.run.as_str().to_owned()),
                attempt: binding.map(|binding| binding.attempt.0),
                lease_until: record
                    .map(|record| record.lease_until.0)
                    .filter(|until| *until > 0.0),
                last_seen: presence.last_seen().map(|seen| seen.0),
                restarts: slot.link().restarts(),
            }
        };
        self.ordinals().all().into_iter().map(view).collect()
    }

    /// What is true at the moment, as numbers.
    pub async fn gauges(&self) -> Gauges {
        let snapshot = self.snapshot().await.ok();
        let tally = |names: Vec<&'static str>| {
            let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
            for name in names {
                *counts.entry(name).or_default() += 1;
            }
            counts.into_iter().collect::<Vec<_>>()
        };
        let Some(snapshot) = snapshot else {
            return Gauges {
                deferrals: self.ledger().len() as u64,
                ..Gauges::default()
            };
        };
        let assignments = StateName::ALL.map(|state| {
            let count = snapshot
                .counts
                .get(state.as_str())
                .copied()
                .unwrap_or_default();
            (state.as_str(), u64::try_from(count).unwrap_or_default())
        });
        Gauges {
            assignments: assignments.to_vec(),
            slots: tally(snapshot.slots.iter().map(|slot| slot.state).collect()),
            boards: tally(snapshot.boards.iter().map(|board| board.state).collect()),
            deferrals: snapshot.deferrals.len() as u64,
            ready: snapshot.pool.ready,
        }
    }
}

fn board_view(board: &BoardActors) -> BoardView {
    let status = board.parts.status().clone();
    let open = board.parts.open.load(Atomic::Relaxed);
    BoardView {
        slug: board.parts.slug.as_str().to_owned(),
        state: status
            .problem
            .as_ref()
            .map_or(if open { "ok" } else { "closed" }, |problem| problem.state),
        reason: status.problem.map(|problem| problem.reason),
        last_pass: status.last_pass.map(|at| at.0),
        ready: status.ready,
        restarts: board.reconciler.restarts() + board.dispatcher.restarts(),
    }
}

fn deferral_view((item, entry): (Item, Deferral)) -> DeferralView {
    DeferralView {
        scope: item.scope,
        what: item.what,
        why: entry.why,
        since: entry.since.0,
        times: entry.times,
        next_try: entry.next_try.map(|at| at.0),
    }
}
