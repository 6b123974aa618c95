//! The store as the reference means it, for the conformance tests alone. Nothing in the pool uses it.
//!
//! It runs the same operations on the same tables. Where the reference is looser than the pool allows itself to be, that
//! is here: `finalize` works from any state and needs no evidence, offers are not counted, expiry goes over all rows, leases of
//! 0 never end, runs that were never fetched wait for ever, there are three slots, and a record is a whole row as it stands.

use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Row, params};

use super::operations::{
    Added, CollectDeliveries, CollectEnded, Heartbeat, Offer, Presented, SubmitResult, insert,
};
use super::records::Columns;
use super::transition::{Loaded, write};
use super::{Operation, Store, StoreError, Tx};
use crate::domain::{Assignment, Fenced, IllegalRow, LeasePolicy, Ordinal, Timestamp};
use crate::protocol::{Binding, Json, Object, ProtocolError, canonical_text, payload_digest};

const SLOTS: u16 = 3;
const MAX_ATTEMPTS: i64 = 3;
/// Every offer answers the same poll, and so only the first of them is counted.
const ONE_POLL: &str = "poll";

/// Why the reference would raise.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    /// A refusal, or a fault of the file.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A payload without a canonical form.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// Another state than `finalized` or `stale`.
    #[error("invalid terminal assignment state")]
    InvalidTerminalState,
}

type Result<T> = std::result::Result<T, ReferenceError>;

/// The reference's store object.
#[derive(Debug)]
pub struct ReferenceStore {
    store: Store,
    path: PathBuf,
    policy: LeasePolicy,
}

/// A step of a closure, run as an operation.
struct Step<F>(F);

impl<T, F> Operation for Step<F>
where
    T: Send + 'static,
    F: FnOnce(&Tx<'_>, Timestamp) -> std::result::Result<T, StoreError> + Send + 'static,
{
    type Reply = T;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> std::result::Result<T, StoreError> {
        (self.0)(tx, now)
    }
}

impl ReferenceStore {
    /// A store object on the file.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn open(path: &Path, lease_seconds: i64) -> Result<Self> {
        Ok(Self {
            store: Store::open(path, SLOTS)?,
            path: path.to_owned(),
            policy: policy(lease_seconds, MAX_ATTEMPTS),
        })
    }

    /// Another store object on the same file.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn reopen(self, lease_seconds: i64) -> Result<Self> {
        let Self { store, path, .. } = self;
        drop(store);
        Self::open(&path, lease_seconds)
    }

    /// Length of a lease, as clamped.
    #[must_use]
    pub fn lease_seconds(&self) -> i64 {
        Timestamp(self.policy.lease_seconds()).whole_seconds()
    }

    /// Adds an assignment; `false` if the same one was there.
    ///
    /// # Errors
    /// A conflict, an occupied slot, a payload without a canonical form.
    pub fn add(&mut self, binding: &Binding, payload: &Json, now: Timestamp) -> Result<bool> {
        let digest = payload_digest(payload)?;
        let text = canonical_text(payload)?;
        let binding = binding.clone();
        let attempt = binding
            .attempt
            .as_i64()
            .ok_or(ProtocolError::InvalidBinding)?;
        let slot = (binding.worker_ordinal, attempt);
        let step = Step(move |tx: &Tx<'_>, now| {
            insert(tx, key(&binding), slot, &text, digest.as_str(), now)
        });
        Ok(self.store.run(step, now)? == Added::New)
    }

    /// The slots without a live assignment.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn available_ordinals(&mut self) -> Result<Vec<i64>> {
        let step = Step(|tx: &Tx<'_>, _| {
            let sql = "SELECT board,task_id,run_id,worker_ordinal FROM assignments \
                       WHERE state IN ('assigned','running','result')";
            healthy(tx.all(sql, [], |row| Columns::of(row).integer(3, "worker_ordinal"))?)
        });
        let occupied = self.store.run(step, Timestamp::default())?;
        let all = (0..SLOTS).map(i64::from);
        Ok(all.filter(|ordinal| !occupied.contains(ordinal)).collect())
    }

    /// The rows that `condition` selects, in this order.
    fn records(&mut self, condition_and_order: &'static str) -> Result<Vec<Json>> {
        let step = Step(move |tx: &Tx<'_>, _| {
            let sql = format!("SELECT * FROM assignments WHERE {condition_and_order}");
            healthy(tx.all(&sql, [], read_row)?)
        });
        Ok(self.store.run(step, Timestamp::default())?)
    }

    /// The live assignments, by their key.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn active_assignments(&mut self) -> Result<Vec<Json>> {
        self.records("state IN ('assigned','running','result') ORDER BY board,task_id,run_id")
    }

    /// The results that wait, by the time of their acceptance.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn pending_results(&mut self) -> Result<Vec<Json>> {
        self.records("state='result' ORDER BY updated_at,board,task_id,run_id")
    }

    /// The runs that were given up, by the time of it.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn failed_leases(&mut self) -> Result<Vec<Json>> {
        self.records("state='lease_failed' ORDER BY updated_at,board,task_id,run_id")
    }

    /// Every row, by its key.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn all_assignments(&mut self) -> Result<Vec<Json>> {
        self.records("true ORDER BY board,task_id,run_id")
    }

    /// Every delivery, by its identifier.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn all_deliveries(&mut self) -> Result<Vec<Json>> {
        let step = Step(|tx: &Tx<'_>, _| {
            let sql = "SELECT * FROM deliveries ORDER BY delivery_id";
            healthy(tx.all(sql, [], read_row)?)
        });
        Ok(self.store.run(step, Timestamp::default())?)
    }

    /// Board, task and run of every row, sorted.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn known_runs(&mut self) -> Result<Vec<[String; 3]>> {
        let step = Step(|tx: &Tx<'_>, _| {
            let sql = "SELECT board,task_id,run_id FROM assignments ORDER BY 1,2,3";
            healthy(tx.all(sql, [], |row| {
                let columns = Columns::of(row);
                Ok([
                    columns.text(0, "board")?,
                    columns.text(1, "task_id")?,
                    columns.text(2, "run_id")?,
                ])
            })?)
        });
        Ok(self.store.run(step, Timestamp::default())?)
    }

    /// Offers a slot's run; returns the row as it was before.
    ///
    /// # Errors
    /// If the file or the row is at fault.
    pub fn offer(&mut self, ordinal: i64, now: Timestamp) -> Result<Option<Json>> {
        let Ok(slot) = u16::try_from(ordinal) else {
            return Ok(None);
        };
        let offer = Offer {
            ordinal: Ordinal(slot),
            delivery_id: ONE_POLL.to_owned(),
            policy: self.policy,
        };
        let step = Step(move |tx: &Tx<'_>, now| {
            let sql = "SELECT * FROM assignments WHERE worker_ordinal=?1 AND state IN ('assigned','running')";
            let before = tx.first(sql, [ordinal], read_row)?;
            offer.apply(tx, now)?;
            Ok(before)
        });
        Ok(self.store.run(step, now)?)
    }

    /// Takes a heartbeat; returns whether it is a repeat.
    ///
    /// # Errors
    /// The reference's refusals.
    pub fn heartbeat(&mut self, presented: Presented, now: Timestamp) -> Result<bool> {
        let beat = self
            .store
            .run(Heartbeat::new(presented, self.policy), now)?;
        Ok(beat.duplicate)
    }

    /// Takes a result; returns the row afterwards, and whether it is a repeat.
    ///
    /// # Errors
    /// The reference's refusals, a payload without a canonical form.
    pub fn accept_result(
        &mut self,
        presented: Presented,
        payload: &Json,
        now: Timestamp,
    ) -> Result<(Option<Json>, bool)> {
        let binding = presented.binding.clone();
        let payload_json = canonical_text(payload)?;
        let submit = SubmitResult {
            presented,
            payload_json,
        };
        let step = Step(move |tx: &Tx<'_>, now| {
            let receipt = submit.apply(tx, now)?;
            Ok((row_of(tx, &binding)?, receipt.duplicate))
        });
        Ok(self.store.run(step, now)?)
    }

    /// Fences every lease that is over; returns the rows afterwards, by the time of their last change before.
    ///
    /// # Errors
    /// If the file or a row is at fault.
    pub fn expire_leases(&mut self, max_attempts: i64, now: Timestamp) -> Result<Vec<Json>> {
        let policy = policy(self.lease_seconds(), max_attempts);
        let step = Step(move |tx: &Tx<'_>, now| {
            let sql = "SELECT board,task_id,run_id FROM assignments WHERE state='running' AND lease_until>0 \
                       ORDER BY updated_at,board,task_id,run_id";
            let keys = healthy(tx.all(sql, [], |row| {
                let columns = Columns::of(row);
                Ok((
                    columns.text(0, "board")?,
                    columns.text(1, "task_id")?,
                    columns.text(2, "run_id")?,
                ))
            })?)?;
            let mut fenced = Vec::new();
            for (board, task, run) in &keys {
                let key = (board.as_str(), task.as_str(), run.as_str());
                let Some(loaded) = Loaded::by_key(tx, key)? else {
                    continue;
                };
                let Assignment::Running(state) = loaded.assignment else {
                    continue;
                };
                if let Fenced::Due(change) = state.expire(now, &policy) {
                    write(tx, &change, &loaded.entry, None)?;
                    fenced.extend(tx.first(ROW_BY_KEY, key, read_row)?);
                }
            }
            Ok(fenced)
        });
        Ok(self.store.run(step, now)?)
    }

    /// Ends the exact run, from whatever state.
    ///
    /// # Errors
    /// Another state than the two terminal ones.
    pub fn finalize(&mut self, binding: &Binding, state: &str, now: Timestamp) -> Result<bool> {
        if !matches!(state, "finalized" | "stale") {
            return Err(ReferenceError::InvalidTerminalState);
        }
        let (binding, state) = (binding.clone(), state.to_owned());
        let step = Step(move |tx: &Tx<'_>, now: Timestamp| {
            let sql = "UPDATE assignments SET state=?1,updated_at=?2 \
                       WHERE board=?3 AND task_id=?4 AND run_id=?5 AND worker_ordinal=?6 AND attempt=?7";
            let (board, task, run) = key(&binding);
            let (ordinal, attempt) = (binding.worker_ordinal, binding.attempt.as_i64());
            let values = params![state, now.0, board, task, run, ordinal, attempt];
            Ok(tx.execute(sql, values)? == 1)
        });
        Ok(self.store.run(step, now)?)
    }

    /// Collects what is old enough; returns how many assignments went.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn garbage_collect(&mut self, retention_seconds: f64, now: Timestamp) -> Result<usize> {
        let ended = CollectEnded {
            retention_seconds,
            limit: u32::MAX,
        };
        let deliveries = CollectDeliveries {
            kept_seconds: retention_seconds.max(3600.0),
            limit: u32::MAX,
        };
        let step = Step(move |tx: &Tx<'_>, now| {
            let collected = ended.apply(tx, now)?;
            deliveries.apply(tx, now)?;
            Ok(collected)
        });
        Ok(self.store.run(step, now)?)
    }
}

const ROW_BY_KEY: &str = "SELECT * FROM assignments WHERE board=?1 AND task_id=?2 AND run_id=?3";

fn policy(lease_seconds: i64, max_attempts: i64) -> LeasePolicy {
    LeasePolicy::clamped(lease_seconds, max_attempts, u32::MAX)
}

fn key(binding: &Binding) -> (&str, &str, &str) {
    (&binding.board, &binding.task_id, &binding.run_id)
}

fn row_of(tx: &Tx<'_>, binding: &Binding) -> std::result::Result<Option<Json>, StoreError> {
    tx.first(ROW_BY_KEY, key(binding), read_row)
}

/// All rows, or the first fault among them: the reference knows no illegal rows.
fn healthy<T>(
    rows: Vec<std::result::Result<T, IllegalRow>>,
) -> std::result::Result<Vec<T>, StoreError> {
    rows.into_iter()
        .collect::<std::result::Result<_, _>>()
        .map_err(StoreError::from)
}

/// A whole row, by the names of its columns.
fn read_row(row: &Row<'_>) -> std::result::Result<Json, IllegalRow> {
    let mut record = Object::new();
    for (index, name) in row.as_ref().column_names().enumerate() {
        let value = match row.get_ref(index) {
            Ok(ValueRef::Integer(number)) => Json::from(number),
            Ok(ValueRef::Real(number)) => Json::from(number),
            Ok(ValueRef::Text(bytes)) => Json::from(String::from_utf8_lossy(bytes).into_owned()),
            _ => Json::Null,
        };
        record.insert(name, value);
    }
    Ok(record.into())
}
