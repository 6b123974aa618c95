//! Opening: new files, files of the reference, newer and foreign ones.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hermes_pool::domain::{Ordinal, StateName};
use hermes_pool::protocol::Digest;
use hermes_pool::store::operations::{End, OfferReply};
use hermes_pool::store::{AddRefusal, FileProblem, Reader, Store, StoreError};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, params};

use super::fixtures::*;

/// The statements with which the reference adds, delivers and collects.
const REFERENCE_ADDS: &str = "INSERT INTO assignments
    (board,task_id,run_id,worker_ordinal,attempt,assignment_digest,payload_json,state,created_at,updated_at)
    VALUES (?,?,?,?,?,?,?,?,?,?)";
const REFERENCE_DELIVERS: &str = "INSERT INTO deliveries VALUES (?,?,?,?)";
const REFERENCE_COLLECTS: &str =
    "DELETE FROM assignments WHERE state IN ('finalized','stale') AND updated_at < ?";

fn reference_adds(connection: &Connection, run: &str, ordinal: i64) -> rusqlite::Result<usize> {
    let digest = Digest::of(b"{}");
    let digest = digest.as_str();
    let now = START.0;
    let values = params![
        "lab", "t_1", run, ordinal, 1, digest, "{}", "assigned", now, now
    ];
    connection.execute(REFERENCE_ADDS, values)
}

fn problem(path: &Path, slots: u16) -> FileProblem {
    match Store::open(path, slots) {
        Err(StoreError::File { path: at, problem }) => {
            assert_eq!(at, path);
            problem
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_store_is_private_and_has_an_identity_that_stays() {
    let mut fixture = Fixture::new();
    let mode = fs::metadata(fixture.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(fixture.value::<i64>("PRAGMA user_version"), 1);
    assert_eq!(fixture.value::<String>("PRAGMA journal_mode"), "wal");
    let fence = fixture.store.fence().clone();
    assert_eq!(fence.as_str().len(), 32);
    fixture.add(7, 0);
    let path = fixture.path();
    drop(fixture.store);
    let again = Store::open(&path, 3).unwrap();
    assert_eq!(*again.fence(), fence);
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.fence().unwrap(), fence);
    assert_eq!(reader.live().unwrap().len(), 1);
    assert_ne!(*Fixture::new().store.fence(), fence);
}

#[test]
fn a_file_of_the_reference_is_carried_on_with_and_the_reference_carries_on_with_ours() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("assignments.db");
    let reference = Connection::open(&path).unwrap();
    reference.execute_batch(REFERENCE_TABLES).unwrap();
    reference_adds(&reference, "7", 0).unwrap();

    let mut fixture = Fixture {
        store: Store::open(&path, 3).unwrap(),
        folder,
        now: START,
    };
    // A row without an entry of ours is an ordinary one.
    assert!(matches!(fixture.offer(0, "p1"), OfferReply::Offered(_)));
    assert_eq!(fixture.beat(&binding(7, 0), "b1"), Ok(false));
    let record = fixture.reader().record(&key(7)).unwrap().unwrap();
    assert_eq!((record.claim.lock, record.claim.offers), (None, 1));

    reference.execute_batch(REFERENCE_TABLES).unwrap();
    reference_adds(&reference, "8", 1).unwrap();
    assert!(reference_adds(&reference, "9", 3).is_err());
    reference
        .execute(REFERENCE_DELIVERS, params!["b2", "heartbeat", "x", START.0])
        .unwrap();
    fixture.submit(&binding(7, 0), "r").unwrap();
    let finalizes = "UPDATE assignments SET state='finalized' WHERE run_id='7'";
    reference.execute(finalizes, []).unwrap();
    let later = START.0 + 9_000.0;
    assert_eq!(reference.execute(REFERENCE_COLLECTS, [later]).unwrap(), 1);
    assert_eq!(fixture.value::<i64>("SELECT count(*) FROM claims"), 0);
    assert!(matches!(fixture.offer(1, "p2"), OfferReply::Offered(_)));
}

#[test]
fn more_slots_than_three_migrate_the_file_and_it_stays_migrated() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(7, 2);
    fixture.offer(2, "p1");
    let before = fixture.reader().live().unwrap();
    let path = fixture.path();
    fixture.store = Store::open(&path, 10_000).unwrap();
    assert_eq!(fixture.value::<i64>("PRAGMA user_version"), 2);
    assert_eq!(fixture.reader().live().unwrap(), before);
    fixture.add(8, 9_999);
    let too_high = fixture.run(addition(&binding(9, 10_000)));
    assert_eq!(too_high, Err(AddRefusal::Occupied.into()));
    assert_eq!(fixture.beat(&bound, "b1"), Ok(false));

    fixture.store = Store::open(&path, 3).unwrap();
    assert_eq!(fixture.value::<i64>("PRAGMA user_version"), 2);
    let live = fixture.reader().live().unwrap();
    let last = live.last().unwrap().as_ref().unwrap();
    assert_eq!(last.assignment.binding().ordinal, Ordinal(9_999));
    assert_eq!(last.assignment.state(), StateName::Assigned);
}

#[test]
fn entries_go_with_their_assignments_after_a_migration_too() {
    let mut fixture = Fixture::new();
    fixture.add(7, 0);
    fixture.store = Store::open(&fixture.path(), 4).unwrap();
    assert_eq!(fixture.value::<i64>("SELECT count(*) FROM claims"), 1);
    fixture
        .raw()
        .execute("DELETE FROM assignments", [])
        .unwrap();
    assert_eq!(fixture.value::<i64>("SELECT count(*) FROM claims"), 0);
}

#[test]
fn what_is_over_is_counted_whoever_adds_ends_or_collects_it() {
    for slots in [3, 4] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("assignments.db");
        let reference = Connection::open(&path).unwrap();
        reference.execute_batch(REFERENCE_TABLES).unwrap();
        for run in ["1", "2", "3"] {
            reference_adds(&reference, run, 0).unwrap();
            let end = "UPDATE assignments SET state='finalized' WHERE run_id=?1";
            reference.execute(end, [run]).unwrap();
        }
        // The second opening goes through the table of more slots, if there are more.
        drop(Store::open(&path, 3).unwrap());
        let mut fixture = Fixture {
            store: Store::open(&path, slots).unwrap(),
            folder,
            now: START,
        };
        let counted = |fixture: &Fixture| {
            let query = "SELECT state,count(*) FROM assignments GROUP BY state ORDER BY state";
            let sql = fixture.raw();
            let mut rows = sql.prepare(query).unwrap();
            let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
            let rows: Vec<(String, i64)> = rows.unwrap().map(Result::unwrap).collect();
            let mut told = fixture.reader().counts().unwrap();
            told.sort();
            assert_eq!(told, rows, "{slots} slots");
            rows.len()
        };
        assert_eq!(counted(&fixture), 1);
        let bound = fixture.add(7, 0);
        assert_eq!(counted(&fixture), 2);
        let end = End {
            binding: bound,
            evidence: written(),
            cause: None,
        };
        assert_eq!(fixture.run(end), Ok(true));
        let stale = "UPDATE assignments SET state='stale' WHERE run_id='2'";
        reference.execute(stale, []).unwrap();
        assert_eq!(counted(&fixture), 2);
        let late = START.0 + 9_000.0;
        assert_eq!(reference.execute(REFERENCE_COLLECTS, [late]).unwrap(), 4);
        assert_eq!(counted(&fixture), 0);
    }
}

#[test]
fn a_slot_beyond_the_check_of_the_file_is_reported_as_occupied() {
    let mut fixture = Fixture::new();
    let refused = fixture.run(addition(&binding(7, 3))).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "worker ordinal already has a live assignment"
    );
}

#[test]
fn a_newer_file_is_refused_and_not_a_byte_of_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("assignments.db");
    let newer = Connection::open(&path).unwrap();
    newer
        .execute_batch("PRAGMA journal_mode=WAL; PRAGMA user_version=3; CREATE TABLE future(x);")
        .unwrap();
    // What a killed process leaves: a log that has not been moved into the file.
    newer
        .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)
        .unwrap();
    drop(newer);
    let bytes = || {
        let log = path.with_extension("db-wal");
        (fs::read(&path).unwrap(), fs::read(log).unwrap())
    };
    let before = bytes();
    assert!(!before.1.is_empty());
    let expected = FileProblem::Newer { found: 3, known: 2 };
    assert_eq!(problem(&path, 10), expected);
    assert!(bytes() == before, "the file was touched");
    assert!(Reader::open(&path).is_err());
    assert!(bytes() == before, "the reader touched the file");
    let message = Store::open(&path, 3).unwrap_err().to_string();
    assert!(
        message.contains("assignments.db: has version 3"),
        "{message}"
    );
}

#[test]
fn files_of_others_are_refused_and_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    for (name, made_with) in [
        ("kanban.db", "CREATE TABLE tasks(id TEXT);"),
        ("other.db", "CREATE TABLE assignments(id TEXT);"),
    ] {
        let path = folder.path().join(name);
        let other = Connection::open(&path).unwrap();
        other.execute_batch(made_with).unwrap();
        assert!(
            matches!(problem(&path, 3), FileProblem::Foreign(_)),
            "{name}"
        );
        let tables: i64 = other
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .unwrap();
        assert_eq!(tables, 1, "{name}");
        let version: i64 = other
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .unwrap();
        assert_eq!(version, 0, "{name}");
    }
    let text = folder.path().join("notes.txt");
    fs::write(
        &text,
        "not a database, but long enough to look like one. ".repeat(9),
    )
    .unwrap();
    assert!(matches!(problem(&text, 3), FileProblem::Malformed(_)));
    assert!(
        fs::read_to_string(&text)
            .unwrap()
            .starts_with("not a database")
    );
    let nowhere = folder.path().join("missing/assignments.db");
    assert!(matches!(problem(&nowhere, 3), FileProblem::CannotOpen(_)));
}

#[test]
fn a_migration_that_fails_leaves_the_old_version_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("assignments.db");
    let reference = Connection::open(&path).unwrap();
    reference.execute_batch(REFERENCE_TABLES).unwrap();
    // The last step of the first migration meets a name that is taken.
    reference
        .execute_batch("CREATE VIEW pool AS SELECT 1")
        .unwrap();
    assert!(matches!(problem(&path, 3), FileProblem::Other(_)));
    let made: i64 = reference
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE name IN ('claims','intents')",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(made, 0);
    reference.execute_batch("DROP VIEW pool").unwrap();
    Store::open(&path, 10).unwrap();
}
