//! What is to be committed next, and who is woken for it.
//!
//! The first operation of a group wakes the actor, which takes all that is queued by the time it runs. Invariant: an actor
//! that does not look by itself is sent exactly one `Flush` for each time that the queue stops being empty.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use actix::Addr;

use super::{Flush, StoreActor};
use crate::store::{Job, StoreError};

/// Where operations go.
pub(super) struct Queue(Mutex<Link>);

enum Link {
    Vacant,
    /// An actor is about to be built. Until its address is known nothing can be sent.
    Launching,
    /// Whom to wake, and what is to be committed next.
    Open {
        wake: Wake,
        jobs: Vec<Job>,
    },
}

/// Who hears of the first operation of a group.
pub(super) enum Wake {
    /// The actor, unless it is looking for it by itself.
    Actor {
        address: Addr<StoreActor>,
        is_looking: bool,
    },
    /// Nobody: whoever commits by hand decides when.
    Nobody,
}

impl Wake {
    /// An actor that sleeps.
    pub(super) fn actor(address: Addr<StoreActor>) -> Self {
        Self::Actor {
            address,
            is_looking: false,
        }
    }
}

/// What came of looking for the next operation.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Looked {
    /// One had come before, and a `Flush` with it.
    Crowded,
    /// One came.
    Found,
    /// None came. The next one sends a `Flush`.
    InVain,
}

impl Queue {
    pub(super) fn vacant() -> Self {
        Self(Mutex::new(Link::Vacant))
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        // Nothing is called under this lock that leaves the link half changed: a panic elsewhere does not matter.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that a writer is about to be there; returns whether there is none yet.
    pub(super) fn announce(&self) -> bool {
        let mut link = self.link();
        let is_vacant = matches!(*link, Link::Vacant);
        if is_vacant {
            *link = Link::Launching;
        }
        is_vacant
    }

    /// Lets operations be queued for a writer that was announced, unless it is down already.
    pub(super) fn open(&self, wake: Wake) {
        let mut link = self.link();
        if matches!(*link, Link::Launching) {
            let jobs = Vec::new();
            *link = Link::Open { wake, jobs };
        }
    }

    /// Drops what is queued: there is no writer any more.
    pub(super) fn vacate(&self) {
        *self.link() = Link::Vacant;
    }

    /// Queues an operation, and wakes the actor for the first of a group.
    ///
    /// # Errors
    /// [`StoreError::Down`] if there is no writer.
    pub(super) fn push(&self, job: Job) -> Result<(), StoreError> {
        let mut link = self.link();
        let Link::Open { wake, jobs } = &mut *link else {
            return Err(StoreError::Down);
        };
        jobs.push(job);
        let sleeper = match wake {
            Wake::Actor {
                address,
                is_looking: false,
            } if jobs.len() == 1 => Some(address.clone()),
            _ => None,
        };
        // Whoever is woken finds the link free.
        drop(link);
        if let Some(address) = sleeper {
            address.do_send(Flush);
        }
        Ok(())
    }

    /// Takes all that is queued.
    pub(super) fn take_group(&self) -> Vec<Job> {
        match &mut *self.link() {
            Link::Open { jobs, .. } => std::mem::take(jobs),
            Link::Vacant | Link::Launching => Vec::new(),
        }
    }

    /// For the actor: looks for the next operation for so long, without sleeping. Whoever else wants the processor has it.
    pub(super) fn look_for_next(&self, limit: Duration) -> Looked {
        if !self.begin_looking() {
            return Looked::Crowded;
        }
        let began = Instant::now();
        while self.is_empty() && began.elapsed() < limit {
            thread::yield_now();
        }
        self.end_looking()
    }

    /// Returns whether nothing was queued: otherwise a `Flush` is on its way.
    fn begin_looking(&self) -> bool {
        let Link::Open { wake, jobs } = &mut *self.link() else {
            return false;
        };
        match wake {
            Wake::Actor { is_looking, .. } if jobs.is_empty() => *is_looking = true,
            _ => return false,
        }
        true
    }

    fn is_empty(&self) -> bool {
        match &*self.link() {
            Link::Open { jobs, .. } => jobs.is_empty(),
            Link::Vacant | Link::Launching => true,
        }
    }

    fn end_looking(&self) -> Looked {
        let Link::Open { wake, jobs } = &mut *self.link() else {
            return Looked::InVain;
        };
        if let Wake::Actor { is_looking, .. } = wake {
            *is_looking = false;
        }
        match jobs.is_empty() {
            true => Looked::InVain,
            false => Looked::Found,
        }
    }
}
