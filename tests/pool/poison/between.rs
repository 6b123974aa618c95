//! Poison that comes onto a board in the middle of a run: into the rows of a task that the pool holds. What cannot be
//! understood ends no run.

use std::collections::BTreeSet;

use hermes_pool::domain::{BoardSlug, TaskId};
use rusqlite::Connection;

use super::values::{VALUES, columns, is_no_text, put, unrestrain};
use crate::support::{Job, Running, Stage, Worker};

const RESULT: &str = r#"{"outcome":"completed"}"#;

/// One board for each column of a table; on each, one task of every slot.
struct Column {
    board: BoardSlug,
    name: String,
    held: Vec<Held>,
    neighbour: Held,
}

struct Held {
    task: TaskId,
    worker: Worker,
    job: Job,
}

/// A pool of one slot for each value in each column of a table, and one beside them on each board; all of them at work.
async fn at_work<'a>(stage: &'a Stage, names: Vec<String>) -> (Running<'a>, Vec<Column>) {
    let mut boards = Vec::new();
    for (number, name) in names.into_iter().enumerate() {
        let board = stage.board(&format!("b{number}"));
        for _ in 0..=VALUES.len() {
            stage.task(&board, "a task");
        }
        boards.push((board, name));
    }
    let mut pool = stage.start().await;
    let mut jobs: Vec<Held> = Vec::new();
    for ordinal in 0..stage.settings.slots {
        let (worker, job) = pool.first_job(ordinal).await;
        let task = TaskId::parse(&job.binding.task_id).unwrap();
        jobs.push(Held { task, worker, job });
    }
    let mut all = Vec::new();
    for (board, name) in boards {
        let is_here = |held: &mut Held| held.job.binding.board == board.as_str();
        let mut held: Vec<Held> = jobs.extract_if(.., is_here).collect();
        let neighbour = held.pop().unwrap();
        all.push(Column {
            board,
            name,
            held,
            neighbour,
        });
    }
    (pool, all)
}

/// The row of a held task.
fn row(sql: &Connection, table: &str, task: &TaskId) -> i64 {
    let of_task = match table {
        "tasks" => "id",
        _ => "task_id",
    };
    let kind = if table == "task_events" {
        " AND kind='claimed'"
    } else {
        ""
    };
    let query = format!("SELECT rowid FROM {table} WHERE {of_task}=?1{kind}");
    sql.query_row(&query, [task.as_str()], |row| row.get(0))
        .unwrap()
}

async fn poisoned_between_claim_and_settle(table: &'static str) {
    let mut stage = Stage::new(3);
    let names: Vec<String> = columns(&stage.sql(&stage.board("pattern")), table)
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let slots = names.len() * (VALUES.len() + 1);
    stage.settings.slots = u16::try_from(slots).unwrap();
    stage.settings.poll = std::time::Duration::from_secs(3600);
    stage.settings.interval_seconds = 30.0;
    let (mut pool, all) = at_work(&stage, names).await;
    let mut poisoned = Vec::new();
    for column in &all {
        let sql = stage.sql(&column.board);
        unrestrain(&sql);
        sql.execute_batch("BEGIN IMMEDIATE").unwrap();
        for (held, (name, value)) in column.held.iter().zip(VALUES) {
            let row = row(&sql, table, &held.task);
            // With the last number given out SQLite gives no further one: then the table, not a row, is at its end.
            let is_the_end = column.name == "id" && table != "tasks" && name == "largest integer";
            if !is_the_end && put(&sql, table, &column.name, &format!("rowid={row}"), value) {
                poisoned.push((column, held, name));
            }
        }
        sql.execute_batch("COMMIT").unwrap();
        let neighbour = &column.neighbour;
        assert_eq!(
            neighbour.worker.submit(&neighbour.job, RESULT).await.code(),
            "ok"
        );
    }
    // A pass while the workers are at it, then their results, then the passes until a board that seems another is believed.
    for column in &all {
        pool.pass(&column.board).await;
        let done = stage.status(&column.board, &column.neighbour.task);
        assert_eq!(done, "done", "{table}.{}", column.name);
    }
    for (column, held, name) in &poisoned {
        let code = held.worker.submit(&held.job, RESULT).await;
        let is_clear = ["ok", "run_superseded"].contains(&code.code());
        assert!(is_clear, "{table}.{} {name}: {code:?}", column.name);
    }
    for _ in 0..4 {
        for column in &all {
            pool.pass(&column.board).await;
        }
        pool.a_moment(31.0).await;
    }
    assert_ended_or_told(&stage, &mut pool, table, &poisoned).await;
}

/// Each run is over, on evidence, or put off once with a cause; no slot is held, no board suffers.
async fn assert_ended_or_told(
    stage: &Stage,
    pool: &mut Running<'_>,
    table: &str,
    poisoned: &[(&Column, &Held, &str)],
) {
    let store = super::values::store(stage);
    let entries = pool.pool.ledger().entries();
    for (column, held, name) in poisoned {
        let what = format!("{table}.{} {name}", column.name);
        let task = held.task.as_str();
        let state: String = store
            .query_row(
                "SELECT state FROM assignments WHERE task_id=?1 AND board=?2",
                [task, column.board.as_str()],
                |row| row.get(0),
            )
            .unwrap();
        let of_run = entries
            .iter()
            .filter(|(item, _)| item.scope.to_string() == held_scope(held));
        let whys: BTreeSet<&str> = of_run.map(|(_, entry)| entry.why.as_str()).collect();
        let told = whys.len();
        if is_no_evidence(table, &column.name, name) {
            assert_eq!(state, "lease_failed", "{what}");
            let cell = format!("{table}.{}", column.name);
            assert!(
                whys.iter().all(|why| why.contains(&cell)),
                "{what}: {whys:?}"
            );
        }
        match state.as_str() {
            "finalized" | "stale" => assert_eq!(told, 0, "{what}"),
            "lease_failed" => assert_eq!(told, 1, "{what}: {entries:#?}"),
            other => panic!("{what}: its slot is still held: {other}"),
        }
        let polled = held.worker.try_poll().await;
        assert!(polled.is_ok(), "{what}: {polled:?}");
    }
    for board in &pool.snapshot().await.boards {
        assert_eq!(
            (board.state.as_str(), board.restarts),
            ("ok", 0),
            "{board:?}"
        );
    }
}

/// Whether the fate of a held run rests on this value, and Hermes never writes it there.
fn is_no_evidence(table: &str, column: &str, name: &str) -> bool {
    match (table, column) {
        ("tasks", "status" | "current_run_id") => true,
        ("tasks", "claim_lock") => name == "NULL" || name == "empty" || is_no_text(name),
        ("task_runs", "task_id") => name == "empty" || is_no_text(name),
        ("task_runs", "ended_at") => name != "NULL",
        _ => false,
    }
}

fn held_scope(held: &Held) -> String {
    let binding = &held.job.binding;
    format!("{}/{}/{}", binding.board, binding.task_id, binding.run_id)
}

#[actix::test]
async fn a_task_that_is_poisoned_while_it_is_held_ends_by_itself_alone() {
    poisoned_between_claim_and_settle("tasks").await;
}

#[actix::test]
async fn a_run_that_is_poisoned_while_it_is_held_ends_by_itself_alone() {
    poisoned_between_claim_and_settle("task_runs").await;
}

#[actix::test]
async fn a_claim_whose_record_is_poisoned_while_it_is_held_ends_by_itself_alone() {
    poisoned_between_claim_and_settle("task_events").await;
}

#[actix::test]
async fn a_run_of_which_a_row_cannot_be_understood_is_kept_until_the_row_is_mended() {
    for (table, column, value, is_extended) in [
        ("tasks", "current_run_id", "1e308", true),
        ("tasks", "current_run_id", "NULL", true),
        ("task_runs", "ended_at", "'text'", true),
        ("task_runs", "ended_at", "1800000000", true),
        ("tasks", "status", "x'fffe00'", false),
        ("tasks", "claim_lock", "CAST(x'80ff' AS TEXT)", false),
    ] {
        let what = format!("{table}.{column}={value}");
        let mut stage = Stage::new(1);
        stage.settings.poll = std::time::Duration::from_secs(3600);
        let board = stage.board("a");
        let task = stage.task(&board, "a task");
        let mut pool = stage.start().await;
        let (worker, job) = pool.first_job(0).await;
        pool.pass(&board).await;
        let sql = stage.sql(&board);
        unrestrain(&sql);
        let which = format!("rowid={}", row(&sql, table, &task));
        let quoted = format!("SELECT quote({column}) FROM {table} WHERE {which}");
        let sound: String = sql.query_row(&quoted, [], |row| row.get(0)).unwrap();
        assert!(put(&sql, table, column, &which, value), "{what}");

        // Where the board still takes the extension, it goes on for longer than an unextended claim is sure to stand.
        let rounds = if is_extended { 40 } else { 4 };
        for _ in 0..rounds {
            pool.pass(&board).await;
            assert_eq!(worker.heartbeat(&job).await.code(), "ok", "{what}");
            pool.advance(25.0);
        }
        let entries = pool.pool.ledger().entries();
        let cell = format!("{table}.{column}");
        assert!(
            !entries.is_empty() && entries.iter().all(|(_, entry)| entry.why.contains(&cell)),
            "{what}: {entries:?}"
        );
        assert!(put(&sql, table, column, &which, &sound), "{what}");
        pool.pass(&board).await;
        assert_eq!(worker.submit(&job, RESULT).await.code(), "ok", "{what}");
        pool.pass(&board).await;
        assert_eq!(stage.status(&board, &task), "done", "{what}");
        assert!(pool.pool.ledger().is_empty(), "{what}");
    }
}
