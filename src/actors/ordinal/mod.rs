//! `OrdinalActor`: one worker slot. It owns the slot's key, its lease timer and the poll that waits for work.
//!
//! Receives [`Deliver`] (a message of the slot's worker) and [`Refresh`] (the slot's row may have changed); asks the
//! store; tells the Roster whether the slot is free, and a board that one of its runs needs attention.
//!
//! Invariants: a reply leaves only after the commit that it tells of; of several waiting polls the newest is served and
//! the others answer idle; the timer decides nothing, it only makes the store look, and the store compares again; a slot
//! has few operations in the store at once, so that a worker which sends without end makes nobody's commits longer.
//!
//! Crash, restart: everything but the waiting poll and the time of the worker's last sign stands in the store, and is
//! read from there when the actor starts. A worker whose poll was lost asks again.
//!
//! With the pool itself, all slots start at once; what they hold is read once for all of them ([`FirstLook`]). An actor
//! that is built anew asks for itself.

mod lease;
mod polls;
mod reports;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::time::Duration;

use actix::{
    Actor, ActorFuture, ActorFutureExt, Context, Handler, Message, SpawnHandle, WrapFuture,
};
use tokio::sync::oneshot;

use super::boards::BoardDirectory;
use super::events::Events;
use super::keys::KeyRing;
use super::ledger::Ledger;
use super::metrics::Metrics;
use super::reply::{DeliveryError, Replier, Reply};
use super::roster::{Presence, Roster};
use super::store::StoreHandle;
use super::supervise::{DownGuard, Link, Unreached};
use crate::clock::SharedClock;
use crate::domain::{LeasePolicy, Ordinal, Timestamp};
use crate::faults::{Faults, Work};
use crate::protocol::{
    Envelope, HeartbeatReport, Json, Key, Kind, PayloadError, PollRequest, WorkerResult,
    verify_envelope,
};
use crate::store::{Operation, Refusal, StoreError};

pub(super) use lease::{FirstLook, LiveSlots};
use polls::Waiting;

/// Messages that may wait for one slot: those of its worker that are admitted at once, and hints.
const MAILBOX_LIMIT: usize = 256;
/// Operations that one slot may have in the store at once; its further messages wait, unverified, for as long as the
/// mailbox has places.
const STORE_TURNS: usize = 1;

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
    key: Option<Key>,
    /// Operations in the store.
    in_store: usize,
    /// Messages that wait for a turn, in the order in which they came. They are not even verified yet.
    queue: VecDeque<Deliver>,
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
            key: None,
            in_store: 0,
            queue: VecDeque::new(),
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
        let name = || format!("ordinal-{}", self.parts.ordinal);
        self.parts.faults.begin(Work::Message, name);
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

    /// Asks the store. The actor goes on meanwhile; when there is an answer, the next message has its turn.
    fn call<O: Operation>(
        &mut self,
        operation: O,
    ) -> impl ActorFuture<Self, Output = Result<O::Reply, StoreError>> + use<O> {
        self.in_store += 1;
        let store = self.parts.store.clone();
        let asked = async move { store.call(operation).await };
        asked.into_actor(self).map(|reply, actor, ctx| {
            actor.in_store -= 1;
            actor.take_turns(ctx);
            reply
        })
    }

    /// Receives what waits, as long as there are turns.
    fn take_turns(&mut self, ctx: &mut Context<Self>) {
        while self.in_store < STORE_TURNS
            && let Some(next) = self.queue.pop_front()
        {
            self.receive(next, ctx);
        }
    }

    fn receive(&mut self, deliver: Deliver, ctx: &mut Context<Self>) {
        let Deliver {
            message,
            kind,
            reply,
        } = deliver;
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
        if self.queue.len() >= MAILBOX_LIMIT {
            let _ = deliver.reply.send(Err(Unreached::Full.into()));
            return;
        }
        self.queue.push_back(deliver);
        self.take_turns(ctx);
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
