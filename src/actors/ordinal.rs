//! `OrdinalActor`: one worker slot. It owns the slot's key, its lease timer and the poll that waits for work.
//!
//! Receives [`Deliver`] (a message of the slot's worker) and [`Refresh`] (the slot's row may have changed); asks the
//! store; tells the Roster whether the slot is free, and a board that one of its runs needs attention.
//!
//! Invariants: a reply leaves only after the commit that it tells of; of several waiting polls the newest is served and
//! the others answer idle; the timer decides nothing, it only makes the store look, and the store compares again.
//!
//! Crash, restart: everything but the waiting poll and the time of the worker's last sign stands in the store, and is
//! read from there when the actor starts. A worker whose poll was lost asks again.
//!
//! With the pool itself, all slots start at once; what they hold is read once for all of them ([`FirstLook`]). An actor
//! that is built anew asks for itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, SpawnHandle, WrapFuture,
};
use tokio::sync::{oneshot, watch};

use super::boards::BoardDirectory;
use super::events::{Events, PoolEvent};
use super::keys::KeyRing;
use super::metrics::Metrics;
use super::reply::{DeliveryError, Replier, Reply};
use super::roster::{Presence, Roster, SlotFree, SlotTaken, WorkerSeen};
use super::store::StoreHandle;
use super::supervise::{DownGuard, Link};
use crate::clock::SharedClock;
use crate::domain::{Binding, FailCause, LeasePolicy, Ordinal, StateName, Timestamp};
use crate::faults::{FaultPoint, Faults};
use crate::protocol::{
    Ack, Envelope, HeartbeatReport, Json, Key, Kind, PayloadError, PollRequest, WorkerResult,
    verify_envelope,
};
use crate::store::operations::{
    Expire, Expiry, Heartbeat, Live, LiveOf, Offer, OfferReply, Presented, SubmitResult,
};
use crate::store::{Operation, Refusal, StoreError};

/// Messages that may wait for one slot: those of its worker that are admitted at once, and hints.
const MAILBOX_LIMIT: usize = 256;
/// Real time after which a read or an expiry that the store did not carry out is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// A timer fires this much after its due time, since a lease that ends exactly now is alive.
const TIMER_SLACK_SECONDS: f64 = 0.001;

/// What the slots hold; the others are free.
pub(super) type LiveSlots = Arc<BTreeMap<Ordinal, Live>>;

/// What the slots held when the store was opened, once that was read. It closes without a value where a row could not be
/// understood: then each slot has to ask for itself.
pub(super) type FirstLook = watch::Receiver<Option<LiveSlots>>;

/// A message of the slot's worker: parsed, not yet verified.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Deliver {
    /// The message.
    pub message: Json,
    /// The kind that the door it came through stands for.
    pub kind: Kind,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<Reply, DeliveryError>>,
}

/// The slot's row may have changed.
#[derive(Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Refresh;

/// The pool is draining: a waiting poll answers idle.
#[derive(Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Drain;

/// What an `OrdinalActor` works with.
#[derive(Clone)]
pub struct OrdinalParts {
    /// The slot.
    pub ordinal: Ordinal,
    /// Slots of the pool.
    pub slots: u16,
    /// Where its key comes from.
    pub keys: KeyRing,
    /// The store.
    pub store: StoreHandle,
    /// Time.
    pub clock: SharedClock,
    /// Leases.
    pub policy: LeasePolicy,
    /// The Roster.
    pub roster: Link<Roster>,
    /// The boards, to wake their passes.
    pub boards: BoardDirectory,
    /// What is known of the worker.
    pub presence: Arc<Presence>,
    /// Where events are said.
    pub events: Events,
    /// Where messages are counted.
    pub metrics: Arc<Metrics>,
    /// Whether the pool is draining.
    pub draining: Arc<AtomicBool>,
    /// The tests' door.
    pub faults: Faults,
}

/// A poll that waits for work.
struct Waiting {
    replier: Replier,
    delivery_id: String,
    wait: Duration,
}

/// One worker slot.
pub struct OrdinalActor {
    parts: OrdinalParts,
    key: Option<Key>,
    waiting: Option<(Waiting, SpawnHandle)>,
    timer: Option<(Timestamp, SpawnHandle)>,
    due: Option<Timestamp>,
    /// Grows with every hint, so that a poll notices one that came while it asked the store.
    hints: u64,
    first_look: Option<FirstLook>,
    _guard: DownGuard,
}

impl OrdinalActor {
    /// A slot that knows nothing yet; it takes the first look when it starts, or else asks the store.
    #[must_use]
    pub fn new(parts: OrdinalParts, first_look: Option<FirstLook>, guard: DownGuard) -> Self {
        parts.presence.set_waiting(false);
        Self {
            parts,
            key: None,
            waiting: None,
            timer: None,
            due: None,
            hints: 0,
            first_look,
            _guard: guard,
        }
    }

    fn is_draining(&self) -> bool {
        self.parts.draining.load(Atomic::Relaxed)
    }

    fn key(&mut self) -> Result<Key, DeliveryError> {
        if let Some(key) = &self.key {
            return Ok(key.clone());
        }
        let key = self
            .parts
            .keys
            .of(self.parts.ordinal)
            .ok_or(DeliveryError::NotReady)??;
        self.key = Some(key.clone());
        Ok(key)
    }

    /// Verifies a message: from here on it is authentic.
    fn open(&mut self, message: Json, kind: Kind) -> Result<(Key, Envelope), DeliveryError> {
        let key = self.key()?;
        let now = self.parts.clock.now().whole_seconds();
        let envelope = verify_envelope(&key, message, Some(kind), now, self.parts.slots)?;
        Ok((key, envelope))
    }

    /// Hands an authentic message to what carries it out.
    fn accept(&mut self, envelope: Envelope, replier: Replier, ctx: &mut Context<Self>) {
        self.parts.presence.seen(self.parts.clock.now());
        match envelope.kind {
            Kind::Poll => match PollRequest::parse(&envelope.payload) {
                Ok(request) => {
                    let wait = Duration::from_secs(u64::from(request.wait_seconds));
                    self.poll(
                        Waiting {
                            replier,
                            delivery_id: envelope.delivery_id,
                            wait,
                        },
                        ctx,
                    );
                }
                Err(error) => self.refuse_payload(replier, &error, envelope.kind),
            },
            Kind::Heartbeat => match HeartbeatReport::parse(&envelope.payload) {
                Ok(_) => self.heartbeat(envelope, replier, ctx),
                Err(error) => self.refuse_payload(replier, &error, envelope.kind),
            },
            Kind::Result => match WorkerResult::parse(&envelope.payload) {
                Ok(_) => self.submit(envelope, replier, ctx),
                Err(error) => self.refuse_payload(replier, &error, envelope.kind),
            },
            // No door leads here with these kinds.
            Kind::Assignment | Kind::Ack => {
                replier.fail(StoreError::Refused(Refusal::UnknownAssignment))
            }
        }
    }

    fn refuse_payload(&self, replier: Replier, error: &PayloadError, kind: Kind) {
        self.parts
            .metrics
            .count_message(kind.as_str(), error.code());
        replier.refuse_payload(error);
    }

    /// Asks the store. The future owns what it needs, so that the actor goes on meanwhile.
    fn call<O: Operation>(
        &self,
        operation: O,
    ) -> impl Future<Output = Result<O::Reply, StoreError>> + 'static {
        let store = self.parts.store.clone();
        async move { store.call(operation).await }
    }

    fn poll(&mut self, poll: Waiting, ctx: &mut Context<Self>) {
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
        ctx.spawn(
            asked
                .into_actor(self)
                .map(move |reply, actor, ctx| actor.offered(poll, hints, reply, ctx)),
        );
    }

    fn offered(
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
            Ok(OfferReply::Nothing) => self.idle_or_wait(poll, hints, ctx),
            Err(error) => poll.replier.fail(error),
        }
    }

    fn idle_or_wait(&mut self, poll: Waiting, hints: u64, ctx: &mut Context<Self>) {
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
    fn park(&mut self, poll: Waiting, ctx: &mut Context<Self>) {
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

    fn take_waiting(&mut self, ctx: &mut Context<Self>) -> Option<Waiting> {
        let (poll, timer) = self.waiting.take()?;
        ctx.cancel_future(timer);
        self.parts.presence.set_waiting(false);
        self.parts.presence.seen(self.parts.clock.now());
        (!poll.replier.is_abandoned()).then_some(poll)
    }

    fn stop_waiting(&mut self) {
        if let Some((poll, _)) = self.waiting.take() {
            self.parts.presence.set_waiting(false);
            self.parts.presence.seen(self.parts.clock.now());
            self.idle(poll);
        }
    }

    fn idle(&self, poll: Waiting) {
        self.parts.metrics.count_message("poll", "idle");
        poll.replier.ack(&Ack::Idle);
    }

    /// The Roster may have a board for this slot. If it cannot be told, its next look at the slot finds the worker alive.
    fn worker_waits(&self) {
        let _ = self.parts.roster.tell(WorkerSeen(self.parts.ordinal));
    }

    fn heartbeat(&mut self, envelope: Envelope, replier: Replier, ctx: &mut Context<Self>) {
        let asked = self.call(Heartbeat::new(
            Presented::from(&envelope),
            self.parts.policy,
        ));
        ctx.spawn(asked.into_actor(self).map(move |reply, actor, ctx| {
            actor.count("heartbeat", reply.as_ref().err());
            match reply {
                Ok(accepted) => {
                    actor.parts.faults.pass(FaultPoint::HeartbeatCommitted);
                    actor.arm(Some(accepted.lease_until), ctx);
                    replier.ack(&Ack::Alive {
                        duplicate: accepted.duplicate,
                        lease_until_seconds: accepted.lease_until.whole_seconds(),
                    });
                }
                Err(error) => replier.fail(error),
            }
        }));
    }

    fn submit(&mut self, envelope: Envelope, replier: Replier, ctx: &mut Context<Self>) {
        let asked = self.call(SubmitResult {
            presented: Presented::from(&envelope),
            payload_json: envelope.payload_json().to_owned(),
        });
        ctx.spawn(asked.into_actor(self).map(move |reply, actor, ctx| {
            actor.count("result", reply.as_ref().err());
            match reply {
                Ok(accepted) => {
                    actor.parts.faults.pass(FaultPoint::ResultCommitted);
                    if !accepted.duplicate {
                        actor.arm(None, ctx);
                        actor.parts.boards.wake(&accepted.binding.key.board);
                        actor
                            .parts
                            .events
                            .emit(PoolEvent::Submitted(accepted.binding));
                    }
                    replier.ack(&Ack::Accepted {
                        duplicate: accepted.duplicate,
                    });
                }
                Err(error) => replier.fail(error),
            }
        }));
    }

    fn count(&self, kind: &'static str, error: Option<&StoreError>) {
        let outcome = match error {
            None => "accepted",
            Some(StoreError::Refused(refusal)) => refusal.code(),
            Some(_) => "unavailable",
        };
        self.parts.metrics.count_message(kind, outcome);
    }

    /// The slot was released without a confirmed outcome.
    fn lost_slot(&self, binding: Binding, cause: FailCause) {
        self.parts.boards.wake(&binding.key.board);
        self.parts
            .events
            .emit(PoolEvent::LeaseFailed(binding, cause));
        self.say_free();
    }

    fn say_free(&self) {
        let free = SlotFree(self.parts.ordinal, Arc::clone(&self.parts.presence));
        if let Err(error) = self.parts.roster.tell(free) {
            // A Roster that is built anew asks every slot again.
            log::debug!("ordinal={} roster not told: {error}", self.parts.ordinal);
        }
    }

    /// Sets when the timer has to look at the row. A heartbeat that moves the time back leaves the timer running: it
    /// finds that nothing is due yet and goes on.
    fn arm(&mut self, due: Option<Timestamp>, ctx: &mut Context<Self>) {
        self.due = due;
        let Some(due) = due else { return };
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

    fn timer_fired(&mut self, ctx: &mut Context<Self>) {
        self.timer = None;
        match self.due {
            Some(due) if self.parts.clock.now().0 > due.0 => self.expire(ctx),
            due => self.arm(due, ctx),
        }
    }

    fn expire(&mut self, ctx: &mut Context<Self>) {
        let asked = self.call(Expire {
            ordinal: self.parts.ordinal,
            policy: self.parts.policy,
        });
        ctx.spawn(asked.into_actor(self).map(|reply, actor, ctx| match reply {
            Ok(Expiry::Idle) => actor.arm(None, ctx),
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

    fn refresh(&mut self, ctx: &mut Context<Self>) {
        let asked = self.call(LiveOf {
            ordinal: self.parts.ordinal,
            policy: self.parts.policy,
        });
        ctx.spawn(asked.into_actor(self).map(|reply, actor, ctx| match reply {
            Ok(live) => actor.found(live.as_ref(), ctx),
            Err(error) => actor.retry(&error, Self::refresh, ctx),
        }));
    }

    fn take_first_look(&mut self, mut look: FirstLook, ctx: &mut Context<Self>) {
        let taken = async move { look.wait_for(Option::is_some).await.ok()?.clone() };
        ctx.spawn(taken.into_actor(self).map(|rows, actor, ctx| match rows {
            Some(rows) if actor.is_untouched() => {
                actor.found(rows.get(&actor.parts.ordinal), ctx);
            }
            _ => actor.refresh(ctx),
        }));
    }

    /// Whether nobody can have changed the row through this actor, nor hinted at a change.
    fn is_untouched(&self) -> bool {
        self.hints == 0 && self.parts.presence.last_seen().is_none()
    }

    /// Goes on from what the slot holds.
    fn found(&mut self, live: Option<&Live>, ctx: &mut Context<Self>) {
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

    fn serve_waiting(&mut self, ctx: &mut Context<Self>) {
        if let Some(poll) = self.take_waiting(ctx) {
            self.poll(poll, ctx);
        }
    }

    fn retry(
        &mut self,
        error: &StoreError,
        again: fn(&mut Self, &mut Context<Self>),
        ctx: &mut Context<Self>,
    ) {
        log::debug!("ordinal={} tries again: {error}", self.parts.ordinal);
        let pause = self.parts.clock.wait_for(RETRY);
        ctx.spawn(
            pause
                .into_actor(self)
                .map(move |(), actor, ctx| again(actor, ctx)),
        );
    }
}

impl Actor for OrdinalActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX_LIMIT);
        match self.first_look.take() {
            Some(look) => self.take_first_look(look, ctx),
            None => self.refresh(ctx),
        }
    }
}

impl Handler<Deliver> for OrdinalActor {
    type Result = ();

    fn handle(
        &mut self,
        Deliver {
            message,
            kind,
            reply,
        }: Deliver,
        ctx: &mut Self::Context,
    ) {
        match self.open(message, kind) {
            Ok((key, envelope)) => {
                let replier = Replier::new(key, Arc::clone(&self.parts.clock), &envelope, reply);
                self.accept(envelope, replier, ctx);
            }
            Err(error) => {
                // The client may be gone.
                let _ = reply.send(Err(error));
            }
        }
    }
}

impl Handler<Refresh> for OrdinalActor {
    type Result = ();

    fn handle(&mut self, _: Refresh, ctx: &mut Self::Context) {
        self.hints += 1;
        self.refresh(ctx);
    }
}

impl Handler<Drain> for OrdinalActor {
    type Result = ();

    fn handle(&mut self, _: Drain, _: &mut Self::Context) {
        self.stop_waiting();
    }
}
