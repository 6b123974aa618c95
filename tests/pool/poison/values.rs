//! What may stand in a column, whatever its declaration says, and how it gets there.

use std::time::Instant;

use hermes_pool::domain::{BoardSlug, TaskId};
use rusqlite::Connection;

use crate::support::{PATIENCE, Running, Stage};

/// Each value by name, as SQL: no parameter can carry a text that is no UTF-8.
pub(super) const VALUES: [(&str, &str); 14] = [
    ("NULL", "NULL"),
    ("empty", "''"),
    ("text", "'poison'"),
    ("date", "'2026-11-29T12:00:00Z'"),
    ("zero", "0"),
    ("day as a number", "20261129"),
    ("no JSON", "'{\"a\":'"),
    ("largest integer", "9223372036854775807"),
    ("smallest integer", "-9223372036854775808"),
    ("infinity", "9e999"),
    ("fraction", "0.5"),
    ("blob", "x'ff00fe'"),
    ("broken text", "CAST(x'80ff' AS TEXT)"),
    ("long text", "'x'||hex(zeroblob(50000))"),
];

/// Values that are neither a number nor can be read as one.
pub(super) fn is_no_number(name: &str) -> bool {
    !matches!(
        name,
        "NULL"
            | "zero"
            | "day as a number"
            | "largest integer"
            | "smallest integer"
            | "infinity"
            | "fraction"
    )
}

/// Values that are no text either.
pub(super) fn is_no_text(name: &str) -> bool {
    matches!(name, "blob" | "broken text")
}

/// The columns of a table and their declared types, as the file itself names them.
pub(super) fn columns(sql: &Connection, table: &str) -> Vec<(String, String)> {
    let mut query = sql
        .prepare("SELECT name,type FROM pragma_table_info(?1)")
        .unwrap();
    let columns = query
        .query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    columns.map(Result::unwrap).collect()
}

/// The store's file, for a foreign hand that no constraint holds back.
pub(super) fn store(stage: &Stage) -> Connection {
    let sql = Connection::open(stage.settings.state_dir.join("assignments.db")).unwrap();
    sql.busy_timeout(PATIENCE).unwrap();
    unrestrain(&sql);
    sql
}

pub(super) fn unrestrain(sql: &Connection) {
    sql.execute_batch(
        "PRAGMA ignore_check_constraints=ON; PRAGMA foreign_keys=OFF; PRAGMA synchronous=OFF",
    )
    .unwrap();
}

/// Puts a value into one column of the rows that `which` selects; `false` where SQLite itself refuses it, so that it can
/// never stand there.
pub(super) fn put(sql: &Connection, table: &str, column: &str, which: &str, value: &str) -> bool {
    let statement = format!("UPDATE {table} SET {column}={value} WHERE {which}");
    sql.execute(&statement, []).is_ok_and(|rows| rows > 0)
}

/// What stands in a column, row by row, type and bytes; in order of the values, so that it can be compared.
pub(super) fn cells(sql: &Connection, table: &str, column: &str, which: &str) -> Vec<String> {
    let query = format!(
        "SELECT typeof({column})||' '||hex({column}) FROM {table} WHERE {which} ORDER BY 1"
    );
    let mut query = sql.prepare(&query).unwrap();
    let cells = query.query_map([], |row| row.get(0)).unwrap();
    cells.map(Result::unwrap).collect()
}

/// All rows of a table, type and bytes of every column.
pub(super) fn rows(sql: &Connection, table: &str) -> Vec<String> {
    let columns: Vec<String> = columns(sql, table)
        .into_iter()
        .map(|(column, _)| format!("typeof({column})||' '||hex({column})"))
        .collect();
    cells_of(sql, table, &columns.join("||'|'||"))
}

fn cells_of(sql: &Connection, table: &str, expression: &str) -> Vec<String> {
    let mut query = sql
        .prepare(&format!("SELECT {expression} FROM {table}"))
        .unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// Causes in the ledger, each entry by itself.
pub(super) fn causes(pool: &Running<'_>) -> Vec<String> {
    let entries = pool.pool.ledger().entries().into_iter();
    entries.map(|(_, entry)| entry.why).collect()
}

/// A cause as far as the ledger keeps it.
pub(super) fn kept(why: &str) -> String {
    why.chars().take(300).collect()
}

/// Polls and completes until the given tasks are done.
pub(super) async fn serve(pool: &mut Running<'_>, ordinal: u16, healthy: &[(BoardSlug, TaskId)]) {
    let worker = pool.worker(ordinal);
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
