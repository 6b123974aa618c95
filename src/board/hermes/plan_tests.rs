//! Whatever the pool asks a board follows live work: each statement of every visit is served by an index.
//!
//! The statements are those that SQLite was really given, so that none can be forgotten.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use super::*;
use crate::board::{Board, Ending};
use crate::protocol::{BlockKind, Json};

const NOW: i64 = 1_800_000_000;
const TTL_SECONDS: i64 = 900;

/// What may read more than it asks for, by how the statement begins: what a brief takes from a lane's history (once for
/// each connection), the board's first row (one row), and SQLite's own list of counters (a row for each table).
const MAY_SCAN: [&str; 3] = [
    "SELECT run.ended_at, run.id FROM task_runs AS run JOIN tasks",
    "SELECT id, created_at FROM tasks ORDER BY rowid LIMIT 1",
    "SELECT seq FROM sqlite_sequence",
];

fn endings() -> Vec<Ending> {
    let reason = || Some("why".to_owned());
    let block = |kind| Ending::Block {
        kind,
        reason: Some("why".to_owned()),
    };
    vec![
        Ending::Complete {
            summary: Some("done".to_owned()),
            result: None,
            metadata: Json::object::<&str>([]),
        },
        block(BlockKind::NeedsInput),
        block(BlockKind::Capability),
        block(BlockKind::Dependency),
        block(BlockKind::Transient),
        Ending::Fail {
            reason: "why".to_owned(),
            failure_limit: 2,
        },
        Ending::RateLimit {
            reason: "why".to_owned(),
        },
        Ending::Release { reason: reason() },
        Ending::TimeOut {
            elapsed_seconds: 60,
            limit_seconds: 30,
            failure_limit: 2,
        },
    ]
}

/// A task's whole life, with everything that is ever asked about it.
fn live(board: &mut HermesBoard, lane: &Lane, task: &TaskId, ending: &Ending) {
    let lock = ClaimLock::recorded(&format!("pool/test:{task}"));
    let anchor = board.anchor().unwrap();
    board.ready(std::slice::from_ref(lane), 64, NOW).unwrap();
    let claimed = board.claim(task, &lock, TTL_SECONDS, NOW).unwrap().unwrap();
    let run = RunRef {
        task: task.clone(),
        run: claimed.run,
    };
    assert!(board.claimed_run(task, &lock).unwrap().is_some());
    assert_eq!(board.lock_of(&run).unwrap(), Some(lock.clone()));
    board.brief(task, NOW).unwrap();
    assert!(board.extend(task, &lock, TTL_SECONDS, NOW).unwrap());
    assert!(board.heartbeat(&run, Some("note"), NOW).unwrap());
    board.has_open_parent(task).unwrap();
    board.fate(&run, Some(&lock), Some(&anchor), NOW).unwrap();
    board.end(&run, &lock, ending, NOW).unwrap().unwrap();
    board.finish_completion(task, NOW).unwrap();
    board.fate(&run, Some(&lock), Some(&anchor), NOW).unwrap();
}

/// Every statement that the visits of all kinds of lives gave SQLite.
fn statements(boards: &HermesBoards, slug: &BoardSlug) -> BTreeSet<String> {
    let mut board = boards.open(slug).unwrap();
    let lane = Lane::parse("lane").unwrap();
    let mut make = |parents: Vec<String>| {
        let task = NewTask {
            title: "a task".to_owned(),
            assignee: Some("lane".to_owned()),
            parents,
            ..NewTask::default()
        };
        TaskId::parse(&board.create_task(&task, NOW).unwrap()).unwrap()
    };
    let endings = endings();
    let tasks: Vec<_> = endings.iter().map(|_| make(Vec::new())).collect();
    make(vec![tasks[0].to_string()]);
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    board.file.trace(Arc::clone(&seen));
    for (task, ending) in tasks.iter().zip(&endings) {
        live(&mut board, &lane, task, ending);
    }
    board.pool_claims(&PoolId::parse("test").unwrap()).unwrap();
    board.changed().unwrap();
    let seen = seen.lock().unwrap().clone();
    seen.into_iter()
        .filter(|sql: &String| {
            ["SELECT", "INSERT", "UPDATE", "DELETE"]
                .iter()
                .any(|verb| sql.starts_with(verb))
        })
        .collect()
}

/// The tables that a statement goes through from end to end.
fn scanned(connection: &Connection, sql: &str) -> Vec<String> {
    let mut explain = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let nulls = vec![rusqlite::types::Null; explain.parameter_count()];
    let plan = explain
        .query_map(rusqlite::params_from_iter(nulls), |row| {
            row.get::<_, String>(3)
        })
        .unwrap();
    plan.map(Result::unwrap)
        // A scan of what an inner query gives is no scan of a table.
        .filter(|step| step.starts_with("SCAN ") && !step.contains("(subquery-"))
        .collect()
}

#[test]
fn no_visit_scans_a_table_of_the_board() {
    let folder = tempfile::tempdir().unwrap();
    let boards = HermesBoards::new(folder.path().to_owned(), Settings::default());
    let slug = BoardSlug::parse("lab").unwrap();
    let path = boards.create(&slug, &BoardDetails::default(), NOW).unwrap();
    let statements = statements(&boards, &slug);
    let connection = Connection::open(path).unwrap();
    let mut excused = BTreeSet::new();
    let mut scans = Vec::new();
    for sql in &statements {
        let steps = scanned(&connection, sql);
        if steps.is_empty() {
            continue;
        }
        match MAY_SCAN.iter().find(|excuse| sql.starts_with(**excuse)) {
            Some(excuse) => _ = excused.insert(*excuse),
            None => scans.push(format!("{sql}: {steps:?}")),
        }
    }
    assert!(scans.is_empty(), "{scans:#?}");
    assert_eq!(excused, BTreeSet::from(MAY_SCAN), "an excuse is not needed");
}
