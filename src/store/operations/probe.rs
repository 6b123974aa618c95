//! A write that changes nothing, to learn whether the store takes writes again.

use super::super::{StoreError, Tx, sql};
use super::Operation;
use crate::domain::Timestamp;

/// Writes the store's identity over itself.
#[derive(Clone, Copy, Debug)]
pub struct Probe;

impl Operation for Probe {
    type Reply = ();

    fn apply(self, tx: &Tx<'_>, _now: Timestamp) -> Result<(), StoreError> {
        tx.execute(sql::PROBE, []).map(drop)
    }
}
