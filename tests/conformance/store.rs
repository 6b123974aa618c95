//! `store/1`: histories of the durable store, and both of its tables at the end.

use hermes_pool::domain::Timestamp;
use hermes_pool::protocol::{Binding, Integer, Json, parse_json};
use hermes_pool::store::operations::Presented;
use hermes_pool::store::reference::{ReferenceError, ReferenceStore};
use serde_json::Value;

use super::vectors::{Difference, expected_error, integer, parse_text, same, text};

pub(crate) fn replay(case: &Value) -> Result<(), Difference> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("assignments.db");
    let mut store = ReferenceStore::open(&path, integer(case, "lease_seconds")).unwrap();
    for (index, step) in case["ops"].as_array().unwrap().iter().enumerate() {
        let name = text(step, "op");
        let what = format!("step {index} ({name})");
        if name == "reopen" {
            store = store
                .reopen(integer(&step["args"], "lease_seconds"))
                .unwrap();
        }
        let before = tables(&mut store);
        let outcome = carry_out(&mut store, name, &step["args"], time(step, "now"));
        match (outcome, expected_error(step)) {
            (Ok(actual), None) => same(&what, actual, json(&step["returns"]))?,
            (Ok(actual), Some(error)) => {
                return Err(format!("{what} returns {actual:?}, expected {error}"));
            }
            (Err(error), None) => return Err(format!("{what} fails: {error}")),
            (Err(error), Some(expected)) => {
                if text(expected, "class") == "ProtocolError" {
                    same(&what, &*error.to_string(), text(expected, "message"))?;
                }
                same(
                    &format!("{what} leaves tables that"),
                    tables(&mut store),
                    before,
                )?;
            }
        }
    }
    let [assignments, deliveries] = tables(&mut store);
    same(
        "assignments",
        assignments,
        json(&case["final"]["assignments"]),
    )?;
    same("deliveries", deliveries, json(&case["final"]["deliveries"]))
}

/// Both tables as they stand.
fn tables(store: &mut ReferenceStore) -> [Json; 2] {
    [
        Json::from(store.all_assignments().unwrap()),
        Json::from(store.all_deliveries().unwrap()),
    ]
}

fn carry_out(
    store: &mut ReferenceStore,
    name: &str,
    args: &Value,
    now: Timestamp,
) -> Result<Json, ReferenceError> {
    Ok(match name {
        "add" => {
            let payload = parse_text(text(args, "payload_json"))?;
            Json::from(store.add(&binding(&json(&args["binding"])), &payload, now)?)
        }
        "available_ordinals" => Json::from(store.available_ordinals()?),
        "active_assignments" => Json::from(store.active_assignments()?),
        "known_runs" => {
            let runs = store.known_runs()?;
            Json::from(runs.into_iter().map(Vec::from).collect::<Vec<_>>())
        }
        "offer" => Json::from(store.offer(integer(args, "ordinal"), now)?),
        "heartbeat" => {
            let (presented, _) = message(args)?;
            let duplicate = store.heartbeat(presented, now)?;
            Json::from(vec![true, duplicate])
        }
        "accept_result" => {
            let (presented, payload) = message(args)?;
            let (record, duplicate) = store.accept_result(presented, &payload, now)?;
            Json::from(vec![Json::from(record), Json::from(duplicate)])
        }
        "pending_results" => Json::from(store.pending_results()?),
        "failed_leases" => Json::from(store.failed_leases()?),
        "expire_leases" => {
            let now = if args["now"].is_null() {
                now
            } else {
                time(args, "now")
            };
            Json::from(store.expire_leases(integer(args, "max_attempts"), now)?)
        }
        "finalize" => {
            let binding = binding(&json(&args["binding"]));
            Json::from(store.finalize(&binding, text(args, "state"), now)?)
        }
        "garbage_collect" => {
            let retention_seconds = args["retention_seconds"].as_f64().unwrap();
            let collected = store.garbage_collect(retention_seconds, now)?;
            Json::from(i64::try_from(collected).unwrap())
        }
        "reopen" => Json::object([("lease_seconds", Json::from(store.lease_seconds()))]),
        name => panic!("unknown operation {name}"),
    })
}

fn time(value: &Value, field: &str) -> Timestamp {
    Timestamp(value[field].as_f64().unwrap())
}

/// The same value in our own type, which tells `1` from `1.0`.
fn json(value: &Value) -> Json {
    parse_json(value.to_string().as_bytes()).unwrap()
}

fn binding(value: &Json) -> Binding {
    let name = |field| value.get(field).unwrap().as_str().unwrap().to_owned();
    let attempt: Integer = match value.get("attempt") {
        Some(Json::Int(attempt)) => attempt.clone(),
        other => panic!("attempt {other:?}"),
    };
    Binding {
        board: name("board"),
        task_id: name("task_id"),
        run_id: name("run_id"),
        worker_ordinal: value.get("worker_ordinal").unwrap().as_i64().unwrap(),
        attempt,
    }
}

/// What a message presents, and its payload.
fn message(args: &Value) -> Result<(Presented, Json), ReferenceError> {
    let envelope = parse_text(text(args, "envelope_json"))?;
    let name = |field| envelope.get(field).unwrap().as_str().unwrap();
    let presented = Presented {
        kind: name("kind").parse()?,
        binding: binding(&envelope),
        delivery_id: name("delivery_id").to_owned(),
        payload_digest: name("payload_digest").to_owned(),
    };
    Ok((presented, envelope.get("payload").unwrap().clone()))
}
