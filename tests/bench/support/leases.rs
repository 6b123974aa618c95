//! A running assignment for each slot, in the store and on the board, without the hours that it takes to come there.

use std::path::Path;

use hermes_pool::store::{STORE_FILE, Store};
use rusqlite::{Connection, params};

use super::Outcome;
use super::history::database;
use super::pool::{BOARD, LANE};

/// All numbers from 1 to `?1`.
const NUMBERS: &str = "WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i+1 FROM n WHERE i<?1) ";
const ASSIGNMENTS: &str = "INSERT INTO assignments(board,task_id,run_id,worker_ordinal,attempt,assignment_digest,\
    payload_json,state,lease_until,last_heartbeat,created_at,updated_at) \
    SELECT ?2,printf('t_%08x',i),CAST(i AS TEXT),i-1,1,\
    '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a','{}','running',?4+(i-1)*?5,?3,?3,?3 FROM n";
const CLAIMS: &str = "INSERT INTO claims(board,task_id,run_id,claim_lock,offers,confirmed_at,board_heartbeat_at,created_at) \
    SELECT ?2,printf('t_%08x',i),CAST(i AS TEXT),printf('pool/bench:ffffffff:%d',i),1,?3,?3,?3 FROM n";
const TASKS: &str = "INSERT INTO tasks(id,title,assignee,status,created_at,started_at,claim_lock,claim_expires,\
    current_run_id) SELECT printf('t_%08x',i),printf('task %d',i),?2,'running',?3,?3,printf('pool/bench:ffffffff:%d',i),?3+900,i FROM n";
const RUNS: &str = "INSERT INTO task_runs(id,task_id,profile,status,claim_lock,claim_expires,started_at) \
    SELECT i,printf('t_%08x',i),?2,'running',printf('pool/bench:ffffffff:%d',i),?3+900,?3 FROM n";
const EVENTS: &str = "INSERT INTO task_events(task_id,run_id,kind,payload,created_at) \
    SELECT printf('t_%08x',i),i,'claimed',printf('{\"lock\":\"pool/bench:ffffffff:%d\",\"for\":%Q}',i,?2),?3 FROM n";

/// When leases end, in seconds since the epoch.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    /// The first slot's.
    pub(crate) first: f64,
    /// From one slot to the next.
    pub(crate) step: f64,
}

impl Ends {
    /// A slot's.
    pub(crate) fn of(self, ordinal: u16) -> f64 {
        self.first + f64::from(ordinal) * self.step
    }
}

/// Fills the empty store in `state_dir`, which is made, and the empty board below `home`.
pub(crate) fn fill(state_dir: &Path, home: &Path, slots: u16, now: f64, ends: Ends) -> Outcome<()> {
    std::fs::create_dir_all(state_dir)?;
    let path = state_dir.join(STORE_FILE);
    drop(Store::open(&path, slots)?);
    let store = Connection::open(&path)?;
    let parameters = params![slots, BOARD, now, ends.first, ends.step];
    store.execute_batch("BEGIN IMMEDIATE")?;
    store.execute(&format!("{NUMBERS}{ASSIGNMENTS}"), parameters)?;
    store.execute(&format!("{NUMBERS}{CLAIMS}"), params![slots, BOARD, now])?;
    store.execute_batch("COMMIT")?;
    let board = Connection::open(database(home))?;
    board.execute_batch("BEGIN IMMEDIATE")?;
    for statement in [TASKS, RUNS, EVENTS] {
        let parameters = params![slots, LANE, now.floor()];
        board.execute(&format!("{NUMBERS}{statement}"), parameters)?;
    }
    board.execute_batch("COMMIT")?;
    Ok(())
}
