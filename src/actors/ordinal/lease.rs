//! The slot's row and its timer. The timer only makes the store look; what is due is decided there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};
use tokio::sync::watch;

use super::OrdinalActor;
use crate::actors::events::PoolEvent;
use crate::actors::roster::{SlotFree, SlotTaken};
use crate::domain::{Binding, FailCause, Ordinal, StateName, Timestamp};
use crate::store::StoreError;
use crate::store::operations::{Expire, Expiry, LetGo, Live, LiveOf};

/// Real time after which a read or an expiry that the store did not carry out is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// A timer fires this much after its due time, since a lease that ends exactly now is alive.
const TIMER_SLACK_SECONDS: f64 = 0.001;

/// What the slots hold; the others are free.
pub(in crate::actors) type LiveSlots = Arc<BTreeMap<Ordinal, Live>>;

/// What came of reading for all slots at once what they held when the store was opened.
#[derive(Clone, Debug)]
pub enum Looked {
    /// It was not read yet.
    NotYet,
    /// Every row was understood.
    Slots(LiveSlots),
    /// Some row was not: each slot has to ask for itself.
    AskYourself,
}

/// The way to it.
pub(in crate::actors) type FirstLook = watch::Receiver<Looked>;

impl OrdinalActor {
    /// The slot was released without a confirmed outcome.
    pub(super) fn lost_slot(&self, binding: Binding, cause: FailCause) {
        self.parts.boards.wake(&binding.key.board);
        self.parts
            .events
            .emit(PoolEvent::LeaseFailed(binding, cause));
        self.say_free();
    }

    pub(super) fn say_free(&self) {
        let free = SlotFree(self.parts.ordinal, Arc::clone(&self.parts.presence));
        if let Err(error) = self.parts.roster.tell(free) {
            // A Roster that is built anew asks every slot again.
            log::debug!("ordinal={} roster not told: {error}", self.parts.ordinal);
        }
    }

    /// Says when the row, which was understood just now, is to be looked at again.
    pub(super) fn arm(&mut self, due: Option<Timestamp>, ctx: &mut Context<Self>) {
        self.unreadable_since = None;
        self.due = due;
        self.set_timer(ctx);
    }

    /// Sets when the timer has to look at the row. A heartbeat that moves the time back leaves the timer running: it
    /// finds that nothing is due yet and goes on.
    fn set_timer(&mut self, ctx: &mut Context<Self>) {
        let Some(due) = self.due else { return };
        if let Some((armed_for, timer)) = self.timer.take() {
            if armed_for.0 <= due.0 {
                self.timer = Some((armed_for, timer));
                return;
            }
            ctx.cancel_future(timer);
        }
        let wait = self.parts.clock.wait_until(due + TIMER_SLACK_SECONDS);
        let timer = ctx.spawn(
            wait.into_actor(self)
                .map(|(), actor, ctx| actor.timer_fired(ctx)),
        );
        self.timer = Some((due, timer));
    }

    pub(super) fn timer_fired(&mut self, ctx: &mut Context<Self>) {
        self.timer = None;
        match self.due {
            Some(due) if self.parts.clock.now().0 > due.0 => self.expire(ctx),
            _ => self.set_timer(ctx),
        }
    }

    pub(super) fn expire(&mut self, ctx: &mut Context<Self>) {
        let asked = self.call(Expire {
            ordinal: self.parts.ordinal,
            policy: self.parts.policy,
        });
        ctx.spawn(asked.map(|reply, actor, ctx| match reply {
            Ok(Expiry::Idle) => actor.found(None, ctx),
            Ok(Expiry::NotDue { next }) => actor.arm(next, ctx),
            Ok(Expiry::Reoffered { binding, next }) => {
                actor.parts.events.emit(PoolEvent::Fenced(binding));
                actor.arm(Some(next), ctx);
                actor.serve_waiting(ctx);
            }
            Ok(Expiry::GivenUp { binding, cause }) => {
                actor.arm(None, ctx);
                actor.lost_slot(binding, cause);
            }
            Err(error) => actor.retry(&error, Self::expire, ctx),
        }));
    }

    pub(super) fn refresh(&mut self, ctx: &mut Context<Self>) {
        let asked = self.call(LiveOf {
            ordinal: self.parts.ordinal,
            policy: self.parts.policy,
        });
        ctx.spawn(asked.map(|reply, actor, ctx| match reply {
            Ok(live) => actor.found(live.as_ref(), ctx),
            Err(error) => actor.retry(&error, Self::refresh, ctx),
        }));
    }

    pub(super) fn take_first_look(&mut self, mut look: FirstLook, ctx: &mut Context<Self>) {
        let taken = async move {
            let is_over = |looked: &Looked| !matches!(looked, Looked::NotYet);
            let looked = look.wait_for(is_over).await;
            looked.map_or(Looked::AskYourself, |looked| looked.clone())
        };
        ctx.spawn(taken.into_actor(self).map(|rows, actor, ctx| match rows {
            Looked::Slots(rows) if actor.is_untouched() => {
                actor.found(rows.get(&actor.parts.ordinal), ctx);
            }
            _ => actor.refresh(ctx),
        }));
    }

    /// Whether nobody can have changed the row through this actor, nor hinted at a change.
    pub(super) fn is_untouched(&self) -> bool {
        self.hints == 0 && self.parts.presence.last_seen().is_none()
    }

    /// Goes on from what the slot holds.
    pub(super) fn found(&mut self, live: Option<&Live>, ctx: &mut Context<Self>) {
        let Some(live) = live else {
            self.arm(None, ctx);
            return self.say_free();
        };
        let taken = self.parts.roster.tell(SlotTaken(self.parts.ordinal));
        log::trace!(
            "ordinal={} taken, roster told: {}",
            self.parts.ordinal,
            taken.is_ok()
        );
        self.arm(live.due, ctx);
        if live.state == StateName::Assigned {
            self.serve_waiting(ctx);
        }
    }

    /// Somebody else than the timer found a row that cannot be understood: if it is the slot's, its time runs from now.
    pub(super) fn meets(&mut self, error: &StoreError, ctx: &mut Context<Self>) {
        // Where it is known already, a retry is under way that must not be put off by a worker that asks all the time.
        if matches!(error, StoreError::Illegal(_)) && self.unreadable_since.is_none() {
            self.retry(error, Self::refresh, ctx);
        }
    }

    /// Whether nobody can have renewed the slot's row, which cannot be understood: the time that it last had is over, or
    /// it was not understood for a whole lease.
    fn is_unreadable_for_too_long(&mut self) -> bool {
        let now = self.parts.clock.elapsed();
        let since = *self.unreadable_since.get_or_insert(now);
        let is_due = |due: Timestamp| self.parts.clock.now().0 > due.0;
        self.due.is_some_and(is_due)
            || now.saturating_sub(since).as_secs_f64() > self.parts.policy.lease_seconds()
    }

    /// Frees the slot from a row that cannot be understood. The row stays, and stays in the ledger.
    fn let_go(&mut self, ctx: &mut Context<Self>) {
        let asked = self.call(LetGo {
            ordinal: self.parts.ordinal,
        });
        ctx.spawn(asked.map(|reply, actor, ctx| match reply {
            Ok(row) => {
                if let Some(row) = row {
                    log::warn!("event=let_go ordinal={} why={row}", actor.parts.ordinal);
                }
                actor.refresh(ctx);
            }
            Err(error) => actor.retry(&error, Self::refresh, ctx),
        }));
    }

    pub(super) fn retry(
        &mut self,
        error: &StoreError,
        again: fn(&mut Self, &mut Context<Self>),
        ctx: &mut Context<Self>,
    ) {
        log::debug!("ordinal={} tries again: {error}", self.parts.ordinal);
        let again = match error {
            StoreError::Illegal(_) if self.is_unreadable_for_too_long() => Self::let_go,
            _ => again,
        };
        let pause = self.parts.clock.wait_for(RETRY);
        let retry = ctx.spawn(
            pause
                .into_actor(self)
                .map(move |(), actor, ctx| again(actor, ctx)),
        );
        // One is enough: whatever is tried again leads to what the row says.
        if let Some(older) = self.retry.replace(retry) {
            ctx.cancel_future(older);
        }
    }
}
