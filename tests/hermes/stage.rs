//! A home with one board, made without Hermes.

use std::path::PathBuf;

use hermes_pool::board::hermes::{BoardDetails, HermesBoard, HermesBoards, NewTask};
use hermes_pool::domain::RunRef;
use hermes_pool::domain::{BoardSlug, ClaimLock, Lane, RunId, TaskId};
use rusqlite::{Connection, OpenFlags};

use super::answers;

/// The time at which everything happens.
pub(crate) const NOW: i64 = 1_800_000_000;
/// How long claims live.
pub(crate) const TTL: i64 = 900;

/// A temporary home with the board `lab`.
pub(crate) struct Stage {
    pub(crate) boards: HermesBoards,
    pub(crate) database: PathBuf,
    pub(crate) home: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let home = tempfile::tempdir().expect("there is room for a home");
        let boards = HermesBoards::new(home.path().to_owned(), answers::settings());
        let database = boards
            .create(&lab(), &BoardDetails::default(), NOW)
            .expect("the board can be made");
        Self {
            boards,
            database,
            home,
        }
    }

    pub(crate) fn open(&self) -> HermesBoard {
        self.boards.open(&lab()).expect("the board can be opened")
    }

    /// Runs statements on the database as somebody else would, and leaves the log alone.
    pub(crate) fn sql(&self, statements: &str) {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let sql = Connection::open_with_flags(&self.database, flags).unwrap();
        sql.set_db_config(
            rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
            true,
        )
        .unwrap();
        sql.execute_batch(statements).unwrap();
    }

    /// One number from the database.
    pub(crate) fn number(&self, query: &str) -> i64 {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
        let sql = Connection::open_with_flags(&self.database, flags).unwrap();
        sql.set_db_config(
            rusqlite::config::DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE,
            true,
        )
        .unwrap();
        sql.query_row(query, [], |row| row.get(0)).unwrap()
    }
}

pub(crate) fn lab() -> BoardSlug {
    BoardSlug::parse("lab").unwrap()
}

pub(crate) fn lanes() -> Vec<Lane> {
    vec![Lane::parse("codex-cli").unwrap()]
}

pub(crate) fn lock(nonce: &str) -> ClaimLock {
    ClaimLock::recorded(&format!("pool/p1:ffffffff:{nonce}"))
}

pub(crate) fn task(title: &str) -> NewTask {
    NewTask {
        title: title.to_owned(),
        assignee: Some("Codex-CLI".to_owned()),
        ..NewTask::default()
    }
}

/// Makes a task and returns its id.
pub(crate) fn add(board: &mut HermesBoard, title: &str) -> TaskId {
    let id = board.create_task(&task(title), NOW).unwrap();
    TaskId::parse(&id).unwrap()
}

pub(crate) fn run_ref(task: &TaskId, run: &RunId) -> RunRef {
    RunRef {
        task: task.clone(),
        run: run.clone(),
    }
}
