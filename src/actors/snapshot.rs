//! One look at the whole pool, for operators.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering as Atomic;

use super::directory::BoardActors;
use super::ledger::{Deferral, Item};
use super::metrics::Gauges;
use super::pool::Pool;
use super::presence::Presence;
use super::view::{
    AssignmentCounts, BoardState, BoardView, DeferralView, PoolSnapshot, PoolView, SlotState,
    SlotView,
};
use crate::domain::{Ordinal, StateName, Timestamp};
use crate::store::{Record, StoreError};

impl Pool {
    /// One look at the whole pool.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub async fn snapshot(&self) -> Result<PoolSnapshot, StoreError> {
        let (live, unreadable, counts) = self
            .readers()
            .read(|reader| {
                let live = reader.live()?;
                let unreadable = if live.iter().all(Result::is_ok) {
                    BTreeSet::new()
                } else {
                    reader.unreadable_slots()?
                };
                Ok((live, unreadable, reader.counts()?))
            })
            .await?;
        let live: BTreeMap<Ordinal, Record> = live
            .into_iter()
            .flatten()
            .map(|record| (record.assignment.binding().ordinal, record))
            .collect();
        let reasons = self.reasons();
        Ok(PoolSnapshot {
            pool: PoolView {
                id: self.settings().id.as_str().to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                slots: self.settings().slots,
                ready: reasons.is_empty(),
                draining: self.is_draining(),
                reasons,
                started_at: self.started_at().0,
                now: self.clock().now().0,
                restarts: self.restarts(),
            },
            slots: self.slot_views(&live, &unreadable),
            boards: self.directory().all().iter().map(board_view).collect(),
            deferrals: self
                .ledger()
                .entries()
                .into_iter()
                .map(deferral_view)
                .collect(),
            counts: count_states(&counts),
        })
    }

    fn slot_views(
        &self,
        live: &BTreeMap<Ordinal, Record>,
        unreadable: &BTreeSet<Ordinal>,
    ) -> Vec<SlotView> {
        let (now, lease_seconds) = (self.clock().now(), self.settings().policy.lease_seconds());
        let view = |(ordinal, slot): (Ordinal, super::OrdinalHandle)| {
            let record = live.get(&ordinal);
            let binding = record.map(|record| record.assignment.binding());
            let presence = slot.presence();
            SlotView {
                ordinal: ordinal.0,
                state: if record.is_none() && unreadable.contains(&ordinal) {
                    SlotState::Unreadable
                } else {
                    slot_state(record, presence, now, lease_seconds)
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
        let Ok(snapshot) = self.snapshot().await else {
            return Gauges {
                deferrals: self.ledger().len() as u64,
                ready: self.reasons().is_empty(),
                ..Gauges::default()
            };
        };
        let counts = snapshot.counts;
        Gauges {
            assignments: vec![
                ("assigned", counts.assigned),
                ("running", counts.running),
                ("result", counts.result),
                ("lease_failed", counts.lease_failed),
                ("finalized", counts.finalized),
                ("stale", counts.stale),
            ],
            slots: tally(snapshot.slots.iter().map(|slot| slot.state.as_str())),
            boards: tally(snapshot.boards.iter().map(|board| board.state.as_str())),
            deferrals: snapshot.deferrals.len() as u64,
            ready: snapshot.pool.ready,
        }
    }
}

fn tally(names: impl Iterator<Item = &'static str>) -> Vec<(&'static str, u64)> {
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// Counts by state; a state that is none is reported where its row is read.
fn count_states(counts: &[(String, i64)]) -> AssignmentCounts {
    let of = |state: StateName| {
        let count = counts
            .iter()
            .find(|(name, _)| name == state.as_str())
            .map_or(0, |(_, count)| *count);
        u64::try_from(count).unwrap_or_default()
    };
    AssignmentCounts {
        assigned: of(StateName::Assigned),
        running: of(StateName::Running),
        result: of(StateName::Result),
        lease_failed: of(StateName::LeaseFailed),
        finalized: of(StateName::Finalized),
        stale: of(StateName::Stale),
    }
}

fn slot_state(
    record: Option<&Record>,
    presence: &Presence,
    now: Timestamp,
    lease_seconds: f64,
) -> SlotState {
    match record.map(|record| record.assignment.state()) {
        Some(StateName::Running) => SlotState::Running,
        Some(StateName::Result) => SlotState::Result,
        Some(_) => SlotState::Assigned,
        None if presence.is_waiting() => SlotState::Waiting,
        None if presence.is_alive(now, lease_seconds) => SlotState::Idle,
        None => SlotState::Absent,
    }
}

fn board_view(board: &BoardActors) -> BoardView {
    let status = board.parts.status().clone();
    let open = board.parts.open.load(Atomic::Relaxed);
    BoardView {
        slug: board.parts.slug.as_str().to_owned(),
        state: match (&status.problem, open, &status.unclear) {
            (Some(problem), _, _) => problem.state,
            (None, true, _) => BoardState::Ok,
            (None, false, None) => BoardState::Closed,
            (None, false, Some(_)) => BoardState::Unreadable,
        },
        reason: status
            .problem
            .map(|problem| problem.reason)
            .or(status.unclear),
        last_pass: status.last_pass.map(|at| at.0),
        ready: status.ready as u64,
        restarts: board.reconciler.restarts() + board.dispatcher.restarts(),
    }
}

fn deferral_view((item, entry): (Item, Deferral)) -> DeferralView {
    DeferralView {
        scope: item.scope.to_string(),
        what: item.what.to_owned(),
        why: entry.why,
        since: entry.since.0,
        times: entry.times,
        next_try: entry.next_try.map(|at| at.0),
    }
}
