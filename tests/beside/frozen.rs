//! A coordinator that is stopped (SIGSTOP) for longer than its claims live, and goes on.

use serde_json::json;

use super::process::until;
use super::stage::{BOARD, DONE, FRESH_SECONDS, Stage};

#[test]
fn what_hermes_took_from_a_frozen_coordinator_is_lost_untouched_and_its_worker_is_told() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    let mut held = stage.held(0);
    assert_eq!(held.say("heartbeat", "{}"), "ok");
    stage.freeze();
    stage.age_claims();
    stage.maintenance();
    // Somebody else works on the task before the coordinator opens its eyes.
    let taken = json!({"board": BOARD, "id": held.task, "claimer": "elsewhere:1"});
    assert_eq!(stage.oracle.get("claim", taken)["status"], "running");
    let before = stage.dump();

    stage.thaw();
    until("the worker is told", || {
        (held.say("heartbeat", "{}") == "run_superseded").then_some(())
    });
    assert_eq!(held.say("result", DONE), "run_superseded");
    assert_eq!(stage.state_of(&held.job), "stale");
    let outcomes: Vec<_> = stage
        .runs(&held.task)
        .into_iter()
        .map(|run| run["outcome"].clone())
        .collect();
    assert_eq!(outcomes, [json!("reclaimed"), json!(null)]);
    assert_eq!(
        stage.dump(),
        before,
        "nothing is written for what is not ours"
    );
}

#[test]
fn what_nobody_took_from_a_frozen_coordinator_is_extended_first_and_goes_on() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    let mut held = stage.held(0);
    assert_eq!(held.say("heartbeat", "{}"), "ok");
    stage.freeze();
    stage.age_claims();
    assert!(stage.claim_left(&held.task) < 0);

    stage.thaw();
    until("the claim is extended", || {
        (stage.claim_left(&held.task) > FRESH_SECONDS).then_some(())
    });
    stage.maintenance();
    assert_eq!(held.say("heartbeat", "{}"), "ok");
    assert_eq!(held.say("result", DONE), "accepted");
    until("the run is completed", || {
        (stage.task(&held.task)["status"] == "done").then_some(())
    });
    let runs = stage.runs(&held.task);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(runs[0]["outcome"], "completed");
}

#[test]
fn a_result_that_reached_a_frozen_coordinator_is_not_written_over_somebody_elses_run() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    let mut held = stage.held(0);
    stage.freeze();
    stage.age_claims();
    stage.maintenance();
    let taken = json!({"board": BOARD, "id": held.task, "claimer": "elsewhere:1"});
    stage.oracle.get("claim", taken);
    let before = stage.dump();
    // The worker's result waits in the frozen coordinator's socket.
    let request = held.peer.request("result", Some(&held.job), DONE);
    held.peer.wire.send(&request);

    stage.thaw();
    let answer = held.peer.wire.answer().unwrap();
    assert!(matches!(answer.status, 200 | 409), "{answer:?}");
    until("the run is over for the pool", || {
        (stage.state_of(&held.job) == "stale").then_some(())
    });
    assert_eq!(stage.dump(), before);
}
