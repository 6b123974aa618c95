//! The board is the file that was opened, or nothing is written; and no file is made or changed in passing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use hermes_pool::board::hermes::HermesBoards;
use hermes_pool::board::mark;
use hermes_pool::board::{Board, BoardError, Ending};
use hermes_pool::domain::{BoardSlug, Fate};
use hermes_pool::protocol::{Json, Object};

use super::answers;
use super::stage::{self, NOW, Stage, TTL, lab, lanes, lock};

fn completion() -> Ending {
    Ending::Complete {
        summary: Some("done".to_owned()),
        result: None,
        metadata: Json::Object(mark::put(Object::new(), "a-1", "ffffffff")),
    }
}

#[test]
fn nothing_is_written_to_a_board_that_was_archived() {
    let stage = Stage::new();
    let mut board = stage.open();
    let task = stage::add(&mut board, "a");
    let claim = board.claim(&task, &lock("1"), TTL, NOW).unwrap().unwrap();
    let run = stage::run_ref(&task, &claim.run);
    let folder = stage.database.parent().unwrap().to_owned();
    let archive = folder.parent().unwrap().join("_archived/lab-1");
    fs::create_dir_all(archive.parent().unwrap()).unwrap();
    fs::rename(&folder, &archive).unwrap();

    for outcome in [
        board.end(&run, &lock("1"), &completion(), NOW).map(|_| ()),
        board.extend(&task, &lock("1"), TTL, NOW).map(|_| ()),
        board.heartbeat(&run, None, NOW).map(|_| ()),
        board.claim(&task, &lock("2"), TTL, NOW).map(|_| ()),
        board.fate(&run, Some(&lock("1")), None, NOW).map(|_| ()),
        board.ready(&lanes(), 9, NOW).map(|_| ()),
        board.changed().map(|_| ()),
    ] {
        assert!(matches!(outcome, Err(BoardError::Gone(_))), "{outcome:?}");
    }
    drop(board);
    assert!(!folder.exists(), "the folder must not come back");
    let moved = Stage {
        database: archive.join("kanban.db"),
        ..stage
    };
    let open_runs = "SELECT COUNT(*) FROM task_runs WHERE ended_at IS NULL";
    assert_eq!(moved.number(open_runs), 1);
    assert_eq!(moved.number("SELECT COUNT(*) FROM task_events"), 2);
}

#[test]
fn nothing_is_written_to_a_board_that_was_replaced() {
    let stage = Stage::new();
    let mut board = stage.open();
    let task = stage::add(&mut board, "a");
    let claim = board.claim(&task, &lock("1"), TTL, NOW).unwrap().unwrap();
    let run = stage::run_ref(&task, &claim.run);
    let anchor = board.anchor().unwrap();
    let folder = stage.database.parent().unwrap();
    // Moved away rather than deleted: the old file keeps its inode, so the new one cannot get it.
    fs::rename(folder, folder.with_extension("old")).unwrap();
    stage
        .boards
        .create(&lab(), &Default::default(), NOW)
        .unwrap();

    let outcome = board.end(&run, &lock("1"), &completion(), NOW);
    assert!(matches!(outcome, Err(BoardError::Replaced)), "{outcome:?}");
    let mut reopened = stage.open();
    let fate = reopened
        .fate(&run, Some(&lock("1")), Some(&anchor), NOW)
        .unwrap();
    assert!(matches!(fate, Fate::BoardReplaced { .. }), "{fate:?}");
    assert_eq!(stage.number("SELECT COUNT(*) FROM task_events"), 0);
}

#[test]
fn a_missing_board_is_gone_and_is_not_made() {
    let home = tempfile::tempdir().unwrap();
    let boards = HermesBoards::new(home.path().to_owned(), answers::settings());
    for slug in ["default", "lab"] {
        let outcome = boards.open(&BoardSlug::parse(slug).unwrap());
        assert!(matches!(outcome, Err(BoardError::Gone(_))));
    }
    assert_eq!(boards.serving().unwrap(), []);
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_is_no_board_is_unreadable() {
    let stage = Stage::new();
    for name in ["kanban.db-wal", "kanban.db-shm"] {
        let _ = fs::remove_file(stage.database.with_file_name(name));
    }
    fs::write(
        &stage.database,
        "this is a text and no database\n".repeat(200),
    )
    .unwrap();
    let outcome = stage.boards.open(&lab());
    assert!(matches!(outcome, Err(BoardError::Unreadable(_))));
}

#[test]
fn an_empty_file_is_a_board_without_tasks_that_is_left_empty() {
    let stage = Stage::new();
    for name in ["kanban.db-wal", "kanban.db-shm"] {
        let _ = fs::remove_file(stage.database.with_file_name(name));
    }
    fs::write(&stage.database, "").unwrap();
    let mut board = stage.open();
    assert_eq!(board.ready(&lanes(), 9, NOW).unwrap(), Default::default());
    let outcome = board.create_task(&stage::task("a"), NOW);
    assert!(
        matches!(outcome, Err(BoardError::ReadOnly(_))),
        "{outcome:?}"
    );
    drop(board);
    assert_eq!(fs::metadata(&stage.database).unwrap().len(), 0);
}

#[test]
fn a_board_that_hermes_initialises_later_is_noticed_without_opening_it_again() {
    let stage = Stage::new();
    let schema = "DROP TABLE task_links";
    stage.sql(schema);
    let mut board = stage.open();
    assert!(board.ready(&lanes(), 9, NOW).unwrap().ready.is_empty());
    stage.sql("CREATE TABLE task_links (parent_id TEXT NOT NULL, child_id TEXT NOT NULL, PRIMARY KEY (parent_id, child_id))");
    let task = stage::add(&mut board, "a");
    assert_eq!(board.ready(&lanes(), 9, NOW).unwrap().ready[0].task, task);
}

#[test]
fn the_journal_mode_is_left_as_it_is() {
    for mode in ["delete", "wal"] {
        let stage = Stage::new();
        stage.sql(&format!("PRAGMA journal_mode = {mode}"));
        let mut board = stage.open();
        let task = stage::add(&mut board, "a");
        let claim = board.claim(&task, &lock("1"), TTL, NOW).unwrap().unwrap();
        let run = stage::run_ref(&task, &claim.run);
        assert!(
            board
                .end(&run, &lock("1"), &completion(), NOW)
                .unwrap()
                .is_some()
        );
        drop(board);
        // Bytes 18 and 19 of the header: 1 for a rollback journal, 2 for a write-ahead log.
        let header = fs::read(&stage.database).unwrap();
        let expected = if mode == "wal" { 2 } else { 1 };
        assert_eq!(&header[18..20], [expected, expected], "{mode}");
    }
}

#[test]
fn closing_the_last_connection_leaves_the_log_alone() {
    let stage = Stage::new();
    let mut board = stage.open();
    stage::add(&mut board, "a");
    let log = stage.database.with_file_name("kanban.db-wal");
    let length = fs::metadata(&log).unwrap().len();
    drop(board);
    assert!(length > 0);
    assert_eq!(fs::metadata(&log).unwrap().len(), length);
}

#[test]
fn a_log_that_nobody_else_checkpoints_does_not_grow_for_ever() {
    let stage = Stage::new();
    let mut board = stage.open();
    let task = stage::add(&mut board, "a");
    board.claim(&task, &lock("1"), TTL, NOW).unwrap().unwrap();
    let body = "x".repeat(20_000);
    for _ in 0..1200 {
        board
            .comment(task.as_str(), "codex-cli", &body, NOW)
            .unwrap();
    }
    let length = fs::metadata(stage.database.with_file_name("kanban.db-wal"))
        .unwrap()
        .len();
    assert!(length < 16 * 1024 * 1024, "{length}");
}

#[test]
fn a_busy_board_delays_and_is_then_unreadable_but_never_says_that_a_claim_is_lost() {
    let stage = Stage::new();
    let mut settings = answers::settings();
    settings.busy_timeout = std::time::Duration::from_millis(1);
    let boards = HermesBoards::new(stage.boards.root().to_owned(), settings);
    let mut board = boards.open(&lab()).unwrap();
    let task = stage::add(&mut board, "a");
    board.claim(&task, &lock("1"), TTL, NOW).unwrap().unwrap();
    let other = rusqlite::Connection::open(&stage.database).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let outcome = board.extend(&task, &lock("1"), TTL, NOW + 60);
    assert!(
        matches!(outcome, Err(BoardError::Unreadable(_))),
        "{outcome:?}"
    );
    other.execute_batch("ROLLBACK").unwrap();
    assert!(board.extend(&task, &lock("1"), TTL, NOW + 60).unwrap());
}

#[test]
fn a_change_by_somebody_else_is_seen_once_and_an_own_one_is_not() {
    let stage = Stage::new();
    let mut board = stage.open();
    assert!(board.changed().unwrap(), "the first look sees everything");
    stage::add(&mut board, "a");
    assert!(!board.changed().unwrap());
    stage.sql("UPDATE tasks SET priority = 1");
    assert!(board.changed().unwrap());
    assert!(!board.changed().unwrap());
}

#[test]
fn a_schema_that_is_not_known_is_only_read() {
    for (change, word) in [
        ("ALTER TABLE task_events ADD COLUMN who TEXT NOT NULL DEFAULT ''", None),
        ("ALTER TABLE tasks ADD COLUMN reasoning_effort TEXT", None),
        (
            "ALTER TABLE tasks DROP COLUMN max_retries",
            Some("max_retries is missing"),
        ),
        (
            "DROP TABLE task_comments; CREATE TABLE task_comments (id INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT,
             author TEXT, body TEXT, created_at INTEGER, mood TEXT NOT NULL)",
            Some("mood must be filled"),
        ),
        (
            "DROP TABLE task_comments; CREATE TABLE task_comments (id TEXT PRIMARY KEY, task_id TEXT, author TEXT,
             body TEXT, created_at INTEGER)",
            Some("no integer"),
        ),
    ] {
        let stage = Stage::new();
        let mut board = stage.open();
        let task = stage::add(&mut board, "a");
        stage.sql(change);
        match word {
            None => assert!(board.claim(&task, &lock("1"), TTL, NOW).unwrap().is_some(), "{change}"),
            Some(word) => {
                let outcome = board.claim(&task, &lock("1"), TTL, NOW).unwrap_err();
                assert!(matches!(outcome, BoardError::ReadOnly(_)), "{outcome:?}");
                assert!(outcome.to_string().contains(word), "{outcome}");
                assert_eq!(board.tasks().unwrap().len(), 1, "it can still be looked at");
            }
        }
    }
}

#[test]
fn a_schema_of_later_development_is_claimed_on_only_where_that_was_asked_for() {
    let stage = Stage::new();
    stage.sql("ALTER TABLE tasks ADD COLUMN completion_contract TEXT");
    let mut board = stage.open();
    let task = stage::add(&mut board, "a");
    let listing = board.ready(&lanes(), 9, NOW).unwrap();
    assert!(listing.refused[0].why.contains("completion_contract"));
    assert_eq!(board.claim(&task, &lock("1"), TTL, NOW).unwrap(), None);
    drop(board);

    let mut settings = answers::settings();
    settings.claims_on_unreleased_schema = true;
    let boards = HermesBoards::new(stage.boards.root().to_owned(), settings);
    let mut board = boards.open(&lab()).unwrap();
    assert_eq!(board.ready(&lanes(), 9, NOW).unwrap().ready.len(), 1);
    assert!(board.claim(&task, &lock("1"), TTL, NOW).unwrap().is_some());
}

#[test]
fn only_the_files_of_the_new_board_are_made() {
    let stage = Stage::new();
    let mut board = stage.open();
    stage::add(&mut board, "a");
    let mut files = BTreeSet::new();
    collect(stage.home.path(), stage.home.path(), &mut files);
    let expected = ["board.json", "kanban.db", "kanban.db-shm", "kanban.db-wal"];
    let expected = expected.map(|name| format!("kanban/boards/lab/{name}"));
    assert_eq!(files, BTreeSet::from(expected));
}

fn collect(root: &Path, folder: &Path, files: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            files.insert(path.strip_prefix(root).unwrap().display().to_string());
        }
    }
}
