//! Requests that wait: long polls, replies that wait for their commit, clients that leave, and more of all than is served.

use hermes_pool::actors::{PoolEvent, RunPass};
use hermes_pool::domain::BoardSlug;
use hermes_pool::faults::{Fault, FaultPoint};

use crate::message::Message;
use crate::served::{Served, Worker, options};
use crate::support::Stage;
use crate::wire::{Answer, Wire, post};

const DONE: &str = r#"{"outcome":"completed"}"#;

fn lab(slots: u16) -> (Stage, BoardSlug) {
    let stage = Stage::new(slots);
    let board = stage.board("lab");
    (stage, board)
}

/// Sends a poll that waits for half a minute, and leaves it waiting.
fn waiting_poll(served: &mut Served, ordinal: u16) -> (Wire, Message) {
    let worker = served.worker(ordinal);
    let message = worker
        .message("poll")
        .with("payload", r#"{"wait_seconds":30}"#);
    let message = message.sealed(&worker.key);
    let mut wire = Wire::open(served.workers);
    wire.send(&post("/v2/poll", &message.body()));
    served.hear_waiting(ordinal);
    (wire, message)
}

#[track_caller]
fn assert_idle(worker: &Worker<'_>, answer: &Answer, message: &Message) {
    let signed = worker.open(answer, message);
    assert_eq!((answer.status, signed.code()), (200, "idle"));
}

#[test]
fn a_poll_that_waits_is_served_as_soon_as_there_is_a_task() {
    let (stage, board) = lab(2);
    let mut served = Served::start(stage);
    let (mut wire, message) = waiting_poll(&mut served, 0);
    assert!(!wire.has_heard());
    let task = served.stage.task(&board, "t");
    let answer = wire.answer().unwrap();
    let signed = served.worker(0).open(&answer, &message);
    assert_eq!((answer.status, signed.kind()), (200, "assignment"));
    assert_eq!(signed.envelope["task_id"], task.as_str());
}

#[test]
fn a_poll_waits_as_long_as_it_asked_for_and_no_longer() {
    let mut served = Served::start(lab(2).0);
    let (mut wire, message) = waiting_poll(&mut served, 0);
    served.advance(29.0);
    assert!(served.worker(1).poll().is_none());
    assert!(!wire.has_heard());
    served.advance(1.0);
    let answer = wire.answer().unwrap();
    assert_idle(&served.worker(0), &answer, &message);
}

#[test]
fn of_several_polls_the_newest_is_served_and_the_others_are_idle() {
    let (stage, board) = lab(2);
    let mut served = Served::start(stage);
    let (mut oldest, first) = waiting_poll(&mut served, 0);
    let (mut older, second) = waiting_poll(&mut served, 0);
    let (mut newest, third) = waiting_poll(&mut served, 0);
    for (wire, message) in [(&mut oldest, &first), (&mut older, &second)] {
        assert_idle(&served.worker(0), &wire.answer().unwrap(), message);
    }
    served.stage.task(&board, "t");
    let answer = newest.answer().unwrap();
    let signed = served.worker(0).open(&answer, &third);
    assert_eq!(signed.kind(), "assignment");
}

#[test]
fn a_poll_whose_worker_left_takes_no_run_from_the_one_that_follows() {
    let (stage, board) = lab(1);
    let mut served = Served::start(stage);
    let (gone, _) = waiting_poll(&mut served, 0);
    gone.reset();
    let (mut wire, message) = waiting_poll(&mut served, 0);
    served.stage.task(&board, "t");
    let answer = wire.answer().unwrap();
    let signed = served.worker(0).open(&answer, &message);
    assert_eq!(signed.kind(), "assignment");
    assert_eq!(signed.envelope["attempt"], 1);
}

#[test]
fn at_a_stop_polls_are_idle_and_claims_live_on() {
    let (stage, board) = lab(2);
    let mut served = Served::start(stage);
    let (task, _) = served.running(&board, "t", 1);
    served.pass(&board);
    let before = served.stage.event_kinds(&board, &task);
    let (mut wire, message) = waiting_poll(&mut served, 0);
    served.begin_stop();
    let answer = wire.answer().unwrap();
    assert_idle(&served.worker(0), &answer, &message);
    assert!(wire.is_closed());
    let stage = served.stop();
    assert_eq!(stage.status(&board, &task), "running");
    assert_eq!(stage.event_kinds(&board, &task), before);
}

#[test]
fn while_the_pool_drains_results_are_taken_and_nothing_else_happens_until_the_next_start() {
    let (stage, board) = lab(2);
    let mut served = Served::start(stage);
    let (task, job) = served.running(&board, "t", 0);
    served.pass(&board);
    served.pool.drain();
    let before = served.stage.event_kinds(&board, &task);
    let worker = served.worker(0);
    assert!(worker.poll().is_none(), "not even its own run is offered");
    let answer = served.exchange(&served.worker(1).poll_request(30));
    assert_eq!(answer.status, 200, "no poll waits");
    assert_eq!(worker.heartbeat(&job).0, 200);
    assert_eq!(worker.submit(&job, DONE).0, 200);
    let actors = served.pool.board(&board).unwrap();
    let pass = served.wait(async { actors.reconciler.ask(RunPass).await });
    assert!(pass.unwrap().is_none(), "no pass begins");
    drop(actors);
    let stage = served.stop();
    assert_eq!(stage.event_kinds(&board, &task), before);

    let mut served = Served::start(stage);
    served.until(|served| served.stage.status(&board, &task) == "done");
    let worker = served.worker(0);
    let (status, signed) = worker.submit(&job, DONE);
    assert_eq!(
        (status, &signed.payload()["duplicate"]),
        (200, &true.into())
    );
    let next = served.running(&board, "the next one", 0);
    assert_ne!(next.0, task);
}

#[test]
fn a_reply_leaves_only_after_its_commit() {
    let (stage, board) = lab(2);
    let mut served = Served::start(stage);
    let (_, job) = served.running(&board, "t", 0);
    let writer = served.store();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let worker = served.worker(0);
    let result = worker.message("result").of(&job).with("payload", DONE);
    let mut wire = Wire::open(served.workers);
    wire.send(&post("/v2/result", &result.sealed(&worker.key).body()));
    served.until(|served| served.pool.store().waiting() > 0);
    for _ in 0..50 {
        let refused = served.exchange(&post("/v2/result", b"{}"));
        assert_eq!(refused.status, 400, "others are answered meanwhile");
    }
    assert!(!wire.has_heard());
    writer.execute_batch("ROLLBACK").unwrap();
    assert_eq!(wire.answer().unwrap().status, 200);
    assert_eq!(served.result_of(&job).as_deref(), Some(DONE));
}

#[test]
fn a_client_that_leaves_before_its_result_is_stored_cancels_nothing() {
    let (stage, board) = lab(2);
    let mut served = Served::start(stage);
    let (task, job) = served.running(&board, "t", 0);
    let writer = served.store();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let worker = served.worker(0);
    let result = worker.message("result").of(&job).with("payload", DONE);
    let mut wire = Wire::open(served.workers);
    wire.send(&post("/v2/result", &result.sealed(&worker.key).body()));
    served.until(|served| served.pool.store().waiting() > 0);
    wire.reset();
    writer.execute_batch("ROLLBACK").unwrap();
    served.hear(|event| matches!(event, PoolEvent::Submitted(_)));
    assert_eq!(served.result_of(&job).as_deref(), Some(DONE));
    served.hear(|event| matches!(event, PoolEvent::Ended { .. }));
    assert_eq!(served.stage.status(&board, &task), "done");
}

#[test]
fn a_result_whose_acknowledgement_was_lost_is_acknowledged_again() {
    let (stage, board) = lab(2);
    let mut served = Served::start(stage);
    let (_, job) = served.running(&board, "t", 0);
    served
        .stage
        .faults
        .arm(FaultPoint::ResultCommitted, Fault::PanicOnce);
    let worker = served.worker(0);
    let result = worker.message("result").of(&job).with("payload", DONE);
    let request = post("/v2/result", &result.sealed(&worker.key).body());
    let lost = served.exchange(&request);
    assert_eq!(lost.error().0, 503);
    assert_eq!(lost.error().1, "unavailable");
    assert_eq!(lost.header("retry-after"), Some("1"));
    served.hear(|event| matches!(event, PoolEvent::Restarted(actor) if actor == "ordinal-0"));
    // The slot is built anew after a pause.
    let mut answer = lost;
    served.until(|served| {
        served.advance(0.1);
        answer = served.exchange(&request);
        answer.status != 503
    });
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["payload"]["duplicate"], true);
}

#[test]
fn requests_beyond_the_limit_are_refused_while_others_are_served() {
    let (stage, board) = lab(3);
    let mut options = options();
    options.max_requests = 2;
    let mut served = Served::start_with(stage, options);
    let (mut first, message) = waiting_poll(&mut served, 0);
    let (mut second, _) = waiting_poll(&mut served, 1);
    let request = served.worker(2).poll_request(0);
    for _ in 0..5 {
        let refused = served.exchange(&request);
        let (status, code, _) = refused.error();
        assert_eq!((status, code.as_str()), (503, "overloaded"));
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    assert_eq!(served.operate("GET", "/healthz", "").status, 200);

    served.stage.task(&board, "t");
    served.stage.task(&board, "u");
    let answer = first.answer().unwrap();
    assert_eq!(
        served.worker(0).open(&answer, &message).kind(),
        "assignment"
    );
    assert_eq!(second.answer().unwrap().status, 200);
    // A place is given back when the answer is written, which its reader may see first.
    served.until(|served| served.exchange(&request).status == 200);
}

#[test]
fn an_ordinal_may_have_64_requests_in_flight_and_others_are_not_the_worse_for_it() {
    let (stage, board) = lab(2);
    let mut served = Served::start(stage);
    let (_, job) = served.running(&board, "t", 0);
    let writer = served.store();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let worker = served.worker(0);
    let beat = || {
        let message = worker.message("heartbeat").of(&job).sealed(&worker.key);
        post("/v2/heartbeat", &message.body())
    };
    let mut wires: Vec<Wire> = (0..65)
        .map(|_| {
            let mut wire = Wire::open(served.workers);
            wire.send(&beat());
            wire
        })
        .collect();
    // Whichever of them came last has no place, and no other is answered before the store is.
    served.until(|_| wires.iter_mut().any(Wire::has_heard));
    let refused = wires.iter_mut().position(Wire::has_heard).unwrap();
    let refused = wires.remove(refused).answer().unwrap();
    assert_eq!(refused.error().0, 503);
    assert_eq!(refused.error().1, "overloaded");
    assert_eq!(refused.header("retry-after"), Some("1"));
    // The store has only a few of them; one of another ordinal does not stand behind the rest.
    let held = served.pool.store().waiting();
    assert!((1..8).contains(&held), "{held}");
    let mut other = Wire::open(served.workers);
    other.send(&served.worker(1).poll_request(0));
    served.until(|served| served.pool.store().waiting() > held);
    writer.execute_batch("ROLLBACK").unwrap();
    for wire in &mut wires {
        assert_eq!(wire.answer().unwrap().status, 200);
    }
    assert_eq!(other.answer().unwrap().status, 200);
    served.until(|served| served.exchange(&beat()).status == 200);
}
