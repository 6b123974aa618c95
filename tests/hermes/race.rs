//! Several claimers of one board, Hermes among them.

use std::collections::BTreeSet;

use hermes_pool::board::Board;
use hermes_pool::board::hermes::HermesBoards;
use hermes_pool::domain::{BoardSlug, ClaimLock, TaskId};
use serde_json::json;

use super::answers;
use super::oracle::Oracle;
use super::python;
use super::stage::NOW;

const TASKS: usize = 50;

fn task_id(number: usize) -> TaskId {
    TaskId::parse(&format!("t_{number:08x}")).unwrap()
}

#[test]
fn claimers_that_race_for_the_same_tasks_get_each_once() {
    let home = tempfile::tempdir().unwrap();
    let Some(mut oracle) = Oracle::start(home.path()) else {
        return;
    };
    oracle.get("clock", json!({"set": NOW}));
    oracle.get("board_create", json!({"slug": "lab"}));
    for number in 1..=TASKS {
        let made = json!({"board": "lab", "title": "t", "assignee": "codex-cli"});
        assert_eq!(
            oracle.get("task_create", made)["id"],
            task_id(number).as_str()
        );
    }
    let home = oracle.home().to_owned();
    let claim_all = |pool: &str| -> Vec<String> {
        let boards = HermesBoards::new(home.clone(), answers::settings());
        let mut board = boards.open(&BoardSlug::parse("lab").unwrap()).unwrap();
        let claims = (1..=TASKS).map(|number| {
            let lock = ClaimLock::recorded(&format!("pool/{pool}:ffffffff:{number}"));
            board.claim(&task_id(number), &lock, 900, NOW).unwrap()
        });
        claims
            .flatten()
            .map(|claim| claim.run.to_string())
            .collect()
    };
    let (mut runs, by_hermes) = std::thread::scope(|scope| {
        let pools = ["p1", "p2"].map(|pool| scope.spawn(move || claim_all(pool)));
        let by_hermes: Vec<String> = (1..=TASKS)
            .rev()
            .filter_map(|number| {
                let task = task_id(number);
                let claim = oracle.get("claim", json!({"board": "lab", "id": task.as_str()}));
                claim["run"].as_i64().map(|run| run.to_string())
            })
            .collect();
        let runs: Vec<String> = pools
            .into_iter()
            .flat_map(|pool| pool.join().unwrap())
            .collect();
        (runs, by_hermes)
    });
    runs.extend(by_hermes);
    assert_eq!(runs.len(), TASKS, "every task is claimed, and once");
    assert_eq!(runs.iter().collect::<BTreeSet<_>>().len(), TASKS);
    let dump = oracle.get("dump", json!({"board": "lab"}));
    assert_eq!(dump["tables"]["task_runs"].as_array().unwrap().len(), TASKS);
    let events = dump["tables"]["task_events"].as_array().unwrap();
    let claimed = events.iter().filter(|event| event["kind"] == "claimed");
    assert_eq!(claimed.count(), TASKS);
}

#[test]
fn connections_that_come_and_go_beside_a_busy_hermes_do_the_board_no_harm() {
    let home = tempfile::tempdir().unwrap();
    // With Hermes' check after each commit, which opens and closes the raw file and so drops the locks of its process.
    let Some(mut oracle) = Oracle::start_with(home.path(), python::REFERENCE, &[]) else {
        return;
    };
    oracle.get("board_create", json!({"slug": "lab"}));
    let task = oracle.get(
        "task_create",
        json!({"board": "lab", "title": "t", "assignee": "codex-cli"}),
    );
    let task = TaskId::parse(task["id"].as_str().unwrap()).unwrap();
    let boards = HermesBoards::new(oracle.home().to_owned(), answers::settings());
    let slug = BoardSlug::parse("lab").unwrap();
    let lock = ClaimLock::recorded("pool/p1:ffffffff:1");
    let mut board = boards.open(&slug).unwrap();
    board.claim(&task, &lock, 900, NOW).unwrap().unwrap();
    drop(board);

    let storm = json!({"board": "lab", "id": task.as_str(), "ms": 2000});
    let (storm, beats) = std::thread::scope(|scope| {
        let storm = scope.spawn(|| oracle.get("storm", storm));
        let mut beats = 0;
        while !storm.is_finished() {
            // Each visit opens the board and closes it again, which is the worst that can be done to it.
            let mut board = boards.open(&slug).unwrap();
            let note = format!("ours-{beats}");
            assert!(
                board
                    .record_heartbeat(task.as_str(), None, Some(&note), NOW)
                    .unwrap()
            );
            beats += 1;
        }
        (storm.join().unwrap(), beats)
    });
    assert_eq!(storm["integrity"], "ok", "{storm}");
    // Hermes' own check fails now and then after the commit, so that a row exists which it did not acknowledge.
    let errors = storm["errors"].as_object().unwrap();
    assert!(
        errors.keys().all(|error| error.contains("torn-extend")),
        "{storm}"
    );
    let unacknowledged: i64 = errors.values().filter_map(serde_json::Value::as_i64).sum();
    let acknowledged = storm["acknowledged"].as_i64().unwrap();
    assert_eq!(storm["rows"], acknowledged + unacknowledged, "{storm}");
    let mut board = boards.open(&slug).unwrap();
    let events = board.events(task.as_str()).unwrap();
    let is_ours = |payload: &String| payload.contains("ours-");
    let ours = events
        .iter()
        .filter(|event| event.payload.as_ref().is_some_and(is_ours));
    assert_eq!(ours.count(), beats);
}
