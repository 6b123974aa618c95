//! Turns: when a slot takes up each of its messages.
//!
//! A worker has one or two messages in flight. One that has gone bad may have many, up to what the door lets pass, and it is
//! never refused for those; but whatever it sends has to be verified, committed and signed on the same processors as
//! everybody else's. So a slot has one operation in the store at a time, which makes nobody's commits longer; its further
//! messages wait. And as long as others are about who have few, a slot in which many wait pauses
//! between two of them, the longer the more there are. A pool with one busy slot, or with many that are equally busy, is
//! not slowed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{Deliver, MAILBOX_LIMIT, OrdinalActor};
use crate::actors::supervise::Unreached;

/// Operations that one slot may have in the store at once.
const STORE_TURNS: usize = 1;
/// A slot in which at most this many messages wait is modest.
const FEW: usize = 4;
/// A slot in which at least this many wait is flooded.
const MANY: usize = 16;
/// Messages that wait for each millisecond of a flooded slot's pauses.
const WAITING_PER_MILLI: usize = 4;
/// How long after a modest slot's last message the flooded ones pause.
const ABOUT: Duration = Duration::from_secs(1);

/// The messages of one slot that wait, and what is being done with the others.
#[derive(Default)]
pub(super) struct Turns {
    /// Operations in the store.
    pub(super) in_store: usize,
    /// Messages in the order in which they came.
    waiting: VecDeque<Deliver>,
    /// A message is being carried out.
    is_serving: bool,
    /// The next turn is under way.
    pausing: bool,
}

/// When a message of a modest slot was last carried out; clones are the same.
#[derive(Clone, Debug, Default)]
pub(in crate::actors) struct Neighbours(Arc<AtomicU64>);

impl Neighbours {
    /// A modest slot's message was carried out, this long after the clock was made.
    fn heard(&self, at: Duration) {
        self.0.store(millis(at) + 1, Ordering::Relaxed);
    }

    /// Whether that was lately.
    fn are_about(&self, now: Duration) -> bool {
        match self.0.load(Ordering::Relaxed) {
            0 => false,
            heard => millis(now).saturating_sub(heard) < millis(ABOUT),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX - 1)
}

/// How long a slot in which `waiting` messages wait pauses while others are about who have few.
fn pause_of(waiting: usize) -> Duration {
    if waiting < MANY {
        return Duration::ZERO;
    }
    Duration::from_millis((waiting / WAITING_PER_MILLI) as u64)
}

impl OrdinalActor {
    pub(super) fn wait_for_turn(&mut self, deliver: Deliver, ctx: &mut Context<Self>) {
        let turns = &mut self.turns;
        if turns.waiting.len() >= MAILBOX_LIMIT {
            let _ = deliver.reply.send(Err(Unreached::Full.into()));
            return;
        }
        turns.waiting.push_back(deliver);
        self.take_turn(ctx);
    }

    /// Takes up the message that waits longest, if its turn has come.
    fn take_turn(&mut self, ctx: &mut Context<Self>) {
        if self.turns.in_store >= STORE_TURNS || self.turns.pausing {
            return;
        }
        let Some(next) = self.turns.waiting.pop_front() else {
            return;
        };
        self.receive(next, ctx);
        self.turns.is_serving = self.turns.in_store > 0;
        // One that needed nothing of the store was refused for its payload.
        if self.turns.in_store < STORE_TURNS && !self.turns.waiting.is_empty() {
            self.pause_for(tokio::task::yield_now(), ctx);
        }
    }

    /// Takes up the next message when one was carried out: at once, or after a pause.
    pub(super) fn next_turn(&mut self, ctx: &mut Context<Self>) {
        // Judged at the end of a turn: at its beginning one that is about to send many cannot be told from one with few.
        let was_serving = std::mem::take(&mut self.turns.is_serving);
        if was_serving && self.turns.waiting.len() <= FEW {
            self.parts.neighbours.heard(self.parts.clock.elapsed());
        }
        let pause = pause_of(self.turns.waiting.len());
        if pause.is_zero() || !self.parts.neighbours.are_about(self.parts.clock.elapsed()) {
            return self.take_turn(ctx);
        }
        // Real time, whatever the pool's clock shows: it is the processors that are spared.
        self.pause_for(tokio::time::sleep(pause), ctx);
    }

    /// Lets the other slots of this thread have their turns.
    fn pause_for(&mut self, pause: impl Future<Output = ()> + 'static, ctx: &mut Context<Self>) {
        if std::mem::replace(&mut self.turns.pausing, true) {
            return;
        }
        ctx.spawn(pause.into_actor(self).map(|(), actor, ctx| {
            actor.turns.pausing = false;
            actor.take_turn(ctx);
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_messages_wait_the_longer_a_flooded_slot_pauses() {
        let pauses = [0, FEW, MANY - 1, MANY, 2 * MANY, MAILBOX_LIMIT].map(pause_of);
        assert_eq!(pauses.map(|pause| pause.as_millis()), [0, 0, 0, 4, 8, 64]);
    }

    #[test]
    fn neighbours_are_about_for_a_while_after_they_were_heard() {
        let neighbours = Neighbours::default();
        let at = |millis| Duration::from_millis(millis);
        assert!(!neighbours.are_about(at(0)), "nobody was heard yet");
        neighbours.heard(at(0));
        assert!(neighbours.are_about(at(999)));
        assert!(!neighbours.are_about(at(1001)));
    }
}
