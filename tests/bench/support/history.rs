//! Long histories: ended assignments in a store, done tasks on a board, each table filled by one statement.

use std::fs;
use std::path::{Path, PathBuf};

use hermes_pool::store::{STORE_FILE, Store};
use rusqlite::{Connection, params};

use super::pool::{BOARD, LANE};
use super::{Outcome, scratch};

/// How long ago the youngest of it ended, in seconds: longer than a day, not as long as a week.
const AGE_SECONDS: f64 = 2.0 * 86_400.0;
/// The slots that the stores are made for: more than the reference's three.
const SLOTS: u16 = 256;

/// All numbers from 1 to `?1`.
const NUMBERS: &str = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n WHERE i<?1) ";
const ASSIGNMENTS: &str = "INSERT INTO assignments(board,task_id,run_id,worker_ordinal,attempt,\
    assignment_digest,payload_json,state,lease_until,last_heartbeat,result_digest,result_json,created_at,updated_at) \
    SELECT ?2,printf('h_%08x',i),CAST(i AS TEXT),i%3,1,printf('%064x',i),\
    printf('{\"task\":{\"title\":\"a task of the past, number %d\",\"body\":\"%0100d\"}}',i,i),\
    CASE i%10 WHEN 0 THEN 'stale' ELSE 'finalized' END,0,0,printf('%064x',i),'{\"outcome\":\"completed\"}',\
    ?3+i*0.001,?3+i*0.001 FROM n";
const CLAIMS: &str = "INSERT INTO claims(board,task_id,run_id,claim_lock,run_sequence,event_sequence,offers,\
    confirmed_at,created_at) SELECT ?2,printf('h_%08x',i),CAST(i AS TEXT),printf('pool/bench:history:%d',i),i,i,1,\
    ?3,?3 FROM n";
const TASKS: &str = "INSERT INTO tasks(id,title,body,assignee,status,priority,created_by,created_at,started_at,\
    completed_at,result) SELECT printf('h_%08x',i),printf('a task of the past, number %d',i),printf('%0100d',i),?2,'done',\
    0,'user',?3+i,?3+i,?3+i+60,'done' FROM n";
const RUNS: &str = "INSERT INTO task_runs(task_id,profile,status,claim_lock,started_at,ended_at,outcome,summary) \
    SELECT printf('h_%08x',i),?2,'done',NULL,?3+i,?3+i+60,'completed','done' FROM n";
const EVENTS: &str = "INSERT INTO task_events(task_id,run_id,kind,payload,created_at) \
    SELECT printf('h_%08x',i),CASE kind.name WHEN 'created' THEN NULL ELSE i END,kind.name,\
    printf('{\"lock\":\"pool/bench:history:%d\",\"for\":%Q}',i,?2),?3+i FROM n,\
    (SELECT 'created' AS name UNION ALL SELECT 'claimed' UNION ALL SELECT 'completed') AS kind";

/// A store with a long history, made once and copied.
pub(crate) struct History {
    folder: tempfile::TempDir,
    /// Done tasks of a board.
    tasks: u32,
    now: f64,
}

impl History {
    /// Makes one that ends two days before `now`: ended assignments in the store, done tasks for a board.
    pub(crate) fn new(assignments: u32, tasks: u32, now: f64) -> Outcome<Self> {
        let folder = scratch()?;
        let path = folder.path().join(STORE_FILE);
        drop(Store::open(&path, SLOTS)?);
        let history = Self { folder, tasks, now };
        let began = now - AGE_SECONDS - f64::from(assignments) * 0.001;
        fill(&path, &[ASSIGNMENTS, CLAIMS], assignments, BOARD, began)?;
        Ok(history)
    }

    /// Puts a copy of the store into a folder, which is made. The whole disk is at rest then: a gigabyte of it, or of what
    /// was there before, that is still to be written or freed would keep the commits of whoever uses it waiting.
    pub(crate) fn copy_store(&self, state_dir: &Path) -> Outcome<()> {
        fs::create_dir_all(state_dir)?;
        fs::copy(
            self.folder.path().join(STORE_FILE),
            state_dir.join(STORE_FILE),
        )?;
        rustix::fs::sync();
        Ok(())
    }

    /// Adds the done tasks to the board below a home.
    pub(crate) fn fill_board(&self, home: &Path) -> Outcome<()> {
        let began = (self.now - AGE_SECONDS - f64::from(self.tasks)).floor();
        fill(
            &database(home),
            &[TASKS, RUNS, EVENTS],
            self.tasks,
            LANE,
            began,
        )
    }
}

/// The board's file below a home.
pub(crate) fn database(home: &Path) -> PathBuf {
    home.join("kanban/boards").join(BOARD).join("kanban.db")
}

/// Runs statements on a file that nobody else uses, as fast as it goes.
fn fill(path: &Path, statements: &[&str], count: u32, name: &str, began: f64) -> Outcome<()> {
    let connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-262144; BEGIN EXCLUSIVE",
    )?;
    for statement in statements {
        connection.execute(
            &format!("{NUMBERS}{statement}"),
            params![count, name, began],
        )?;
    }
    connection.execute_batch("COMMIT; PRAGMA journal_mode=WAL")?;
    Ok(())
}
