//! Polls: the offer that answers one, and the one that waits.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::OrdinalActor;
use crate::actors::events::PoolEvent;
use crate::actors::reply::Replier;
use crate::actors::roster::WorkerSeen;
use crate::domain::FailCause;
use crate::faults::FaultPoint;
use crate::protocol::Ack;
use crate::store::StoreError;
use crate::store::operations::{Offer, OfferReply};

/// A poll that waits for work.
pub(super) struct Waiting {
    pub(super) replier: Replier,
    pub(super) delivery_id: String,
    pub(super) wait: Duration,
}

impl OrdinalActor {
    pub(super) fn poll(&mut self, poll: Waiting, ctx: &mut Context<Self>) {
        if self.is_draining() {
            return self.idle(poll);
        }
        let hints = self.hints;
        let offer = Offer {
            ordinal: self.parts.ordinal,
            delivery_id: poll.delivery_id.clone(),
            policy: self.parts.policy,
        };
        let asked = self.call(offer);
        ctx.spawn(asked.map(move |reply, actor, ctx| actor.offered(poll, hints, reply, ctx)));
    }

    pub(super) fn offered(
        &mut self,
        poll: Waiting,
        hints: u64,
        reply: Result<OfferReply, StoreError>,
        ctx: &mut Context<Self>,
    ) {
        match reply {
            Ok(OfferReply::Offered(offered)) => {
                self.parts.faults.pass(FaultPoint::OfferCommitted);
                if offered.fenced {
                    self.parts
                        .events
                        .emit(PoolEvent::Fenced(offered.binding.clone()));
                }
                self.parts.metrics.count_message("poll", "assignment");
                self.parts
                    .events
                    .emit(PoolEvent::Offered(offered.binding.clone()));
                self.arm(Some(offered.lease_until), ctx);
                poll.replier.assignment(
                    &offered.binding,
                    &offered.payload_json,
                    &offered.assignment_digest,
                );
            }
            Ok(OfferReply::GivenUp { binding, cause }) => {
                self.lost_slot(binding, cause);
                self.arm(None, ctx);
                self.idle_or_wait(poll, hints, ctx);
            }
            Ok(OfferReply::Unreadable { binding, row }) => {
                let now = self.parts.clock.now();
                let (ledger, why) = (&self.parts.ledger, row.to_string());
                // It leaves the ledger with the end of the run.
                ledger.defer(&binding.key, "offer the run", why, now, None);
                self.lost_slot(binding, FailCause::Unreadable);
                self.arm(None, ctx);
                self.idle_or_wait(poll, hints, ctx);
            }
            Ok(OfferReply::Nothing) => self.idle_or_wait(poll, hints, ctx),
            Err(error) => {
                self.meets(&error, ctx);
                poll.replier.fail(error);
            }
        }
    }

    pub(super) fn idle_or_wait(&mut self, poll: Waiting, hints: u64, ctx: &mut Context<Self>) {
        if poll.wait.is_zero() || self.is_draining() {
            self.worker_waits();
            return self.idle(poll);
        }
        if hints != self.hints {
            return self.poll(poll, ctx);
        }
        self.park(poll, ctx);
    }

    /// Lets a poll wait; the one that waited before answers idle.
    pub(super) fn park(&mut self, poll: Waiting, ctx: &mut Context<Self>) {
        let time_is_up = self.parts.clock.wait_for(poll.wait);
        let handle = ctx.spawn(
            time_is_up
                .into_actor(self)
                .map(|(), actor, _| actor.stop_waiting()),
        );
        if let Some((older, timer)) = self.waiting.replace((poll, handle)) {
            ctx.cancel_future(timer);
            self.idle(older);
        }
        self.parts.presence.set_waiting(true);
        self.worker_waits();
        self.parts
            .events
            .emit(PoolEvent::Waiting(self.parts.ordinal));
    }

    pub(super) fn take_waiting(&mut self, ctx: &mut Context<Self>) -> Option<Waiting> {
        let (poll, timer) = self.waiting.take()?;
        ctx.cancel_future(timer);
        self.parts.presence.set_waiting(false);
        // A client that hung up is no sign of its worker.
        if poll.replier.is_abandoned() {
            return None;
        }
        self.parts.presence.seen(self.parts.clock.now());
        Some(poll)
    }

    pub(super) fn stop_waiting(&mut self) {
        if let Some((poll, _)) = self.waiting.take() {
            self.parts.presence.set_waiting(false);
            if !poll.replier.is_abandoned() {
                self.parts.presence.seen(self.parts.clock.now());
            }
            self.idle(poll);
        }
    }

    pub(super) fn serve_waiting(&mut self, ctx: &mut Context<Self>) {
        if let Some(poll) = self.take_waiting(ctx) {
            self.poll(poll, ctx);
        }
    }

    pub(super) fn idle(&self, poll: Waiting) {
        self.parts.metrics.count_message("poll", "idle");
        poll.replier.ack(&Ack::Idle);
    }

    /// The Roster may have a board for this slot. If it cannot be told, its next look at the slot finds the worker alive.
    pub(super) fn worker_waits(&self) {
        let _ = self.parts.roster.tell(WorkerSeen(self.parts.ordinal));
    }
}
