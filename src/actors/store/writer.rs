//! The store's writer: the connection, and what is done with it. Who decides when is the StoreActor, or the hand of a
//! simulation.

use std::sync::Arc;

use super::{Link, Shared, StoreSettings, StoreStatus};
use crate::clock::SharedClock;
use crate::faults::Work;
use crate::store::operations::{CollectDeliveries, CollectEnded, DELIVERIES_KEPT_SECONDS, Probe};
use crate::store::{Job, Store, StoreError};

/// How many rows are collected at once: about a millisecond's work, since heartbeats wait for it.
const COLLECT_SLICE: u32 = 100;

/// The connection that writes, and the handle's other end. If it goes down, so does what was queued.
pub struct StoreWriter {
    store: Option<Store>,
    presence: Presence,
}

/// Tells the handle when the writer is gone, however that came about.
pub(super) struct Presence {
    shared: Arc<Shared>,
    reason: StoreError,
}

impl Presence {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            reason: StoreError::Down,
        }
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // In this order: whoever sees the status may launch the next one at once.
        *self.shared.link() = Link::Vacant;
        self.shared.report(StoreStatus::Down(self.reason.clone()));
    }
}

impl StoreWriter {
    pub(super) fn open(mut presence: Presence) -> Self {
        let StoreSettings { path, slots, .. } = &presence.shared.settings;
        let store = Store::open(path, *slots);
        if let Err(error) = &store {
            presence.reason = error.clone();
        }
        Self {
            store: store.ok(),
            presence,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.store.is_some()
    }

    /// Says that the file was opened.
    pub(super) fn opened(&self) {
        self.presence.shared.report(StoreStatus::Ready);
    }

    pub(super) fn clock(&self) -> &SharedClock {
        &self.presence.shared.settings.clock
    }

    /// Commits all that is queued at once, as `edit` leaves it.
    pub fn flush(&mut self, edit: impl FnOnce(&mut Vec<Job>)) {
        let mut group = self.presence.shared.take_group();
        let faults = &self.presence.shared.settings.faults;
        faults.begin(Work::Group, || "store".to_owned());
        edit(&mut group);
        let now = self.clock().now();
        let Some(store) = &mut self.store else {
            return;
        };
        let committed = store.commit_group(group, now);
        self.fares(committed);
    }

    /// Tries a commit of its own, if the last one failed: the pool may be waiting for the store before anybody asks it for
    /// anything.
    pub fn probe(&mut self) {
        if !self.is_failing() {
            return;
        }
        let now = self.clock().now();
        if let Some(store) = &mut self.store {
            let probed = store.run(Probe, now);
            self.fares(probed);
        }
    }

    /// Whether the last commit failed.
    pub(super) fn is_failing(&self) -> bool {
        let status = self.presence.shared.status.borrow();
        matches!(*status, StoreStatus::Failing(_))
    }

    /// Reports how the last commit went, once for each change.
    fn fares(&self, committed: Result<(), StoreError>) {
        let shared = &self.presence.shared;
        match committed {
            Ok(()) => {
                if shared.report(StoreStatus::Ready) {
                    log::info!("groups are committed again");
                }
            }
            Err(error) => {
                if shared.report(StoreStatus::Failing(error.clone())) {
                    log::error!("a group was not committed: {error}");
                }
            }
        }
    }

    /// Collects one slice of each kind; returns whether there may be more.
    pub(super) fn collect(&mut self) -> bool {
        let now = self.clock().now();
        let retention_seconds = f64::from(self.presence.shared.settings.retention_seconds);
        let Some(store) = &mut self.store else {
            return false;
        };
        let ended = CollectEnded {
            retention_seconds,
            limit: COLLECT_SLICE,
        };
        let deliveries = CollectDeliveries {
            kept_seconds: DELIVERIES_KEPT_SECONDS,
            limit: COLLECT_SLICE,
        };
        let collected = [store.run(ended, now), store.run(deliveries, now)];
        collected.into_iter().any(|collected| match collected {
            Ok(rows) => rows >= COLLECT_SLICE as usize,
            Err(error) => {
                log::warn!("old rows were not collected: {error}");
                false
            }
        })
    }
}
