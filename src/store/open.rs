//! Opening the file: making it, judging what is there, bringing it up to date.
//!
//! Nothing is written before the version is known to be one that may be written, the journal mode included.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::{FileProblem, StoreError};
use crate::domain::Fence;

const CLAIMS: &str = include_str!("migrations/0001_claims.sql");
const MORE_SLOTS: &str = include_str!("migrations/0002_more_slots.sql");

/// The version that the reference can still check.
const VERSION_OF_THREE_SLOTS: i64 = 1;
/// The version for more slots, and the newest.
const VERSION_OF_MORE_SLOTS: i64 = 2;

/// The slots that the reference's own check on the ordinal allows.
const SLOTS_OF_THE_REFERENCE: u16 = 3;
/// How long a lock of another process is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Pages of the log (16 MiB) after which it is moved into the database. A heartbeat writes to the same few pages as those
/// before it, so the longer the log, the less there is to move for each; and each move waits twice for the disk.
const CHECKPOINT_PAGES: u32 = 4000;
/// Room for every statement of the store.
const CACHED_STATEMENTS: usize = 64;

/// The columns that both programs rely on.
const ASSIGNMENTS: &str = "board,task_id,run_id,worker_ordinal,attempt,assignment_digest,payload_json,state,lease_until,\
    last_heartbeat,result_digest,result_json,created_at,updated_at";
const DELIVERIES: &str = "delivery_id,kind,digest,received_at";

/// Opens the writer's connection.
pub(super) fn open(path: &Path, slots: u16) -> Result<(Connection, Fence), StoreError> {
    create(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)
        .map_err(|error| StoreError::sqlite(path, &error))?;
    let fence = prepare(&mut connection, slots).map_err(|fault| fault.at(path))?;
    Ok((connection, fence))
}

/// Opens a connection that only reads, to a file that a writer has prepared.
pub(super) fn open_read_only(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let look = || -> Result<Connection, Fault> {
        let connection = Connection::open_with_flags(path, flags)?;
        set_up(&connection)?;
        match known_version(&connection)? {
            0 => Err(FileProblem::NotPrepared.into()),
            _ => Ok(connection),
        }
    };
    look().map_err(|fault| fault.at(path))
}

/// What holds for every connection and writes nothing.
fn set_up(connection: &Connection) -> Result<(), Fault> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    // Without this guarantee SQLite prepares a statement anew whenever a bound value might lead to a better plan, which
    // costs more than the rest of a heartbeat.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// A failure that does not know its file yet.
enum Fault {
    Sqlite(rusqlite::Error),
    Problem(FileProblem),
}

impl Fault {
    fn at(self, path: &Path) -> StoreError {
        match self {
            Self::Sqlite(error) => StoreError::sqlite(path, &error),
            Self::Problem(problem) => StoreError::file(path, problem),
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<FileProblem> for Fault {
    fn from(problem: FileProblem) -> Self {
        Self::Problem(problem)
    }
}

/// Makes an empty file that only its owner may read, if there is none. SQLite gives its other files the same rights.
fn create(path: &Path) -> Result<(), StoreError> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::file(
            path,
            FileProblem::CannotOpen(error.to_string()),
        )),
    }
}

fn prepare(connection: &mut Connection, slots: u16) -> Result<Fence, Fault> {
    set_up(connection)?;
    // Until the file is known to be ours, closing it must not even move its log into it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    let version = known_version(connection)?;
    recognise(connection, version)?;
    if connection.is_readonly(rusqlite::MAIN_DB)? {
        return Err(FileProblem::ReadOnly.into());
    }
    let mode: String = connection.query_row("PRAGMA journal_mode=WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(FileProblem::NoLog(mode).into());
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    let fence = migrate(connection, slots)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)?;
    Ok(fence)
}

/// The version of the file, if this program knows it.
fn known_version(connection: &Connection) -> Result<i64, Fault> {
    let found: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match found {
        0..=VERSION_OF_MORE_SLOTS => Ok(found),
        found if found < 0 => Err(FileProblem::Foreign(format!("its version is {found}")).into()),
        found => Err(FileProblem::Newer {
            found,
            known: VERSION_OF_MORE_SLOTS,
        }
        .into()),
    }
}

/// Refuses a file that no program of this kind has written. One without a version may be new, or the reference's.
fn recognise(connection: &Connection, version: i64) -> Result<(), Fault> {
    let mut query = connection.prepare("SELECT name FROM sqlite_schema WHERE type='table'")?;
    let tables: Vec<String> = query
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let shared = [("assignments", ASSIGNMENTS), ("deliveries", DELIVERIES)];
    let stranger = tables
        .iter()
        .find(|table| version == 0 && shared.iter().all(|(name, _)| name != table));
    if let Some(table) = stranger {
        return Err(FileProblem::Foreign(format!("it has a table {table:?}")).into());
    }
    for (table, expected) in shared {
        let found = columns_of(connection, table)?;
        if found != expected && (version > 0 || !found.is_empty()) {
            let what = format!("its table {table} has the columns {found:?}");
            return Err(FileProblem::Foreign(what).into());
        }
    }
    Ok(())
}

/// The names of a table's columns; none if there is no such table.
fn columns_of(connection: &Connection, table: &str) -> Result<String, rusqlite::Error> {
    connection.query_row(
        "SELECT coalesce(group_concat(name),'') FROM (SELECT name FROM pragma_table_info(?1) ORDER BY cid)",
        [table],
        |row| row.get(0),
    )
}

/// Brings the file to the version that `slots` needs, in one transaction. It never goes back to an older one.
fn migrate(connection: &mut Connection, slots: u16) -> Result<Fence, Fault> {
    let wanted = if slots > SLOTS_OF_THE_REFERENCE {
        VERSION_OF_MORE_SLOTS
    } else {
        VERSION_OF_THREE_SLOTS
    };
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again: another process may have been here since.
    let found = known_version(&tx)?;
    if found < VERSION_OF_THREE_SLOTS {
        tx.execute_batch(CLAIMS)?;
        let fence = uuid::Uuid::new_v4().simple().to_string();
        tx.execute("INSERT INTO pool(one,fence) VALUES(1,?1)", [fence])?;
    }
    if found < VERSION_OF_MORE_SLOTS && wanted == VERSION_OF_MORE_SLOTS {
        tx.execute_batch(MORE_SLOTS)?;
    }
    let fence: String = tx.query_row(super::sql::FENCE, [], |row| row.get(0))?;
    let fence = Fence::parse(&fence).map_err(|error| FileProblem::Malformed(error.to_string()))?;
    if found < wanted {
        tx.pragma_update(None, "user_version", wanted)?;
    }
    tx.commit()?;
    Ok(fence)
}
