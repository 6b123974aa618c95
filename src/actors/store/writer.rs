//! The store's writer: the connection, and what is done with it. Who decides when is the StoreActor, or the hand of a
//! simulation.

use std::sync::Arc;
use std::time::Duration;

use super::queue::Looked;
use super::{Shared, StoreSettings, StoreStatus};
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
        self.shared.queue.vacate();
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

    /// Whether it is open, and from now on takes the lock of another process for a failure at once.
    pub(super) fn never_waits(&self) -> bool {
        self.store
            .as_ref()
            .is_some_and(|store| store.never_wait().is_ok())
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
        let mut group = self.presence.shared.queue.take_group();
        let faults = &self.presence.shared.settings.faults;
        faults.begin(Work::Group, "store", "");
        edit(&mut group);
        let now = self.clock().now();
        let Some(store) = &mut self.store else {
            return;
        };
        let (committed, answers) = store.commit_group(group, now);
        let meets_no_more = committed.as_ref().err().is_none_or(StoreError::is_damage);
        if !(self.is_damaged() && meets_no_more) {
            self.fares(committed);
        }
        answers.leave();
    }

    /// Looks for the next operation for so long, if the store is still open.
    pub(super) fn look_for_next(&self, limit: Duration) -> Looked {
        match self.is_open() {
            true => self.presence.shared.queue.look_for_next(limit),
            false => Looked::InVain,
        }
    }

    /// Tries a commit of its own, if the last one failed: the pool may be waiting for the store before anybody asks it for
    /// anything.
    pub fn probe(&mut self) {
        let StoreStatus::Failing(error) = self.presence.shared.status.borrow().clone() else {
            return;
        };
        let now = self.clock().now();
        if let Some(store) = &mut self.store {
            let probe = self.presence.shared.settings.doored(Probe);
            let looked = if error.is_damage() {
                store.look_at_all_pages()
            } else {
                Ok(())
            };
            let probed = looked.and_then(|()| store.run(probe, now));
            self.fares(probed);
        }
    }

    /// Whether the last commit failed.
    pub(super) fn is_failing(&self) -> bool {
        let status = self.presence.shared.status.borrow();
        matches!(*status, StoreStatus::Failing(_))
    }

    /// Whether the file was found damaged. A commit that succeeds then has only not met the damage, and one that fails may
    /// meet it elsewhere: the next probe, which looks at all of the file, says how it is.
    fn is_damaged(&self) -> bool {
        let status = self.presence.shared.status.borrow();
        matches!(&*status, StoreStatus::Failing(error) if error.is_damage())
    }

    /// Reports how the last commit went, once for each change.
    fn fares(&mut self, committed: Result<(), StoreError>) {
        let shared = &self.presence.shared;
        match committed {
            Ok(()) => {
                if shared.report(StoreStatus::Ready) {
                    log::info!("the store works again");
                }
            }
            Err(error) => {
                if shared.report(StoreStatus::Failing(error.clone())) {
                    log::error!("the store fails: {error}");
                }
                if error.is_log_gone() {
                    self.save_log(error);
                }
            }
        }
    }

    /// Puts back a log that is gone, and closes the store, which is to be opened anew then. The next probe tries again
    /// otherwise.
    fn save_log(&mut self, gone: StoreError) {
        match self.store.as_ref().map(Store::save_log) {
            Some(Ok(())) => {
                log::info!("the store's write-ahead log was put back, it is opened anew");
                self.store = None;
                self.presence.reason = gone;
            }
            Some(Err(error)) => log::debug!("the log cannot be put back yet: {error}"),
            None => {}
        }
    }

    /// Collects one slice of each kind; returns whether there may be more.
    pub(super) fn collect(&mut self) -> bool {
        let now = self.clock().now();
        let settings = &self.presence.shared.settings;
        let retention_seconds = f64::from(settings.retention_seconds);
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
        let collected = [
            store.run(settings.doored(ended), now),
            store.run(settings.doored(deliveries), now),
        ];
        collected.into_iter().any(|collected| match collected {
            Ok(rows) => rows >= COLLECT_SLICE as usize,
            Err(error) => {
                log::warn!("old rows were not collected: {error}");
                false
            }
        })
    }
}
