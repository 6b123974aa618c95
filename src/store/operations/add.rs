//! Turning a claim into an assignment.

use rusqlite::params;

use super::super::records::{Columns, NewClaim, key_of};
use super::super::{AddRefusal, StoreError, Tx, sql};
use super::Operation;
use crate::domain::{Anchor, Binding, ClaimLock, Timestamp};

/// Binds a claimed run to a slot, and removes the intent of its claim.
#[derive(Clone, Debug)]
pub struct AddAssignment {
    /// The run, its slot, its first attempt.
    pub binding: Binding,
    /// Canonical text of the payload.
    pub payload_json: String,
    /// Digest of the payload.
    pub assignment_digest: String,
    /// What stands beside it.
    pub claim: NewClaim,
}

/// Whether the assignment is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is.
    New,
    /// The same claim was turned into it before, whatever became of it since.
    AlreadyThere,
}

impl Operation for AddAssignment {
    type Reply = Added;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<Added, StoreError> {
        let key = key_of(&self.binding.key);
        let slot = (i64::from(self.binding.ordinal.0), self.binding.attempt.0);
        let added = insert(
            tx,
            key,
            slot,
            &self.payload_json,
            &self.assignment_digest,
            now,
        )?;
        // A board that was restored from an older copy gives its run numbers out again: the same numbers and texts under
        // another lock are another run.
        if added == Added::AlreadyThere && !is_claimed_under(tx, key, &self.claim.lock)? {
            return Err(AddRefusal::Conflicting.into());
        }
        let Anchor {
            run_sequence,
            event_sequence,
            oldest_task,
        } = self.claim.anchor.clone().unwrap_or_default();
        let known = self.claim.anchor.is_some();
        tx.execute(
            sql::ADD_ENTRY,
            params![
                key.0,
                key.1,
                key.2,
                self.claim.lock.as_str(),
                known.then_some(run_sequence),
                known.then_some(event_sequence),
                oldest_task.as_ref().map(|task| task.0.as_str()),
                oldest_task.as_ref().map(|task| task.1),
                self.claim.confirmed_at.0,
                now.0,
            ],
        )?;
        tx.execute(sql::DROP_INTENT, [self.claim.lock.as_str()])?;
        Ok(added)
    }
}

/// Whether the known claim of a run has this lock.
fn is_claimed_under(
    tx: &Tx<'_>,
    key: (&str, &str, &str),
    lock: &ClaimLock,
) -> Result<bool, StoreError> {
    let known = tx.first(sql::LOCK_OF_RUN, key, |row| {
        Columns::of(row).optional(3, "claim_lock", Columns::text)
    })?;
    Ok(known.flatten().as_deref() == Some(lock.as_str()))
}

/// Inserts the row alone. A run that is known wins over a slot that is occupied.
///
/// # Errors
/// [`AddRefusal`] if the run is known as another one, or the slot cannot take it.
pub(in crate::store) fn insert(
    tx: &Tx<'_>,
    (board, task, run): (&str, &str, &str),
    (ordinal, attempt): (i64, i64),
    payload_json: &str,
    digest: &str,
    now: Timestamp,
) -> Result<Added, StoreError> {
    let known = tx.first(sql::SAME_RUN, (board, task, run), |row| {
        let columns = Columns::of(row);
        Ok((
            columns.text(3, "assignment_digest")?,
            columns.integer(4, "worker_ordinal")?,
            columns.integer(5, "attempt")?,
        ))
    })?;
    match known {
        Some(known) if known == (digest.to_owned(), ordinal, attempt) => Ok(Added::AlreadyThere),
        Some(_) => Err(AddRefusal::Conflicting.into()),
        None => {
            let values = params![
                board,
                task,
                run,
                ordinal,
                attempt,
                digest,
                payload_json,
                now.0
            ];
            match tx.execute(sql::ADD, values)? {
                1 => Ok(Added::New),
                _ => Err(AddRefusal::Occupied.into()),
            }
        }
    }
}
