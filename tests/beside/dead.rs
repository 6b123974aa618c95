//! A coordinator that is killed while it holds runs, with and without a dispatcher of Hermes that looks after them.

use super::process::until;
use super::stage::{DONE, FRESH_SECONDS, Held, Stage, fetch};

const ORDINALS: [u16; 3] = [0, 1, 2];

#[test]
fn runs_of_a_dead_coordinator_go_back_when_their_claims_end_and_are_claimed_afresh() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    let mut all: Vec<Held> = ORDINALS.map(|ordinal| stage.held(ordinal)).into();
    stage.kill();
    let before = stage.dump();
    stage.maintenance();
    assert_eq!(stage.dump(), before, "claims that live are left alone");
    stage.age_claims();
    stage.maintenance();
    for held in &all {
        let task = stage.task(&held.task);
        assert_eq!(task["status"], "ready", "{task}");
        assert_eq!(task["consecutive_failures"], 0, "{task}");
        assert_eq!(stage.runs(&held.task)[0]["outcome"], "reclaimed");
    }

    stage.restart();
    for held in &mut all {
        stage.reconnect(held);
        until("the old run is over", || {
            (stage.state_of(&held.job) == "stale").then_some(())
        });
        assert_eq!(held.say("result", DONE), "run_superseded");
    }
    for held in &mut all {
        let job = fetch(&mut held.peer);
        assert_ne!(job.envelope["run_id"], held.job.envelope["run_id"]);
        let task = job.envelope["task_id"].as_str().unwrap().to_owned();
        held.job = job;
        assert_eq!(held.say("result", DONE), "accepted");
        until("it is done", || {
            (stage.task(&task)["status"] == "done").then_some(())
        });
    }
}

#[test]
fn runs_of_a_dead_coordinator_that_nobody_touched_are_taken_up_again_even_after_their_end() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    let mut all: Vec<Held> = ORDINALS.map(|ordinal| stage.held(ordinal)).into();
    stage.kill();
    stage.age_claims();
    stage.restart();
    for held in &mut all {
        stage.reconnect(held);
        until("the claim is extended", || {
            (stage.claim_left(&held.task) > FRESH_SECONDS).then_some(())
        });
    }
    stage.maintenance();
    for held in &mut all {
        assert_eq!(held.say("heartbeat", "{}"), "ok");
        assert_eq!(held.say("result", DONE), "accepted");
        until("it is done", || {
            (stage.task(&held.task)["status"] == "done").then_some(())
        });
        let runs = stage.runs(&held.task);
        assert_eq!(runs.len(), 1, "{runs:?}");
        assert_eq!(
            runs[0]["id"].to_string(),
            held.job.envelope["run_id"].as_str().unwrap()
        );
    }
}
