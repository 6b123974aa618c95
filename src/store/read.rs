//! Reads that decide nothing: on connections of their own, which may not write and never wait for the writer.
//!
//! Each call sees the last commit at its time. A row that cannot be understood stands as an error among the others.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{Connection, Params, params};

use super::records::{AFTER_RECORD, Columns, key_of, read_intent, read_record};
use super::{Intent, Record, StoreError, Texts, Tx, open, sql};
use crate::domain::{BoardSlug, ClaimLock, Fence, IllegalRow, Ordinal, RunKey, TaskId, Timestamp};

/// Where a page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PageStart {
    /// At the first assignment.
    #[default]
    First,
    /// After this run, known or not.
    Run(RunKey),
    /// After the row of this number: one whose name cannot be understood has no other.
    Row(i64),
}

/// A page of assignments.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The assignments; a row that cannot be understood stands among the others.
    pub rows: Vec<Result<Record, IllegalRow>>,
    /// Where the next one begins; `None` after the last one.
    pub next: Option<PageStart>,
}

type PageRow = (Result<Record, IllegalRow>, PageStart);

/// A connection that only reads.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
}

impl Reader {
    /// Opens a store that a coordinator has prepared.
    ///
    /// # Errors
    /// [`StoreError::File`] says what is wrong with the file.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        open::open_read_only(path).map(|connection| Self { connection })
    }

    fn tx(&self) -> Tx<'_> {
        Tx::on(&self.connection)
    }

    /// The store's own identity.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read, [`StoreError::Illegal`] if it has none.
    pub fn fence(&self) -> Result<Fence, StoreError> {
        let fence = self.tx().first(sql::FENCE, [], |row| {
            let columns = Columns::of(row);
            let text = columns.text(0, "fence")?;
            Fence::parse(&text).map_err(|_| columns.illegal("fence", &text))
        })?;
        fence.ok_or_else(|| {
            IllegalRow {
                run: "pool".to_owned(),
                column: "fence",
                value: "none".to_owned(),
            }
            .into()
        })
    }

    /// Every assignment of a board that is not over, the one that changed longest ago first.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read.
    pub fn unsettled(
        &self,
        board: &BoardSlug,
    ) -> Result<Vec<Result<Record, IllegalRow>>, StoreError> {
        self.tx()
            .all(sql::UNSETTLED_OF_BOARD, [board.as_str()], read_record)
    }

    /// Every assignment that occupies a slot, by ordinal.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read.
    pub fn live(&self) -> Result<Vec<Result<Record, IllegalRow>>, StoreError> {
        self.tx().all(sql::LIVE, [], read_record)
    }

    /// The slots whose rows cannot be understood, as far as it can be told which slots they are.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read.
    pub fn unreadable_slots(&self) -> Result<BTreeSet<Ordinal>, StoreError> {
        let slots = self.tx().all(sql::LIVE, [], |row| {
            let ordinal = Columns::of(row).integer(3, "worker_ordinal")?;
            Ok(match read_record(row) {
                Ok(_) => None,
                Err(_) => u16::try_from(ordinal).ok().map(Ordinal),
            })
        })?;
        Ok(slots.into_iter().flatten().flatten().collect())
    }

    /// The claims on a board that were about to be made, the oldest first.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read.
    pub fn intents(
        &self,
        board: &BoardSlug,
    ) -> Result<Vec<Result<Intent, IllegalRow>>, StoreError> {
        self.tx()
            .all(sql::INTENTS_OF_BOARD, [board.as_str()], read_intent)
    }

    /// Every board that something unsettled or an intent refers to, and each row whose board is none: no pass sees it.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read.
    pub fn boards(&self) -> Result<(BTreeSet<BoardSlug>, Vec<IllegalRow>), StoreError> {
        let rows = self.tx().all(sql::BOARDS, [], |row| {
            let columns = Columns::of(row);
            let text = columns.text(0, "board")?;
            BoardSlug::parse(&text).map_err(|_| columns.illegal("board", &text))
        })?;
        let (mut boards, mut illegal) = (BTreeSet::new(), Vec::new());
        for row in rows {
            match row {
                Ok(board) => drop(boards.insert(board)),
                Err(row) => illegal.push(row),
            }
        }
        Ok((boards, illegal))
    }

    /// Tasks of a board that are not to be claimed again before a time that is yet to come, and each entry whose time is
    /// none: it holds nothing back.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read.
    pub fn held_back(
        &self,
        board: &BoardSlug,
        now: Timestamp,
    ) -> Result<(Vec<TaskId>, Vec<IllegalRow>), StoreError> {
        let rows = self
            .tx()
            .all(sql::HELD_BACK, params![board.as_str(), now.0], |row| {
                let columns = Columns::of(row);
                let text = columns.text(1, "task_id")?;
                columns.time(3, "not_before")?;
                TaskId::parse(&text).map_err(|_| columns.illegal("task_id", &text))
            })?;
        let (mut tasks, mut illegal) = (Vec::new(), Vec::new());
        for row in rows {
            match row {
                Ok(task) => tasks.push(task),
                Err(row) => illegal.push(row),
            }
        }
        Ok((tasks, illegal))
    }

    /// The locks of all claims on a board that the store knows of, also where the rest of their rows cannot be understood.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read.
    pub fn locks(&self, board: &BoardSlug) -> Result<Vec<ClaimLock>, StoreError> {
        let locks = self
            .tx()
            .all(sql::LOCKS_OF_BOARD, [board.as_str()], |row| {
                Columns::of(row).lock(3, "claim_lock")
            })?;
        Ok(locks.into_iter().flatten().collect())
    }

    /// Rows that are over and whose age cannot be told, so that they are never collected; some of them, if they are many.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read.
    pub fn ageless(&self) -> Result<Vec<IllegalRow>, StoreError> {
        let mut found = Vec::new();
        for (query, column) in [
            (sql::AGELESS_ENDED, "updated_at"),
            (sql::AGELESS_DELIVERIES, "received_at"),
        ] {
            let rows = self.tx().all(query, [Timestamp::LAST.0], |row| {
                Columns::of(row).time(3, column)
            })?;
            found.extend(rows.into_iter().filter_map(Result::err));
        }
        Ok(found)
    }

    /// One assignment.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read, [`StoreError::Illegal`] if the row cannot be understood.
    pub fn record(&self, key: &RunKey) -> Result<Option<Record>, StoreError> {
        self.tx()
            .first(sql::RECORD_BY_KEY, key_of(key), read_record)
    }

    /// The texts of one assignment.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read, [`StoreError::Illegal`] if the row cannot be understood.
    pub fn texts(&self, key: &RunKey) -> Result<Option<Texts>, StoreError> {
        self.tx().first(sql::TEXTS, key_of(key), |row| {
            let columns = Columns::of(row);
            Ok(Texts {
                payload_json: columns.text(3, "payload_json")?,
                result_json: columns.optional(4, "result_json", Columns::text)?,
            })
        })
    }

    /// At most `limit` assignments in any state, in the order of board, task and run.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read.
    pub fn page(&self, after: &PageStart, limit: u32) -> Result<Page, StoreError> {
        let rows = match after {
            PageStart::First => self.page_rows(sql::PAGE, params!["", "", "", limit]),
            PageStart::Run(key) => {
                let (board, task, run) = key_of(key);
                self.page_rows(sql::PAGE, params![board, task, run, limit])
            }
            PageStart::Row(number) => self.page_rows(sql::PAGE_AFTER_ROW, params![number, limit]),
        }?;
        let is_full = rows.len() == limit as usize;
        let mut page = Page::default();
        for row in rows.into_iter().flatten() {
            let (row, start) = row;
            page.next = is_full.then_some(start);
            page.rows.push(row);
        }
        Ok(page)
    }

    /// Each row with where the next page begins if it is the last one.
    fn page_rows(
        &self,
        query: &str,
        params: impl Params,
    ) -> Result<Vec<Result<PageRow, IllegalRow>>, StoreError> {
        self.tx().all(query, params, |row| {
            let record = read_record(row);
            let start = match &record {
                Ok(record) => PageStart::Run(record.assignment.binding().key.clone()),
                Err(_) => PageStart::Row(Columns::of(row).integer(AFTER_RECORD, "rowid")?),
            };
            Ok((record, start))
        })
    }

    /// How many assignments are in each state, by the spelling of the store.
    ///
    /// # Errors
    /// [`StoreError::File`] if the file cannot be read.
    pub fn counts(&self) -> Result<Vec<(String, i64)>, StoreError> {
        let counts = self.tx().all(sql::COUNTS, [], |row| {
            let columns = Columns::of(row);
            Ok((columns.text(0, "state")?, columns.integer(1, "count")?))
        })?;
        Ok(counts.into_iter().flatten().collect())
    }
}
