//! Isolation: what is broken stops nothing else.

use hermes_pool::actors::PoolEvent;
use hermes_pool::domain::Terminal;
use hermes_pool::faults::{Fault, FaultPoint};

use crate::support::Stage;

#[actix::test]
async fn a_broken_board_does_not_stop_the_others() {
    let stage = Stage::new(1);
    let (broken, sound) = (stage.board("a"), stage.board("b"));
    let database = stage.database(&broken);
    // A log that is left over would still hold the board's pages.
    for left_over in ["kanban.db-wal", "kanban.db-shm"] {
        let _ = std::fs::remove_file(database.with_file_name(left_over));
    }
    std::fs::write(&database, "this is no database, whatever its name says").unwrap();
    stage.task(&sound, "t");
    let mut pool = stage.start().await;
    pool.worker(0).poll().await;
    pool.hear(|event| matches!(event, PoolEvent::Added(_)))
        .await;
    let job = pool.worker(0).poll().await.unwrap();
    pool.worker(0)
        .submit(&job, r#"{"outcome":"completed"}"#)
        .await;
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
    let snapshot = pool.pool.snapshot().await.unwrap();
    let states: Vec<_> = snapshot
        .boards
        .iter()
        .map(|board| (board.slug.as_str(), board.state.as_str()))
        .collect();
    assert_eq!(states, [("a", "unreadable"), ("b", "ok")]);
    assert!(
        snapshot.pool.ready,
        "a sick board never makes the pool not ready"
    );
}

#[actix::test]
async fn an_actor_that_panics_is_built_anew_and_loses_nothing_that_was_acknowledged() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let task = stage.task(&board, "t");
    let mut pool = stage.start().await;
    pool.worker(0).poll().await;
    pool.hear(|event| matches!(event, PoolEvent::Added(_)))
        .await;
    let job = pool.worker(0).poll().await.unwrap();
    for point in [
        FaultPoint::EndingWritten,
        FaultPoint::CompletionWritten,
        FaultPoint::CountersCleared,
    ] {
        stage.faults.arm(point, Fault::PanicOnce);
    }
    assert_eq!(
        pool.worker(0)
            .submit(&job, r#"{"outcome":"completed"}"#)
            .await
            .code(),
        "ok"
    );
    for _ in 0..4 {
        pool.advance(5.0);
        pool.pass(&board).await;
    }
    assert_eq!(stage.status(&board, &task), "done");
    let completed = stage
        .event_kinds(&board, &task)
        .iter()
        .filter(|kind| *kind == "completed")
        .count();
    assert_eq!(completed, 1, "the completion is written once");
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
async fn a_claim_whose_resolution_panics_is_put_off_and_ends_no_pass() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let task = stage.task(&board, "t");
    let mut pool = stage.start().await;
    stage
        .faults
        .arm(FaultPoint::PayloadBuilt, Fault::PanicAlways);
    pool.worker(0).poll().await;
    pool.hear(|event| matches!(event, PoolEvent::Restarted(actor) if actor == "dispatcher-lab"))
        .await;
    for _ in 0..2 {
        let report = pool.pass(&board).await;
        assert_eq!((report.intents, report.deferred), (0, 1));
    }
    stage.faults.disarm();
    // The pass that resolves it may be one of the pool's own.
    let mut resolved = pool.pass(&board).await;
    while resolved.deferred > 0 {
        resolved = pool.pass(&board).await;
    }
    let job = pool.worker(0).poll().await.expect("the claim was kept");
    assert_eq!(job.binding.task_id, task.as_str());
    assert!(pool.pool.ledger().is_empty());
}

#[actix::test]
async fn a_second_pool_on_the_same_directory_is_refused_with_the_pid_of_the_first() {
    let stage = Stage::new(1);
    let _pool = stage.start().await;
    let refused = hermes_pool::actors::Pool::start(
        stage.settings.clone(),
        stage.clock.clone(),
        std::sync::Arc::new(stage.boards.clone()),
    );
    let text = refused.err().expect("the directory is held").to_string();
    assert!(text.contains(&std::process::id().to_string()), "{text}");
}
