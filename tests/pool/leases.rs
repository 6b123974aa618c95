//! Leases: offers, silence, fencing, and what a worker of an old attempt is told.

use hermes_pool::actors::PoolEvent;
use hermes_pool::domain::{FailCause, Terminal};
use hermes_pool::protocol::Integer;

use crate::support::Stage;

#[actix::test]
async fn a_silent_worker_is_fenced_at_its_deadline_and_parked_after_the_last_attempt() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let task = stage.task(&board, "never finished");
    let mut pool = stage.start().await;
    let worker = pool.worker(0);
    assert!(worker.poll().await.is_none());
    pool.hear(|event| matches!(event, PoolEvent::Added(_)))
        .await;

    let mut old = worker.poll().await.expect("the first attempt");
    assert_eq!(old.binding.attempt, Integer::from(1_i64));
    for attempt in 2..=3_i64 {
        pool.advance(90.5);
        pool.hear(|event| matches!(event, PoolEvent::Fenced(_)))
            .await;
        let job = worker.poll().await.expect("the next attempt");
        assert_eq!(job.binding.attempt, Integer::from(attempt));
        assert_eq!(
            job.payload_json, old.payload_json,
            "the payload is re-offered byte for byte"
        );
        assert_eq!(worker.heartbeat(&old).await.code(), "stale_attempt");
        assert_eq!(
            worker
                .submit(&old, r#"{"outcome":"completed"}"#)
                .await
                .code(),
            "stale_attempt"
        );
        assert_eq!(worker.heartbeat(&job).await.code(), "ok");
        old = job;
    }

    pool.advance(90.5);
    let given_up = pool
        .hear(|event| matches!(event, PoolEvent::LeaseFailed(..)))
        .await;
    assert!(matches!(
        given_up,
        PoolEvent::LeaseFailed(_, FailCause::Exhausted)
    ));
    let ended = pool
        .hear(|event| matches!(event, PoolEvent::Ended { .. }))
        .await;
    assert!(matches!(
        ended,
        PoolEvent::Ended {
            terminal: Terminal::Finalized,
            ..
        }
    ));
    assert_eq!(stage.status(&board, &task), "blocked");
    assert_eq!(worker.heartbeat(&old).await.code(), "not_running");
    assert_eq!(
        worker
            .submit(&old, r#"{"outcome":"completed"}"#)
            .await
            .code(),
        "not_running"
    );

    let next = stage.task(&board, "the slot is free");
    pool.hear(|event| matches!(event, PoolEvent::Added(binding) if binding.key.task == next))
        .await;
}

#[actix::test]
async fn heartbeats_keep_a_lease_for_any_length_of_time() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    stage.task(&board, "long");
    let mut pool = stage.start().await;
    let (worker, job) = pool.first_job(0).await;
    for _ in 0..40 {
        pool.advance(30.0);
        assert_eq!(worker.heartbeat(&job).await.code(), "ok");
    }
    assert_eq!(
        worker
            .submit(&job, r#"{"outcome":"completed"}"#)
            .await
            .code(),
        "ok"
    );
}

#[actix::test]
async fn a_task_that_kills_its_worker_is_fenced_by_the_offer_after_the_fifth() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let task = stage.task(&board, "poison");
    let mut pool = stage.start().await;
    let worker = pool.worker(0);
    worker.poll().await;
    pool.hear(|event| matches!(event, PoolEvent::Added(_)))
        .await;

    for attempt in 1..=3_i64 {
        for _ in 0..5 {
            let job = worker.poll().await.expect("an offer");
            assert_eq!(job.binding.attempt, Integer::from(attempt));
        }
        // The same poll, repeated, is no further offer.
        let repeated = format!("repeat-{attempt}");
        if attempt < 3 {
            for _ in 0..3 {
                let job = worker
                    .poll_as(&repeated, 0)
                    .await
                    .expect("the next attempt");
                assert_eq!(job.binding.attempt, Integer::from(attempt + 1));
            }
            // One offer of the next attempt was used by the poll that fenced this one.
            for _ in 0..4 {
                worker.poll().await.expect("an offer");
            }
            pool.advance(90.5);
            pool.hear(|event| matches!(event, PoolEvent::Fenced(_)))
                .await;
            break;
        }
    }
    let third = worker.poll().await.expect("the last attempt");
    assert_eq!(third.binding.attempt, Integer::from(3_i64));
    for _ in 0..4 {
        worker.poll().await.expect("an offer");
    }
    assert!(
        worker.poll().await.is_none(),
        "the sixth offer gives the run up"
    );
    pool.hear(|event| matches!(event, PoolEvent::Ended { .. }))
        .await;
    assert_eq!(stage.status(&board, &task), "blocked");
}

#[actix::test]
async fn a_run_that_nobody_fetches_goes_back_to_its_board_uncounted() {
    let stage = Stage::new(2);
    let board = stage.board("lab");
    let task = stage.task(&board, "unfetched");
    let mut pool = stage.start().await;
    let worker = pool.worker(0);
    worker.poll().await;
    pool.hear(|event| matches!(event, PoolEvent::Added(_)))
        .await;
    pool.advance(300.5);
    let failed = pool
        .hear(|event| matches!(event, PoolEvent::LeaseFailed(..)))
        .await;
    assert!(matches!(
        failed,
        PoolEvent::LeaseFailed(_, FailCause::NeverFetched)
    ));
    pool.hear(|event| matches!(event, PoolEvent::Ended { .. }))
        .await;
    let runs = stage.runs(&board, &task);
    assert_eq!(runs[0].outcome, "reclaimed");
    assert_eq!(stage.status(&board, &task), "ready");

    // Another worker that is there takes it.
    let other = pool.worker(1);
    other.poll().await;
    pool.hear(|event| matches!(event, PoolEvent::Added(binding) if binding.ordinal.0 == 1))
        .await;
    assert!(other.poll().await.is_some());
}

#[actix::test]
async fn a_restarted_worker_gets_the_same_attempt_again() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    stage.task(&board, "again");
    let mut pool = stage.start().await;
    let (worker, first) = pool.first_job(0).await;
    let second = worker.poll().await.unwrap();
    assert_eq!(
        (first.binding, first.payload_json),
        (second.binding, second.payload_json)
    );
}

#[actix::test]
async fn leases_and_attempts_survive_a_restart_of_the_pool() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    stage.task(&board, "survivor");
    let mut pool = stage.start().await;
    let (_, job) = pool.first_job(0).await;
    pool.stop().await;

    let mut pool = stage.start().await;
    assert_eq!(pool.worker(0).heartbeat(&job).await.code(), "ok");
    pool.advance(90.5);
    pool.hear(|event| matches!(event, PoolEvent::Fenced(_)))
        .await;
    assert_eq!(pool.worker(0).heartbeat(&job).await.code(), "stale_attempt");
}

#[actix::test]
async fn a_task_that_kills_every_worker_at_once_ends_on_its_board_and_leaves_its_slot_to_the_next()
{
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let poison = stage.task(&board, "kills whoever takes it");
    let next = stage.task(&board, "next in line");
    let mut pool = stage.start().await;
    let worker = pool.worker(0);
    worker.poll().await;
    pool.hear(|event| matches!(event, PoolEvent::Added(_)))
        .await;
    // The worker is started again each time, asks at once, and dies of what it gets. No time passes.
    let mut deaths = 0;
    while let Some(job) = worker.poll().await {
        assert_eq!(job.binding.task_id, poison.as_str());
        deaths += 1;
    }
    assert_eq!(deaths, 15, "five offers to each of three attempts");
    pool.hear(|event| matches!(event, PoolEvent::LeaseFailed(_, FailCause::Exhausted)))
        .await;
    pool.hear(|event| matches!(event, PoolEvent::Added(binding) if binding.key.task == next))
        .await;
    let job = worker.poll().await.expect("the next task has the slot");
    assert_eq!(job.binding.task_id, next.as_str());
    assert_eq!(stage.status(&board, &poison), "blocked");
    assert_eq!(
        stage.runs(&board, &poison).len(),
        1,
        "it is not claimed again"
    );
}
