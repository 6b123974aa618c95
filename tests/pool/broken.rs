//! Broken boards and stores, at the start and in mid-run: each has the outcome that the README names, and stops nothing else.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use hermes_pool::actors::{PoolEvent, Scope};
use hermes_pool::domain::{BoardSlug, FailCause, Terminal};
use rusqlite::Connection;

use crate::support::{Job, PATIENCE, Running, Stage};

const COMPLETED: &str = r#"{"outcome":"completed"}"#;

/// Moves what is in the log into the file itself, and removes the log.
fn settle_file(database: &Path) {
    let sql = Connection::open(database).unwrap();
    sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    drop(sql);
    for left_over in ["kanban.db-wal", "kanban.db-shm"] {
        let _ = std::fs::remove_file(database.with_file_name(left_over));
    }
}

/// Holds everybody out, readers too.
fn lock_out(database: &Path) -> Connection {
    let sql = Connection::open(database).unwrap();
    sql.busy_timeout(PATIENCE).unwrap();
    sql.execute_batch("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; CREATE TABLE held(x); ")
        .unwrap();
    sql
}

/// Polls and completes until `wanted` runs of the board have ended.
async fn complete(pool: &mut Running<'_>, board: &BoardSlug, wanted: usize) {
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
        let is_end = |event: &PoolEvent| {
            matches!(event, PoolEvent::Ended { binding, terminal: Terminal::Finalized, .. }
                if binding.key.board == *board)
        };
        if heard
            .wait_for(Duration::from_millis(20), is_end)
            .await
            .is_ok()
        {
            ended += 1;
        } else {
            pool.advance(0.5);
        }
    }
}

/// What is done to a board's file before the pool starts; the value is kept until it is mended.
type Break = fn(&Path) -> Option<Connection>;

/// How a board is broken, and the state and reason that operators see.
const AT_START: [(&str, Break, &str, &str); 6] = [
    (
        "locked by somebody for longer than anybody waits",
        |database| Some(lock_out(database)),
        "unreadable",
        "locked",
    ),
    (
        "a text file",
        |database| {
            std::fs::write(database, "this is no database, whatever its name says").unwrap();
            None
        },
        "unreadable",
        "not a database",
    ),
    (
        "malformed pages",
        |database| {
            let mut bytes = std::fs::read(database).unwrap();
            bytes[4096..].fill(0xa5);
            std::fs::write(database, bytes).unwrap();
            None
        },
        "unreadable",
        "malformed",
    ),
    (
        "a directory in its place",
        |database| {
            std::fs::remove_file(database).unwrap();
            std::fs::create_dir(database).unwrap();
            None
        },
        "unreadable",
        "unable to open",
    ),
    (
        "a schema that may not be written to",
        |database| {
            let sql = Connection::open(database).unwrap();
            sql.execute_batch("ALTER TABLE tasks RENAME COLUMN claim_lock TO held_by")
                .unwrap();
            drop(sql);
            settle_file(database);
            None
        },
        "read_only",
        "claim_lock",
    ),
    (
        // Hermes makes its tables at its first look; until then there is nothing to claim.
        "zero bytes",
        |database| {
            std::fs::write(database, "").unwrap();
            None
        },
        "ok",
        "",
    ),
];

#[actix::test]
async fn a_board_that_is_broken_at_the_start_is_told_stops_no_other_and_is_served_once_mended() {
    for (name, damage, state, reason) in AT_START {
        let stage = Stage::impatient(1);
        let (broken, sound) = (stage.board("a"), stage.board("b"));
        let kept = stage.task(&broken, "kept");
        let database = stage.database(&broken);
        settle_file(&database);
        let copy = stage.folder.path().join("copy.db");
        std::fs::copy(&database, &copy).unwrap();
        let held = damage(&database);
        stage.task(&sound, "t");

        let mut pool = stage.start().await;
        complete(&mut pool, &sound, 1).await;
        let snapshot = pool.snapshot().await;
        let board = &snapshot.boards[0];
        assert_eq!(board.state.as_str(), state, "{name}: {board:?}");
        let told = board.reason.clone().unwrap_or_default();
        assert!(told.contains(reason), "{name}: {told}");
        let entries = pool.pool.ledger().entries();
        let put_off = entries
            .iter()
            .any(|(item, _)| item.scope.to_string() == "a");
        assert_eq!(put_off, state != "ok", "{name}: {entries:?}");
        assert!(snapshot.pool.ready, "{name}: a sick board is no reason");

        // Somebody puts the board back as it was.
        match held {
            Some(lock) => lock.execute_batch("ROLLBACK").unwrap(),
            None => {
                let _ = std::fs::remove_dir(&database);
                std::fs::rename(&copy, &database).unwrap();
            }
        }
        complete(&mut pool, &broken, 1).await;
        assert_eq!(stage.status(&broken, &kept), "done", "{name}");
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
        pool.hear_after_a_while(|event| {
            matches!(event, PoolEvent::Ended { binding, terminal: Terminal::Finalized, .. }
                if binding.key.board == broken)
        })
        .await;
    }
    for task in &kept {
        assert_eq!(stage.status(&broken, task), "done", "no result is lost");
    }
}

async fn fetch(pool: &mut Running<'_>, ordinal: u16) -> Job {
    let patience = Instant::now() + PATIENCE;
    while Instant::now() < patience {
        if let Some(job) = pool.worker(ordinal).poll().await {
            return job;
        }
        pool.a_moment(0.1).await;
    }
    panic!("no run came");
}

/// Another file comes into the place of a board on which a run is held, and goes again.
#[actix::test]
async fn a_board_whose_file_was_exchanged_in_mid_run_gets_its_result_when_it_is_put_back() {
    for foreign in ["text", "other board", "nothing"] {
        let stage = Stage::impatient(1);
        let (board, other) = (stage.board("a"), stage.board("b"));
        let task = stage.task(&board, "kept");
        let mut pool = stage.start().await;
        let job = fetch(&mut pool, 0).await;
        let folder = stage.database(&board).parent().unwrap().to_owned();
        let aside = stage.folder.path().join("aside");
        std::fs::rename(&folder, &aside).unwrap();
        match foreign {
            "text" => {
                std::fs::create_dir(&folder).unwrap();
                std::fs::write(
                    folder.join("kanban.db"),
                    "no database, but longer than a header".repeat(9),
                )
                .unwrap();
            }
            "other board" => {
                let elsewhere = Stage::impatient(1);
                let made = elsewhere.board("a");
                settle_file(&elsewhere.database(&made));
                std::fs::create_dir(&folder).unwrap();
                std::fs::copy(elsewhere.database(&made), folder.join("kanban.db")).unwrap();
            }
            _ => {}
        }
        let answer = pool.worker(0).submit(&job, COMPLETED).await;
        assert_eq!(answer.code(), "ok", "{foreign}");
        pool.pass(&board).await;
        pool.pass(&board).await;
        let entries = pool.pool.ledger().entries();
        assert!(!entries.is_empty(), "{foreign}: it is put off");
        // The slot is freed for the other board, whatever becomes of this one.
        stage.task(&other, "t");
        pool.advance(11.0);
        complete(&mut pool, &other, 1).await;

        let _ = std::fs::remove_dir_all(&folder);
        std::fs::rename(&aside, &folder).unwrap();
        let mut heard = pool.pool.listen();
        pool.pass(&board).await;
        pool.pass(&board).await;
        let is_end = |event: &PoolEvent| {
            matches!(event, PoolEvent::Ended { binding, terminal: Terminal::Finalized, .. }
                if binding.key.board == board)
        };
        heard.wait_for(PATIENCE, is_end).await.unwrap();
        assert_eq!(stage.status(&board, &task), "done", "{foreign}");
    }
}

#[actix::test]
async fn a_board_that_was_restored_from_an_older_copy_ends_its_run_as_stale_at_the_second_look() {
    let mut stage = Stage::impatient(1);
    stage.settings.poll = Duration::from_secs(3600);
    let board = stage.board("a");
    let task = stage.task(&board, "t");
    let database = stage.database(&board);
    settle_file(&database);
    let copy = stage.folder.path().join("copy.db");
    std::fs::copy(&database, &copy).unwrap();
    let mut pool = stage.start().await;
    let job = fetch(&mut pool, 0).await;
    pool.pass(&board).await;
    let folder = database.parent().unwrap();
    std::fs::rename(folder, stage.folder.path().join("aside")).unwrap();
    std::fs::create_dir(folder).unwrap();
    std::fs::rename(&copy, &database).unwrap();

    for seconds in [60.0, 59.0] {
        pool.advance(seconds);
        // A visit that finds another file opens it, the next one looks at it.
        for _ in 0..2 {
            pool.pass(&board).await;
        }
        assert_eq!(
            pool.worker(0).heartbeat(&job).await.code(),
            "ok",
            "one look is no evidence"
        );
    }
    pool.advance(2.0);
    pool.pass(&board).await;
    let ended = pool
        .hear(|event| matches!(event, PoolEvent::Ended { .. }))
        .await;
    assert!(matches!(
        ended,
        PoolEvent::Ended {
            terminal: Terminal::Stale,
            ..
        }
    ));
    assert_eq!(
        pool.worker(0).heartbeat(&job).await.code(),
        "run_superseded"
    );
    // The older board knows nothing of the run: its task is as it was, and is served again.
    complete(&mut pool, &board, 1).await;
    assert_eq!(stage.status(&board, &task), "done");
}

#[actix::test]
async fn a_linked_board_is_served_and_one_file_under_two_names_is_served_once() {
    for hard in [false, true] {
        let stage = Stage::impatient(1);
        let board = stage.board("a");
        let task = stage.task(&board, "t");
        let database = stage.database(&board);
        settle_file(&database);
        let second = stage.boards.root().join("kanban/boards/z");
        std::fs::create_dir(&second).unwrap();
        if hard {
            std::fs::hard_link(&database, second.join("kanban.db")).unwrap();
        } else {
            symlink(&database, second.join("kanban.db")).unwrap();
        }
        let mut pool = stage.start().await;
        complete(&mut pool, &board, 1).await;
        assert_eq!(stage.status(&board, &task), "done");
        let snapshot = pool.snapshot().await;
        let served: Vec<_> = snapshot.boards.iter().map(|board| &board.slug).collect();
        assert_eq!(served, ["a"], "hard link: {hard}");
    }
    let stage = Stage::impatient(1);
    let board = stage.board("a");
    let task = stage.task(&board, "t");
    let database = stage.database(&board);
    settle_file(&database);
    let elsewhere = stage.folder.path().join("elsewhere.db");
    std::fs::rename(&database, &elsewhere).unwrap();
    symlink(&elsewhere, &database).unwrap();
    let mut pool = stage.start().await;
    complete(&mut pool, &board, 1).await;
    assert_eq!(stage.status(&board, &task), "done");
}

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
