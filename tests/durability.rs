//! Power failures: the store on a disk that forgets what was not synced.
//!
//! A VFS of SQLite's own kind ([`forgetful`]) stands below the real store and tells a model of a disk ([`disk`]) of every
//! write and sync. At many moments of a busy life the model is asked what a power failure would leave: all that was
//! synced, and of the rest any part. The store is opened on each of these, and everything that had been acknowledged by
//! then must be there.
//!
//! Deliberately absent: files whose directory entry was not synced; SQLite's own tests are about those.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod durability {
    pub(crate) mod disk;
    pub(crate) mod forgetful;
    pub(crate) mod life;
}

#[path = "store/fixtures.rs"]
#[expect(dead_code, reason = "tests/store says more with them")]
mod fixtures;

use std::path::Path;

use durability::disk::Image;
use durability::forgetful;
use durability::life::{Acknowledged, Life};
use hermes_pool::store::Store;
use rusqlite::Connection;

/// Groups that are committed.
const GROUPS: u32 = 400;
/// Groups after which the store is closed and opened again, which moves the log into the database.
const GROUPS_PER_OPENING: u32 = 90;
/// One of this many writes and syncs is followed by a power failure.
const FAILURES_ONE_IN: u32 = 40;

/// Puts an image on the real disk.
fn restore(image: &Image, from: &Path, to: &Path) {
    for (path, content) in image {
        let name = path.strip_prefix(from).unwrap();
        std::fs::write(to.join(name), content).unwrap();
    }
}

#[test]
fn after_a_power_failure_at_any_moment_everything_acknowledged_is_there() {
    let disk = forgetful::install();
    let folder = tempfile::tempdir().unwrap();
    disk.watch(folder.path(), FAILURES_ONE_IN);
    let mut life = Life::begin(&folder.path().join("assignments.db"), disk.clone());
    for group in 1..=GROUPS {
        life.commit_one_group();
        if group % GROUPS_PER_OPENING == 0 {
            life.open_again();
        }
    }
    let told = life.acknowledged();
    let failures = disk.failures();
    assert!(failures.len() > 100, "{} power failures", failures.len());
    assert!(told.len() > 500, "{} acknowledgements", told.len());
    for (number, failure) in failures.iter().enumerate() {
        let left = tempfile::tempdir().unwrap();
        restore(&failure.image, folder.path(), left.path());
        let path = left.path().join("assignments.db");
        drop(Store::open(&path, 3).unwrap_or_else(|error| panic!("failure {number}: {error}")));
        let sql = Connection::open(&path).unwrap();
        let check: String = sql
            .query_row("PRAGMA integrity_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(check, "ok", "failure {number}");
        for fact in &told[..failure.acknowledged] {
            assert!(
                fact.is_in(&sql),
                "failure {number} of seed {}: {fact:?} was acknowledged and is gone",
                disk.seed()
            );
        }
    }
}

/// What the test above rests on: the disk does forget, so a store that did not sync would be found out.
#[test]
fn what_is_not_synced_is_forgotten() {
    let disk = forgetful::install();
    let folder = tempfile::tempdir().unwrap();
    disk.watch(folder.path(), u32::MAX);
    let path = folder.path().join("assignments.db");
    let mut life = Life::begin(&path, disk.clone());
    life.commit_one_group();
    life.open_again();
    let sql = Connection::open(&path).unwrap();
    sql.pragma_update(None, "synchronous", "OFF").unwrap();
    sql.execute(
        "INSERT INTO deliveries(delivery_id,kind,digest,received_at) VALUES('unsynced','heartbeat','',0)",
        [],
    )
    .unwrap();
    let fact = Acknowledged::Delivery("unsynced".to_owned());
    assert!(fact.is_in(&sql));
    let kept = (0..20).filter(|_| {
        let left = tempfile::tempdir().unwrap();
        restore(&disk.fail(), folder.path(), left.path());
        let path = left.path().join("assignments.db");
        fact.is_in(&Connection::open(path).unwrap())
    });
    assert!(kept.count() < 20);
}
