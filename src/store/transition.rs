//! Reading what a transition starts from, and the one place where a transition is written.
//!
//! Invariant: a transition is one compare-and-set on run, ordinal, attempt and state. Where it touches no row, nothing is
//! written at all, since the caller's error rolls its savepoint back.

use rusqlite::{Row, params};

use super::records::read_record;
use super::{Record, StoreError, Tx, sql};
use crate::domain::{Assignment, Change, FailCause, IllegalRow, Ordinal, StateName};

/// An assignment and the part of its entry that a transition may change.
pub(super) struct Loaded {
    pub(super) assignment: Assignment,
    pub(super) entry: Entry,
}

/// The entry as it was read.
pub(super) struct Entry {
    offers: i64,
    cause: Option<FailCause>,
    /// The poll that was offered last.
    pub(super) last_poll: Option<String>,
}

impl Entry {
    /// Why the run left the ordinary path, if it did.
    pub(super) fn cause(&self) -> Option<FailCause> {
        self.cause
    }

    fn differs_from(&self, change: &Change) -> bool {
        let columns = change.columns();
        self.cause != columns.cause || self.offers != i64::from(columns.offers)
    }
}

impl Loaded {
    fn read(row: &Row<'_>) -> Result<Self, IllegalRow> {
        let Record {
            assignment, claim, ..
        } = read_record(row)?;
        Ok(Self {
            assignment,
            entry: Entry {
                offers: claim.offers,
                cause: claim.cause,
                last_poll: claim.last_poll,
            },
        })
    }

    /// The assignment of a run. The names are those of a message and need not be valid.
    pub(super) fn by_key(tx: &Tx<'_>, key: (&str, &str, &str)) -> Result<Option<Self>, StoreError> {
        tx.first(sql::RECORD_BY_KEY, key, Self::read)
    }

    /// The assignment that occupies a slot.
    pub(super) fn of_ordinal(tx: &Tx<'_>, ordinal: Ordinal) -> Result<Option<Self>, StoreError> {
        tx.first(sql::RECORD_OF_ORDINAL, [ordinal.0], Self::read)
    }
}

/// Writes a transition; `poll` is the delivery that it answers, if it is an offer.
///
/// # Errors
/// [`StoreError::Changed`] if the row is no longer what the transition started from.
pub(super) fn write(
    tx: &Tx<'_>,
    change: &Change,
    before: &Entry,
    poll: Option<&str>,
) -> Result<(), StoreError> {
    if update(tx, change)? != 1 {
        return Err(StoreError::Changed(change.expect().clone()));
    }
    let new_poll = poll.filter(|poll| before.last_poll.as_deref() != Some(poll));
    if new_poll.is_some() || before.differs_from(change) {
        let (key, columns) = (&change.expect().key, change.columns());
        tx.execute(
            sql::ENTRY_AFTER_TRANSITION,
            params![
                key.board.as_str(),
                key.task.as_str(),
                key.run.as_str(),
                columns.offers,
                columns.cause.map(FailCause::as_str),
                new_poll,
                columns.updated_at.0,
            ],
        )?;
    }
    Ok(())
}

/// Returns how many rows were changed.
fn update(tx: &Tx<'_>, change: &Change) -> Result<usize, StoreError> {
    let (expect, columns) = (change.expect(), change.columns());
    let (board, task, run) = super::records::key_of(&expect.key);
    let (ordinal, attempt) = (expect.ordinal.0, expect.attempt.0);
    let (from, lease_until) = (change.from().as_str(), columns.lease_until.0);
    let (last_heartbeat, updated_at) = (columns.last_heartbeat.0, columns.updated_at.0);
    let renews = change.from() == StateName::Running
        && columns.state == StateName::Running
        && columns.attempt == expect.attempt;
    if renews {
        return tx.execute(
            sql::RENEWAL,
            params![
                board,
                task,
                run,
                ordinal,
                attempt,
                from,
                lease_until,
                last_heartbeat,
                updated_at
            ],
        );
    }
    let submission = columns.submission.as_ref();
    tx.execute(
        sql::TRANSITION,
        params![
            board,
            task,
            run,
            ordinal,
            attempt,
            from,
            columns.state.as_str(),
            columns.attempt.0,
            lease_until,
            last_heartbeat,
            updated_at,
            submission.map(|submission| submission.digest.as_str()),
            submission.map(|submission| submission.payload_json.as_str()),
        ],
    )
}
