//! Broken boards, stores and keys, at the start and in mid-run: each has the outcome that the README names, and stops
//! nothing else. What permissions forbid and what a full disk does is shown by processes, in `tests/serve`.

mod board_files;
mod boards_at_start;
mod boards_in_mid_run;
mod keys;
mod logs_in_mid_run;
mod metadata;
mod stores_at_start;
mod stores_in_mid_run;
mod unmounted;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use hermes_pool::actors::{LookNow, PoolEvent, Wake};
use hermes_pool::domain::{BoardSlug, Terminal};
use rusqlite::Connection;

use crate::support::{Job, PATIENCE, Running, Stage};

pub(super) const COMPLETED: &str = r#"{"outcome":"completed"}"#;

/// Moves what is in the log into the file itself, and removes the log.
pub(super) fn settle_file(database: &Path) {
    let sql = Connection::open(database).unwrap();
    sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    drop(sql);
    for left_over in ["kanban.db-wal", "kanban.db-shm"] {
        let _ = std::fs::remove_file(database.with_file_name(left_over));
    }
}

/// Holds everybody out, readers too.
pub(super) fn lock_out(database: &Path) -> Connection {
    let sql = Connection::open(database).unwrap();
    sql.busy_timeout(PATIENCE).unwrap();
    sql.execute_batch("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE held(x); ")
        .unwrap();
    sql
}

/// Polls and completes until `wanted` runs of the board have ended.
pub(super) async fn complete(pool: &mut Running<'_>, board: &BoardSlug, wanted: usize) {
    let mut heard = pool.pool.listen();
    let patience = Instant::now() + PATIENCE;
    let mut ended = 0;
    while ended < wanted {
        assert!(
            Instant::now() < patience,
            "{ended} of {wanted} on {board}: {:#?} {:#?}",
            pool.pool.ledger().entries(),
            pool.snapshot().await
        );
        for ordinal in 0..pool.stage.settings.slots {
            let worker = pool.worker(ordinal);
            if let Ok(Some(job)) = worker.try_poll().await {
                let _ = worker.try_submit(&job, COMPLETED).await;
            }
        }
        let waited = heard.wait_for(Duration::from_millis(20), is_end_on(board));
        if waited.await.is_ok() {
            ended += 1;
        } else {
            pool.advance(0.5);
        }
    }
}

/// Has another process do something in a folder, as people and programs do: a file that this process opened by itself
/// would cancel the pool's own locks.
#[track_caller]
pub(super) fn shell(folder: &Path, line: &str) {
    let mut command = Command::new("sh");
    command.args(["-ec", line]).current_dir(folder);
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{line}: {ended:?}");
}

/// Moves what is in the log of a file in use into the file itself.
pub(super) fn empty_log(database: &Path) {
    let sql = Connection::open(database).unwrap();
    sql.busy_timeout(PATIENCE).unwrap();
    let busy = sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
        row.get::<_, i64>(0)
    });
    assert_eq!(busy, Ok(0), "somebody still reads the log");
}

/// A stage on which nobody looks at a board unless time moves or the test says so.
pub(super) fn patient_stage(slots: u16) -> Stage {
    let mut stage = Stage::impatient(slots);
    stage.settings.poll = Duration::from_secs(3600);
    stage
}

/// Has the board's actors look at it as after a change.
pub(super) async fn look(pool: &Running<'_>, slug: &BoardSlug) {
    let board = pool.pool.board(slug).expect("the board is served");
    board
        .reconciler
        .tell(Wake {
            board_changed: true,
        })
        .unwrap();
    pool.pass(slug).await;
    board.dispatcher.ask(LookNow).await.unwrap();
}

/// A new task of this board is done by the worker of whichever slot it is claimed for; that of `ordinal` shows itself.
/// Time stands still.
pub(super) async fn serve_one(pool: &mut Running<'_>, ordinal: u16, board: &BoardSlug) {
    let task = pool.stage.task(board, "another");
    let mut heard = pool.pool.listen();
    assert!(pool.worker(ordinal).poll().await.is_none());
    look(pool, board).await;
    let is_added = |event: &PoolEvent| matches!(event, PoolEvent::Added(binding) if binding.key.board == *board);
    let added = heard.wait_for(PATIENCE, is_added).await.unwrap();
    let PoolEvent::Added(binding) = added else {
        unreachable!("only this event was waited for")
    };
    let worker = pool.worker(binding.ordinal.0);
    let job = worker.poll().await.expect("the run is offered");
    assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok");
    heard.wait_for(PATIENCE, is_end_on(board)).await.unwrap();
    assert_eq!(pool.stage.status(board, &task), "done");
}

/// Whether a run of this board ended as its worker said.
pub(super) fn is_end_on(board: &BoardSlug) -> impl Fn(&PoolEvent) -> bool {
    move |event| {
        matches!(event, PoolEvent::Ended { binding, terminal: Terminal::Finalized, .. }
            if binding.key.board == *board)
    }
}

/// Polls until a run comes.
pub(super) async fn fetch(pool: &mut Running<'_>, ordinal: u16) -> Job {
    let patience = Instant::now() + PATIENCE;
    while Instant::now() < patience {
        if let Some(job) = pool.worker(ordinal).poll().await {
            return job;
        }
        pool.a_moment(0.1).await;
    }
    panic!("no run came");
}
