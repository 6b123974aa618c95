//! A board's history once more, every step of it made by Hermes, to see whether Hermes could have written the board.

use serde_json::{Value, json};

use super::differences::differences;
use super::oracle::Oracle;

/// What Hermes writes of a worker whose process has gone; a worker of the pool that gives the same reason is comparable.
pub(crate) const CRASH: &str = "pid 777 not alive";
const PID: i64 = 777;
/// A lock that Hermes takes for its own, so that it looks after the process.
const LOCK: &str = "oracle-host:4242";
/// Longer than the time that Hermes leaves a new process alone.
const STEP_SECONDS: i64 = 60;

/// Repeats what the pool did on a board, where `hermes` has the same tasks untouched; returns where the boards differ.
/// `dump` is without times.
pub(crate) fn replay(hermes: &mut Oracle, board: &str, dump: &Value) -> Vec<String> {
    let tables = &dump["tables"];
    for event in rows(tables, "task_events") {
        hermes.get("clock", json!({"advance": STEP_SECONDS}));
        let run = rows(tables, "task_runs").find(|run| run["id"] == event["run_id"]);
        let task = rows(tables, "tasks").find(|task| task["id"] == event["task_id"]);
        step(
            hermes,
            board,
            event,
            run,
            task.expect("an event has its task"),
        );
    }
    let wanted = hermes.get("dump", json!({"board": board, "time": "mask"}));
    let mut found = Vec::new();
    differences(board, &neutral(wanted), &neutral(dump.clone()), &mut found);
    found
}

/// Makes one event happen, if it is not a consequence of another one.
fn step(hermes: &mut Oracle, board: &str, event: &Value, run: Option<&Value>, task: &Value) {
    let mut request = json!({"board": board, "id": event["task_id"]});
    let run = run.unwrap_or(&Value::Null);
    let op = match event["kind"].as_str().unwrap_or_default() {
        "created" | "promoted" => return,
        "claimed" => {
            request["claimer"] = json!(LOCK);
            "claim"
        }
        "heartbeat" => {
            let mut extension = request.clone();
            extension["claimer"] = json!(LOCK);
            hermes.get("heartbeat", extension);
            request["run"] = run["id"].clone();
            "heartbeat_worker"
        }
        "completed" => {
            request["run"] = run["id"].clone();
            request["summary"] = run["summary"].clone();
            request["metadata"] = run["metadata"].clone();
            request["result"] = task["result"].clone();
            "complete"
        }
        "blocked" => {
            request["run"] = run["id"].clone();
            request["reason"] = event["payload"]["reason"].clone();
            request["kind"] = event["payload"]["kind"].clone();
            "block"
        }
        "crashed" => {
            let number = format!(
                "UPDATE tasks SET worker_pid={PID} WHERE id={}",
                event["task_id"].to_string().replace('"', "'")
            );
            hermes.get("sql", json!({"board": board, "statements": [number]}));
            hermes.get("process", json!({"pid": PID, "alive": false}));
            request = json!({"board": board});
            "detect_crashed"
        }
        other => panic!("Hermes' workers leave no such event: {other}: {event}"),
    };
    let answer = hermes.get(op, request);
    assert!(answer != false && !answer.is_null(), "{event}: {answer}");
}

fn rows<'a>(tables: &'a Value, table: &str) -> impl Iterator<Item = &'a Value> {
    tables[table].as_array().into_iter().flatten()
}

/// A dump without what differs by nature: locks, and the number of a process that the pool's workers do not have.
fn neutral(mut value: Value) -> Value {
    neutralise("", &mut value);
    value
}

fn neutralise(name: &str, value: &mut Value) {
    match value {
        Value::Object(members) => members
            .iter_mut()
            .for_each(|(name, value)| neutralise(name, value)),
        Value::Array(values) => values.iter_mut().for_each(|value| neutralise("", value)),
        Value::Number(_) if name == "pid" => *value = Value::Null,
        Value::String(text) if text == LOCK || text.starts_with("pool/") => {
            *value = json!("<lock>");
        }
        _ => {}
    }
}
