//! Keys that cannot be used, at the start and in mid-run.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Instant;

use super::{COMPLETED, complete, is_end_on};
use crate::support::{PATIENCE, Running, Stage};

/// What is done to the key file, and what is said of it.
type BreakKey = fn(&Path);
const KEYS: [(&str, BreakKey, &str); 4] = [
    ("missing", |_| {}, "unavailable"),
    (
        "too open",
        |key| {
            std::fs::write(key, "k".repeat(64)).unwrap();
            std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o640)).unwrap();
        },
        "private",
    ),
    (
        "too short",
        |key| {
            std::fs::write(key, "short").unwrap();
            std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).unwrap();
        },
        "length",
    ),
    (
        "a symlink",
        |key| symlink(key.with_extension("real"), key).unwrap(),
        "unavailable",
    ),
];

#[actix::test]
async fn a_key_that_cannot_be_used_is_told_and_taken_once_it_can() {
    for (name, damage, text) in KEYS {
        let stage = Stage::impatient(1);
        let board = stage.board("a");
        stage.task(&board, "t");
        let key = &stage.settings.key_file;
        let real = key.with_extension("real");
        std::fs::rename(key, &real).unwrap();
        damage(key);
        let mut pool = stage.start().await;
        let reasons = pool.snapshot().await.pool.reasons;
        assert_eq!(reasons.len(), 1, "{name}: {reasons:?}");
        assert!(reasons[0].contains(text), "{name}: {reasons:?}");
        assert!(pool.worker(0).try_poll().await.is_err(), "{name}");
        std::fs::rename(&real, key).unwrap();
        let patience = Instant::now() + PATIENCE;
        while !pool.pool.reasons().is_empty() {
            assert!(Instant::now() < patience, "{name}");
            pool.a_moment(1.0).await;
        }
        complete(&mut pool, &board, 1).await;
    }
}

/// Lets time pass until the key's file was looked at, and the pool is as it should be.
async fn until_told(pool: &mut Running<'_>, told: impl Fn(&[String]) -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !told(&pool.pool.reasons()) {
        assert!(Instant::now() < patience, "{:?}", pool.pool.reasons());
        pool.a_moment(1.0).await;
    }
}

#[actix::test]
async fn a_key_that_breaks_in_mid_run_is_told_and_the_one_that_was_read_serves_on() {
    let exchanged: (&str, BreakKey, &str) = (
        "another key",
        |key| {
            std::fs::write(key, "k".repeat(64)).unwrap();
            std::fs::set_permissions(key, std::fs::Permissions::from_mode(0o600)).unwrap();
        },
        "holds another key",
    );
    for (name, damage, text) in KEYS.into_iter().chain([exchanged]) {
        let stage = Stage::impatient(1);
        let board = stage.board("a");
        let task = stage.task(&board, "t");
        let mut pool = stage.start().await;
        let (worker, job) = pool.first_job(0).await;
        let key = &stage.settings.key_file;
        let real = key.with_extension("real");
        std::fs::rename(key, &real).unwrap();
        damage(key);
        until_told(&mut pool, |reasons| !reasons.is_empty()).await;
        let reasons = pool.pool.reasons();
        assert_eq!(reasons.len(), 1, "{name}: {reasons:?}");
        assert!(reasons[0].contains(text), "{name}: {reasons:?}");
        // The worker's key is derived from the one that was read first.
        assert_eq!(worker.heartbeat(&job).await.code(), "ok", "{name}");
        let mut heard = pool.pool.listen();
        assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok", "{name}");
        heard.wait_for(PATIENCE, is_end_on(&board)).await.unwrap();
        assert_eq!(stage.status(&board, &task), "done", "{name}");
        std::fs::rename(&real, key).unwrap();
        until_told(&mut pool, <[String]>::is_empty).await;
    }
}
