//! The one connection to a board's file, and the rules under which it may be used.
//!
//! Hermes opens and closes the raw file behind its own writes, which drops every lock of the process that does it. Whoever
//! then closes its *last* connection with a checkpoint deletes the write-ahead log under Hermes, and the board is destroyed
//! within seconds. Hence: the file is opened once, never created, never opened by any other means in this process (only
//! `stat` touches it), and closed without a checkpoint. The journal mode is Hermes' business; checkpoints are too, except
//! that a log which nobody else writes to is checkpointed passively.
//!
//! A path is not a board: removing a board renames its directory, and the old handle would go on "succeeding". So the path
//! is compared with the opened file before each visit and once more before its end, inside the transaction.
//!
//! Nothing survives a crash here but what was committed. After an error on COMMIT only a look at the run tells.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::features::Features;
use crate::board::BoardError;

/// What SQLite says of damaged pages.
const DAMAGED: &str = "database disk image is malformed";
/// How often BEGIN and COMMIT are tried when the board is busy, each after the busy timeout.
const BOUNDARY_ATTEMPTS: u32 = 5;
/// The log's length from which it is checkpointed: Hermes' own limit is a tenth of that, so only a board on which no
/// Hermes process writes gets there.
const LARGE_LOG_BYTES: u64 = 4 * 1024 * 1024;
/// Own commits between two checkpoints. A log keeps its length after a checkpoint, so the length alone would ask for one
/// after every commit.
const COMMITS_BETWEEN_CHECKPOINTS: u32 = 256;

/// What a file is known by: device and inode. Inodes are used again, so equality is necessary and not sufficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity {
    /// The device.
    pub(super) device: u64,
    /// The inode on it.
    pub(super) inode: u64,
}

impl FileIdentity {
    /// Looks at a path without opening anything.
    pub(super) fn of(path: &Path) -> Result<Self, BoardError> {
        match fs::metadata(path) {
            Ok(found) => Ok(Self {
                device: found.dev(),
                inode: found.ino(),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(BoardError::Gone(path.display().to_string()))
            }
            Err(error) => Err(BoardError::Unreadable(format!(
                "{}: {error}",
                path.display()
            ))),
        }
    }
}

impl From<rusqlite::Error> for BoardError {
    /// No error of SQLite is evidence about a task. A constraint speaks of the one write that met it; the board is sound.
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch) => {
                Self::Refused(error.to_string())
            }
            _ => Self::Unreadable(error.to_string()),
        }
    }
}

/// One visit's view of the board: what its statements may rely on.
pub(super) struct Visit<'a> {
    /// The connection, inside a transaction.
    pub(super) sql: &'a Connection,
    /// What the schema offers.
    pub(super) features: &'a Features,
    /// Seconds since the epoch; one reading for the whole visit.
    pub(super) now: i64,
}

/// An opened board file.
pub(super) struct BoardFile {
    path: PathBuf,
    identity: FileIdentity,
    sql: Connection,
    features: Features,
    /// `PRAGMA data_version` at the last look; `None` before the first.
    seen_version: Option<i64>,
    commits_since_checkpoint: u32,
}

impl BoardFile {
    /// Opens an existing board.
    pub(super) fn open(path: &Path, busy_timeout: Duration) -> Result<Self, BoardError> {
        let identity = FileIdentity::of(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let sql = Connection::open_with_flags(path, flags).map_err(|error| {
            // The file may have gone between the look and the opening.
            FileIdentity::of(path).err().unwrap_or_else(|| error.into())
        })?;
        sql.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        // Plans do not depend on bound values: otherwise each execution would prepare its statement anew.
        sql.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        if FileIdentity::of(path)? != identity {
            return Err(BoardError::Replaced);
        }
        sql.busy_timeout(busy_timeout)?;
        for (pragma, value) in [
            ("synchronous", "FULL"),
            ("secure_delete", "ON"),
            ("cell_size_check", "ON"),
            ("foreign_keys", "ON"),
            ("wal_autocheckpoint", "0"),
        ] {
            sql.pragma_update(None, pragma, value)?;
        }
        let sound: String = sql.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if sound != "ok" {
            // In the words that whoever meets the damage says, so that it is one fault however it is met.
            log::debug!("{}: {sound}", path.display());
            return Err(BoardError::Unreadable(DAMAGED.to_owned()));
        }
        let features = Features::read(&sql)?;
        Ok(Self {
            path: path.to_owned(),
            identity,
            sql,
            features,
            seen_version: None,
            commits_since_checkpoint: 0,
        })
    }

    /// Whether the tables of a board were there at the last look.
    pub(super) fn has_tables(&self) -> bool {
        self.features.initialised
    }

    /// Whether the file was opened for reading only, because this user may not write to it.
    pub(super) fn is_read_only(&self) -> Result<bool, BoardError> {
        Ok(self.sql.is_readonly(rusqlite::MAIN_DB)?)
    }

    /// Whether anybody else committed since the last look.
    pub(super) fn changed(&mut self) -> Result<bool, BoardError> {
        self.verify()?;
        let version = self
            .sql
            .query_row("PRAGMA data_version", [], |row| row.get(0))?;
        Ok(self.seen_version.replace(version) != Some(version))
    }

    /// Notes every statement that SQLite is given from now on.
    #[cfg(test)]
    pub(super) fn trace(
        &mut self,
        seen: std::sync::Arc<std::sync::Mutex<std::collections::BTreeSet<String>>>,
    ) {
        use rusqlite::trace::{TraceEvent, TraceEventCodes};
        let note = move |event: TraceEvent<'_>| {
            if let TraceEvent::Stmt(statement, _) = event {
                seen.lock().unwrap().insert(statement.sql().into_owned());
            }
        };
        self.sql
            .trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(note))
            .unwrap();
    }

    /// Reads in one transaction, so that everything read agrees.
    pub(super) fn read<T>(
        &mut self,
        now: i64,
        work: impl FnOnce(&Visit<'_>) -> Result<T, BoardError>,
    ) -> Result<T, BoardError> {
        self.verify()?;
        self.boundary("BEGIN")?;
        let outcome = self.visit(now, work).and_then(|value| {
            self.verify()?;
            Ok(value)
        });
        // Nothing was written: whichever way a reading transaction ends is the same.
        self.roll_back();
        outcome
    }

    /// Writes in one transaction: committed as a whole if `work` succeeds, else rolled back.
    pub(super) fn write<T>(
        &mut self,
        now: i64,
        work: impl FnOnce(&Visit<'_>) -> Result<T, BoardError>,
    ) -> Result<T, BoardError> {
        self.verify()?;
        self.boundary("BEGIN IMMEDIATE")?;
        let outcome = self.visit(now, |visit| {
            visit.features.writable()?;
            work(visit)
        });
        let value = match outcome.and_then(|value| self.verify().map(|()| value)) {
            Ok(value) => value,
            Err(error) => {
                self.roll_back();
                return Err(error);
            }
        };
        if let Err(error) = self.boundary("COMMIT") {
            self.roll_back();
            return Err(error);
        }
        self.checkpoint_large_log();
        Ok(value)
    }

    /// Lets `work` see the board, with the schema as it is inside this transaction.
    fn visit<T>(
        &mut self,
        now: i64,
        work: impl FnOnce(&Visit<'_>) -> Result<T, BoardError>,
    ) -> Result<T, BoardError> {
        if self.features.are_outdated(&self.sql)? {
            self.features = Features::read(&self.sql)?;
        }
        let outcome = work(&Visit {
            sql: &self.sql,
            features: &self.features,
            now,
        });
        match outcome {
            // Statements fail on a schema that is none of a board; that is what there is to tell, not how.
            Err(BoardError::Unreadable(_)) if self.features.initialised => {
                self.features.writable().and(outcome)
            }
            outcome => outcome,
        }
    }

    /// Compares the path with the opened file.
    fn verify(&self) -> Result<(), BoardError> {
        if FileIdentity::of(&self.path)? == self.identity {
            Ok(())
        } else {
            Err(BoardError::Replaced)
        }
    }

    /// Runs BEGIN or COMMIT, again a few times where others are in the way.
    fn boundary(&self, statement: &str) -> Result<(), BoardError> {
        let mut attempt = 1;
        loop {
            match self.sql.execute_batch(statement) {
                Ok(()) => return Ok(()),
                Err(error) if is_busy(&error) && attempt < BOUNDARY_ATTEMPTS => {
                    attempt += 1;
                    std::thread::sleep(Duration::from_millis(fastrand::u64(20..=150)));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends a transaction that must leave no trace. Some errors have ended it already; a connection that cannot even roll
    /// back is dropped by its owner, and dropping it rolls back too.
    fn roll_back(&self) {
        if !self.sql.is_autocommit()
            && let Err(error) = self.sql.execute_batch("ROLLBACK")
        {
            log::warn!("{}: rollback: {error}", self.path.display());
        }
    }

    /// Moves a long log into the board if nobody else does. It is a courtesy: failing changes nothing.
    fn checkpoint_large_log(&mut self) {
        self.commits_since_checkpoint = self.commits_since_checkpoint.saturating_add(1);
        if self.commits_since_checkpoint < COMMITS_BETWEEN_CHECKPOINTS {
            return;
        }
        let mut log_path = self.path.clone().into_os_string();
        log_path.push("-wal");
        if fs::metadata(log_path).is_ok_and(|log| log.len() > LARGE_LOG_BYTES) {
            self.commits_since_checkpoint = 0;
            let outcome = self
                .sql
                .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            if let Err(error) = outcome {
                log::warn!("{}: checkpoint: {error}", self.path.display());
            }
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_that_goes_away_during_a_transaction_keeps_none_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (here, away) = (folder.path().join("a.db"), folder.path().join("b.db"));
        let made = Connection::open(&here).unwrap();
        made.execute_batch(include_str!("schema.sql")).unwrap();
        let mut board = BoardFile::open(&here, Duration::from_millis(10)).unwrap();
        let outcome = board.write(1, |visit| {
            visit
                .sql
                .execute("INSERT INTO task_links VALUES ('a', 'b')", [])?;
            fs::rename(&here, &away).unwrap();
            Ok(())
        });
        assert!(matches!(outcome, Err(BoardError::Gone(_))), "{outcome:?}");
        let links: i64 = made
            .query_row("SELECT COUNT(*) FROM task_links", [], |row| row.get(0))
            .unwrap();
        assert_eq!(links, 0);
    }

    #[test]
    fn what_fails_half_way_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let made = Connection::open(&path).unwrap();
        made.execute_batch(include_str!("schema.sql")).unwrap();
        let mut board = BoardFile::open(&path, Duration::from_millis(10)).unwrap();
        let outcome: Result<(), BoardError> = board.write(1, |visit| {
            visit
                .sql
                .execute("INSERT INTO task_links VALUES ('a', 'b')", [])?;
            Err(BoardError::Refused("no".to_owned()))
        });
        assert!(
            matches!(outcome, Err(BoardError::Refused(_))),
            "{outcome:?}"
        );
        let links = board.read(1, |visit| {
            Ok(visit
                .sql
                .query_row("SELECT COUNT(*) FROM task_links", [], |row| {
                    row.get::<_, i64>(0)
                })?)
        });
        assert_eq!(links.unwrap(), 0);
    }
}
