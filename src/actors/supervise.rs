//! Supervision: a parent that builds an actor anew whenever it went down, for whatever reason, and begins a task that is
//! no actor again when it panicked.
//!
//! actix' own `Supervisor` restarts an actor that stops, with its old value, and never one that panicked. Here every actor
//! carries a [`DownGuard`]; its drop, which unwinding runs too, tells the keeper, and the keeper builds a fresh actor
//! that reads its state from the store. Others hold a [`Link`], which always leads to the present one.
//!
//! Invariants: at most one actor stands behind a link; rebuilding backs off with jitter up to [`BACKOFF_MAX_SECONDS`], so an
//! actor that always panics is quarantined at that interval and never loops hot; an actor that lived for a while
//! starts again with a short back-off.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, ArbiterHandle, Context, Handler, Message};
use futures_util::FutureExt;
use tokio::sync::{oneshot, watch};

use super::events::{Events, PoolEvent};
use crate::clock::SharedClock;

/// First back-off.
const BACKOFF_MIN_SECONDS: f64 = 0.05;
/// The back-off that an actor which keeps failing ends up with.
pub const BACKOFF_MAX_SECONDS: f64 = 60.0;
/// An actor that lived this long is believed to be sound again.
const SOUND_AFTER: Duration = Duration::from_secs(120);

/// Ends an actor for good; it is not built anew.
#[derive(Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Stop;

/// Tells the keeper, by being dropped, that the actor which carries it is down.
pub struct DownGuard {
    _down: oneshot::Sender<()>,
}

/// Leads to the actor that stands at present; clones lead to the same one.
pub struct Link<A: Actor> {
    inner: Arc<LinkInner<A>>,
}

struct LinkInner<A: Actor> {
    name: String,
    address: watch::Sender<Option<Addr<A>>>,
    restarts: AtomicU64,
    retired: AtomicBool,
}

impl<A: Actor> Clone for Link<A> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

/// Why a message did not reach its actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreached {
    /// The actor is down and is being built anew.
    #[error("the part of the pool that answers this is restarting; ask again")]
    Down,
    /// Its mailbox is full.
    #[error("the pool is overloaded; ask again")]
    Full,
}

impl<A: Actor<Context = Context<A>>> Link<A> {
    /// The name of the actor, as metrics and logs show it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// How often it was built anew.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.inner.restarts.load(Ordering::Relaxed)
    }

    /// The present address; `None` while the actor is down.
    #[must_use]
    pub fn address(&self) -> Option<Addr<A>> {
        self.inner.address.borrow().clone().filter(Addr::connected)
    }

    /// Hands a message over without waiting for its effect.
    ///
    /// # Errors
    /// [`Unreached`]; the message is gone then.
    pub fn tell<M>(&self, message: M) -> Result<(), Unreached>
    where
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        // Through the one shared address: a clone would have a place of its own in the mailbox, beyond its bound.
        let address = self.inner.address.borrow();
        let Some(address) = address.as_ref() else {
            return Err(Unreached::Down);
        };
        address.try_send(message).map_err(|error| match error {
            actix::prelude::SendError::Full(_) => Unreached::Full,
            actix::prelude::SendError::Closed(_) => Unreached::Down,
        })
    }

    /// Sends a message, as soon as the actor is up, and waits for its answer.
    ///
    /// # Errors
    /// [`Unreached::Down`] if the actor has ended for good, or went down before it answered.
    pub async fn ask<M>(&self, message: M) -> Result<M::Result, Unreached>
    where
        A: Handler<M>,
        A::Context: ToEnvelope<A, M>,
        M: Message + Send + 'static,
        M::Result: Send,
    {
        let address = self.up().await.ok_or(Unreached::Down)?;
        address.send(message).await.map_err(|_| Unreached::Down)
    }

    /// Waits until the actor is up; `None` if it has ended for good.
    pub async fn up(&self) -> Option<Addr<A>> {
        let mut present = self.inner.address.subscribe();
        loop {
            if let Some(address) = present.borrow_and_update().clone().filter(Addr::connected) {
                return Some(address);
            }
            if self.is_retired() {
                return None;
            }
            present.changed().await.ok()?;
        }
    }

    /// Ends the actor for good.
    pub fn retire(&self)
    where
        A: Handler<Stop>,
        A::Context: ToEnvelope<A, Stop>,
    {
        self.inner.retired.store(true, Ordering::SeqCst);
        // An actor that is down already is not built again.
        let _ = self.tell(Stop);
        self.set(None);
    }

    fn is_retired(&self) -> bool {
        self.inner.retired.load(Ordering::SeqCst)
    }

    fn set(&self, address: Option<Addr<A>>) {
        self.inner.address.send_replace(address);
    }
}

/// Where and with what actors are kept.
#[derive(Clone)]
pub struct Keeper {
    /// The thread on which the actor lives.
    pub arbiter: ArbiterHandle,
    /// Time, for the back-off.
    pub clock: SharedClock,
    /// Where restarts are said.
    pub events: Events,
}

impl Keeper {
    /// Keeps one actor of the given name alive, built by `build` each time.
    pub fn keep<A, F>(&self, name: impl Into<String>, mut build: F) -> Link<A>
    where
        A: Actor<Context = Context<A>>,
        F: FnMut(DownGuard) -> A + Send + 'static,
    {
        let link = Link {
            inner: Arc::new(LinkInner {
                name: name.into(),
                address: watch::Sender::new(None),
                restarts: AtomicU64::new(0),
                retired: AtomicBool::new(false),
            }),
        };
        let (keeper, kept) = (self.clone(), link.clone());
        let task = async move {
            let mut backoff = Backoff::default();
            while !kept.is_retired() {
                let began = keeper.clock.elapsed();
                keeper.live_once(&kept, &mut build).await;
                if kept.is_retired() {
                    break;
                }
                let restarts = &kept.inner.restarts;
                keeper
                    .pause(kept.name(), restarts, began, &mut backoff)
                    .await;
            }
        };
        self.arbiter.spawn(task);
        link
    }

    /// Keeps a task going until it ends by itself: one that panics is begun again, and counted in `restarts`.
    pub(super) fn keep_going<T>(
        &self,
        name: &'static str,
        restarts: Arc<AtomicU64>,
        mut begin: impl FnMut() -> T + Send + 'static,
    ) where
        T: Future<Output = ()> + Send + 'static,
    {
        let keeper = self.clone();
        self.arbiter.spawn(async move {
            let mut backoff = Backoff::default();
            loop {
                let began = keeper.clock.elapsed();
                if AssertUnwindSafe(begin()).catch_unwind().await.is_ok() {
                    return;
                }
                keeper.pause(name, &restarts, began, &mut backoff).await;
            }
        });
    }

    /// Counts and tells a restart, and waits until it is due.
    async fn pause(&self, name: &str, count: &AtomicU64, began: Duration, backoff: &mut Backoff) {
        count.fetch_add(1, Ordering::Relaxed);
        self.events.emit(PoolEvent::Restarted(name.to_owned()));
        let lived = self.clock.elapsed().saturating_sub(began);
        let pause = backoff.next(lived, fastrand::f64());
        self.clock.wait_for(pause).await;
    }

    /// Builds the actor, and returns once it is down.
    async fn live_once<A, F>(&self, link: &Link<A>, build: &mut F)
    where
        A: Actor<Context = Context<A>>,
        F: FnMut(DownGuard) -> A,
    {
        let (sender, down) = oneshot::channel();
        let built = catch_unwind(AssertUnwindSafe(|| {
            build(DownGuard { _down: sender }).start()
        }));
        if let Ok(address) = built {
            link.set(Some(address));
            // The sender is never used: its drop is the message.
            let _ = down.await;
            link.set(None);
        }
    }
}

/// Growing, jittered pauses between restarts.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    seconds: f64,
}

impl Backoff {
    /// The pause after an actor that lived for `lived`; `jitter` is in 0..1.
    pub(super) fn next(&mut self, lived: Duration, jitter: f64) -> Duration {
        self.seconds = if lived >= SOUND_AFTER || self.seconds == 0.0 {
            BACKOFF_MIN_SECONDS
        } else {
            (self.seconds * 2.0).min(BACKOFF_MAX_SECONDS)
        };
        Duration::from_secs_f64(self.seconds * (0.5 + jitter / 2.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_grows_to_its_limit_and_starts_anew_after_a_sound_life() {
        let mut backoff = Backoff::default();
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            last = backoff.next(Duration::ZERO, 1.0);
        }
        assert_eq!(last, Duration::from_secs_f64(BACKOFF_MAX_SECONDS));
        assert_eq!(
            backoff.next(SOUND_AFTER, 1.0),
            Duration::from_secs_f64(BACKOFF_MIN_SECONDS)
        );
        assert!(backoff.next(Duration::ZERO, 0.0) >= Duration::from_secs_f64(BACKOFF_MIN_SECONDS));
    }
}
