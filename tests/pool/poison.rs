//! Poisoned data: every column of the store and of the board, with everything in it that SQLite lets stand there.
//!
//! The columns are asked of the files themselves, so a new one is covered by itself. All the poison is there at once when
//! the pool starts, and healthy siblings of it are served all the same.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hermes_pool::board::{Board, BoardError, Ending};
use hermes_pool::domain::{BoardSlug, ClaimLock, Lane, RunRef, TaskId};
use hermes_pool::protocol::Json;
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use crate::support::{LANE, PATIENCE, Running, Stage};

/// The tables of a board that the adapter reads.
const BOARD_TABLES: [&str; 6] = [
    "tasks",
    "task_runs",
    "task_events",
    "task_comments",
    "task_links",
    "task_attachments",
];

/// What may stand in a column, whatever its declaration says.
fn poison() -> Vec<(&'static str, Value)> {
    vec![
        ("NULL", Value::Null),
        ("empty", Value::Text(String::new())),
        ("text", Value::Text("poison".into())),
        ("date", Value::Text("2026-11-29T12:00:00Z".into())),
        ("no JSON", Value::Text("{\"a\":".into())),
        ("largest integer", Value::Integer(i64::MAX)),
        ("smallest integer", Value::Integer(i64::MIN)),
        ("infinity", Value::Real(f64::INFINITY)),
        ("fraction", Value::Real(0.5)),
        ("blob", Value::Blob(vec![0xff, 0x00, 0xfe])),
        ("long text", Value::Text("x".repeat(100_000))),
    ]
}

/// The columns of a table, as the file itself names them.
fn columns(sql: &Connection, table: &str) -> Vec<String> {
    let mut query = sql
        .prepare("SELECT name FROM pragma_table_info(?1)")
        .unwrap();
    let names = query.query_map([table], |row| row.get(0)).unwrap();
    names.map(Result::unwrap).collect()
}

/// Puts a value into the column of one row; `false` where SQLite itself refuses it, so that it can never stand there.
fn put(sql: &Connection, table: &str, column: &str, rowid: i64, value: &Value) -> bool {
    let statement = format!("UPDATE {table} SET {column}=?1 WHERE rowid=?2");
    sql.execute(&statement, params![value, rowid]).is_ok()
}

/// Text that is no UTF-8; a parameter cannot carry it.
fn put_broken_text(sql: &Connection, table: &str, column: &str, rowid: i64) -> bool {
    let statement = format!("UPDATE {table} SET {column}=CAST(x'80ff' AS TEXT) WHERE rowid=?1");
    sql.execute(&statement, [rowid]).is_ok()
}

/// Polls and completes until the given tasks are done.
async fn serve(pool: &mut Running<'_>, healthy: &[(BoardSlug, TaskId)]) {
    let worker = pool.worker(0);
    let patience = Instant::now() + 6 * PATIENCE;
    let mut open: Vec<_> = healthy.to_vec();
    while !open.is_empty() {
        assert!(Instant::now() < patience, "not served: {open:?}");
        match worker.try_poll().await {
            Ok(Some(job)) => {
                let _ = worker.try_submit(&job, r#"{"outcome":"completed"}"#).await;
                open.retain(|(board, task)| {
                    job.binding.board != board.as_str() || job.binding.task_id != task.as_str()
                });
            }
            _ => pool.a_moment(1.0).await,
        }
    }
}

/// The row of a task, a run or anything else that belongs to a task.
fn rowid(sql: &Connection, table: &str, task: &TaskId) -> i64 {
    let of_task = match table {
        "tasks" => "id=?1",
        "task_links" => "child_id=?1",
        _ => "task_id=?1",
    };
    let query = format!("SELECT rowid FROM {table} WHERE {of_task}");
    sql.query_row(&query, [task.as_str()], |row| row.get(0))
        .unwrap()
}

/// Gives a task a row in every table.
fn surround(sql: &Connection, task: &TaskId, parent: &TaskId, now: i64) {
    let id = task.as_str();
    sql.execute(
        "INSERT INTO task_runs(task_id,profile,status,outcome,started_at,ended_at) VALUES(?1,'codex-cli','failed','crashed',?2,?2)",
        params![id, now - 9000],
    )
    .unwrap();
    sql.execute(
        "INSERT INTO task_comments(task_id,author,body,created_at) VALUES(?1,'a person','a comment',?2)",
        params![id, now],
    )
    .unwrap();
    sql.execute(
        "INSERT INTO task_events(task_id,kind,payload,created_at) VALUES(?1,'created','{}',?2)",
        params![id, now],
    )
    .unwrap();
    sql.execute(
        "INSERT INTO task_attachments(task_id,filename,stored_path,created_at) VALUES(?1,'f','/f',?2)",
        params![id, now],
    )
    .unwrap();
    sql.execute(
        "INSERT INTO task_links(parent_id,child_id) VALUES(?1,?2)",
        params![parent.as_str(), id],
    )
    .unwrap();
}

/// A board with one task for each value in one column, and a healthy one behind them.
struct PoisonedColumn {
    board: BoardSlug,
    healthy: TaskId,
    victims: Vec<TaskId>,
}

/// One board for each column that the adapter reads.
fn poisoned_columns(stage: &Stage) -> Vec<PoisonedColumn> {
    let pattern = stage.board("pattern");
    let mut boards = Vec::new();
    for (number, table) in BOARD_TABLES.into_iter().enumerate() {
        for (position, column) in columns(&stage.sql(&pattern), table).iter().enumerate() {
            let board = stage.board(&format!("b{number}-{position}"));
            boards.push(poisoned_column(stage, board, table, column));
        }
    }
    boards
}

fn poisoned_column(stage: &Stage, board: BoardSlug, table: &str, column: &str) -> PoisonedColumn {
    let parent = stage.task(&board, "parent");
    let sql = stage.sql(&board);
    sql.execute(
        "UPDATE tasks SET status='done' WHERE id=?1",
        [parent.as_str()],
    )
    .unwrap();
    let healthy = stage.task(&board, "healthy");
    sql.execute_batch(
        "PRAGMA ignore_check_constraints=ON; PRAGMA foreign_keys=OFF; PRAGMA synchronous=OFF; BEGIN",
    )
    .unwrap();
    let mut victims = Vec::new();
    let mut victim = |name: &str| {
        let task = TaskId::parse(&format!("t_{:08x}", victims.len())).unwrap();
        sql.execute(
            "INSERT INTO tasks(id,title,assignee,status,created_at) VALUES(?1,?2,?3,'ready',?4)",
            params![task.as_str(), name, LANE, stage.now() - 60],
        )
        .unwrap();
        surround(&sql, &task, &parent, stage.now());
        let row = rowid(&sql, table, &task);
        victims.push(task);
        row
    };
    for (name, value) in poison() {
        // With the last number given out SQLite gives no further one: then the table, not a row, is at its end.
        if column == "id" && value == Value::Integer(i64::MAX) {
            continue;
        }
        put(&sql, table, column, victim(name), &value);
    }
    put_broken_text(&sql, table, column, victim("broken text"));
    // A row that belongs to nobody.
    surround(&sql, &TaskId::parse("t_nobody").unwrap(), &parent, 0);
    sql.execute_batch("COMMIT").unwrap();
    PoisonedColumn {
        healthy,
        board,
        victims,
    }
}

#[actix::test]
async fn a_pool_starts_on_boards_with_every_value_in_every_column_and_serves_the_tasks_beside_it() {
    let mut stage = Stage::new(1);
    // With as many boards as columns, what goes round by itself is kept rare.
    stage.settings.poll = Duration::from_secs(3600);
    stage.settings.interval_seconds = 600.0;
    let columns = poisoned_columns(&stage);
    assert!(columns.len() > 70, "{} columns", columns.len());
    let mut healthy = Vec::new();
    for column in &columns {
        // First in line, so that the test ends soon; each look still reads the rows behind it.
        stage
            .sql(&column.board)
            .execute(
                "UPDATE tasks SET priority=1 WHERE id=?1",
                [column.healthy.as_str()],
            )
            .unwrap();
        healthy.push((column.board.clone(), column.healthy.clone()));
    }
    let mut pool = stage.start().await;
    serve(&mut pool, &healthy).await;
    let snapshot = pool.snapshot().await;
    assert!(snapshot.pool.ready);
    for board in &snapshot.boards {
        assert_eq!(
            (board.state.as_str(), board.restarts),
            ("ok", 0),
            "{board:?}"
        );
    }
}

#[test]
fn no_value_in_any_column_of_a_board_hides_a_task_or_breaks_more_than_its_own() {
    let stage = Stage::new(1);
    let lanes = [Lane::parse(LANE).unwrap()];
    for column in poisoned_columns(&stage) {
        let at = &column.board;
        let mut board = stage.boards.open(at).unwrap();
        let waiting: i64 = stage
            .sql(at)
            .query_row(
                "SELECT count(*) FROM tasks WHERE status='ready' AND assignee=?1",
                [LANE],
                |row| row.get(0),
            )
            .unwrap();
        let listing = board.ready(&lanes, 64, stage.now()).unwrap();
        assert!(
            (listing.ready.len() + listing.refused.len()) as i64 >= waiting,
            "{at}: each waiting task is claimable or left alone for a reason: {listing:?}"
        );
        for task in column.victims.iter().chain([&column.healthy]) {
            let lock = ClaimLock::recorded(&format!("pool/test:{task}"));
            let claimed = board.claim(task, &lock, 900, stage.now());
            match own_fault(at, task, claimed).flatten() {
                None => assert_ne!(task, &column.healthy, "{at}"),
                Some(claim) => {
                    let run = RunRef {
                        task: task.clone(),
                        run: claim.run,
                    };
                    own_fault(at, task, board.brief(task, stage.now()));
                    own_fault(at, task, board.heartbeat(&run, None, stage.now()));
                    let ending = Ending::Complete {
                        summary: None,
                        result: None,
                        metadata: Json::object::<&str>([]),
                    };
                    let ended = board.end(&run, &lock, &ending, stage.now());
                    let ended = own_fault(at, task, ended).flatten();
                    let fate = board.fate(&run, Some(&lock), None, stage.now());
                    own_fault(at, task, fate);
                    assert!(ended.is_some() || task != &column.healthy, "{at}");
                }
            }
        }
        assert_eq!(stage.status(at, &column.healthy), "done", "{at}");
    }
}

/// What a visit gave, if anything; an error may only be the task's own.
fn own_fault<T>(board: &BoardSlug, task: &TaskId, answer: Result<T, BoardError>) -> Option<T> {
    match answer {
        Ok(answer) => Some(answer),
        Err(BoardError::Refused(_) | BoardError::BadRow { .. }) => None,
        Err(other) => panic!("{board}/{task} breaks its board: {other}"),
    }
}

/// Gives the store a row of a run that nobody ever claimed for each value that may stand in each column; tells how many.
fn poison_rows(sql: &Connection, table: &str, columns: &[String], now: i64) -> i64 {
    let mut number = 0;
    for column in columns {
        for (_, value) in poison() {
            number += 1;
            let task = format!("t_{number:08x}");
            sql.execute(
                "INSERT INTO assignments(board,task_id,run_id,worker_ordinal,attempt,assignment_digest,payload_json,state,created_at,updated_at)
                 VALUES('lab',?1,'1',1,1,'d','{}','lease_failed',?2,?2)",
                params![task, now],
            )
            .unwrap();
            sql.execute(
                "INSERT INTO claims(board,task_id,run_id,cause,created_at) VALUES('lab',?1,'1','exhausted',0)",
                [&task],
            )
            .unwrap();
            // What SQLite itself refuses can never stand there; the row stays as it is then.
            let statement = format!("UPDATE {table} SET {column}=?1 WHERE task_id=?2");
            let _ = sql.execute(&statement, params![value, task]);
        }
    }
    number
}

#[actix::test]
async fn no_value_in_any_column_of_the_store_keeps_the_rows_beside_it_from_being_served() {
    for table in ["assignments", "claims"] {
        let stage = Stage::new(2);
        let board = stage.board("lab");
        let pool = stage.start().await;
        pool.stop().await;
        let path = stage.settings.state_dir.join("assignments.db");
        let sql = Connection::open(path).unwrap();
        sql.execute_batch("PRAGMA ignore_check_constraints=ON")
            .unwrap();
        let columns = columns(&sql, table);
        let rows = poison_rows(&sql, table, &columns, stage.now());
        let healthy = [(board.clone(), stage.task(&board, "healthy"))];
        let mut pool = stage.start().await;
        serve(&mut pool, &healthy).await;
        let report = pool.pass(&board).await;
        let snapshot = pool.snapshot().await;
        assert!(snapshot.pool.ready);
        assert_eq!(snapshot.boards[0].restarts, 0);
        // No row was repaired or dropped, and each is in the ledger: it cannot be understood, names no board, or names a
        // run that its board never issued.
        let unsettled = "SELECT count(*) FROM assignments WHERE state NOT IN ('finalized','stale')";
        let unsettled: i64 = sql.query_row(unsettled, [], |row| row.get(0)).unwrap();
        assert_eq!(
            unsettled, rows,
            "the healthy run is over, the poisoned ones are not"
        );
        let scopes: BTreeSet<_> = snapshot
            .deferrals
            .iter()
            .filter(|entry| entry.scope.matches('/').count() >= 2)
            .map(|entry| entry.scope.as_str())
            .collect();
        assert_eq!(scopes.len() as i64, unsettled, "{table}: {scopes:#?}");
        assert!(
            snapshot.deferrals.iter().all(|entry| !entry.why.is_empty()),
            "{table}: {report:?}"
        );
    }
}
