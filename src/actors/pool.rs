//! [`Pool`]: all actors put together, and the face that servers, commands and tests see.
//!
//! Starting never waits for the store, a key or a board: what cannot be opened yet is a reason why the pool is not ready,
//! and is tried again. Only a state directory that another coordinator holds, or that cannot be made, is an error.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::time::Duration;

use actix::Arbiter;
use serde::Serialize;

use super::boards::{BoardActors, BoardDirectory, BoardTemplate, Boards, ListBoards};
use super::dispatcher::LookNow;
use super::events::{Events, Listener};
use super::keys::KeyRing;
use super::ledger::Ledger;
use super::metrics::Metrics;
use super::ordinal::{OrdinalActor, OrdinalParts};
use super::ordinals::{OrdinalHandle, Ordinals};
use super::readers::Readers;
use super::reconciler::RunPass;
use super::roster::{Presence, Roster, StopGranting};
use super::settle::EndingPolicy;
use super::state_dir::{StateDir, StateDirError};
use super::store::{StoreHandle, StoreSettings, StoreStatus};
use super::supervise::{Keeper, Link};
use crate::board::BoardHost;
use crate::clock::SharedClock;
use crate::domain::{BoardSlug, Lane, LeasePolicy, Ordinal, PoolId, Timestamp};
use crate::faults::Faults;
use crate::store::StoreError;

/// Name of the store's file in the state directory.
const STORE_FILE: &str = "assignments.db";

/// What a pool is started with.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// Identity on the boards, part of every claim.
    pub id: PoolId,
    /// Worker slots, 1 to 10,000.
    pub slots: u16,
    /// Leases and attempts.
    pub policy: LeasePolicy,
    /// Holds the store; made if it is not there.
    pub state_dir: PathBuf,
    /// The pool's master key.
    pub key_file: PathBuf,
    /// Assignees that this pool serves.
    pub lanes: Vec<Lane>,
    /// Boards to serve; empty for all.
    pub include: Vec<BoardSlug>,
    /// How often a board is looked at for changes.
    pub poll: Duration,
    /// Failures after which a task without its own limit is given up.
    pub failure_limit: i64,
    /// Longest time between two passes, in seconds.
    pub interval_seconds: f64,
    /// How long ended assignments are kept, in seconds.
    pub retention_seconds: u32,
    /// The tests' door; the default one lets everything pass.
    pub faults: Faults,
}

/// Why a pool cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// Its directory cannot be used, or belongs to another coordinator.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
}

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
    readers: Readers,
    ordinals: Ordinals,
    roster: Link<Roster>,
    directory: BoardDirectory,
    ledger: Ledger,
    events: Events,
    metrics: Arc<Metrics>,
    draining: Arc<AtomicBool>,
    boards: tokio::sync::watch::Sender<Option<Link<Boards>>>,
    arbiters: Arbiters,
    _state_dir: StateDir,
}

/// The threads of the actors.
struct Arbiters {
    /// Of the StoreActor alone, which blocks it.
    store: Arbiter,
    /// Of the slots.
    slots: Arbiter,
    /// Of everything that decides what is claimed and settled.
    control: Arbiter,
}

impl Pool {
    /// Starts a pool on the given paths, with the given time and boards. It needs a running actix system.
    ///
    /// # Errors
    /// [`PoolError`]
    pub fn start(
        settings: PoolSettings,
        clock: SharedClock,
        host: Arc<dyn BoardHost>,
    ) -> Result<Self, PoolError> {
        let state_dir = StateDir::hold(&settings.state_dir)?;
        let metrics = Arc::new(Metrics::new());
        let events = Events::new(Arc::clone(&metrics));
        let arbiters = Arbiters {
            store: Arbiter::new(),
            slots: Arbiter::new(),
            control: Arbiter::new(),
        };
        let path = settings.state_dir.join(STORE_FILE);
        let store = StoreHandle::new(StoreSettings {
            path: path.clone(),
            slots: settings.slots,
            retention_seconds: settings.retention_seconds,
            clock: Arc::clone(&clock),
        });
        let draining = Arc::new(AtomicBool::new(false));
        let ordinals = Ordinals::default();
        let keeper = Keeper {
            arbiter: arbiters.control.handle(),
            clock: Arc::clone(&clock),
            events: events.clone(),
        };
        let roster = keep_roster(&keeper, &settings, &ordinals, &draining);
        let shared = Shared {
            keys: KeyRing::open(settings.key_file.clone(), settings.slots),
            started_at: clock.now(),
            readers: Readers::new(path),
            directory: BoardDirectory::default(),
            ledger: Ledger::default(),
            boards: tokio::sync::watch::Sender::new(None),
            _state_dir: state_dir,
            settings,
            clock,
            store,
            ordinals,
            roster,
            events,
            metrics,
            draining,
            arbiters,
        };
        // The store first: what is asked while it is being opened waits.
        shared.store.launch(&shared.arbiters.store.handle());
        let pool = Self {
            shared: Arc::new(shared),
        };
        for ordinal in 0..pool.shared.settings.slots {
            pool.serve_slot(Ordinal(ordinal));
        }
        pool.shared.arbiters.control.spawn(keep_store(pool.clone()));
        pool.shared.arbiters.control.spawn(reload_key(pool.clone()));
        pool.shared
            .arbiters
            .control
            .spawn(serve_boards(pool.clone(), keeper, host));
        Ok(pool)
    }

    fn serve_slot(&self, ordinal: Ordinal) {
        let shared = &self.shared;
        if shared.ordinals.get(ordinal).is_some() {
            return;
        }
        let presence = Arc::new(Presence::default());
        let parts = OrdinalParts {
            ordinal,
            slots: shared.settings.slots,
            keys: shared.keys.clone(),
            store: shared.store.clone(),
            clock: Arc::clone(&shared.clock),
            policy: shared.settings.policy,
            roster: shared.roster.clone(),
            boards: shared.directory.clone(),
            presence: Arc::clone(&presence),
            events: shared.events.clone(),
            metrics: Arc::clone(&shared.metrics),
            draining: Arc::clone(&shared.draining),
            faults: shared.settings.faults.clone(),
        };
        let keeper = Keeper {
            arbiter: shared.arbiters.slots.handle(),
            clock: Arc::clone(&shared.clock),
            events: shared.events.clone(),
        };
        let link = keeper.keep(format!("ordinal-{ordinal}"), move |guard| {
            OrdinalActor::new(parts.clone(), guard)
        });
        shared
            .ordinals
            .insert(ordinal, OrdinalHandle::new(link, presence));
    }

    fn template(&self, host: Arc<dyn BoardHost>, endings: EndingPolicy) -> BoardTemplate {
        let shared = &self.shared;
        BoardTemplate {
            host,
            endings,
            poll: shared.settings.poll,
            store: shared.store.clone(),
            readers: shared.readers.clone(),
            clock: Arc::clone(&shared.clock),
            roster: shared.roster.clone(),
            ordinals: shared.ordinals.clone(),
            ledger: shared.ledger.clone(),
            events: shared.events.clone(),
            lanes: shared.settings.lanes.clone().into(),
            policy: shared.settings.policy,
            interval_seconds: shared.settings.interval_seconds,
            draining: Arc::clone(&shared.draining),
            include: shared.settings.include.clone().into(),
            faults: shared.settings.faults.clone(),
        }
    }

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
            StoreStatus::Opening => reasons.push("the store is being opened".to_owned()),
            StoreStatus::Failing(error) | StoreStatus::Down(error) => {
                reasons.push(error.to_string())
            }
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
        }
        for board in self.shared.directory.all() {
            report.boards += 1;
            if let Ok(Some(pass)) = board.reconciler.ask(RunPass).await {
                report.ended += pass.ended;
                report.intents += pass.intents;
            }
            // Its result is in the ledger and on the board.
            let _ = board.dispatcher.ask(LookNow).await;
        }
        report.deferred = self.shared.ledger.len();
        report.not_ready = self.reasons();
        report
    }

    /// Ends the pool's threads. What is durable stays; nothing is written on any board.
    pub fn stop(&self) {
        for arbiter in [
            &self.shared.arbiters.control,
            &self.shared.arbiters.slots,
            &self.shared.arbiters.store,
        ] {
            arbiter.stop();
        }
    }
}

/// Whether the store's file is at fault, rather than its actor not being there yet.
fn cannot_be_opened(status: &StoreStatus) -> bool {
    matches!(status, StoreStatus::Down(StoreError::File { .. }))
}

fn keep_roster(
    keeper: &Keeper,
    settings: &PoolSettings,
    ordinals: &Ordinals,
    draining: &Arc<AtomicBool>,
) -> Link<Roster> {
    let (clock, lease_seconds) = (Arc::clone(&keeper.clock), settings.policy.lease_seconds());
    let (ordinals, draining) = (ordinals.clone(), Arc::clone(draining));
    keeper.keep("roster", move |guard| {
        let granting = !draining.load(Atomic::Relaxed);
        Roster::new(
            Arc::clone(&clock),
            lease_seconds,
            granting,
            ordinals.clone(),
            guard,
        )
    })
}

/// Builds the StoreActor anew whenever it is down.
async fn keep_store(pool: Pool) {
    let mut status = pool.shared.store.watch();
    let mut pause_seconds: f64 = 0.1;
    loop {
        pool.shared
            .store
            .launch(&pool.shared.arbiters.store.handle());
        let down = status.wait_for(|status| {
            if *status == StoreStatus::Ready {
                pause_seconds = 0.1;
            }
            matches!(status, StoreStatus::Down(_))
        });
        let reason = match down.await {
            Ok(status) => match &*status {
                StoreStatus::Down(error) => error.to_string(),
                _ => String::new(),
            },
            Err(_) => return,
        };
        let now = pool.shared.clock.now();
        pool.shared
            .ledger
            .defer("store", "open", reason, now, Some(now + pause_seconds));
        pool.shared
            .clock
            .wait_for(Duration::from_secs_f64(pause_seconds))
            .await;
        pause_seconds = (pause_seconds * 2.0).min(5.0);
    }
}

/// Waits for a status; `None` when the store is gone for good.
async fn follow(
    status: &mut tokio::sync::watch::Receiver<StoreStatus>,
    wanted: impl FnMut(&StoreStatus) -> bool,
) -> Option<()> {
    status.wait_for(wanted).await.ok().map(|_| ())
}

/// Reads the key as soon as its file can be read.
async fn reload_key(pool: Pool) {
    while pool.shared.keys.problem().is_some() {
        pool.shared.clock.wait_for(Duration::from_secs(1)).await;
        let keys = pool.shared.keys.clone();
        // A panic while reading leaves the key unknown, and the next try comes.
        let _ = tokio::task::spawn_blocking(move || keys.reload()).await;
    }
}

/// Serves the boards once the store is open: only then is the fence known that every claim carries.
async fn serve_boards(pool: Pool, keeper: Keeper, host: Arc<dyn BoardHost>) {
    let mut status = pool.shared.store.watch();
    let fence = loop {
        if follow(&mut status, |status| *status == StoreStatus::Ready)
            .await
            .is_none()
        {
            return;
        }
        pool.shared.ledger.clear("store", "open");
        match pool
            .shared
            .readers
            .read(|reader| Ok((reader.fence()?, reader.live()?)))
            .await
        {
            Ok((fence, live)) => {
                for record in live.into_iter().flatten() {
                    // A slot that was taken out of the pool still has its timer while a row refers to it.
                    pool.serve_slot(record.assignment.binding().ordinal);
                }
                break fence;
            }
            Err(error) => {
                let now = pool.shared.clock.now();
                pool.shared
                    .ledger
                    .defer("store", "read", error.to_string(), now, None);
                pool.shared.clock.wait_for(Duration::from_secs(1)).await;
            }
        }
    };
    pool.shared.ledger.clear("store", "read");
    let settings = &pool.shared.settings;
    let endings = EndingPolicy {
        pool: settings.id.clone(),
        fence,
        failure_limit: settings.failure_limit,
    };
    let template = pool.template(host, endings);
    let (directory, for_boards) = (pool.shared.directory.clone(), keeper.clone());
    let boards = keeper.keep("boards", move |guard| {
        Boards::new(
            template.clone(),
            directory.clone(),
            for_boards.clone(),
            guard,
        )
    });
    pool.shared.boards.send_replace(Some(boards));
    loop {
        // What a slot asked while the store was down went unanswered.
        pool.shared.ordinals.refresh_all();
        pool.shared.ledger.clear("store", "open");
        if follow(&mut status, |status| *status != StoreStatus::Ready)
            .await
            .is_none()
            || follow(&mut status, |status| *status == StoreStatus::Ready)
                .await
                .is_none()
        {
            return;
        }
    }
}
