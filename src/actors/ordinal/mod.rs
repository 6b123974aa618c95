//! `OrdinalActor`: one worker slot. It owns the slot's lease timer and the poll that waits for work.
//!
//! Receives [`Deliver`] (a message of the slot's worker) and [`Refresh`] (the slot's row may have changed); asks the
//! store; tells the Roster whether the slot is free, and a board that one of its runs needs attention.
//!
//! Invariants: a reply leaves only after the commit that it tells of; of several waiting polls the newest is served and
//! the others answer idle; the timer decides nothing, it only makes the store look, and the store compares again; a slot
//! that is flooded takes its turns so that the others notice little of it (`turns`).
//!
//! Crash, restart: everything but the waiting poll and the time of the worker's last sign stands in the store, and is
//! read from there when the actor starts. A worker whose poll was lost asks again.
//!
//! With the pool itself, all slots start at once; what they hold is read once for all of them ([`FirstLook`]). An actor
//! that is built anew asks for itself.

mod lease;
mod polls;
mod reports;
mod share;
mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFuture, ActorFutureExt, Context, Handler, Message, SpawnHandle,
    WrapFuture,
};
use tokio::sync::oneshot;

use super::directory::BoardDirectory;
use super::events::Events;
use super::ledger::Ledger;
use super::metrics::Metrics;
use super::ordinals::Opened;
use super::presence::Presence;
use super::reply::{DeliveryError, Replier, Reply};
use super::roster::Roster;
use super::store::StoreHandle;
use super::supervise::{DownGuard, Link, Stop};
use crate::clock::SharedClock;
use crate::domain::{LeasePolicy, Ordinal, Timestamp};
use crate::faults::{Faults, Work};
use crate::protocol::{Envelope, HeartbeatReport, Kind, PayloadError, PollRequest, WorkerResult};
use crate::store::{Operation, Refusal, StoreError};

pub(super) use lease::{FirstLook, Looked};
use polls::Waiting;
pub(super) use share::Share;
pub(super) use turns::Neighbours;
use turns::Turns;

/// Messages that may wait for one slot: those of its worker that are admitted at once, and hints.
const MAILBOX_LIMIT: usize = 256;

/// An authentic message of the slot's worker.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Deliver {
    /// The message.
    pub opened: Opened,
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
    /// What is known of the other slots' messages.
    pub(in crate::actors) neighbours: Neighbours,
    /// Where events are said.
    pub events: Events,
    /// Where messages are counted.
    pub metrics: Arc<Metrics>,
    /// What is put off.
    pub ledger: Ledger,
    /// Whether the pool is draining.
    pub draining: Arc<AtomicBool>,
    /// The tests' door.
    pub faults: Faults,
}

/// One worker slot.
pub struct OrdinalActor {
    parts: OrdinalParts,
    turns: Turns,
    waiting: Option<(Waiting, SpawnHandle)>,
    timer: Option<(Timestamp, SpawnHandle)>,
    retry: Option<SpawnHandle>,
    due: Option<Timestamp>,
    /// The process' own time since when the slot's row cannot be understood.
    unreadable_since: Option<Duration>,
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
            turns: Turns::default(),
            waiting: None,
            timer: None,
            retry: None,
            due: None,
            unreadable_since: None,
            hints: 0,
            first_look,
            _guard: guard,
        }
    }

    fn pass_door(&self) {
        let of = self.parts.ordinal;
        self.parts.faults.begin(Work::Message, "ordinal", of);
    }

    fn is_draining(&self) -> bool {
        self.parts.draining.load(Atomic::Relaxed)
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

    /// Asks the store. The actor goes on meanwhile; when there is an answer, the next message has its turn.
    fn call<O: Operation>(
        &mut self,
        operation: O,
    ) -> impl ActorFuture<Self, Output = Result<O::Reply, StoreError>> + use<O> {
        self.turns.in_store += 1;
        let store = self.parts.store.clone();
        let asked = async move { store.call(operation).await };
        asked.into_actor(self).map(|reply, actor, ctx| {
            actor.turns.in_store -= 1;
            actor.next_turn(ctx);
            reply
        })
    }

    fn receive(&mut self, deliver: Deliver, ctx: &mut Context<Self>) {
        let Deliver { opened, reply } = deliver;
        let Opened { key, envelope } = opened;
        let replier = Replier::new(key, Arc::clone(&self.parts.clock), &envelope, reply);
        self.accept(envelope, replier, ctx);
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

    fn handle(&mut self, deliver: Deliver, ctx: &mut Self::Context) {
        self.pass_door();
        self.wait_for_turn(deliver, ctx);
    }
}

impl Handler<Refresh> for OrdinalActor {
    type Result = ();

    fn handle(&mut self, _: Refresh, ctx: &mut Self::Context) {
        self.pass_door();
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

impl Handler<Stop> for OrdinalActor {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
