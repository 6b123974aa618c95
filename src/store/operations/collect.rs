//! Collecting what is over, in slices small enough not to be felt. Each replies how many rows went.

use rusqlite::params;

use super::super::{StoreError, Tx, sql};
use super::Operation;
use crate::domain::Timestamp;

/// How long a delivery is remembered: older messages are outside their validity window anyway.
pub const DELIVERIES_KEPT_SECONDS: f64 = 3600.0;

/// Removes assignments that ended long ago, with their entries. Only evidence has ended them.
#[derive(Clone, Copy, Debug)]
pub struct CollectEnded {
    /// How long they are kept, in seconds; at least an hour.
    pub retention_seconds: f64,
    /// At most so many.
    pub limit: u32,
}

impl Operation for CollectEnded {
    type Reply = usize;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<usize, StoreError> {
        let cutoff = now + -self.retention_seconds.max(3600.0);
        tx.execute(sql::COLLECT_ENDED, params![cutoff.0, self.limit])
    }
}

/// Removes deliveries that need no longer be remembered.
#[derive(Clone, Copy, Debug)]
pub struct CollectDeliveries {
    /// How long they are kept, in seconds; [`DELIVERIES_KEPT_SECONDS`] in a pool.
    pub kept_seconds: f64,
    /// At most so many.
    pub limit: u32,
}

impl Operation for CollectDeliveries {
    type Reply = usize;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<usize, StoreError> {
        let cutoff = now + -self.kept_seconds;
        tx.execute(sql::COLLECT_DELIVERIES, params![cutoff.0, self.limit])
    }
}
