//! [`Pool`]: all actors put together, and the face that servers, commands and tests see.
//!
//! Starting never waits for the store, a key or a board: what cannot be opened yet is a reason why the pool is not ready,
//! and is tried again. Only a state directory that another coordinator holds, or that cannot be made, is an error.

mod settings;
mod start;
mod upkeep;

pub use settings::{PoolError, PoolSettings};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as Atomic};

use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;

use crate::actors::boards::{Boards, ListBoards};
use crate::actors::directory::{BoardActors, BoardDirectory};
use crate::actors::dispatcher::LookNow;
use crate::actors::engine::Engine;
use crate::actors::events::{Events, Listener};
use crate::actors::keys::KeyRing;
use crate::actors::ledger::Ledger;
use crate::actors::metrics::Metrics;
use crate::actors::ordinal::{FirstLook, Neighbours};
use crate::actors::ordinals::{OrdinalHandle, Ordinals};
use crate::actors::readers::Readers;
use crate::actors::reconciler::RunPass;
use crate::actors::roster::{Roster, StopGranting};
use crate::actors::state_dir::StateDir;
use crate::actors::store::{StoreHandle, StoreStatus};
use crate::actors::supervise::Link;
use crate::clock::SharedClock;
use crate::domain::{BoardSlug, Ordinal, Timestamp};
use crate::store::StoreError;

/// How long a single cycle waits for the store and the boards; why it waited stands in its report.
const OPENING_LIMIT: Duration = Duration::from_secs(30);

/// What one guarded maintenance cycle did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CycleReport {
    /// Boards that were gone through.
    pub boards: usize,
    /// Runs that became terminal.
    pub ended: usize,
    /// Intents that were resolved.
    pub intents: usize,
    /// Pieces of work that are put off.
    pub deferred: usize,
    /// Why the pool would not be ready.
    pub not_ready: Vec<String>,
}

/// A running pool; clones lead to the same one. It ends with its actix system, or by [`Pool::stop`].
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    settings: PoolSettings,
    clock: SharedClock,
    started_at: Timestamp,
    keys: KeyRing,
    store: StoreHandle,
    /// Of the StoreActor and of the tasks that keep the pool up.
    restarts: Arc<AtomicU64>,
    readers: Readers,
    ordinals: Ordinals,
    neighbours: Neighbours,
    first_look: FirstLook,
    roster: Link<Roster>,
    directory: BoardDirectory,
    ledger: Ledger,
    events: Events,
    metrics: Arc<Metrics>,
    draining: Arc<AtomicBool>,
    boards: watch::Sender<Option<Link<Boards>>>,
    engine: Engine,
    _state_dir: StateDir,
}

impl Pool {
    /// Waits until the store is open, every slot's actor is up, and the boards were listed once.
    pub async fn opened(&self) {
        let mut boards = self.shared.boards.subscribe();
        let Ok(link) = boards
            .wait_for(Option::is_some)
            .await
            .map(|link| link.clone())
        else {
            return;
        };
        if let Some(link) = link {
            // If it goes down meanwhile, the one that follows lists by itself.
            let _ = link.ask(ListBoards).await;
        }
        self.slots_up().await;
    }

    /// Waits until every slot's actor is up, whatever its store and boards do.
    pub async fn slots_up(&self) {
        for (_, slot) in self.shared.ordinals.all() {
            slot.link().up().await;
        }
    }

    /// The settings that the pool was started with.
    #[must_use]
    pub fn settings(&self) -> &PoolSettings {
        &self.shared.settings
    }

    /// The pool's time.
    #[must_use]
    pub fn clock(&self) -> &SharedClock {
        &self.shared.clock
    }

    /// When the pool was started.
    #[must_use]
    pub fn started_at(&self) -> Timestamp {
        self.shared.started_at
    }

    /// The StoreActor.
    #[must_use]
    pub fn store(&self) -> &StoreHandle {
        &self.shared.store
    }

    /// How often a part that serves the whole pool was built anew: the StoreActor, the Roster, the lister of boards, and
    /// the tasks that look after the store, the key and the boards.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        let boards = self.boards().map_or(0, |boards| boards.restarts());
        self.shared.restarts.load(Atomic::Relaxed) + self.roster().restarts() + boards
    }

    /// Reads of the store that decide nothing.
    #[must_use]
    pub fn readers(&self) -> &Readers {
        &self.shared.readers
    }

    /// Every slot's actor.
    #[must_use]
    pub fn ordinals(&self) -> &Ordinals {
        &self.shared.ordinals
    }

    /// One slot's actor.
    #[must_use]
    pub fn ordinal(&self, ordinal: Ordinal) -> Option<OrdinalHandle> {
        self.shared.ordinals.get(ordinal)
    }

    /// The Roster.
    #[must_use]
    pub fn roster(&self) -> &Link<Roster> {
        &self.shared.roster
    }

    /// The actor that lists the boards; `None` until the store is open.
    #[must_use]
    pub fn boards(&self) -> Option<Link<Boards>> {
        self.shared.boards.borrow().clone()
    }

    /// Every board's actors.
    #[must_use]
    pub fn directory(&self) -> &BoardDirectory {
        &self.shared.directory
    }

    /// One board's actors.
    #[must_use]
    pub fn board(&self, slug: &BoardSlug) -> Option<BoardActors> {
        self.shared.directory.get(slug)
    }

    /// What is put off.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// The counters.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Hears everything that happens from now on.
    #[must_use]
    pub fn listen(&self) -> Listener {
        self.shared.events.listen()
    }

    /// Why the pool is not ready; empty when it is.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        match self.shared.store.status() {
            StoreStatus::Ready => {}
            StoreStatus::Opening { after: None } => {
                reasons.push("the store is being opened".to_owned())
            }
            StoreStatus::Opening { after: Some(error) }
            | StoreStatus::Failing(error)
            | StoreStatus::Down(error) => reasons.push(error.to_string()),
        }
        reasons.extend(self.shared.keys.problem());
        if self.is_draining() {
            reasons.push("the pool is draining".to_owned());
        }
        reasons
    }

    /// Whether [`Pool::drain`] was called.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.shared.draining.load(Atomic::Relaxed)
    }

    /// No new claims, offers and passes from now on; waiting polls answer idle. Claims and workers live on.
    pub fn drain(&self) {
        self.shared.draining.store(true, Atomic::Relaxed);
        self.shared.ordinals.drain();
        if let Err(error) = self.shared.roster.tell(StopGranting) {
            // It is built anew with the flag, which is set already; and Dispatchers look at the flag themselves.
            log::debug!("roster not told to stop granting: {error}");
        }
    }

    /// One guarded maintenance cycle: every board is listed and gone through once. Whatever fails is put off and counted;
    /// with a store that cannot be opened that is everything.
    pub async fn run_once(&self) -> CycleReport {
        let mut report = CycleReport::default();
        let mut store = self.shared.store.watch();
        tokio::select! {
            () = self.opened() => {}
            _ = store.wait_for(cannot_be_opened) => {}
            () = self.shared.clock.wait_for(OPENING_LIMIT) => {}
        }
        for board in self.shared.directory.all() {
            report.boards += 1;
            // What it did is counted, and what it could not do is in the ledger.
            let _ = board.reconciler.ask(RunPass).await;
            // Its result is in the ledger and on the board.
            let _ = board.dispatcher.ask(LookNow).await;
        }
        // Every board begins with a pass of its own, so the counters of the whole pool tell what was done.
        report.ended = self.shared.metrics.ended();
        report.intents = self.shared.metrics.intents_resolved();
        report.deferred = self.shared.ledger.len();
        report.not_ready = self.reasons();
        report
    }

    /// Ends the pool's actors and threads. What is durable stays; nothing is written on any board.
    pub fn stop(&self) {
        self.shared.ordinals.retire();
        self.shared.engine.stop();
    }
}

/// Whether the store's file is at fault, rather than its actor not being there yet. A new try may be under way by the time
/// this is asked.
fn cannot_be_opened(status: &StoreStatus) -> bool {
    let error = match status {
        StoreStatus::Down(error) => Some(error),
        StoreStatus::Opening { after } => after.as_ref(),
        StoreStatus::Ready | StoreStatus::Failing(_) => None,
    };
    matches!(error, Some(StoreError::File { .. }))
}
