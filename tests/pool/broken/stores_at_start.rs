//! Stores that are broken when the pool starts.

use hermes_pool::actors::Scope;
use std::path::Path;
use std::time::Instant;

use rusqlite::Connection;

use super::complete;
use crate::support::{PATIENCE, Stage};

/// What is done to the store's file before the pool starts, and what is said of it.
type BreakStore = fn(&Path);
const STORES: [(&str, BreakStore, &str); 5] = [
    (
        "a text file",
        |store| std::fs::write(store, "no database, but longer than a header".repeat(99)).unwrap(),
        "malformed",
    ),
    (
        "malformed pages",
        |store| {
            let mut bytes = std::fs::read(store).unwrap();
            bytes[100..4096].fill(0xa5);
            std::fs::write(store, bytes).unwrap();
        },
        "malformed",
    ),
    (
        "a newer version",
        |store| {
            let sql = Connection::open(store).unwrap();
            sql.pragma_update(None, "user_version", 99).unwrap();
        },
        "version 99",
    ),
    (
        "a directory in its place",
        |store| {
            std::fs::remove_file(store).unwrap();
            std::fs::create_dir(store).unwrap();
        },
        "cannot be opened",
    ),
    (
        "another program's database",
        |store| {
            std::fs::remove_file(store).unwrap();
            let sql = Connection::open(store).unwrap();
            sql.execute_batch("CREATE TABLE bills(x)").unwrap();
        },
        "not a store of this pool",
    ),
];

#[actix::test]
async fn a_store_that_cannot_be_used_is_told_left_as_it_is_and_used_once_mended() {
    for (name, damage, text) in STORES {
        let stage = Stage::impatient(1);
        let board = stage.board("a");
        stage.task(&board, "t");
        stage.start().await.stop().await;
        let store = stage.settings.state_dir.join("assignments.db");
        let copy = stage.folder.path().join("copy.db");
        drop(
            Connection::open(&store)
                .unwrap()
                .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)"),
        );
        std::fs::copy(&store, &copy).unwrap();
        damage(&store);
        let damaged = std::fs::read(&store).ok();

        let mut pool = stage.begin();
        let patience = Instant::now() + PATIENCE;
        while pool.pool.ledger().is_empty()
            || !pool
                .pool
                .reasons()
                .iter()
                .any(|reason| reason.contains(text))
        {
            assert!(
                Instant::now() < patience,
                "{name}: {:?}",
                pool.pool.reasons()
            );
            pool.a_moment(0.1).await;
        }
        assert_eq!(
            std::fs::read(&store).ok(),
            damaged,
            "{name}: it is left as it is"
        );
        let entries = pool.pool.ledger().entries();
        let open: Vec<_> = entries
            .iter()
            .filter(|(item, _)| item.scope == Scope::Store)
            .collect();
        assert_eq!(open.len(), 1, "{name}: {entries:?}");
        for left_over in ["assignments.db-wal", "assignments.db-shm"] {
            let _ = std::fs::remove_file(store.with_file_name(left_over));
        }
        let _ = std::fs::remove_dir(&store);
        std::fs::rename(&copy, &store).unwrap();
        complete(&mut pool, &board, 1).await;
        assert!(pool.snapshot().await.pool.ready, "{name}");
    }
}

#[actix::test]
async fn a_store_that_somebody_holds_for_longer_than_we_wait_is_told_and_opened_once_it_is_free() {
    let stage = Stage::impatient(1);
    let board = stage.board("a");
    stage.task(&board, "t");
    stage.start().await.stop().await;
    let store = stage.settings.state_dir.join("assignments.db");
    let lock = Connection::open(&store).unwrap();
    lock.busy_timeout(PATIENCE).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();

    let mut pool = stage.begin();
    let patience = Instant::now() + PATIENCE;
    let is_told = |reasons: Vec<String>| {
        let told = |reason: &String| reason.contains("is locked by another process");
        reasons.iter().any(told)
    };
    while !is_told(pool.pool.reasons()) {
        assert!(Instant::now() < patience, "{:?}", pool.pool.reasons());
        pool.a_moment(0.1).await;
    }
    lock.execute_batch("ROLLBACK").unwrap();
    complete(&mut pool, &board, 1).await;
    assert!(pool.snapshot().await.pool.ready);
}
