//! What carries the pool's work: threads, or the hand of a simulation.
//!
//! Three kinds of work are not an actor's own: commits of the store, visits to boards, and short reads aside. On threads
//! each has a thread of its own. By hand all of it waits, on the thread that everything else runs on too, until somebody
//! says which piece is next. Then nothing happens that was not decided, and a history can be told again step by step.
//!
//! Deliberately absent: anything that decides; both engines carry the very same work.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use actix::{Arbiter, ArbiterHandle};

use super::board_thread::{BoardVisits, panic_text};
use super::store::{StoreHandle, StoreWriter};
use crate::domain::BoardSlug;

/// What carries the work of one pool; clones are the same one.
#[derive(Clone)]
pub struct Engine {
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    Threads {
        /// Of the StoreActor alone, which blocks it.
        store: ArbiterHandle,
        /// Of the slots: the thread that started the pool. With one of their own, each message would wake one thread more
        /// on its way there and back, which takes longer than all that a slot does with it.
        slots: ArbiterHandle,
        /// Of everything that decides what is claimed and settled.
        control: ArbiterHandle,
    },
    Hand {
        all: ArbiterHandle,
        /// Gone with the hand itself: what it holds leads back to the engine.
        held: Weak<Mutex<Held>>,
    },
}

impl Engine {
    /// An engine of threads: the present one, which needs a running actix system, and those that it starts.
    #[must_use]
    pub fn threads() -> Self {
        Self {
            kind: Kind::Threads {
                store: Arbiter::new().handle(),
                slots: Arbiter::current(),
                control: Arbiter::new().handle(),
            },
        }
    }

    /// An engine on the present thread, which needs a running actix system, and the hand that moves it.
    #[must_use]
    pub fn by_hand() -> (Self, ByHand) {
        let hand = ByHand::default();
        let engine = Self {
            kind: Kind::Hand {
                all: Arbiter::current(),
                held: Arc::downgrade(&hand.held),
            },
        };
        (engine, hand)
    }

    pub(super) fn slots(&self) -> ArbiterHandle {
        match &self.kind {
            Kind::Threads { slots, .. } => slots.clone(),
            Kind::Hand { all, .. } => all.clone(),
        }
    }

    pub(super) fn control(&self) -> ArbiterHandle {
        match &self.kind {
            Kind::Threads { control, .. } => control.clone(),
            Kind::Hand { all, .. } => all.clone(),
        }
    }

    /// Ends the threads that were started, and with them what lives there.
    pub(super) fn stop(&self) {
        match &self.kind {
            Kind::Threads { store, control, .. } => {
                [control, store].into_iter().for_each(|arbiter| {
                    arbiter.stop();
                });
            }
            Kind::Hand { all, .. } => {
                all.stop();
            }
        }
    }

    /// Opens the store's writer, unless it is there.
    pub(super) fn open_store(&self, handle: &StoreHandle) {
        match &self.kind {
            Kind::Threads { store, .. } => handle.launch(store),
            Kind::Hand { held, .. } => {
                if let Some(hand) = ByHand::of(held)
                    && let Some(writer) = handle.launch_by_hand()
                {
                    hand.held().store = Some(writer);
                }
            }
        }
    }

    /// Carries out the visits to a board from now on.
    ///
    /// # Errors
    /// The operating system's, when it gives no thread.
    pub(super) fn serve_board(&self, visits: BoardVisits, poll: Duration) -> std::io::Result<()> {
        match &self.kind {
            Kind::Threads { .. } => visits.start(poll),
            Kind::Hand { held, .. } => {
                if let Some(hand) = ByHand::of(held) {
                    hand.held().boards.insert(visits.slug().clone(), visits);
                }
                Ok(())
            }
        }
    }

    /// Does something short that blocks, off every actor's thread.
    ///
    /// # Errors
    /// The text of its panic.
    pub(super) async fn aside<R: Send + 'static>(
        &self,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<R, String> {
        let guarded = move || {
            catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_text(panic.as_ref()))
        };
        match &self.kind {
            Kind::Threads { .. } => tokio::task::spawn_blocking(guarded)
                .await
                .unwrap_or_else(|error| Err(error.to_string())),
            Kind::Hand { .. } => guarded(),
        }
    }
}

/// Moves an engine piece by piece. With it the store's writer and the boards' connections go down.
#[derive(Default)]
pub struct ByHand {
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    store: Option<StoreWriter>,
    boards: BTreeMap<BoardSlug, BoardVisits>,
}

impl ByHand {
    fn of(held: &Weak<Mutex<Held>>) -> Option<Self> {
        Some(Self {
            held: held.upgrade()?,
        })
    }

    /// Takes the store's writer, if it is open. To drop it is to let it go down; else it is given back.
    #[must_use]
    pub fn take_store(&self) -> Option<StoreWriter> {
        self.held().store.take()
    }

    /// Gives the store's writer back.
    pub fn give_store(&self, writer: StoreWriter) {
        self.held().store = Some(writer);
    }

    /// Boards that are served, in order of name.
    #[must_use]
    pub fn boards(&self) -> Vec<BoardSlug> {
        self.held().boards.keys().cloned().collect()
    }

    /// Carries out the next visit to a board; `false` if none waits.
    pub fn visit(&self, board: &BoardSlug) -> bool {
        self.with_board(board, BoardVisits::visit_next)
            .unwrap_or(false)
    }

    /// Looks whether a board has changed.
    pub fn look(&self, board: &BoardSlug) {
        self.with_board(board, BoardVisits::look);
    }

    fn with_board<R>(
        &self,
        board: &BoardSlug,
        act: impl FnOnce(&mut BoardVisits) -> R,
    ) -> Option<R> {
        // Taken out meanwhile: what the visit wakes may come back here.
        let mut visits = self.held().boards.remove(board)?;
        let answer = act(&mut visits);
        self.held().boards.entry(board.clone()).or_insert(visits);
        Some(answer)
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Whatever was put there is whole: a panic elsewhere does not matter.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
