//! Whether a slot's worker is there: written by its OrdinalActor, read by the Roster and by status, without a message.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering as Atomic};

use crate::domain::Timestamp;

/// What is known of a slot's worker; written by its OrdinalActor, read by the Roster.
#[derive(Debug, Default)]
pub struct Presence {
    /// Seconds since the epoch, as the bits of a double; 0 for never.
    last_seen: AtomicU64,
    waiting: AtomicU32,
}

impl Presence {
    /// The worker gave a sign.
    pub fn seen(&self, now: Timestamp) {
        self.last_seen.store(now.0.to_bits(), Atomic::Relaxed);
    }

    /// Whether a poll of the worker waits.
    pub fn set_waiting(&self, waiting: bool) {
        self.waiting.store(u32::from(waiting), Atomic::Relaxed);
    }

    /// Whether a poll of the worker waits.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Atomic::Relaxed) > 0
    }

    /// When the worker gave its last sign; `None` for never.
    #[must_use]
    pub fn last_seen(&self) -> Option<Timestamp> {
        let seconds = f64::from_bits(self.last_seen.load(Atomic::Relaxed));
        (seconds > 0.0).then_some(Timestamp(seconds))
    }

    /// Whether the worker waits, or gave a sign within one lease.
    #[must_use]
    pub fn is_alive(&self, now: Timestamp, lease_seconds: f64) -> bool {
        self.is_waiting()
            || self
                .last_seen()
                .is_some_and(|seen| now - seen <= lease_seconds)
    }
}
