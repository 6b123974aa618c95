//! What the store keeps about a run, and how a row becomes a value.
//!
//! SQLite does not force a column to hold its declared type. So each column is taken as whatever it is, and one that does
//! not fit makes that row an [`IllegalRow`]; it is never an error of the query, which has other rows to tell of.

use rusqlite::Row as SqlRow;
use rusqlite::types::ValueRef;

use crate::domain::{
    Anchor, Assignment, BoardSlug, ClaimLock, FailCause, IllegalRow, Ordinal, Row, RunKey, TaskId,
    Timestamp,
};

/// A claim that is about to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The lock that the claim will carry.
    pub lock: ClaimLock,
    /// The board.
    pub board: BoardSlug,
    /// The task that will be claimed.
    pub task: TaskId,
    /// The slot that it is for.
    pub ordinal: Ordinal,
    /// The board as it was before.
    pub anchor: Anchor,
}

/// What a claim gives its assignment from the start.
#[derive(Clone, Debug, PartialEq)]
pub struct NewClaim {
    /// The lock of the claim.
    pub lock: ClaimLock,
    /// The board as it was before the claim; `None` where nobody noted it.
    pub anchor: Option<Anchor>,
    /// When the board took the claim, or was last seen with it.
    pub confirmed_at: Timestamp,
}

/// What stands beside an assignment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClaimEntry {
    /// The lock of the claim, where it is known.
    pub lock: Option<ClaimLock>,
    /// The board as it was before the claim, where it is known.
    pub anchor: Option<Anchor>,
    /// Why the run left the ordinary path, if it did.
    pub cause: Option<FailCause>,
    /// Offers of the current attempt.
    pub offers: i64,
    /// The poll that was offered last.
    pub last_poll: Option<String>,
    /// No further try on the board before.
    pub not_before: Option<Timestamp>,
    /// When the board last confirmed the claim.
    pub confirmed_at: Option<Timestamp>,
    /// When the board was last told that the worker lives.
    pub board_heartbeat_at: Option<Timestamp>,
}

/// An assignment with everything but its texts.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The assignment in its state.
    pub assignment: Assignment,
    /// Digest of its payload.
    pub assignment_digest: String,
    /// End of its lease; 0 for none.
    pub lease_until: Timestamp,
    /// Last sign of its worker; 0 for none.
    pub last_heartbeat: Timestamp,
    /// When it was added.
    pub created_at: Timestamp,
    /// Its last transition or heartbeat.
    pub updated_at: Timestamp,
    /// What stands beside it; the default where it has no entry.
    pub claim: ClaimEntry,
}

/// The texts of an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Texts {
    /// Canonical text of the payload that is offered.
    pub payload_json: String,
    /// Canonical text of the result, if there is one.
    pub result_json: Option<String>,
}

/// The columns of a row, in this order, from `assignments a` and `claims c`. Whoever reads a row reads all of them: what keeps
/// a pass from it keeps its worker from it too, and the other way round.
macro_rules! record_columns {
    () => {
        "a.board,a.task_id,a.run_id,a.worker_ordinal,a.attempt,a.state,a.lease_until,a.last_heartbeat,a.result_digest,\
         a.created_at,a.updated_at,c.offers,c.cause,c.last_poll,a.assignment_digest,c.claim_lock,c.run_sequence,\
         c.event_sequence,c.anchor_task,c.anchor_created_at,c.not_before,c.confirmed_at,c.board_heartbeat_at,\
         a.result_json IS NOT NULL"
    };
}
pub(super) use record_columns;

/// Characters that are shown of each part of a row's name: more than a valid one can have.
const NAME_SHOWN: usize = 256;
/// Bytes that are shown of what is no text.
const BYTES_SHOWN: usize = 64;

/// The first column after [`record_columns`].
pub(super) const AFTER_RECORD: usize = 24;

/// Reads the columns of [`record_columns`].
pub(super) fn read_record(row: &SqlRow<'_>) -> Result<Record, IllegalRow> {
    let columns = Columns::of(row);
    let optional_time = |index, column| columns.optional(index, column, Columns::time);
    let offers = columns.optional(11, "offers", Columns::integer)?;
    Ok(Record {
        assignment: read_assignment(&columns, offers)?,
        lease_until: columns.time(6, "lease_until")?,
        last_heartbeat: columns.time(7, "last_heartbeat")?,
        created_at: columns.time(9, "created_at")?,
        updated_at: columns.time(10, "updated_at")?,
        assignment_digest: columns.text(14, "assignment_digest")?,
        claim: ClaimEntry {
            offers: offers.unwrap_or(0),
            cause: columns
                .optional(12, "cause", Columns::text)?
                .and_then(|text| FailCause::parse(&text)),
            last_poll: columns.optional(13, "last_poll", Columns::text)?,
            lock: columns.optional(15, "claim_lock", Columns::lock)?,
            anchor: columns.anchor(16)?,
            not_before: optional_time(20, "not_before")?,
            confirmed_at: optional_time(21, "confirmed_at")?,
            board_heartbeat_at: optional_time(22, "board_heartbeat_at")?,
        },
    })
}

fn read_assignment(columns: &Columns<'_>, offers: Option<i64>) -> Result<Assignment, IllegalRow> {
    Assignment::rehydrate(Row {
        board: columns.text(0, "board")?,
        task_id: columns.text(1, "task_id")?,
        run_id: columns.text(2, "run_id")?,
        worker_ordinal: columns.integer(3, "worker_ordinal")?,
        attempt: columns.integer(4, "attempt")?,
        state: columns.text(5, "state")?,
        lease_until: columns.real(6, "lease_until")?,
        last_heartbeat: columns.real(7, "last_heartbeat")?,
        result_digest: columns.optional(8, "result_digest", Columns::text)?,
        has_result: columns.integer(23, "result_json")? != 0,
        created_at: columns.real(9, "created_at")?,
        updated_at: columns.real(10, "updated_at")?,
        offers: offers.unwrap_or(0),
        cause: columns.optional(12, "cause", Columns::text)?,
    })
}

/// Reads `board, task_id, claim_lock, worker_ordinal` and the anchor's four columns.
pub(super) fn read_intent(row: &SqlRow<'_>) -> Result<Intent, IllegalRow> {
    let columns = Columns::of(row);
    let board = columns.text(0, "board")?;
    let task = columns.text(1, "task_id")?;
    let ordinal = columns.integer(3, "worker_ordinal")?;
    Ok(Intent {
        board: BoardSlug::parse(&board).map_err(|_| columns.illegal("board", &board))?,
        task: TaskId::parse(&task).map_err(|_| columns.illegal("task_id", &task))?,
        lock: columns.lock(2, "claim_lock")?,
        ordinal: u16::try_from(ordinal)
            .map(Ordinal)
            .map_err(|_| columns.illegal("worker_ordinal", &ordinal.to_string()))?,
        anchor: columns
            .anchor(4)?
            .ok_or_else(|| columns.illegal("run_sequence", "NULL"))?,
    })
}

/// The key of a row as the parameters of a query.
pub(super) fn key_of(key: &RunKey) -> (&str, &str, &str) {
    (key.board.as_str(), key.task.as_str(), key.run.as_str())
}

/// A row whose columns are taken as they are. The first three tell which one it is.
pub(super) struct Columns<'r> {
    row: &'r SqlRow<'r>,
}

impl<'r> Columns<'r> {
    pub(super) fn of(row: &'r SqlRow<'_>) -> Self {
        Self { row }
    }

    fn value(&self, index: usize) -> ValueRef<'r> {
        // An index outside the query would be a bug; it reads as NULL and so ends as an illegal row.
        self.row.get_ref(index).unwrap_or(ValueRef::Null)
    }

    pub(super) fn illegal(&self, column: &'static str, value: &str) -> IllegalRow {
        let part = |index| show(self.value(index)).chars().take(NAME_SHOWN).collect();
        let run: Vec<String> = (0..3).map(part).collect();
        IllegalRow {
            run: run.join("/"),
            column,
            value: value.chars().take(80).collect(),
        }
    }

    fn misfit(&self, index: usize, column: &'static str) -> IllegalRow {
        self.illegal(column, &show(self.value(index)))
    }

    pub(super) fn text(&self, index: usize, column: &'static str) -> Result<String, IllegalRow> {
        self.value(index)
            .as_str()
            .map(str::to_owned)
            .map_err(|_| self.misfit(index, column))
    }

    pub(super) fn integer(&self, index: usize, column: &'static str) -> Result<i64, IllegalRow> {
        self.value(index)
            .as_i64()
            .map_err(|_| self.misfit(index, column))
    }

    /// A REAL, or an INTEGER that a column of ours without that affinity would keep.
    pub(super) fn real(&self, index: usize, column: &'static str) -> Result<f64, IllegalRow> {
        match self.value(index) {
            ValueRef::Real(number) => Ok(number),
            ValueRef::Integer(number) => Ok(Timestamp::from(number).0),
            _ => Err(self.misfit(index, column)),
        }
    }

    /// A point in time.
    pub(super) fn time(&self, index: usize, column: &'static str) -> Result<Timestamp, IllegalRow> {
        Timestamp::parse(self.real(index, column)?).ok_or_else(|| self.misfit(index, column))
    }

    /// The lock of a claim of this pool.
    pub(super) fn lock(&self, index: usize, column: &'static str) -> Result<ClaimLock, IllegalRow> {
        ClaimLock::parse(&self.text(index, column)?).map_err(|_| self.misfit(index, column))
    }

    pub(super) fn optional<T>(
        &self,
        index: usize,
        column: &'static str,
        read: fn(&Self, usize, &'static str) -> Result<T, IllegalRow>,
    ) -> Result<Option<T>, IllegalRow> {
        match self.value(index) {
            ValueRef::Null => Ok(None),
            _ => read(self, index, column).map(Some),
        }
    }

    /// The four columns of an anchor; `None` where it was not noted.
    fn anchor(&self, first: usize) -> Result<Option<Anchor>, IllegalRow> {
        let Some(run_sequence) = self.optional(first, "run_sequence", Self::integer)? else {
            return Ok(None);
        };
        let task = self.optional(first + 2, "anchor_task", Self::text)?;
        let created_at = self.optional(first + 3, "anchor_created_at", Self::integer)?;
        Ok(Some(Anchor {
            run_sequence,
            event_sequence: self.integer(first + 1, "event_sequence")?,
            oldest_task: task.zip(created_at),
        }))
    }
}

/// A value for people.
fn show(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "NULL".to_owned(),
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Real(number) => number.to_string(),
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => format!("no UTF-8: {}", hexadecimal(bytes)),
        },
        ValueRef::Blob(bytes) => format!("x'{}'", hexadecimal(bytes)),
    }
}

/// The first bytes, so that rows which differ in them are told apart.
fn hexadecimal(bytes: &[u8]) -> String {
    let shown = bytes.iter().take(BYTES_SHOWN);
    shown.map(|byte| format!("{byte:02x}")).collect()
}
