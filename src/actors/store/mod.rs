//! The [`StoreActor`]: alone on its arbiter, which it may block, and the only writer of the store.
//!
//! A caller queues its operation; the first of a group also sends the actor a `Flush`, which commits all that is queued by
//! then at once; what arrives during that commit forms the next group. The actor is woken once a group, not once a message,
//! and not at all for what it awaits (`linger`). Replies leave after the commit, and after the store's status tells of it.
//!
//! Invariants: what waits is counted, and the permit travels with the operation, so that a caller who has given up frees
//! no place that is still taken. A failing or panicking operation fails alone. The actor keeps nothing but its connection:
//! if it goes down, its parent builds a new one behind the same handle ([`StoreHandle::launch`]); what was queued is gone
//! with it.
//!
//! An operation that was queued is carried out, whether or not anybody still waits for its reply. A caller who is answered
//! [`StoreError::Unknown`] asks again.
//!
//! Deliberately absent: retries, and restarting itself. A store that cannot be opened ends the actor, with the reason in
//! its [`StoreStatus`].

mod linger;
mod queue;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{
    Actor, ActorContext, ActorFutureExt, ArbiterHandle, AsyncContext, Context, Handler, Message,
    WrapFuture,
};
use tokio::sync::{Semaphore, oneshot, watch};

use self::linger::Linger;
use self::queue::{Looked, Queue, Wake};
use self::writer::Presence;
pub use self::writer::StoreWriter;
use crate::clock::SharedClock;
use crate::domain::Timestamp;
use crate::faults::{Faults, Work};
use crate::store::{Job, Operation, Reader, StoreError, Tx};

/// How many operations may wait, the group in flight included.
pub const QUEUE_LIMIT: usize = 4096;

/// Groups after which the actor's timers have their turn, however soon the next one comes.
const GROUPS_IN_A_ROW: u32 = 32;
/// How often it is looked for rows to collect.
const COLLECT_INTERVAL: Duration = Duration::from_secs(60);
/// How long others come first when there is more to collect. At 7,500 rows a second more goes than 10,000 workers bring that
/// beat every two seconds, and one heartbeat in eight waits a millisecond longer.
const COLLECT_PAUSE: Duration = Duration::from_millis(10);
/// How long after a commit that failed the store is tried again, if nobody else does.
const PROBE_PAUSE: Duration = Duration::from_secs(1);

/// What a [`StoreActor`] is built from.
#[derive(Clone)]
pub struct StoreSettings {
    /// The store's file.
    pub path: PathBuf,
    /// Slots of the pool.
    pub slots: u16,
    /// How long assignments are kept after their end, in seconds; at least an hour.
    pub retention_seconds: u32,
    /// Where time comes from.
    pub clock: SharedClock,
    /// The tests' door.
    pub faults: Faults,
}

/// How the store fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreStatus {
    /// The actor opens the file. What is asked meanwhile waits.
    Opening {
        /// Why the last actor went down, where it said so: it still holds until the file was opened.
        after: Option<StoreError>,
    },
    /// The last commit succeeded.
    Ready,
    /// The last commit failed; the actor goes on trying with each group.
    Failing(StoreError),
    /// There is no actor: it was not launched yet, the file cannot be opened, or it panicked.
    Down(StoreError),
}

/// The way to the [`StoreActor`], whichever of them is there at the moment.
#[derive(Clone)]
pub struct StoreHandle {
    shared: Arc<Shared>,
}

struct Shared {
    settings: StoreSettings,
    admission: Arc<Semaphore>,
    queue: Queue,
    status: watch::Sender<StoreStatus>,
}

impl Shared {
    /// Tells how the store fares; returns whether that is news.
    fn report(&self, status: StoreStatus) -> bool {
        self.status.send_if_modified(|known| {
            let changed = *known != status;
            *known = status;
            changed
        })
    }
}

impl StoreHandle {
    /// A handle without an actor.
    #[must_use]
    pub fn new(settings: StoreSettings) -> Self {
        Self {
            shared: Arc::new(Shared {
                settings,
                admission: Arc::new(Semaphore::new(QUEUE_LIMIT)),
                queue: Queue::vacant(),
                status: watch::Sender::new(StoreStatus::Down(StoreError::Down)),
            }),
        }
    }

    /// Builds an actor on an arbiter of its own, unless one is there. [`StoreHandle::watch`] tells what became of it.
    pub fn launch(&self, arbiter: &ArbiterHandle) {
        let Some(presence) = self.announce() else {
            return;
        };
        // An arbiter that has stopped drops the closure, and the presence in it vacates the link again.
        let address = StoreActor::start_in_arbiter(arbiter, move |_| StoreActor {
            writer: StoreWriter::open(presence),
            linger: Linger::new(Instant::now()),
            probing: false,
        });
        self.shared.queue.open(Wake::actor(address));
    }

    /// Opens the store for somebody who commits by hand, unless it is open. Nothing is collected then.
    pub fn launch_by_hand(&self) -> Option<StoreWriter> {
        let writer = StoreWriter::open(self.announce()?);
        if !writer.never_waits() {
            return None;
        }
        self.shared.queue.open(Wake::Nobody);
        writer.opened();
        Some(writer)
    }

    /// Says that a writer is about to be there; `None` if there is one.
    fn announce(&self) -> Option<Presence> {
        if !self.shared.queue.announce() {
            return None;
        }
        let after = match self.status() {
            StoreStatus::Down(error) if error != StoreError::Down => Some(error),
            _ => None,
        };
        self.shared.report(StoreStatus::Opening { after });
        Some(Presence::new(Arc::clone(&self.shared)))
    }

    /// Has an operation carried out, and waits until it is durable.
    ///
    /// # Errors
    /// Those of the operation; [`StoreError::Overloaded`] at once if too much is waiting; [`StoreError::Down`] if there is
    /// no actor; [`StoreError::Unknown`] if it went down meanwhile.
    pub async fn call<O: Operation>(&self, operation: O) -> Result<O::Reply, StoreError> {
        let permit = Arc::clone(&self.shared.admission)
            .try_acquire_owned()
            .map_err(|_| StoreError::Overloaded)?;
        let (reply, answer) = oneshot::channel();
        let operation = self.shared.settings.doored(operation);
        self.shared.queue.push(Job::new(operation, move |outcome| {
            drop(permit);
            // A caller who has given up needs no reply.
            let _ = reply.send(outcome);
        }))?;
        answer.await.unwrap_or(Err(StoreError::Unknown))
    }

    /// How the store fares.
    #[must_use]
    pub fn status(&self) -> StoreStatus {
        self.shared.status.borrow().clone()
    }

    /// Follows how the store fares.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<StoreStatus> {
        self.shared.status.subscribe()
    }

    /// A connection for reads that decide nothing.
    ///
    /// # Errors
    /// [`StoreError::File`] says what is wrong with the file.
    pub fn reader(&self) -> Result<Reader, StoreError> {
        Reader::open(&self.shared.settings.path)
    }

    /// How many operations wait at the moment.
    #[must_use]
    pub fn waiting(&self) -> usize {
        QUEUE_LIMIT - self.shared.admission.available_permits()
    }
}

impl fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreHandle")
            .field("path", &self.shared.settings.path)
            .field("status", &*self.shared.status.borrow())
            .finish_non_exhaustive()
    }
}

/// An operation that goes through the tests' door first, inside its transaction.
struct Doored<O> {
    operation: O,
    faults: Faults,
}

impl StoreSettings {
    fn doored<O>(&self, operation: O) -> Doored<O> {
        Doored {
            operation,
            faults: self.faults.clone(),
        }
    }
}

impl<O: Operation> Operation for Doored<O> {
    type Reply = O::Reply;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<Self::Reply, StoreError> {
        let path = std::any::type_name::<O>();
        let name = path.rsplit("::").next().unwrap_or(path);
        self.faults.begin(Work::Operation, name, "");
        self.operation.apply(tx, now)
    }
}

/// The only writer of the store. It is reached through a [`StoreHandle`].
pub struct StoreActor {
    writer: StoreWriter,
    linger: Linger,
    /// A probe is due.
    probing: bool,
}

impl StoreActor {
    /// Collects one slice after a while, and so on for as long as the actor lives.
    fn collect_after(&self, pause: Duration, ctx: &mut Context<Self>) {
        let wait = self.writer.clock().wait_for(pause).into_actor(self);
        ctx.spawn(wait.map(|(), actor, ctx| {
            let pause = if actor.writer.collect() {
                COLLECT_PAUSE
            } else {
                COLLECT_INTERVAL
            };
            actor.collect_after(pause, ctx);
        }));
    }

    /// Commits what is queued; returns whether the next operation came so soon that there is more to commit.
    fn commit(&mut self, ctx: &mut Context<Self>) -> bool {
        let began = Instant::now();
        let mut operations = 0;
        self.writer.flush(|group| operations = group.len());
        self.probe_while_failing(ctx);
        let Some(limit) = self.linger.served(operations, began, Instant::now()) else {
            return false;
        };
        let looked = self.writer.look_for_next(limit);
        if looked == Looked::Crowded {
            self.linger.crowded();
        }
        looked == Looked::Found
    }

    /// Sees to it that a store whose commits fail is tried again from time to time. One that has to be opened anew is left
    /// to the next actor.
    fn probe_while_failing(&mut self, ctx: &mut Context<Self>) {
        if !self.writer.is_open() {
            return ctx.stop();
        }
        if self.probing || !self.writer.is_failing() {
            return;
        }
        self.probing = true;
        let wait = self.writer.clock().wait_for(PROBE_PAUSE).into_actor(self);
        ctx.spawn(wait.map(|(), actor, ctx| {
            actor.probing = false;
            actor.writer.probe();
            actor.probe_while_failing(ctx);
        }));
    }
}

impl Actor for StoreActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if !self.writer.is_open() {
            ctx.stop();
            return;
        }
        self.writer.opened();
        self.collect_after(COLLECT_INTERVAL, ctx);
    }
}

/// Commits what is queued.
#[derive(Message)]
#[rtype(result = "()")]
struct Flush;

impl Handler<Flush> for StoreActor {
    type Result = ();

    fn handle(&mut self, _flush: Flush, ctx: &mut Self::Context) {
        if (0..GROUPS_IN_A_ROW).all(|_| self.commit(ctx)) {
            ctx.notify(Flush);
        }
    }
}
