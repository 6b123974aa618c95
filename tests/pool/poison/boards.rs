//! Poison that stands on the boards when the pool starts.

use std::time::Duration;

use hermes_pool::actors::Scope;
use hermes_pool::board::{Board, BoardError, Ending};
use hermes_pool::domain::{BoardSlug, ClaimLock, Lane, RunRef, TaskId};
use hermes_pool::protocol::Json;
use rusqlite::{Connection, params};

use super::values::{VALUES, cells, columns, put, serve, unrestrain};
use crate::support::{LANE, Running, Stage};

/// The tables of a board that the adapter reads.
const BOARD_TABLES: [&str; 6] = [
    "tasks",
    "task_runs",
    "task_events",
    "task_comments",
    "task_links",
    "task_attachments",
];

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
    table: &'static str,
    column: String,
    board: BoardSlug,
    healthy: TaskId,
    victims: Vec<TaskId>,
    /// What stands in the column of the poisoned rows, by the row's number.
    poison: Vec<(i64, Vec<String>)>,
}

impl PoisonedColumn {
    /// What stands in the column of a poisoned row.
    fn cell(&self, sql: &Connection, row: i64) -> Vec<String> {
        cells(sql, self.table, &self.column, &format!("rowid={row}"))
    }
}

/// One board for each column that the adapter reads.
fn poisoned_columns(stage: &Stage) -> Vec<PoisonedColumn> {
    let pattern = stage.board("pattern");
    let mut boards = Vec::new();
    for (number, table) in BOARD_TABLES.into_iter().enumerate() {
        let columns = columns(&stage.sql(&pattern), table);
        for (position, (column, _)) in columns.into_iter().enumerate() {
            let board = stage.board(&format!("b{number}-{position}"));
            boards.push(poisoned_column(stage, board, table, column));
        }
    }
    boards
}

fn poisoned_column(
    stage: &Stage,
    board: BoardSlug,
    table: &'static str,
    column: String,
) -> PoisonedColumn {
    let parent = stage.task(&board, "parent");
    let sql = stage.sql(&board);
    sql.execute(
        "UPDATE tasks SET status='done' WHERE id=?1",
        [parent.as_str()],
    )
    .unwrap();
    let healthy = stage.task(&board, "healthy");
    unrestrain(&sql);
    sql.execute_batch("BEGIN").unwrap();
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
    let mut poisoned = Vec::new();
    for (name, value) in VALUES {
        // With the last number given out SQLite gives no further one: then the table, not a row, is at its end.
        if column == "id" && name == "largest integer" {
            continue;
        }
        let row = victim(name);
        if put(&sql, table, &column, &format!("rowid={row}"), value) {
            poisoned.push(row);
        }
    }
    // A row that belongs to nobody.
    surround(&sql, &TaskId::parse("t_nobody").unwrap(), &parent, 0);
    sql.execute_batch("COMMIT").unwrap();
    let mut poisoned_column = PoisonedColumn {
        table,
        column,
        healthy,
        board,
        victims,
        poison: Vec::new(),
    };
    for row in poisoned {
        let cell = poisoned_column.cell(&sql, row);
        poisoned_column.poison.push((row, cell));
    }
    poisoned_column
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
    serve(&mut pool, 0, &healthy).await;
    let snapshot = pool.snapshot().await;
    assert!(snapshot.pool.ready);
    for board in &snapshot.boards {
        assert_eq!(
            (board.state.as_str(), board.restarts),
            ("ok", 0),
            "{board:?}"
        );
    }
    for column in &columns {
        assert_kept_and_told(&stage, &pool, column);
    }
}

/// Whatever is not left alone because of it is claimed like any other task; so what still waits here is in the ledger,
/// each task once, and stands as it did.
fn assert_kept_and_told(stage: &Stage, pool: &Running<'_>, column: &PoisonedColumn) {
    let (sql, at) = (stage.sql(&column.board), &column.board);
    let mut board = stage.boards.open(at).unwrap();
    let lanes = [Lane::parse(LANE).unwrap()];
    let listing = board.ready(&lanes, 1000, stage.now()).unwrap();
    let entries = pool.pool.ledger().entries();
    for refusal in &listing.refused {
        let scope = Scope::below(at, &refusal.task);
        let told = entries.iter().filter(|(item, _)| item.scope == scope);
        assert_eq!(told.count(), 1, "{at} {} {refusal:?}", column.column);
    }
    let mut names: Vec<_> = listing
        .refused
        .iter()
        .map(|refusal| &refusal.task)
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(
        names.len(),
        listing.refused.len(),
        "{at}: each by its own name"
    );
    for (row, cell) in &column.poison {
        let is_untouched = "SELECT count(*) FROM tasks t LEFT JOIN task_runs r ON r.task_id=t.id AND r.claim_lock LIKE 'pool/%' \
             WHERE t.rowid=?1 AND t.status='ready' AND r.id IS NULL";
        let waits = column.table != "tasks"
            || sql
                .query_row(is_untouched, [row], |found| found.get::<_, i64>(0))
                .unwrap()
                == 1;
        if waits {
            assert_eq!(
                &column.cell(&sql, *row),
                cell,
                "{at} {}/{row}",
                column.column
            );
        }
    }
    // Nothing was written for a task that is not there.
    let nobody: i64 = sql
        .query_row(
            "SELECT count(*) FROM task_events WHERE kind IN ('promoted','claimed','completed') AND task_id NOT IN (SELECT id FROM tasks WHERE id IS NOT NULL)",
            [],
            |found| found.get(0),
        )
        .unwrap();
    assert_eq!(nobody, 0, "{at} {}", column.column);
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
