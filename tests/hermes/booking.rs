//! Failures are booked as Hermes books those of its own workers.

use hermes_pool::board::hermes::HermesBoards;
use hermes_pool::board::{Board, Ending};
use hermes_pool::domain::RunRef;
use hermes_pool::domain::{BoardSlug, ClaimLock, RunId, TaskId};
use serde_json::{Value, json};

use super::answers;
use super::differences::differences;
use super::oracle::Oracle;
use super::stage::NOW;

/// The lock by which Hermes takes a claim for its own.
const LOCK: &str = "oracle-host:4242";
const PID: i64 = 777;

/// Two claimed tasks whose worker is known to Hermes: one with a limit of one failure, one with the default of two.
fn prepare(oracle: &mut Oracle) {
    oracle.get("clock", json!({"set": NOW}));
    oracle.get("board_create", json!({"slug": "lab"}));
    oracle.get("process", json!({"pid": PID}));
    for retries in [json!(1), Value::Null] {
        let task = oracle.get(
            "task_create",
            json!({"board": "lab", "title": "a", "assignee": "codex-cli", "max_retries": retries,
                   "max_runtime_seconds": 60}),
        );
        oracle.get(
            "claim",
            json!({"board": "lab", "id": task["id"], "claimer": LOCK}),
        );
        oracle.get(
            "heartbeat_worker",
            json!({"board": "lab", "id": task["id"]}),
        );
        oracle.get(
            "set_worker_pid",
            json!({"board": "lab", "id": task["id"], "pid": PID}),
        );
    }
    oracle.get("clock", json!({"advance": 100}));
}

/// Lets Hermes book both runs in one home and the adapter in another, and returns the differences between the boards. The
/// pool's workers have no process here, so the process's number is left out.
fn booked_differences(hermes: impl Fn(&mut Oracle), ending: &Ending) -> Option<Vec<String>> {
    let (left, right) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (mut left, mut right) = (Oracle::start(left.path())?, Oracle::start(right.path())?);
    for oracle in [&mut left, &mut right] {
        prepare(oracle);
    }
    hermes(&mut left);
    let boards = HermesBoards::new(right.home().to_owned(), answers::settings());
    let mut board = boards.open(&BoardSlug::parse("lab").unwrap()).unwrap();
    for number in [1, 2_u32] {
        let run = RunRef {
            task: TaskId::parse(&format!("t_{number:08x}")).unwrap(),
            run: RunId::from(number),
        };
        let lock = ClaimLock::recorded(LOCK);
        assert!(board.end(&run, &lock, ending, NOW + 100).unwrap().is_some());
    }
    let mut found = Vec::new();
    differences(
        "dump",
        &in_order_of_tasks(left.dump()),
        &in_order_of_tasks(right.dump()),
        &mut found,
    );
    Some(found)
}

/// A dump without the process's number, and with the events task by task: Hermes first ends all runs and then counts, the
/// pool does both for each run in one transaction.
fn in_order_of_tasks(mut dump: Value) -> Value {
    let tables = &mut dump["lab"]["tables"];
    for table in ["task_events", "task_runs"] {
        for row in tables[table].as_array_mut().unwrap() {
            for column in ["payload", "metadata"] {
                if let Some(pid) = row.get_mut(column).and_then(|value| value.get_mut("pid")) {
                    *pid = Value::Null;
                }
            }
        }
    }
    let events = tables["task_events"].as_array_mut().unwrap();
    events.sort_by_key(|event| (event["task_id"].to_string(), event["id"].as_i64()));
    for (number, event) in events.iter_mut().enumerate() {
        event["id"] = json!(number);
    }
    dump
}

#[test]
fn a_failed_run_is_booked_as_hermes_books_a_crashed_worker() {
    let hermes = |oracle: &mut Oracle| {
        oracle.get("process", json!({"pid": PID, "alive": false}));
        oracle.get("detect_crashed", json!({"board": "lab"}));
    };
    let ending = Ending::Fail {
        reason: format!("pid {PID} not alive"),
        failure_limit: 2,
    };
    if let Some(found) = booked_differences(hermes, &ending) {
        assert_eq!(found, Vec::<String>::new());
    }
}

#[test]
fn a_run_that_took_too_long_is_booked_as_hermes_books_it() {
    let hermes = |oracle: &mut Oracle| {
        oracle.get("enforce_runtime", json!({"board": "lab"}));
    };
    let ending = Ending::TimeOut {
        elapsed_seconds: 100,
        limit_seconds: 60,
        failure_limit: 2,
    };
    if let Some(found) = booked_differences(hermes, &ending) {
        assert_eq!(found, Vec::<String>::new());
    }
}
