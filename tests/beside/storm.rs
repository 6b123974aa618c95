//! Hermes writes without pause, from several threads, while the pool works on the same board and dies a few times.
//!
//! No second process of Hermes may come near the board meanwhile: with a SQLite before 3.51.3, and with the raw opens of
//! Hermes 0.19, two of them destroy a board within seconds, without any help of ours. So the tasks are added by our adapter,
//! as `hermes-pool board add` does.

use std::time::Duration;

use hermes_pool::board::hermes::{HermesBoards, NewTask, Settings};
use hermes_pool::domain::BoardSlug;
use serde_json::{Value, json};

use super::oracle::Oracle;
use super::process::{LANE, now};
use super::whole_run::boards;
use super::whole_run::invariants::{Dump, assert_settled, assert_undisturbed};
use super::whole_run::process::Process;
use super::whole_run::site::{Site, fixed_port, workers_address};

const BOARD: &str = "lab";
const WORKERS: u16 = 3;
const DEATHS: usize = 4;
/// Tasks that the board gets for each life of the coordinator.
const TASKS: usize = 6;
const STORM_MILLIS: u64 = 12_000;
/// How long a coordinator lives, at most, after its first offer.
const LIFE_MILLIS: u64 = 800;

/// A task of Hermes' own, which the storm writes about; it is none of the pool's lanes.
fn storm_task(oracle: &mut Oracle) -> String {
    let task = boards::add(oracle, BOARD, "storm", json!({"assignee": "somebody"}));
    oracle.get("claim", json!({"board": BOARD, "id": task}));
    task
}

/// Adds tasks for the pool.
fn add_tasks(boards: &HermesBoards) {
    let mut board = boards.open(&BoardSlug::parse(BOARD).unwrap()).unwrap();
    for _ in 0..TASKS {
        let task = NewTask {
            title: "task".to_owned(),
            assignee: Some(LANE.to_owned()),
            ..NewTask::default()
        };
        board.create_task(&task, now()).unwrap();
    }
}

/// The board without one task.
fn without(mut dump: Value, task: &str) -> Value {
    for table in ["tasks", "task_runs", "task_events"] {
        let column = if table == "tasks" { "id" } else { "task_id" };
        let rows = dump["tables"][table].as_array_mut().unwrap();
        rows.retain(|row| row[column] != task);
    }
    dump
}

#[test]
fn all_that_was_acknowledged_stands_after_a_storm_of_hermes_and_deaths_of_the_pool() {
    let home = tempfile::tempdir().unwrap();
    let (Some(mut oracle), Some(mut stormy)) =
        (Oracle::start(home.path()), Oracle::start(home.path()))
    else {
        return;
    };
    boards::create(&mut oracle, BOARD);
    let task = storm_task(&mut oracle);
    let adapter = HermesBoards::new(oracle.home().to_owned(), Settings::default());
    let port = fixed_port();
    let site = Site::new("storm", oracle.home(), &[BOARD], WORKERS, port);
    let address = format!("127.0.0.1:{port}");
    let workers: Vec<Process> = (0..WORKERS)
        .map(|ordinal| site.worker(ordinal, &address))
        .collect();
    let storm = json!({"board": BOARD, "id": task, "ms": STORM_MILLIS, "pause_ms": 5});
    let storm = std::thread::spawn(move || stormy.get("storm", storm));
    let mut lives = 0;
    while lives < DEATHS || !storm.is_finished() {
        add_tasks(&adapter);
        let mut coordinator = site.serve("");
        coordinator.hear("event=offered");
        // Not to wait for anything: the moment of death is meant to be any.
        std::thread::sleep(Duration::from_millis(fastrand::u64(0..LIFE_MILLIS)));
        coordinator.kill();
        lives += 1;
    }
    let mut coordinator = site.serve("");
    workers_address(&mut coordinator);
    coordinator.until(|| site.has_finalized(lives * TASKS));
    coordinator.stop();
    let said: Vec<Vec<String>> = workers.into_iter().map(Process::kill).collect();

    let storm = storm.join().unwrap();
    eprintln!("{lives} deaths; {storm}");
    assert_eq!(storm["integrity"], "ok", "{storm}");
    assert_eq!(storm["errors"], json!({}), "{storm}");
    assert!(storm["acknowledged"].as_i64() > Some(0), "{storm}");
    let dump = oracle.get("dump", json!({"board": BOARD}));
    let written = |row: &&Value| row["task_id"] == task.as_str() && row["kind"] == "heartbeat";
    let events = dump["tables"]["task_events"].as_array().unwrap().iter();
    assert_eq!(
        Some(events.filter(written).count() as i64),
        storm["acknowledged"].as_i64()
    );
    let board = [Dump::new(BOARD, without(dump, &task))];
    board[0].assert_all_done_once();
    assert_settled(&site, &board);
    for said in &said {
        assert_undisturbed(said, &board);
    }
    let check = json!({"board": BOARD, "statements": ["PRAGMA integrity_check"]});
    let check = oracle.get("sql", check).to_string();
    assert!(check.contains("ok"), "{check}");
}
