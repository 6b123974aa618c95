//! Putting the actors of a pool together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};

use tokio::sync::watch;

use super::upkeep;
use super::{Pool, PoolError, PoolSettings, Shared};
use crate::actors::boards::BoardTemplate;
use crate::actors::directory::BoardDirectory;
use crate::actors::engine::Engine;
use crate::actors::events::Events;
use crate::actors::keys::KeyRing;
use crate::actors::ledger::Ledger;
use crate::actors::metrics::Metrics;
use crate::actors::ordinal::{Looked, Neighbours, OrdinalActor, OrdinalParts};
use crate::actors::ordinals::{OrdinalHandle, Ordinals};
use crate::actors::presence::Presence;
use crate::actors::readers::Readers;
use crate::actors::roster::Roster;
use crate::actors::settle::EndingPolicy;
use crate::actors::state_dir::StateDir;
use crate::actors::store::{StoreHandle, StoreSettings};
use crate::actors::supervise::{Keeper, Link};
use crate::board::BoardHost;
use crate::clock::SharedClock;
use crate::domain::Ordinal;
use crate::store::STORE_FILE;

impl Pool {
    /// Starts a pool on the given paths, with the given time and boards. It needs a running actix system; the slots live on
    /// the present thread, which must not block.
    ///
    /// # Errors
    /// [`PoolError`]
    pub fn start(
        settings: PoolSettings,
        clock: SharedClock,
        host: Arc<dyn BoardHost>,
    ) -> Result<Self, PoolError> {
        Self::start_on(Engine::threads(), settings, clock, host)
    }

    /// Starts a pool in the state directory of its settings, which is held already.
    #[must_use]
    pub fn start_in(
        state_dir: StateDir,
        settings: PoolSettings,
        clock: SharedClock,
        host: Arc<dyn BoardHost>,
    ) -> Self {
        Self::put_together(Engine::threads(), state_dir, settings, clock, host)
    }

    /// Starts a pool whose work is carried by `engine`.
    ///
    /// # Errors
    /// [`PoolError`]
    pub fn start_on(
        engine: Engine,
        settings: PoolSettings,
        clock: SharedClock,
        host: Arc<dyn BoardHost>,
    ) -> Result<Self, PoolError> {
        let state_dir = StateDir::hold(&settings.state_dir)?;
        Ok(Self::put_together(engine, state_dir, settings, clock, host))
    }

    fn put_together(
        engine: Engine,
        state_dir: StateDir,
        settings: PoolSettings,
        clock: SharedClock,
        host: Arc<dyn BoardHost>,
    ) -> Self {
        let metrics = Arc::new(Metrics::new());
        let events = Events::new(Arc::clone(&metrics));
        let path = settings.state_dir.join(STORE_FILE);
        let store = StoreHandle::new(StoreSettings {
            path: path.clone(),
            slots: settings.slots,
            retention_seconds: settings.retention_seconds,
            clock: Arc::clone(&clock),
            faults: settings.faults.clone(),
        });
        let draining = Arc::new(AtomicBool::new(false));
        let ordinals = Ordinals::default();
        let keeper = Keeper {
            arbiter: engine.control(),
            clock: Arc::clone(&clock),
            events: events.clone(),
        };
        let roster = keep_roster(&keeper, &settings, &ordinals, &draining);
        let (looked, first_look) = watch::channel(Looked::NotYet);
        let shared = Shared {
            keys: KeyRing::open(settings.key_file.clone(), settings.slots),
            started_at: clock.now(),
            restarts: Arc::default(),
            readers: Readers::new(path, engine.clone()),
            directory: BoardDirectory::default(),
            ledger: Ledger::default(),
            boards: watch::Sender::new(None),
            _state_dir: state_dir,
            settings,
            clock,
            store,
            ordinals,
            neighbours: Neighbours::default(),
            first_look,
            roster,
            events,
            metrics,
            draining,
            engine,
        };
        // The store first: what is asked while it is being opened waits.
        shared.engine.open_store(&shared.store);
        let pool = Self {
            shared: Arc::new(shared),
        };
        for ordinal in 0..pool.shared.settings.slots {
            pool.serve_slot(Ordinal(ordinal));
        }
        upkeep::begin(&pool, &keeper, host, looked);
        pool
    }

    pub(super) fn serve_slot(&self, ordinal: Ordinal) {
        let shared = &self.shared;
        if shared.ordinals.get(ordinal).is_some() {
            return;
        }
        let presence = Arc::new(Presence::default());
        let (key, clock) = (shared.keys.of(ordinal), Arc::clone(&shared.clock));
        let parts = OrdinalParts {
            ordinal,
            slots: shared.settings.slots,
            store: shared.store.clone(),
            clock: Arc::clone(&shared.clock),
            policy: shared.settings.policy,
            roster: shared.roster.clone(),
            boards: shared.directory.clone(),
            presence: Arc::clone(&presence),
            neighbours: shared.neighbours.clone(),
            events: shared.events.clone(),
            metrics: Arc::clone(&shared.metrics),
            ledger: shared.ledger.clone(),
            draining: Arc::clone(&shared.draining),
            faults: shared.settings.faults.clone(),
        };
        let keeper = Keeper {
            arbiter: shared.engine.slots(),
            clock: Arc::clone(&shared.clock),
            events: shared.events.clone(),
        };
        let mut first_look = Some(shared.first_look.clone());
        let link = keeper.keep(format!("ordinal-{ordinal}"), move |guard| {
            OrdinalActor::new(parts.clone(), first_look.take(), guard)
        });
        shared
            .ordinals
            .insert(ordinal, OrdinalHandle::new(link, presence, key, clock));
    }

    pub(super) fn template(
        &self,
        host: Arc<dyn BoardHost>,
        endings: EndingPolicy,
    ) -> BoardTemplate {
        let shared = &self.shared;
        BoardTemplate {
            host,
            engine: shared.engine.clone(),
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
}

fn keep_roster(
    keeper: &Keeper,
    settings: &PoolSettings,
    ordinals: &Ordinals,
    draining: &Arc<AtomicBool>,
) -> Link<Roster> {
    let (clock, lease_seconds) = (Arc::clone(&keeper.clock), settings.policy.lease_seconds());
    let (ordinals, draining) = (ordinals.clone(), Arc::clone(draining));
    let faults = settings.faults.clone();
    keeper.keep("roster", move |guard| {
        let granting = !draining.load(Atomic::Relaxed);
        Roster::new(
            Arc::clone(&clock),
            lease_seconds,
            granting,
            ordinals.clone(),
            faults.clone(),
            guard,
        )
    })
}
