//! What an authentic message gets: acknowledgements and refusals, word for word, under signature.

use hermes_pool::actors::PoolEvent;
use hermes_pool::board::hermes::NewTask;
use hermes_pool::domain::{BoardSlug, LeasePolicy, Terminal};
use serde_json::json;

use crate::message::Signed;
use crate::served::{Served, Worker};
use crate::support::Stage;

const DONE: &str = r#"{"outcome":"completed","summary":"all of it"}"#;

/// The board of every test here.
fn lab() -> BoardSlug {
    BoardSlug::parse("lab").unwrap()
}

/// A pool of two slots with one board.
fn stage() -> Stage {
    let stage = Stage::new(2);
    stage.board("lab");
    stage
}

#[track_caller]
fn assert_refused(answer: (u16, Signed), code: &str, message: &str) {
    let (status, signed) = answer;
    let payload = json!({ "status": "rejected", "code": code, "message": message });
    assert_eq!((status, signed.payload()), (409, &payload));
}

#[track_caller]
fn assert_unknown(worker: &Worker<'_>, job: &Signed, field: &str, value: &str) {
    for kind in ["heartbeat", "result"] {
        let message = worker.message(kind).of(job).with("payload", DONE);
        assert_refused(
            worker.say(message.with(field, value)),
            "unknown_assignment",
            "assignment is unknown or stale",
        );
    }
}

#[test]
fn a_run_is_offered_kept_alive_and_completed() {
    let mut served = Served::start(stage());
    let board = lab();
    let (task, job) = served.running(&board, "A title", 0);
    let worker = served.worker(0);
    let envelope = &job.envelope;
    assert_eq!(envelope["board"], "lab");
    assert_eq!(envelope["task_id"], task.as_str());
    assert_eq!(envelope["attempt"], 1);
    let expected = json!({
        "schema": 1,
        "lane": "codex-cli",
        "task": {
            "id": task.as_str(), "title": "A title", "body": job.payload()["task"]["body"], "priority": 0,
            "tenant": null, "skills": [], "model_override": null,
        },
        "context": job.payload()["context"],
        "workspace": job.payload()["workspace"],
        "limits": { "lease_seconds": 90, "max_runtime_seconds": null },
    });
    assert_eq!(job.payload(), &expected);
    assert!(
        job.payload()["context"]
            .as_str()
            .unwrap()
            .contains("A title")
    );

    let beat = worker.message("heartbeat").of(&job).sealed(&worker.key);
    for duplicate in [false, true] {
        let (status, signed) = worker.deliver(&beat);
        let lease_until = served.now() + 90;
        let payload = json!({ "status": "ok", "duplicate": duplicate, "lease_until": lease_until });
        assert_eq!((status, signed.payload()), (200, &payload));
        served.advance(10.0);
    }
    let result = worker.message("result").of(&job).with("payload", DONE);
    let result = result.sealed(&worker.key);
    for duplicate in [false, true] {
        let (status, signed) = worker.deliver(&result);
        let payload = json!({ "status": "accepted", "duplicate": duplicate });
        assert_eq!((status, signed.payload()), (200, &payload));
    }
    served.hear(|event| matches!(event, PoolEvent::Ended { .. }));
    assert_eq!(served.stage.status(&board, &task), "done");
}

#[test]
fn runs_that_are_unknown_or_anothers_are_refused() {
    let mut served = Served::start(stage());
    let board = lab();
    let (_, job) = served.running(&board, "t", 0);
    let worker = served.worker(0);
    assert_unknown(&worker, &job, "run_id", "\"999\"");
    assert_unknown(&worker, &job, "task_id", "\"t_00000000\"");
    assert_unknown(&worker, &job, "board", "\"elsewhere\"");

    let other = served.worker(1);
    for answer in [other.heartbeat(&job), other.submit(&job, DONE)] {
        assert_refused(
            answer,
            "wrong_ordinal",
            "worker ordinal does not own this assignment",
        );
    }
    assert_eq!(worker.heartbeat(&job).0, 200);
}

#[test]
fn attempts_that_are_over_or_never_were_are_stale() {
    let mut served = Served::start(stage());
    let board = lab();
    let (_, old) = served.running(&board, "t", 0);
    served.advance(90.5);
    served.hear(|event| matches!(event, PoolEvent::Fenced(_)));
    let worker = served.worker(0);
    let new = worker.poll().expect("the second attempt");
    assert_eq!(new.envelope["attempt"], 2);
    assert_eq!(new.payload(), old.payload());
    assert_eq!(
        new.envelope["payload_digest"],
        old.envelope["payload_digest"]
    );
    for attempt in ["1", "0", "3", "100000000000000000000000000000"] {
        for kind in ["heartbeat", "result"] {
            let message = worker.message(kind).of(&new).with("payload", DONE);
            assert_refused(
                worker.say(message.with("attempt", attempt)),
                "stale_attempt",
                "assignment attempt is stale",
            );
        }
    }
    assert_eq!(worker.submit(&new, DONE).0, 200);
}

#[test]
fn a_lease_that_ends_now_is_alive_and_one_that_ended_is_not() {
    for kind in ["heartbeat", "result"] {
        // The second one is past the lease, but before the slot's own timer looks at it.
        for (seconds, is_alive) in [(90.0, true), (90.0005, false)] {
            let mut served = Served::start(stage());
            let (_, job) = served.running(&lab(), "t", 0);
            served.advance(seconds);
            let worker = served.worker(0);
            let answer = worker.say(worker.message(kind).of(&job).with("payload", DONE));
            if is_alive {
                assert_eq!(answer.0, 200, "{kind}");
            } else {
                assert_refused(answer, "lease_expired", "assignment lease expired");
            }
        }
    }
}

#[test]
fn a_delivery_identifier_stands_for_one_heartbeat() {
    let mut served = Served::start(stage());
    let board = lab();
    let (_, job) = served.running(&board, "t", 0);
    let worker = served.worker(0);
    let beat = worker.message("heartbeat").of(&job);
    assert_eq!(worker.say(beat.clone()).0, 200);
    assert_refused(
        worker.say(beat.with("payload", r#"{"activity":"another"}"#)),
        "delivery_reused",
        "delivery identifier was reused",
    );
}

#[test]
fn a_result_is_final() {
    let mut served = Served::start(stage());
    let board = lab();
    // The board cannot be written to, so that the run stays where it is.
    let (_, job) = served.running(&board, "t", 0);
    let lock = served.stage.sql(&board);
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert_eq!(served.worker(0).submit(&job, DONE).0, 200);
    let conflict = |served: &Served| {
        assert_refused(
            served.worker(0).submit(&job, r#"{"outcome":"failed"}"#),
            "conflicting_result",
            "conflicting result for completed delivery",
        );
        assert_eq!(served.worker(0).submit(&job, DONE).0, 200);
        assert_refused(
            served.worker(0).heartbeat(&job),
            "not_running",
            "assignment is no longer running",
        );
    };
    conflict(&served);
    lock.execute_batch("ROLLBACK").unwrap();
    served.pass(&board);
    served.hear(|event| matches!(event, PoolEvent::Ended { .. }));
    conflict(&served);
}

#[test]
fn a_run_whose_last_attempt_fell_silent_takes_nothing_more() {
    let mut stage = stage();
    stage.settings.policy = LeasePolicy::clamped(90, 1, 300);
    let mut served = Served::start(stage);
    let board = lab();
    let (_, job) = served.running(&board, "t", 0);
    served.advance(90.5);
    served.hear(|event| matches!(event, PoolEvent::LeaseFailed(..)));
    let assert_over = |served: &Served| {
        assert_refused(
            served.worker(0).heartbeat(&job),
            "not_running",
            "assignment is no longer running",
        );
        assert_refused(
            served.worker(0).submit(&job, DONE),
            "not_running",
            "assignment cannot accept a result",
        );
    };
    assert_over(&served);
    served.hear(|event| matches!(event, PoolEvent::Ended { .. }));
    assert_over(&served);
}

#[test]
fn a_run_that_its_board_took_away_or_whose_limit_passed_is_superseded() {
    let assert_superseded = |served: &Served, job: &Signed| {
        for answer in [
            served.worker(0).heartbeat(job),
            served.worker(0).submit(job, DONE),
        ] {
            assert_refused(
                answer,
                "run_superseded",
                "the pool ended this run; stop working on it",
            );
        }
    };

    let mut served = Served::start(stage());
    let board = lab();
    let (task, job) = served.running(&board, "t", 0);
    served.pass(&board);
    served
        .stage
        .sql(&board)
        .execute_batch(&format!(
            "BEGIN IMMEDIATE;
             UPDATE task_runs SET status='reclaimed',outcome='reclaimed',ended_at={now},claim_lock=NULL,claim_expires=NULL
                 WHERE task_id='{task}' AND ended_at IS NULL;
             UPDATE tasks SET status='blocked',claim_lock=NULL,claim_expires=NULL,current_run_id=NULL WHERE id='{task}';
             COMMIT;",
            now = served.now()
        ))
        .unwrap();
    served.pass(&board);
    served.hear(|event| {
        matches!(
            event,
            PoolEvent::Ended {
                terminal: Terminal::Stale,
                ..
            }
        )
    });
    assert_superseded(&served, &job);

    let stage = stage();
    let limited = NewTask {
        title: "limited".to_owned(),
        max_runtime_seconds: Some(60),
        ..NewTask::default()
    };
    stage.add(&board, limited);
    let mut served = Served::start(stage);
    assert!(served.worker(0).poll().is_none());
    served.hear(|event| matches!(event, PoolEvent::Added(_)));
    let job = served.worker(0).poll().expect("the run is offered");
    assert_eq!(job.payload()["limits"]["max_runtime_seconds"], 60);
    served.pass(&board);
    served.advance(60.0);
    served.hear(|event| matches!(event, PoolEvent::Ended { .. }));
    assert_superseded(&served, &job);
}
