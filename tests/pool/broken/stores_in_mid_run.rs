//! Stores that break while a worker holds a run.

use std::time::Instant;

use super::{COMPLETED, empty_log, is_end_on, patient_stage, shell};
use crate::support::PATIENCE;

/// What is done to the store, what is said of it, and how it is mended, each as a line of shell in its folder.
const FAULTS: [(&str, &str, &str, &str); 7] = [
    (
        "text written over it",
        "yes no database | head -c 8192 > assignments.db",
        "is malformed",
        "cat ../copy.db > assignments.db",
    ),
    (
        "malformed pages",
        "pages=$(($(wc -c < assignments.db) / 4096 - 1)); head -c $((pages * 4096)) /dev/zero | tr '\\0' '\\245' |
         dd of=assignments.db bs=4096 seek=1 conv=notrunc",
        "is malformed",
        "cat ../copy.db > assignments.db",
    ),
    (
        // A commit that meets only sound pages says nothing about the others.
        "one malformed page",
        "head -c 64 /dev/zero | tr '\\0' '\\245' | dd of=assignments.db bs=4096 seek=1 conv=notrunc",
        "is malformed",
        "cat ../copy.db > assignments.db",
    ),
    (
        "removed",
        "mv assignments.db ..",
        "was removed, replaced or emptied",
        "mv ../assignments.db .",
    ),
    (
        "replaced",
        "mv assignments.db ..; cp ../copy.db assignments.db",
        "was removed, replaced or emptied",
        "mv ../assignments.db .",
    ),
    (
        "its log replaced",
        "mv assignments.db-wal ..; cp ../copy.db assignments.db-wal",
        "has another write-ahead log",
        "mv ../assignments.db-wal .",
    ),
    (
        "emptied",
        ": > assignments.db",
        "was removed, replaced or emptied",
        "cat ../copy.db > assignments.db",
    ),
];

#[actix::test]
async fn a_store_that_breaks_in_mid_run_acknowledges_nothing_and_goes_on_once_mended() {
    for (name, damage, text, mend) in FAULTS {
        let stage = patient_stage(1);
        let board = stage.board("a");
        let task = stage.task(&board, "t");
        let mut pool = stage.start().await;
        let (worker, job) = pool.first_job(0).await;
        pool.pass(&board).await;
        let store = stage.settings.state_dir.join("assignments.db");
        empty_log(&store);
        shell(&stage.settings.state_dir, "cp assignments.db ../copy.db");
        shell(&stage.settings.state_dir, damage);

        for _ in 0..2 {
            assert!(worker.try_heartbeat(&job).await.is_err(), "{name}");
            assert!(worker.try_submit(&job, COMPLETED).await.is_err(), "{name}");
        }
        let reasons = pool.pool.reasons();
        assert_eq!(reasons.len(), 1, "{name}: {reasons:?}");
        assert!(reasons[0].contains(text), "{name}: {reasons:?}");
        assert_eq!(stage.status(&board, &task), "running", "{name}");

        shell(&stage.settings.state_dir, mend);
        let patience = Instant::now() + PATIENCE;
        while !pool.pool.reasons().is_empty() {
            assert!(
                Instant::now() < patience,
                "{name}: {:?}",
                pool.pool.reasons()
            );
            pool.a_moment(0.1).await;
        }
        let mut heard = pool.pool.listen();
        assert_eq!(worker.heartbeat(&job).await.code(), "ok", "{name}");
        assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok", "{name}");
        pool.pass(&board).await;
        heard.wait_for(PATIENCE, is_end_on(&board)).await.unwrap();
        let runs = stage.runs(&board, &task);
        assert_eq!(
            (runs.len(), runs[0].outcome.as_str()),
            (1, "completed"),
            "{name}"
        );
    }
}

/// Only a newer program under the same folder does this, and it is refused there while this one runs.
#[actix::test]
async fn a_store_marked_as_newer_in_mid_run_is_served_on_and_refused_at_the_next_start() {
    let stage = patient_stage(1);
    let board = stage.board("a");
    stage.task(&board, "t");
    let mut pool = stage.start().await;
    let (worker, job) = pool.first_job(0).await;
    let store = stage.settings.state_dir.join("assignments.db");
    let sql = rusqlite::Connection::open(&store).unwrap();
    sql.pragma_update(None, "user_version", 99).unwrap();
    assert_eq!(worker.heartbeat(&job).await.code(), "ok");
    assert!(pool.pool.reasons().is_empty());
    pool.stop().await;

    let mut pool = stage.begin();
    let is_told = |reasons: Vec<String>| reasons.iter().any(|reason| reason.contains("version 99"));
    let patience = Instant::now() + PATIENCE;
    while !is_told(pool.pool.reasons()) {
        assert!(Instant::now() < patience, "{:?}", pool.pool.reasons());
        pool.a_moment(0.1).await;
    }
    sql.pragma_update(None, "user_version", 1).unwrap();
    while !pool.pool.reasons().is_empty() {
        assert!(Instant::now() < patience, "{:?}", pool.pool.reasons());
        pool.a_moment(0.5).await;
    }
    pool.pool.opened().await;
    assert_eq!(pool.worker(0).heartbeat(&job).await.code(), "ok");
}
