//! The place that holds the boards is unmounted, mounted over or moved away while runs are held: no run ends by that.

use hermes_pool::actors::{ListBoards, PoolEvent};
use hermes_pool::domain::Terminal;

use super::{COMPLETED, is_end_on, look, patient_stage, settle_file, shell};
use crate::support::{Job, PATIENCE, Running, Stage, Worker};

/// How the place goes and comes back, in the folder above Hermes' home; and whether a process that begins meanwhile sees
/// that nothing stands there.
const PLACES: [(&str, &str, &str, bool); 4] = [
    (
        "the folder of boards, with nothing below it",
        "mv hermes/kanban/boards mounted; mkdir hermes/kanban/boards",
        "rm -r hermes/kanban/boards; mv mounted hermes/kanban/boards",
        true,
    ),
    (
        "the folder of boards, with a note below it",
        "mv hermes/kanban/boards mounted; mkdir hermes/kanban/boards; : > hermes/kanban/boards/NOT-MOUNTED",
        "rm -r hermes/kanban/boards; mv mounted hermes/kanban/boards",
        true,
    ),
    (
        "the folder above it",
        "mv hermes/kanban mounted; mkdir hermes/kanban; : > hermes/config.yaml",
        "rm -r hermes/kanban; mv mounted hermes/kanban",
        true,
    ),
    (
        "the folder of boards, with older copies below it",
        "mv hermes/kanban/boards mounted; cp -r copies hermes/kanban/boards",
        "rm -r hermes/kanban/boards; mv mounted hermes/kanban/boards",
        false,
    ),
];

/// Looks for longer than any two looks are apart; the run of the worker goes on.
async fn goes_on(pool: &mut Running<'_>, worker: &Worker, job: &Job, name: &str) {
    let board = hermes_pool::domain::BoardSlug::parse(&job.binding.board).unwrap();
    for _ in 0..6 {
        // A visit that finds another file lets go of the one it had, the next one looks at what is there.
        for _ in 0..2 {
            look(pool, &board).await;
        }
        assert_eq!(worker.heartbeat(job).await.code(), "ok", "{name}");
        pool.advance(25.0);
    }
    let entries = pool.pool.ledger().entries();
    let mut items = entries.iter().map(|(item, _)| item.what);
    assert!(
        items.any(|what| what == "find its board"),
        "{name}: {entries:?}"
    );
}

async fn list(pool: &Running<'_>) {
    pool.pool.boards().unwrap().ask(ListBoards).await.unwrap();
}

#[actix::test]
async fn an_unmount_ends_no_run_however_long_its_place_is_looked_at() {
    for (name, goes, comes, is_seen_at_start) in PLACES {
        let stage = patient_stage(2);
        let board = stage.board("a");
        settle_file(&stage.database(&board));
        let place = stage.folder.path();
        shell(place, "cp -r hermes/kanban/boards copies");
        let tasks = [stage.task(&board, "one"), stage.task(&board, "two")];
        let mut pool = stage.start().await;
        let (mut worker, job) = pool.first_job(0).await;
        let (other, settled) = pool.first_job(1).await;
        look(&pool, &board).await;

        shell(place, goes);
        assert_eq!(other.submit(&settled, COMPLETED).await.code(), "ok");
        goes_on(&mut pool, &worker, &job, name).await;
        if is_seen_at_start {
            pool.stop().await;
            pool = stage.start().await;
            worker = pool.worker(0);
            goes_on(&mut pool, &worker, &job, name).await;
        }

        let mut heard = pool.pool.listen();
        assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok", "{name}");
        shell(place, comes);
        list(&pool).await;
        for _ in 0..2 {
            look(&pool, &board).await;
        }
        for _ in 0..2 {
            heard.wait_for(PATIENCE, is_end_on(&board)).await.unwrap();
        }
        for task in &tasks {
            assert_eq!(stage.status(&board, task), "done", "{name}");
        }
    }
}

/// What was deleted where the run was seen is gone, even if nothing else stands there.
#[actix::test]
async fn the_only_board_that_is_deleted_is_believed_to_be_gone_at_the_second_look() {
    let stage: Stage = patient_stage(1);
    let board = stage.board("a");
    stage.task(&board, "t");
    let mut pool = stage.start().await;
    let (worker, job) = pool.first_job(0).await;
    look(&pool, &board).await;
    let mut heard = pool.pool.listen();
    shell(&stage.boards.root().join("kanban/boards"), "rm -r a");
    look(&pool, &board).await;
    assert_eq!(worker.heartbeat(&job).await.code(), "ok");
    pool.advance(61.0);
    let is_stale = |event: &PoolEvent| matches!(event, PoolEvent::Ended { terminal, .. } if *terminal == Terminal::Stale);
    heard.wait_for(PATIENCE, is_stale).await.unwrap();
    assert_eq!(worker.heartbeat(&job).await.code(), "run_superseded");
}
