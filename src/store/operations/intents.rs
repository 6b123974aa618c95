//! Intents: what is written down before a claim is made, so that a crash in between loses nothing.

use rusqlite::params;

use super::super::records::Intent;
use super::super::{StoreError, Tx, sql};
use super::Operation;
use crate::domain::{ClaimLock, Timestamp};

/// Notes a claim that is about to be made.
#[derive(Clone, Debug)]
pub struct RecordIntent {
    /// The claim.
    pub intent: Intent,
}

impl Operation for RecordIntent {
    type Reply = ();

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<(), StoreError> {
        let Intent {
            lock,
            board,
            task,
            ordinal,
            anchor,
        } = &self.intent;
        tx.execute(
            sql::ADD_INTENT,
            params![
                lock.as_str(),
                board.as_str(),
                task.as_str(),
                ordinal.0,
                anchor.run_sequence,
                anchor.event_sequence,
                anchor.oldest_task.as_ref().map(|task| task.0.as_str()),
                anchor.oldest_task.as_ref().map(|task| task.1),
                now.0,
            ],
        )?;
        Ok(())
    }
}

/// Removes an intent: its claim was not made, or was given back. Replies whether there was one.
#[derive(Clone, Debug)]
pub struct DropIntent {
    /// Lock of the claim.
    pub lock: ClaimLock,
}

impl Operation for DropIntent {
    type Reply = bool;

    fn apply(self, tx: &Tx<'_>, _now: Timestamp) -> Result<bool, StoreError> {
        Ok(tx.execute(sql::DROP_INTENT, [self.lock.as_str()])? == 1)
    }
}

/// Asks whether a claim is still only intended. Replies after everything that was sent to the store before.
#[derive(Clone, Debug)]
pub struct IsIntended {
    /// Lock of the claim.
    pub lock: ClaimLock,
}

impl Operation for IsIntended {
    type Reply = bool;

    fn apply(self, tx: &Tx<'_>, _now: Timestamp) -> Result<bool, StoreError> {
        let found = tx.first(sql::INTENT, [self.lock.as_str()], |_| Ok(()))?;
        Ok(found.is_some())
    }
}
