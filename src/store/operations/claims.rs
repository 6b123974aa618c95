//! Notes beside an assignment about its claim. Each replies whether there is such an assignment.

use rusqlite::params;

use super::super::records::key_of;
use super::super::{StoreError, Tx, sql};
use super::Operation;
use crate::domain::{RunKey, Timestamp};

/// The board has confirmed the claim.
#[derive(Clone, Debug)]
pub struct NoteConfirmed {
    /// The run.
    pub key: RunKey,
    /// When.
    pub at: Timestamp,
}

/// The board was told that the worker lives.
#[derive(Clone, Debug)]
pub struct NoteBoardHeartbeat {
    /// The run.
    pub key: RunKey,
    /// When.
    pub at: Timestamp,
}

/// Nothing is tried on the board for this run before a time.
#[derive(Clone, Debug)]
pub struct SetNotBefore {
    /// The run.
    pub key: RunKey,
    /// The time; `None` lifts it.
    pub not_before: Option<Timestamp>,
}

impl Operation for NoteConfirmed {
    type Reply = bool;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<bool, StoreError> {
        note(tx, sql::NOTE_CONFIRMED, &self.key, Some(self.at), now)
    }
}

impl Operation for NoteBoardHeartbeat {
    type Reply = bool;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<bool, StoreError> {
        note(tx, sql::NOTE_BOARD_HEARTBEAT, &self.key, Some(self.at), now)
    }
}

impl Operation for SetNotBefore {
    type Reply = bool;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<bool, StoreError> {
        note(tx, sql::SET_NOT_BEFORE, &self.key, self.not_before, now)
    }
}

/// Sets one time of an entry; a row that has none (the reference wrote it) gets one.
fn note(
    tx: &Tx<'_>,
    statement: &str,
    key: &RunKey,
    value: Option<Timestamp>,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let (board, task, run) = key_of(key);
    tx.execute(sql::ENSURE_ENTRY, params![board, task, run, now.0])?;
    let value = value.map(|time| time.0);
    Ok(tx.execute(statement, params![board, task, run, value])? == 1)
}
