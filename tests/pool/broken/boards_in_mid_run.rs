//! Boards that break while a worker holds a run of theirs.

use hermes_pool::actors::{ListBoards, PoolEvent};
use hermes_pool::domain::{BoardSlug, FailCause};
use rusqlite::Connection;

use super::{
    COMPLETED, complete, empty_log, fetch, is_end_on, look, patient_stage, serve_one, shell,
};
use crate::support::{PATIENCE, Running, Stage};

/// How somebody breaks the board `a` in the folder of boards.
enum Break {
    /// Keeps all writers out until it is dropped.
    Lock,
    /// By SQL on its own file.
    Sql(&'static str),
    /// By a line of shell.
    Shell(&'static str),
}

/// What is done to the board, its state then, and what the ledger says of it.
const FAULTS: [(&str, Break, &str, &str); 11] = [
    (
        "locked by somebody for longer than anybody waits",
        Break::Lock,
        "unreadable",
        "database is locked",
    ),
    (
        "a text file in its place",
        Break::Shell("rm a/kanban.db*; echo this is no database, whatever its name says > a/kanban.db"),
        "unreadable",
        "not a database",
    ),
    (
        "text written over it",
        Break::Shell("yes no database | head -c 8192 > a/kanban.db"),
        "unreadable",
        "not a database",
    ),
    (
        "malformed pages",
        Break::Shell(
            "pages=$(($(wc -c < a/kanban.db) / 4096 - 1)); head -c $((pages * 4096)) /dev/zero | tr '\\0' '\\245' |
             dd of=a/kanban.db bs=4096 seek=1 conv=notrunc",
        ),
        "unreadable",
        "malformed",
    ),
    (
        "emptied",
        Break::Shell(": > a/kanban.db"),
        "ok",
        "tables missing",
    ),
    (
        "an empty file in its place",
        Break::Shell("rm a/kanban.db*; : > a/kanban.db"),
        "ok",
        "tables missing",
    ),
    (
        "a directory in its place",
        Break::Shell("rm a/kanban.db*; mkdir a/kanban.db"),
        "unreadable",
        "unable to open",
    ),
    (
        "a schema that may not be written to",
        Break::Sql("ALTER TABLE tasks RENAME COLUMN claim_lock TO held_by"),
        "read_only",
        "claim_lock",
    ),
    ("its file deleted", Break::Shell("rm a/kanban.db*"), "gone", "gone"),
    ("its folder deleted", Break::Shell("rm -r a"), "gone", "gone"),
    (
        "moved to the archive",
        Break::Shell("mkdir _archived; mv a _archived/a-1800000000"),
        "gone",
        "gone",
    ),
];

impl Break {
    fn inflict(&self, stage: &Stage, board: &BoardSlug) -> Option<Connection> {
        match self {
            Self::Lock => {
                let lock = stage.sql(board);
                lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
                return Some(lock);
            }
            Self::Sql(text) => stage.sql(board).execute_batch(text).unwrap(),
            Self::Shell(line) => shell(&stage.boards.root().join("kanban/boards"), line),
        }
        None
    }
}

/// What is put off because of the board `a`.
fn put_off(pool: &Running<'_>) -> Vec<String> {
    let entries = pool.pool.ledger().entries().into_iter();
    entries
        .filter(|(item, _)| {
            item.scope
                .board()
                .is_some_and(|board| board.as_str() == "a")
        })
        .map(|(item, entry)| format!("{}: {}", item.what, entry.why))
        .collect()
}

#[actix::test]
async fn a_board_that_breaks_under_a_run_keeps_nobody_waiting_and_gets_the_result_once_mended() {
    for (name, fault, state, text) in FAULTS {
        let stage = patient_stage(2);
        let (broken, sound) = (stage.board("a"), stage.board("b"));
        let task = stage.task(&broken, "kept");
        let mut pool = stage.start().await;
        let (worker, job) = pool.first_job(0).await;
        look(&pool, &broken).await;
        empty_log(&stage.database(&broken));
        let boards = stage.boards.root().join("kanban/boards");
        shell(&boards, "cp a/kanban.db ../copy.db");
        let held = fault.inflict(&stage, &broken);

        // A visit that finds another file lets go of the one it had, the next one looks at what is there.
        for _ in 0..2 {
            look(&pool, &broken).await;
        }
        assert_eq!(worker.heartbeat(&job).await.code(), "ok", "{name}");
        serve_one(&mut pool, 1, &sound).await;
        assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok", "{name}");
        pool.pass(&broken).await;
        let snapshot = pool.snapshot().await;
        assert_eq!(
            snapshot.boards[0].state.as_str(),
            state,
            "{name}: {:?}",
            snapshot.boards
        );
        assert_eq!(snapshot.boards[1].state.as_str(), "ok", "{name}");
        assert!(snapshot.pool.ready, "{name}: a sick board is no reason");
        let told = put_off(&pool);
        assert!(
            told.iter().any(|line| line.contains(text)),
            "{name}: {told:?}"
        );

        // The slot is freed after ten seconds; the result is kept, and still acknowledged.
        let mut heard = pool.pool.listen();
        pool.advance(10.5);
        let freed =
            |event: &PoolEvent| matches!(event, PoolEvent::LeaseFailed(_, FailCause::Unsettled));
        heard.wait_for(PATIENCE, freed).await.unwrap();
        serve_one(&mut pool, 0, &sound).await;
        assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok", "{name}");

        let mut heard = pool.pool.listen();
        match held {
            Some(lock) => lock.execute_batch("ROLLBACK").unwrap(),
            None => shell(&boards, "rm -rf a; mkdir a; cp ../copy.db a/kanban.db"),
        }
        pool.pool.boards().unwrap().ask(ListBoards).await.unwrap();
        for _ in 0..2 {
            look(&pool, &broken).await;
        }
        heard.wait_for(PATIENCE, is_end_on(&broken)).await.unwrap();
        let runs = stage.runs(&broken, &task);
        assert_eq!(
            (runs.len(), runs[0].outcome.as_str()),
            (1, "completed"),
            "{name}"
        );
        let completed = stage.event_kinds(&broken, &task).into_iter();
        assert_eq!(
            completed.filter(|kind| kind == "completed").count(),
            1,
            "{name}"
        );
        serve_one(&mut pool, 0, &broken).await;
        assert_eq!(put_off(&pool), [""; 0], "{name}");
        assert_eq!(
            pool.snapshot().await.boards[0].state.as_str(),
            "ok",
            "{name}"
        );
    }
}

#[actix::test]
async fn three_results_on_a_board_that_stays_broken_never_stop_the_others() {
    let stage = Stage::impatient(3);
    let (broken, sound) = (stage.board("a"), stage.board("b"));
    let kept: Vec<_> = (0..3)
        .map(|n| stage.task(&broken, &format!("kept{n}")))
        .collect();
    let mut pool = stage.start().await;
    let mut jobs = Vec::new();
    for ordinal in 0..3 {
        jobs.push(fetch(&mut pool, ordinal).await);
    }
    let lock = stage.sql(&broken);
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    for (ordinal, job) in (0..).zip(&jobs) {
        let answer = pool.worker(ordinal).submit(job, COMPLETED).await;
        assert_eq!(answer.code(), "ok");
    }
    for n in 0..6 {
        stage.task(&sound, &format!("t{n}"));
    }
    let mut heard = pool.pool.listen();
    complete(&mut pool, &sound, 6).await;
    for _ in 0..3 {
        let freed =
            |event: &PoolEvent| matches!(event, PoolEvent::LeaseFailed(_, FailCause::Unsettled));
        heard.wait_for(PATIENCE, freed).await.unwrap();
    }
    lock.execute_batch("ROLLBACK").unwrap();
    for _ in 0..3 {
        pool.hear_after_a_while(is_end_on(&broken)).await;
    }
    for task in &kept {
        assert_eq!(stage.status(&broken, task), "done", "no result is lost");
    }
}
