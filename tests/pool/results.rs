//! Results: what each outcome becomes on the board, and what happens when the board does not take it.

use hermes_pool::actors::{PoolEvent, RunPass};
use hermes_pool::board::hermes::NewTask;
use hermes_pool::domain::{BoardSlug, FailCause, Landing, TaskId, Terminal};

use crate::support::{Running, Stage};

async fn ended(pool: &mut Running<'_>) -> Terminal {
    match pool
        .hear(|event| matches!(event, PoolEvent::Ended { .. }))
        .await
    {
        PoolEvent::Ended { terminal, .. } => terminal,
        _ => unreachable!("only ends are heard"),
    }
}

fn last_outcome(stage: &Stage, board: &BoardSlug, task: &TaskId) -> String {
    stage
        .runs(board, task)
        .pop()
        .map(|run| run.outcome)
        .unwrap_or_default()
}

#[actix::test]
async fn each_outcome_is_booked_on_the_board() {
    for (result, outcome, status) in [
        (
            r#"{"outcome":"completed","summary":"done","result":"ok","metadata":{"n":1}}"#,
            "completed",
            "done",
        ),
        (
            r#"{"outcome":"completed","summary":"  \n "}"#,
            "completed",
            "done",
        ),
        (
            r#"{"outcome":"blocked","block_kind":"needs_input","reason":"which?"}"#,
            "blocked",
            "blocked",
        ),
        (
            r#"{"outcome":"blocked","block_kind":"capability","reason":"no"}"#,
            "blocked",
            "blocked",
        ),
        (
            r#"{"outcome":"blocked","block_kind":"transient","reason":"no"}"#,
            "blocked",
            "blocked",
        ),
        // A dependency without an open parent would bounce back at once, so a person is asked.
        (
            r#"{"outcome":"blocked","block_kind":"dependency","reason":"no"}"#,
            "blocked",
            "blocked",
        ),
        (
            r#"{"outcome":"failed","reason":"crashed"}"#,
            "crashed",
            "ready",
        ),
        (
            r#"{"outcome":"rate_limited","reason":"quota"}"#,
            "rate_limited",
            "ready",
        ),
        (
            r#"{"outcome":"released","reason":"later"}"#,
            "reclaimed",
            "ready",
        ),
    ] {
        let stage = Stage::new(1);
        let board = stage.board("lab");
        let task = stage.task(&board, "t");
        let mut pool = stage.start().await;
        let job = pool.next_job(0).await;
        assert_eq!(
            pool.worker(0).submit(&job, result).await.code(),
            "ok",
            "{result}"
        );
        assert_eq!(ended(&mut pool).await, Terminal::Finalized, "{result}");
        pool.pool.drain();
        assert_eq!(last_outcome(&stage, &board, &task), outcome, "{result}");
        // A run that was given back may have been claimed again before the pool drained.
        let now = stage.status(&board, &task);
        assert!(
            now == status || (status == "ready" && now == "running"),
            "{result}: {now}"
        );
    }
}

#[actix::test]
async fn a_completion_carries_the_pools_mark_and_promotes_children() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let parent = stage.task(&board, "parent");
    let child = stage.add(
        &board,
        NewTask {
            title: "child".into(),
            parents: vec![parent.as_str().into()],
            ..NewTask::default()
        },
    );
    let mut pool = stage.start().await;
    let job = pool.next_job(0).await;
    assert_eq!(
        job.binding.task_id,
        parent.as_str(),
        "a child waits for its parent"
    );
    pool.worker(0)
        .submit(&job, r#"{"outcome":"completed","summary":"s"}"#)
        .await;
    assert_eq!(ended(&mut pool).await, Terminal::Finalized);
    let metadata: String = stage
        .sql(&board)
        .query_row(
            "SELECT metadata FROM task_runs WHERE task_id=?1",
            [parent.as_str()],
            |row| row.get(0),
        )
        .unwrap();
    assert!(metadata.contains(r#""pool": {"assignment""#), "{metadata}");
    let next = pool.next_job(0).await;
    assert_eq!(next.binding.task_id, child.as_str());
    assert!(
        next.payload.context.contains("parent"),
        "the child's context tells of its parent"
    );
}

#[actix::test]
async fn repeats_are_acknowledged_and_others_are_conflicts_also_after_the_end() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    stage.task(&board, "t");
    let mut pool = stage.start().await;
    let job = pool.next_job(0).await;
    let worker = pool.worker(0);
    let result = r#"{"outcome":"completed","summary":"a"}"#;
    for _ in 0..2 {
        assert_eq!(worker.submit(&job, result).await.code(), "ok");
    }
    assert_eq!(
        worker
            .submit(&job, r#"{"outcome":"completed"}"#)
            .await
            .code(),
        "conflicting_result"
    );
    ended(&mut pool).await;
    assert_eq!(worker.submit(&job, result).await.code(), "ok");
    assert_eq!(
        worker.submit(&job, r#"{"outcome":"failed"}"#).await.code(),
        "conflicting_result"
    );
}

#[actix::test]
async fn a_result_that_cannot_be_settled_is_refused_at_the_door() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    stage.task(&board, "t");
    let mut pool = stage.start().await;
    let job = pool.next_job(0).await;
    let worker = pool.worker(0);
    for result in [
        "[]",
        "{}",
        r#"{"outcome":"done"}"#,
        r#"{"outcome":"completed","summary":1}"#,
    ] {
        assert_eq!(
            worker.submit(&job, result).await.code(),
            "invalid_result",
            "{result}"
        );
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
async fn a_second_block_of_the_same_kind_is_told_as_what_it_is() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let task = stage.task(&board, "t");
    let mut pool = stage.start().await;
    for landing in [Landing::Blocked, Landing::Triage] {
        let job = pool.next_job(0).await;
        let block = r#"{"outcome":"blocked","block_kind":"capability","reason":"no key"}"#;
        assert_eq!(pool.worker(0).submit(&job, block).await.code(), "ok");
        let landed = pool
            .hear(|event| matches!(event, PoolEvent::Landed(..)))
            .await;
        assert!(
            matches!(landed, PoolEvent::Landed(_, place) if place == landing),
            "{landed:?}"
        );
        pool.hear(|event| matches!(event, PoolEvent::Ended { .. }))
            .await;
        if landing == Landing::Blocked {
            stage
                .sql(&board)
                .execute_batch(&format!(
                    "UPDATE tasks SET status='ready' WHERE id='{task}';
                     INSERT INTO task_events(task_id,run_id,kind,payload,created_at) VALUES('{task}',NULL,'unblocked',NULL,{});",
                    stage.now()
                ))
                .unwrap();
        }
    }
    assert_eq!(stage.status(&board, &task), "triage");
}

#[actix::test]
async fn a_task_that_met_a_quota_is_not_claimed_before_its_time() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let task = stage.task(&board, "t");
    let mut pool = stage.start().await;
    let job = pool.next_job(0).await;
    let quota = r#"{"outcome":"rate_limited","reason":"quota","retry_after_seconds":900}"#;
    pool.worker(0).submit(&job, quota).await;
    ended(&mut pool).await;
    for seconds in [200.0, 400.0] {
        pool.advance(seconds);
        pool.worker(0).poll().await;
        pool.hear(|event| matches!(event, PoolEvent::Listed { ready: 0, .. }))
            .await;
        assert_eq!(stage.status(&board, &task), "ready");
    }
    pool.advance(400.0);
    pool.worker(0).poll().await;
    pool.hear(|event| matches!(event, PoolEvent::Added(_)))
        .await;
}

#[actix::test]
async fn a_result_on_a_board_that_does_not_answer_frees_its_slot_and_is_settled_later() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let task = stage.task(&board, "t");
    let mut pool = stage.start().await;
    let job = pool.next_job(0).await;
    let hidden = stage.folder.path().join("hidden.db");
    let database = stage.database(&board);
    // Permission is no protection against root, so the board is locked instead.
    let lock = stage.sql(&board);
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert!(!hidden.exists() && database.exists());
    let result = r#"{"outcome":"completed","summary":"kept"}"#;
    assert_eq!(pool.worker(0).submit(&job, result).await.code(), "ok");
    pool.pass(&board).await;
    pool.advance(10.5);
    pool.pass(&board).await;
    let failed = pool
        .hear(|event| matches!(event, PoolEvent::LeaseFailed(..)))
        .await;
    assert!(matches!(
        failed,
        PoolEvent::LeaseFailed(_, FailCause::Unsettled)
    ));
    assert_eq!(
        pool.worker(0).submit(&job, result).await.code(),
        "ok",
        "a repeat is still acknowledged"
    );
    assert!(
        !pool.pool.ledger().is_empty(),
        "what is put off stands in the ledger"
    );

    lock.execute_batch("ROLLBACK").unwrap();
    drop(lock);
    pool.pass(&board).await;
    assert_eq!(ended(&mut pool).await, Terminal::Finalized);
    assert_eq!(stage.status(&board, &task), "done");
    assert!(
        pool.pool.ledger().is_empty(),
        "{:?}",
        pool.pool.ledger().entries()
    );
}

#[actix::test]
async fn a_result_that_comes_while_the_pool_drains_is_kept_and_settled_by_the_next_pool() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let task = stage.task(&board, "t");
    let mut pool = stage.start().await;
    let job = pool.next_job(0).await;
    pool.pass(&board).await;
    pool.pool.drain();
    let answer = pool
        .worker(0)
        .submit(&job, r#"{"outcome":"completed"}"#)
        .await;
    assert_eq!(answer.code(), "ok");
    let reconciler = pool.pool.board(&board).unwrap().reconciler;
    assert_eq!(reconciler.ask(RunPass).await.unwrap(), None);
    assert_eq!(stage.status(&board, &task), "running");

    pool.stop().await;
    let pool = stage.start().await;
    pool.pass(&board).await;
    assert_eq!(stage.status(&board, &task), "done");
}
