//! Dispatch: which slot gets which board's next task, and what becomes of a claim that was cut off.

use std::collections::BTreeSet;

use hermes_pool::actors::PoolEvent;
use hermes_pool::board::hermes::NewTask;
use hermes_pool::faults::{Fault, FaultPoint};

use crate::support::{PATIENCE, Stage};

#[actix::test]
async fn nothing_is_claimed_where_no_worker_was_seen() {
    let stage = Stage::new(3);
    let board = stage.board("lab");
    let task = stage.task(&board, "t");
    let mut pool = stage.start().await;
    pool.hear(|event| matches!(event, PoolEvent::Listed { ready: 1, .. }))
        .await;
    pool.pass(&board).await;
    assert_eq!(stage.status(&board, &task), "ready");

    // Seen too long ago is not seen.
    pool.pool.drain();
    let pool = {
        pool.stop().await;
        stage.start().await
    };
    pool.pass(&board).await;
    assert_eq!(stage.status(&board, &task), "ready");
}

#[actix::test]
async fn a_waiting_poll_gets_its_run_at_once_and_the_newest_of_several() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let mut pool = stage.start().await;
    let (first, second) = (pool.worker(0), pool.worker(0));
    let older = actix::spawn(async move { first.poll_as("older", 30).await });
    pool.hear(|event| matches!(event, PoolEvent::Waiting(_)))
        .await;
    let newer = actix::spawn(async move { second.poll_as("newer", 30).await });
    assert!(
        older.await.unwrap().is_none(),
        "the older poll answers idle when a newer one waits"
    );
    pool.hear(|event| matches!(event, PoolEvent::Waiting(_)))
        .await;
    stage.task(&board, "t");
    let job = tokio::time::timeout(PATIENCE, newer)
        .await
        .unwrap()
        .unwrap();
    assert!(job.is_some());
}

#[actix::test]
async fn a_long_poll_answers_idle_when_its_time_is_over_and_when_the_pool_drains() {
    let stage = Stage::new(2);
    stage.board("lab");
    let mut pool = stage.start().await;
    let (timed, drained) = (pool.worker(0), pool.worker(1));
    let timed = actix::spawn(async move { timed.poll_as("timed", 20).await });
    pool.hear(|event| matches!(event, PoolEvent::Waiting(_)))
        .await;
    pool.advance(20.0);
    assert!(
        tokio::time::timeout(PATIENCE, timed)
            .await
            .unwrap()
            .unwrap()
            .is_none()
    );
    let drained = actix::spawn(async move { drained.poll_as("drained", 30).await });
    pool.hear(|event| matches!(event, PoolEvent::Waiting(_)))
        .await;
    pool.pool.drain();
    assert!(
        tokio::time::timeout(PATIENCE, drained)
            .await
            .unwrap()
            .unwrap()
            .is_none()
    );
}

#[actix::test]
async fn slots_go_round_the_boards_that_have_work() {
    let stage = Stage::new(1);
    let boards = [stage.board("a"), stage.board("b"), stage.board("c")];
    for board in &boards {
        for n in 0..3 {
            stage.task(board, &format!("{board}{n}"));
        }
    }
    let mut pool = stage.start().await;
    let mut listed = BTreeSet::new();
    while listed.len() < boards.len() {
        let event = pool
            .hear(|event| matches!(event, PoolEvent::Listed { ready: 3, .. }))
            .await;
        if let PoolEvent::Listed { board, .. } = event {
            listed.insert(board);
        }
    }
    let worker = pool.worker(0);
    let mut order = Vec::new();
    for _ in 0..9 {
        let job = match worker.poll().await {
            Some(job) => job,
            None => {
                pool.hear(|event| matches!(event, PoolEvent::Added(_)))
                    .await;
                worker.poll().await.unwrap()
            }
        };
        order.push(job.binding.board.clone());
        worker.submit(&job, r#"{"outcome":"completed"}"#).await;
        pool.hear(|event| matches!(event, PoolEvent::Ended { .. }))
            .await;
    }
    for window in order.windows(3) {
        let mut three = window.to_vec();
        three.sort();
        three.dedup();
        assert_eq!(three.len(), 3, "each board in turn: {order:?}");
    }
}

#[actix::test]
async fn a_task_that_cannot_be_offered_is_parked_as_capability() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let body = "ü".repeat(30_000);
    let large = stage.add(
        &board,
        NewTask {
            title: body,
            ..NewTask::default()
        },
    );
    let small = stage.task(&board, "small");
    let mut pool = stage.start().await;
    pool.worker(0).poll().await;
    pool.hear(|event| matches!(event, PoolEvent::Added(binding) if binding.key.task == small))
        .await;
    assert_eq!(stage.status(&board, &large), "blocked");
    assert!(
        stage
            .event_kinds(&board, &large)
            .contains(&"blocked".to_owned())
    );
}

#[actix::test]
async fn a_claim_that_was_cut_off_is_found_by_its_lock_and_assigned() {
    for point in [
        FaultPoint::IntentNoted,
        FaultPoint::RunClaimed,
        FaultPoint::PayloadBuilt,
        FaultPoint::AssignmentAdded,
    ] {
        let stage = Stage::new(1);
        let board = stage.board("lab");
        let task = stage.task(&board, "t");
        stage.faults.arm(point, Fault::PanicOnce);
        let mut pool = stage.start().await;
        pool.worker(0).poll().await;
        pool.hear(|event| matches!(event, PoolEvent::Restarted(name) if name == "dispatcher-lab"))
            .await;
        pool.pass(&board).await;
        let job = match pool.worker(0).poll().await {
            Some(job) => job,
            None => {
                pool.hear_after_a_while(|event| matches!(event, PoolEvent::Added(_)))
                    .await;
                pool.worker(0).poll().await.unwrap()
            }
        };
        assert_eq!(job.binding.task_id, task.as_str(), "{point}");
        assert_eq!(
            stage.runs(&board, &task).len(),
            1,
            "{point}: the claim is not made twice"
        );
        pool.worker(0)
            .submit(&job, r#"{"outcome":"completed"}"#)
            .await;
        pool.hear(|event| matches!(event, PoolEvent::Ended { .. }))
            .await;
        assert_eq!(stage.status(&board, &task), "done", "{point}");
    }
}
