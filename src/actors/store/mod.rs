//! The [`StoreActor`]: alone on its arbiter, which it may block, and the only writer of the store.
//!
//! A caller queues its operation; the first of a group also sends the actor a `Flush`, which commits all that is queued by
//! then at once; what arrives during that commit forms the next group. That is the whole mechanism, and the actor is woken
//! once a group, not once a message. Replies leave after the commit.
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

mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, ArbiterHandle, AsyncContext, Context, Handler,
    Message, WrapFuture,
};
use tokio::sync::{Semaphore, oneshot, watch};

use self::writer::Presence;
pub use self::writer::StoreWriter;
use crate::clock::SharedClock;
use crate::domain::Timestamp;
use crate::faults::{Faults, Work};
use crate::store::{Job, Operation, Reader, StoreError, Tx};

/// How many operations may wait, the group in flight included.
pub const QUEUE_LIMIT: usize = 4096;

/// How often it is looked for rows to collect.
const COLLECT_INTERVAL: Duration = Duration::from_secs(60);
/// How long others come first when there is more to collect. At 7,500 rows a second more goes than all slots
/// together bring, and one heartbeat in eight waits a millisecond longer.
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
    link: Mutex<Link>,
    status: watch::Sender<StoreStatus>,
}

/// Where operations go.
enum Link {
    Vacant,
    /// An actor is about to be built. Until its address is known nothing can be sent.
    Launching,
    /// Whom to wake, and what is to be committed next.
    Open {
        wake: Wake,
        queue: Vec<Job>,
    },
}

/// Who hears of the first operation of a group.
enum Wake {
    /// The actor.
    Flush(Addr<StoreActor>),
    /// Nobody: whoever commits by hand decides when.
    Nobody,
}

impl Shared {
    fn link(&self) -> MutexGuard<'_, Link> {
        // Nothing is called under this lock that leaves the link half changed: a panic elsewhere does not matter.
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an operation, and wakes the actor for the first of a group.
    fn enqueue(&self, job: Job) -> Result<(), StoreError> {
        let mut link = self.link();
        let Link::Open { wake, queue } = &mut *link else {
            return Err(StoreError::Down);
        };
        queue.push(job);
        if let Wake::Flush(address) = wake
            && queue.len() == 1
        {
            address.do_send(Flush);
        }
        Ok(())
    }

    /// Takes all that is queued.
    fn take_group(&self) -> Vec<Job> {
        match &mut *self.link() {
            Link::Open { queue, .. } => std::mem::take(queue),
            Link::Vacant | Link::Launching => Vec::new(),
        }
    }

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
                link: Mutex::new(Link::Vacant),
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
            probing: false,
        });
        self.accept(Wake::Flush(address));
    }

    /// Opens the store for somebody who commits by hand, unless it is open. Nothing is collected then.
    pub fn launch_by_hand(&self) -> Option<StoreWriter> {
        let writer = StoreWriter::open(self.announce()?);
        if !writer.never_waits() {
            return None;
        }
        self.accept(Wake::Nobody);
        writer.opened();
        Some(writer)
    }

    /// Says that a writer is about to be there; `None` if there is one.
    fn announce(&self) -> Option<Presence> {
        {
            let mut link = self.shared.link();
            if !matches!(*link, Link::Vacant) {
                return None;
            }
            *link = Link::Launching;
        }
        let after = match self.status() {
            StoreStatus::Down(error) if error != StoreError::Down => Some(error),
            _ => None,
        };
        self.shared.report(StoreStatus::Opening { after });
        Some(Presence::new(Arc::clone(&self.shared)))
    }

    /// Lets operations be queued for a writer that was announced, unless it is down already.
    fn accept(&self, wake: Wake) {
        let mut link = self.shared.link();
        if matches!(*link, Link::Launching) {
            *link = Link::Open {
                wake,
                queue: Vec::new(),
            };
        }
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
        self.shared.enqueue(Job::new(operation, move |outcome| {
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
        self.writer.flush(|_| {});
        self.probe_while_failing(ctx);
    }
}
