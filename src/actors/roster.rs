//! The Roster: which slots are free, and which board may fill the next one.
//!
//! Receives [`SlotFree`], [`SlotTaken`] and [`WorkerSeen`] from the OrdinalActors, [`Want`] and [`Forget`] from the
//! Dispatchers; sends [`Granted`]. A slot is granted to one Dispatcher at a time, in turn across the boards that have
//! work, and only where the slot's worker was seen within one lease (a waiting poll counts). A [`Grant`] that is dropped
//! without an assignment returns the slot.
//!
//! It owns no truth: whether a slot is occupied is decided by the store when an assignment is added. After a restart the
//! OrdinalActors and Dispatchers say again what they know, at the latest with the next interval.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use actix::dev::MessageResponse;
use actix::{Actor, AsyncContext, Context, Handler, Message, Recipient};

use super::ordinals::Ordinals;
use super::presence::Presence;
use super::supervise::DownGuard;
use crate::clock::SharedClock;
use crate::domain::{BoardSlug, Ordinal, Timestamp};
use crate::faults::{Faults, Work};

/// Messages that may wait: a few from each of at most 10,000 slots.
const MAILBOX_LIMIT: usize = 65_536;

/// A slot has no live assignment.
#[derive(Message)]
#[rtype(result = "()")]
pub struct SlotFree(pub Ordinal, pub Arc<Presence>);

/// A slot has a live assignment.
#[derive(Message)]
#[rtype(result = "()")]
pub struct SlotTaken(pub Ordinal);

/// The worker of a free slot gave a sign after a silence.
#[derive(Message)]
#[rtype(result = "()")]
pub struct WorkerSeen(pub Ordinal);

/// A board has work for a slot. Said again, it changes nothing.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Want {
    /// The board.
    pub board: BoardSlug,
    /// Its Dispatcher.
    pub dispatcher: Recipient<Granted>,
}

/// A board has no more work.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Forget(pub BoardSlug);

/// Any free slot, whether its worker was seen or not: for a run that is claimed already.
#[derive(Message)]
#[rtype(result = "Taken")]
pub struct TakeAny;

/// What became of the wish for any slot.
#[derive(MessageResponse)]
pub enum Taken {
    /// This one.
    Slot(Grant),
    /// Every free slot is just being filled, and may come back unfilled; or a slot has not said yet whether it is free.
    NotYet,
    /// No slot is free.
    Full,
}

/// No more slots are granted.
#[derive(Message)]
#[rtype(result = "()")]
pub struct StopGranting;

/// It is a board's turn.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Granted(pub Grant);

#[derive(Message)]
#[rtype(result = "()")]
struct GrantEnded {
    ordinal: Ordinal,
    filled: bool,
}

/// The right to fill one slot. Dropped unused, it returns the slot.
pub struct Grant {
    ordinal: Ordinal,
    filled: bool,
    back: Recipient<GrantEnded>,
}

impl Grant {
    /// The slot.
    #[must_use]
    pub fn ordinal(&self) -> Ordinal {
        self.ordinal
    }

    /// The slot was filled: its OrdinalActor says when it is free again.
    pub fn filled(mut self) {
        self.filled = true;
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let ended = GrantEnded {
            ordinal: self.ordinal,
            filled: self.filled,
        };
        // Each grant has a sender of its own, which always has one place in the mailbox. If the Roster is gone, the one
        // that follows learns from the OrdinalActors which slots are free.
        let _ = self.back.try_send(ended);
    }
}

/// Whose turn it is: a decision over values.
#[derive(Default)]
struct Turns {
    free: BTreeMap<Ordinal, Arc<Presence>>,
    /// Slots that have said whether they are free.
    heard: BTreeSet<Ordinal>,
    granted: BTreeSet<Ordinal>,
    /// Boards with work, the next one first; each at most once.
    queue: VecDeque<BoardSlug>,
}

impl Turns {
    /// The slot for the next grant: one whose worker waits already, else the first whose worker is alive.
    fn slot(&self, now: Timestamp, lease_seconds: f64) -> Option<Ordinal> {
        let candidates = || {
            self.free
                .iter()
                .filter(|(ordinal, _)| !self.granted.contains(ordinal))
        };
        candidates()
            .find(|(_, presence)| presence.is_waiting())
            .or_else(|| candidates().find(|(_, presence)| presence.is_alive(now, lease_seconds)))
            .map(|(ordinal, _)| *ordinal)
    }

    /// Any free slot, the ones with a living worker first.
    fn any_slot(&self, now: Timestamp, lease_seconds: f64) -> Option<Ordinal> {
        self.slot(now, lease_seconds).or_else(|| {
            self.free
                .keys()
                .find(|ordinal| !self.granted.contains(ordinal))
                .copied()
        })
    }

    fn want(&mut self, board: BoardSlug) {
        if !self.queue.contains(&board) {
            self.queue.push_back(board);
        }
    }
}

/// Grants free slots to Dispatchers.
pub struct Roster {
    clock: SharedClock,
    lease_seconds: f64,
    turns: Turns,
    dispatchers: BTreeMap<BoardSlug, Recipient<Granted>>,
    back: Option<Recipient<GrantEnded>>,
    granting: bool,
    ordinals: Ordinals,
    faults: Faults,
    _guard: DownGuard,
}

impl Roster {
    /// A Roster that knows of no slot yet.
    #[must_use]
    pub fn new(
        clock: SharedClock,
        lease_seconds: f64,
        granting: bool,
        ordinals: Ordinals,
        faults: Faults,
        guard: DownGuard,
    ) -> Self {
        Self {
            clock,
            lease_seconds,
            turns: Turns::default(),
            dispatchers: BTreeMap::new(),
            back: None,
            granting,
            ordinals,
            faults,
            _guard: guard,
        }
    }

    fn pass_door(&self) {
        self.faults.begin(Work::Message, "roster", "");
    }

    fn grant(&mut self, ordinal: Ordinal) -> Option<Grant> {
        let back = self.back.clone()?;
        self.turns.granted.insert(ordinal);
        Some(Grant {
            ordinal,
            filled: false,
            back,
        })
    }

    /// Grants as long as there is a slot and a board that wants it.
    fn go_round(&mut self) {
        while self.granting && !self.turns.queue.is_empty() {
            let Some(ordinal) = self.turns.slot(self.clock.now(), self.lease_seconds) else {
                return;
            };
            let Some(board) = self.turns.queue.pop_front() else {
                return;
            };
            let Some(dispatcher) = self.dispatchers.remove(&board) else {
                continue;
            };
            let Some(grant) = self.grant(ordinal) else {
                return;
            };
            // A Dispatcher that is down drops its message, and with it the grant, which returns the slot.
            if dispatcher.try_send(Granted(grant)).is_err() {
                log::debug!("board={board} was granted a slot while its dispatcher was down");
            }
        }
    }
}

impl Actor for Roster {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        // Every slot may speak at once, at the start.
        ctx.set_mailbox_capacity(MAILBOX_LIMIT);
        self.back = Some(ctx.address().recipient());
        self.ordinals.refresh_all();
    }
}

impl Handler<SlotFree> for Roster {
    type Result = ();

    fn handle(&mut self, SlotFree(ordinal, presence): SlotFree, _: &mut Self::Context) {
        self.pass_door();
        let alive = presence.is_alive(self.clock.now(), self.lease_seconds);
        self.turns.heard.insert(ordinal);
        self.turns.free.insert(ordinal, presence);
        if alive {
            self.go_round();
        }
    }
}

impl Handler<SlotTaken> for Roster {
    type Result = ();

    fn handle(&mut self, SlotTaken(ordinal): SlotTaken, _: &mut Self::Context) {
        self.turns.heard.insert(ordinal);
        self.turns.free.remove(&ordinal);
        self.turns.granted.remove(&ordinal);
    }
}

impl Handler<WorkerSeen> for Roster {
    type Result = ();

    fn handle(&mut self, WorkerSeen(ordinal): WorkerSeen, _: &mut Self::Context) {
        self.pass_door();
        if self.turns.free.contains_key(&ordinal) {
            self.go_round();
        } else {
            // Taken, or its word got lost while one of the two was being built: it says so again.
            self.ordinals.refresh(ordinal);
        }
    }
}

impl Handler<Want> for Roster {
    type Result = ();

    fn handle(&mut self, Want { board, dispatcher }: Want, _: &mut Self::Context) {
        self.pass_door();
        self.dispatchers.insert(board.clone(), dispatcher);
        self.turns.want(board);
        self.go_round();
    }
}

impl Handler<Forget> for Roster {
    type Result = ();

    fn handle(&mut self, Forget(board): Forget, _: &mut Self::Context) {
        self.turns.queue.retain(|waiting| *waiting != board);
        self.dispatchers.remove(&board);
    }
}

impl Handler<TakeAny> for Roster {
    type Result = Taken;

    fn handle(&mut self, _: TakeAny, _: &mut Self::Context) -> Taken {
        self.pass_door();
        if self.turns.free.is_empty() {
            let slots = self.ordinals.all();
            let all_heard = slots
                .iter()
                .all(|(slot, _)| self.turns.heard.contains(slot));
            return if all_heard {
                Taken::Full
            } else {
                Taken::NotYet
            };
        }
        let slot = self.turns.any_slot(self.clock.now(), self.lease_seconds);
        slot.and_then(|ordinal| self.grant(ordinal))
            .map_or(Taken::NotYet, Taken::Slot)
    }
}

impl Handler<StopGranting> for Roster {
    type Result = ();

    fn handle(&mut self, _: StopGranting, _: &mut Self::Context) {
        self.granting = false;
    }
}

impl Handler<GrantEnded> for Roster {
    type Result = ();

    fn handle(&mut self, ended: GrantEnded, _: &mut Self::Context) {
        self.turns.granted.remove(&ended.ordinal);
        if ended.filled {
            self.turns.free.remove(&ended.ordinal);
        } else {
            self.go_round();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presence(last_seen: f64, waiting: bool) -> Arc<Presence> {
        let presence = Presence::default();
        presence.seen(Timestamp(last_seen));
        presence.set_waiting(waiting);
        Arc::new(presence)
    }

    #[test]
    fn a_slot_is_granted_only_where_a_worker_lives_and_first_where_it_waits() {
        let cases = [
            ("nobody was ever seen", vec![presence(0.0, false)], None),
            ("seen too long ago", vec![presence(909.0, false)], None),
            (
                "seen within one lease",
                vec![presence(100.0, false), presence(910.0, false)],
                Some(1),
            ),
            (
                "a waiting poll comes first",
                vec![presence(1000.0, false), presence(100.0, true)],
                Some(1),
            ),
        ];
        for (name, slots, wanted) in cases {
            let mut turns = Turns::default();
            for (n, presence) in (0..).zip(slots) {
                turns.free.insert(Ordinal(n), presence);
            }
            assert_eq!(
                turns.slot(Timestamp(1000.0), 90.0),
                wanted.map(Ordinal),
                "{name}"
            );
            assert!(turns.any_slot(Timestamp(1000.0), 90.0).is_some(), "{name}");
        }
    }

    #[test]
    fn a_granted_slot_is_not_granted_again_and_a_board_waits_once() {
        let mut turns = Turns::default();
        turns.free.insert(Ordinal(0), presence(1000.0, true));
        turns.granted.insert(Ordinal(0));
        assert_eq!(turns.slot(Timestamp(1000.0), 90.0), None);
        let board = BoardSlug::parse("lab").unwrap();
        turns.want(board.clone());
        turns.want(board);
        assert_eq!(turns.queue.len(), 1);
    }
}
