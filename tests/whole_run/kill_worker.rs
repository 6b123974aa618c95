//! A worker is killed in the middle of a run, and the coordinator with it: the run stays the pool's, and its worker's.

use serde_json::{Value, json};

use super::boards;
use super::invariants::{Dump, assert_settled, assert_undisturbed};
use super::oracle::Oracle;
use super::site::{Site, fixed_port, workers_address};

const BOARD: &str = "lab";
/// A claim that its owner has just extended lives at least this much longer.
const FRESH_SECONDS: i64 = 800;

/// The run in progress and when its claim ends, seconds from now.
fn claim(oracle: &mut Oracle, task: &str) -> (Value, i64) {
    let shown = oracle.get("task_show", json!({"board": BOARD, "id": task}));
    assert_eq!(shown["task"]["status"], "running", "{shown:#}");
    let now = oracle.get("clock", json!({}))["now"].as_i64().unwrap();
    let expires = shown["task"]["claim_expires"].as_i64().unwrap();
    (shown["task"]["current_run_id"].clone(), expires - now)
}

#[test]
fn a_worker_killed_in_the_middle_of_a_run_gets_the_same_attempt_again() {
    let home = tempfile::tempdir().unwrap();
    let Some(mut oracle) = Oracle::start(home.path()) else {
        return;
    };
    boards::create(&mut oracle, BOARD);
    let task = boards::add(&mut oracle, BOARD, "task", json!({}));
    let port = fixed_port();
    let address = format!("127.0.0.1:{port}");
    let site = Site::new("killed worker", oracle.home(), &[BOARD], 1, port);
    let gate = site.close_gate();
    let mut coordinator = site.serve("");
    workers_address(&mut coordinator);
    let mut worker = site.worker(0, &address);
    let begun = worker.hear("begun: ");
    worker.kill();

    // The claim outlives its worker, its coordinator and even its own end, as long as nobody else takes the task.
    let (run, _) = claim(&mut oracle, &task);
    coordinator.kill();
    let age = format!("UPDATE tasks SET claim_expires=claim_expires-1000 WHERE id='{task}'");
    oracle.get("sql", json!({"board": BOARD, "statements": [age]}));
    assert!(claim(&mut oracle, &task).1 < 0);
    let mut coordinator = site.serve("");
    workers_address(&mut coordinator);
    coordinator.until(|| claim(&mut oracle, &task).1 > FRESH_SECONDS);
    oracle.get("maintenance", json!({"board": BOARD}));
    assert_eq!(claim(&mut oracle, &task).0, run);

    let mut worker = site.worker(0, &address);
    assert_eq!(worker.hear("begun: "), begun);
    drop(gate);
    coordinator.until(|| site.has_finalized(1));
    coordinator.stop();
    let board = [Dump::new(
        BOARD,
        oracle.get("dump", json!({"board": BOARD})),
    )];
    board[0].assert_all_done_once();
    assert_eq!(assert_settled(&site, &board), 0);
    assert_undisturbed(&worker.kill(), &board);
}
