//! Ownership: a run that is no longer ours is noticed, its worker is told, and nothing is written for it.

use std::time::Duration;

use hermes_pool::actors::PoolEvent;
use hermes_pool::board::hermes::NewTask;
use hermes_pool::domain::{BoardSlug, FailCause, TaskId, Terminal};

use crate::support::{Job, Running, Stage};

async fn running(stage: &Stage, task: NewTask) -> (Running<'_>, BoardSlug, TaskId, Job) {
    let board = stage.board("lab");
    let task = stage.add(&board, task);
    let mut pool = stage.start().await;
    let (_, job) = pool.first_job(0).await;
    (pool, board, task, job)
}

fn card(title: &str) -> NewTask {
    NewTask {
        title: title.to_owned(),
        ..NewTask::default()
    }
}

/// What an operator's reclaim leaves on the board.
fn take_away(stage: &Stage, board: &BoardSlug, task: &TaskId) {
    stage
        .sql(board)
        .execute_batch(&format!(
            "BEGIN IMMEDIATE;
             UPDATE task_runs SET status='reclaimed',outcome='reclaimed',ended_at={now},claim_lock=NULL,claim_expires=NULL
                 WHERE task_id='{task}' AND ended_at IS NULL;
             UPDATE tasks SET status='blocked',claim_lock=NULL,claim_expires=NULL,current_run_id=NULL WHERE id='{task}';
             INSERT INTO task_events(task_id,run_id,kind,payload,created_at) VALUES('{task}',NULL,'blocked','{{}}',{now});
             COMMIT;",
            now = stage.now()
        ))
        .unwrap();
}

#[actix::test]
async fn a_run_that_its_board_takes_away_is_stale_and_its_worker_is_told() {
    let stage = Stage::new(1);
    let (mut pool, board, task, job) = running(&stage, card("t")).await;
    pool.pass(&board).await;
    take_away(&stage, &board, &task);
    let before = stage.event_kinds(&board, &task);
    let ended = pool
        .hear(|event| matches!(event, PoolEvent::Ended { .. }))
        .await;
    assert!(
        matches!(
            ended,
            PoolEvent::Ended {
                terminal: Terminal::Stale,
                ..
            }
        ),
        "{ended:?}"
    );
    let worker = pool.worker(0);
    assert_eq!(worker.heartbeat(&job).await.code(), "run_superseded");
    assert_eq!(
        worker
            .submit(&job, r#"{"outcome":"completed"}"#)
            .await
            .code(),
        "run_superseded"
    );
    pool.pass(&board).await;
    assert_eq!(
        stage.event_kinds(&board, &task),
        before,
        "nothing is written for a run that is not ours"
    );
    assert_eq!(stage.status(&board, &task), "blocked");
}

#[actix::test]
async fn a_result_that_comes_after_its_board_took_the_run_away_writes_nothing() {
    let stage = Stage::new(1);
    let (mut pool, board, task, job) = running(&stage, card("t")).await;
    pool.pass(&board).await;
    assert_eq!(
        pool.worker(0)
            .submit(&job, r#"{"outcome":"completed"}"#)
            .await
            .code(),
        "ok"
    );
    pool.hear(|event| matches!(event, PoolEvent::Ended { .. }))
        .await;
    let done = stage.event_kinds(&board, &task);
    assert_eq!(done.iter().filter(|kind| *kind == "completed").count(), 1);
}

#[actix::test]
async fn a_run_that_passes_its_limit_is_timed_out_on_the_board_and_its_worker_is_told() {
    let stage = Stage::new(1);
    let limited = NewTask {
        max_runtime_seconds: Some(60),
        ..card("t")
    };
    let (mut pool, board, task, job) = running(&stage, limited).await;
    pool.pass(&board).await;
    pool.advance(60.0);
    pool.hear(|event| matches!(event, PoolEvent::Ended { .. }))
        .await;
    assert_eq!(
        pool.worker(0).heartbeat(&job).await.code(),
        "run_superseded"
    );
    assert_eq!(stage.runs(&board, &task)[0].outcome, "timed_out");
}

#[actix::test]
async fn a_claim_is_extended_and_beaten_in_time_for_hours() {
    let stage = Stage::new(1);
    let (mut pool, board, task, job) = running(&stage, card("t")).await;
    let worker = pool.worker(0);
    for _ in 0..(5 * 60) {
        pool.advance(60.0);
        assert_eq!(worker.heartbeat(&job).await.code(), "ok");
        pool.pass(&board).await;
        let (expires, beat): (i64, Option<i64>) = stage
            .sql(&board)
            .query_row(
                "SELECT claim_expires,last_heartbeat_at FROM tasks WHERE id=?1",
                [task.as_str()],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap();
        assert!(
            expires - stage.now() > 780,
            "the claim is extended long before it expires"
        );
        assert!(
            stage.now() - beat.unwrap() <= 900,
            "the board is told that the worker lives"
        );
    }
    let beats = stage
        .event_kinds(&board, &task)
        .iter()
        .filter(|kind| *kind == "heartbeat")
        .count();
    assert!(
        (20..=22).contains(&beats),
        "one heartbeat event in each quarter of an hour: {beats}"
    );
    assert_eq!(
        worker
            .submit(&job, r#"{"outcome":"completed"}"#)
            .await
            .code(),
        "ok"
    );
    pool.hear(|event| {
        matches!(
            event,
            PoolEvent::Ended {
                terminal: Terminal::Finalized,
                ..
            }
        )
    })
    .await;
}

#[actix::test]
async fn a_board_that_cannot_be_told_for_too_long_stops_the_worker_and_the_run_is_released_later() {
    let stage = Stage::new(1);
    let (mut pool, board, task, job) = running(&stage, card("t")).await;
    pool.pass(&board).await;
    let lock = stage.sql(&board);
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let worker = pool.worker(0);
    for _ in 0..13 {
        pool.advance(60.0);
        assert_eq!(worker.heartbeat(&job).await.code(), "ok");
    }
    pool.advance(5.0);
    pool.pass(&board).await;
    let failed = pool
        .hear(|event| matches!(event, PoolEvent::LeaseFailed(..)))
        .await;
    assert!(matches!(
        failed,
        PoolEvent::LeaseFailed(_, FailCause::Unconfirmed)
    ));
    assert_eq!(worker.heartbeat(&job).await.code(), "run_superseded");
    lock.execute_batch("ROLLBACK").unwrap();
    pool.pass(&board).await;
    pool.hear(|event| {
        matches!(
            event,
            PoolEvent::Ended {
                terminal: Terminal::Finalized,
                ..
            }
        )
    })
    .await;
    assert_eq!(stage.runs(&board, &task)[0].outcome, "reclaimed");
}

#[actix::test]
async fn a_board_that_is_gone_is_believed_at_the_second_look() {
    let mut stage = Stage::new(1);
    // The looks are those of the passes that the test asks for, and no others.
    stage.settings.poll = Duration::from_secs(3600);
    let (mut pool, board, _, job) = running(&stage, card("t")).await;
    pool.pass(&board).await;
    let folder = stage.database(&board).parent().unwrap().to_owned();
    let archived = stage.boards.root().join("kanban/boards/_archived");
    std::fs::create_dir(&archived).unwrap();
    std::fs::rename(&folder, archived.join("lab-1800000000")).unwrap();
    let worker = pool.worker(0);
    for seconds in [60.0, 59.0] {
        pool.advance(seconds);
        pool.pass(&board).await;
        assert_eq!(
            worker.heartbeat(&job).await.code(),
            "ok",
            "one look is no evidence"
        );
    }
    pool.advance(2.0);
    pool.pass(&board).await;
    pool.hear(|event| {
        matches!(
            event,
            PoolEvent::Ended {
                terminal: Terminal::Stale,
                ..
            }
        )
    })
    .await;
    assert_eq!(worker.heartbeat(&job).await.code(), "run_superseded");
    assert!(!folder.exists(), "the pool makes no board");
}

#[actix::test]
async fn a_claim_of_this_pools_id_that_the_store_does_not_know_is_reported_and_left_alone() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let task = stage.task(&board, "claimed by another store");
    stage
        .sql(&board)
        .execute_batch(&format!(
            "UPDATE tasks SET status='running',claim_lock='pool/test:00000000ffffffff:n',claim_expires={} WHERE id='{task}'",
            stage.now() - 1
        ))
        .unwrap();
    let pool = stage.start().await;
    pool.pass(&board).await;
    let entries = pool.pool.ledger().entries();
    let [(item, entry)] = &entries[..] else {
        panic!("{entries:?}")
    };
    assert_eq!(
        (item.scope.to_string().as_str(), item.what),
        (format!("lab/{task}").as_str(), "unknown claim")
    );
    assert!(entry.why.contains("another store"), "{}", entry.why);
    assert_eq!(stage.status(&board, &task), "running");
    assert!(
        !stage
            .event_kinds(&board, &task)
            .contains(&"reclaimed".to_owned())
    );
}

#[actix::test]
async fn a_board_that_is_gone_is_one_entry_of_the_ledger_however_often_it_is_looked_for() {
    let mut stage = Stage::new(1);
    stage.settings.poll = Duration::from_secs(3600);
    let (pool, board, _, _) = running(&stage, card("t")).await;
    pool.pass(&board).await;
    let folder = stage.database(&board).parent().unwrap().to_owned();
    std::fs::rename(&folder, stage.folder.path().join("away")).unwrap();
    pool.advance(60.0);
    for _ in 0..3 {
        pool.pass(&board).await;
    }
    let entries = pool.pool.ledger().entries();
    let watched = entries.iter().find(|(item, _)| item.what == "watch");
    let (_, entry) = watched.unwrap_or_else(|| panic!("{entries:?}"));
    assert!(entry.times >= 3 && entry.why.contains("gone"), "{entry:?}");
}

#[actix::test]
async fn a_run_whose_number_a_restored_board_gave_out_before_is_given_back_and_its_task_claimed_anew()
 {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let task = stage.task(&board, "t");
    let (file, copy) = (stage.database(&board), stage.folder.path().join("copy.db"));
    stage
        .sql(&board)
        .execute("VACUUM INTO ?1", [copy.to_str()])
        .unwrap();
    let mut pool = stage.start().await;
    let job = pool.next_job(0).await;
    pool.worker(0)
        .submit(&job, r#"{"outcome":"completed"}"#)
        .await;
    pool.hear(|event| matches!(event, PoolEvent::Ended { .. }))
        .await;
    pool.stop().await;
    for left in ["-wal", "-shm"] {
        // Where the board keeps no log there is none.
        let _ = std::fs::remove_file(format!("{}{left}", file.display()));
    }
    std::fs::rename(&copy, &file).unwrap();

    let mut pool = stage.start().await;
    let again = pool.next_job(0).await;
    assert_eq!(
        (job.binding.run_id.as_str(), again.binding.run_id.as_str()),
        ("1", "2")
    );
    assert_eq!(stage.runs(&board, &task)[0].outcome, "reclaimed");
    pool.worker(0)
        .submit(&again, r#"{"outcome":"completed"}"#)
        .await;
    pool.hear(|event| matches!(event, PoolEvent::Ended { .. }))
        .await;
    assert_eq!(stage.status(&board, &task), "done");
}
