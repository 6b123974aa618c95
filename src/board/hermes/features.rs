//! What a board's schema offers, told by its columns: Hermes never sets a version number.
//!
//! A board carries the columns of the newest release that opened it, so the columns also tell how its owner behaves.
//! Columns that are unknown here are tolerated as long as a row can be inserted without them.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::board::BoardError;

/// The releases whose boards behave alike, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Generation {
    /// 0.13 and 0.14: blocked tasks are never promoted, no artifacts in events.
    V13,
    /// 0.15: sticky blocks, branches; promotion forgets failures.
    V15,
    /// 0.16 and 0.17: attachments, goal mode; promotion respects the failure limit.
    V16,
    /// 0.18 and 0.19: kinds of blocks, ages in a task's context.
    V18,
}

/// The schema of one board at one moment.
#[derive(Clone, Debug)]
pub(super) struct Features {
    /// `PRAGMA schema_version` when it was read.
    schema_version: i64,
    /// How the board's owner behaves.
    pub(super) generation: Generation,
    /// Whether the tables of a board are there at all.
    pub(super) initialised: bool,
    /// Why nothing may be written.
    read_only: Option<String>,
    /// Why nothing may be claimed, though it may be written.
    pub(super) unreleased: Option<String>,
}

/// Tables and columns that every release has; without one of them the board is older than any.
const REQUIRED: [(&str, &[&str]); 5] = [
    (
        "tasks",
        &[
            "id",
            "title",
            "body",
            "assignee",
            "status",
            "priority",
            "created_by",
            "created_at",
            "started_at",
            "completed_at",
            "workspace_kind",
            "workspace_path",
            "claim_lock",
            "claim_expires",
            "tenant",
            "result",
            "consecutive_failures",
            "worker_pid",
            "last_failure_error",
            "max_runtime_seconds",
            "last_heartbeat_at",
            "current_run_id",
            "current_step_key",
            "skills",
            "max_retries",
        ],
    ),
    (
        "task_runs",
        &[
            "id",
            "task_id",
            "profile",
            "step_key",
            "status",
            "claim_lock",
            "claim_expires",
            "worker_pid",
            "max_runtime_seconds",
            "last_heartbeat_at",
            "started_at",
            "ended_at",
            "outcome",
            "summary",
            "metadata",
            "error",
        ],
    ),
    (
        "task_events",
        &["id", "task_id", "run_id", "kind", "payload", "created_at"],
    ),
    (
        "task_comments",
        &["id", "task_id", "author", "body", "created_at"],
    ),
    ("task_links", &["parent_id", "child_id"]),
];

/// Columns of later development: whoever wrote them has rules for claims that are not known here.
const UNRELEASED: [&str; 5] = [
    "worker_scope",
    "worker_pid_started_at",
    "worker_registered_at",
    "reclaim_reserved_at",
    "completion_contract",
];

struct Column {
    kind: String,
    required: bool,
}

type Columns = BTreeMap<String, Column>;

/// One of the required tables, as it stands on the board.
struct Table {
    name: &'static str,
    required: &'static [&'static str],
    found: Columns,
}

impl Features {
    /// Reads the schema.
    pub(super) fn read(sql: &Connection) -> Result<Self, BoardError> {
        let mut tables = Vec::with_capacity(REQUIRED.len());
        for (name, required) in REQUIRED {
            let found = columns(sql, name)?;
            tables.push(Table {
                name,
                required,
                found,
            });
        }
        let has = |column: &str| tables.iter().any(|table| table.found.contains_key(column));
        let unreleased = UNRELEASED
            .iter()
            .find(|column| has(column))
            .map(|column| format!("its schema is of an unreleased Hermes (column {column})"));
        let read_only = if sql.is_readonly("main")? {
            Some("the file cannot be written".to_owned())
        } else {
            unwritable(&tables)
        };
        Ok(Self {
            schema_version: schema_version(sql)?,
            generation: generation(has),
            initialised: tables.iter().all(|table| !table.found.is_empty()),
            read_only,
            unreleased,
        })
    }

    /// Whether the schema was changed since it was read.
    pub(super) fn are_outdated(&self, sql: &Connection) -> Result<bool, BoardError> {
        Ok(schema_version(sql)? != self.schema_version)
    }

    /// Whether rows may be written.
    pub(super) fn writable(&self) -> Result<(), BoardError> {
        match &self.read_only {
            None => Ok(()),
            Some(why) => Err(BoardError::ReadOnly(why.clone())),
        }
    }
}

fn schema_version(sql: &Connection) -> Result<i64, BoardError> {
    Ok(sql.query_row("PRAGMA schema_version", [], |row| row.get(0))?)
}

fn columns(sql: &Connection, table: &str) -> Result<Columns, BoardError> {
    let mut statement = sql.prepare(
        "SELECT name, type, \"notnull\" <> 0 AND dflt_value IS NULL AND pk = 0 FROM pragma_table_info(?1)",
    )?;
    let rows = statement.query_map([table], |row| {
        Ok((
            row.get(0)?,
            Column {
                kind: row.get(1)?,
                required: row.get(2)?,
            },
        ))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn generation(has: impl Fn(&str) -> bool) -> Generation {
    [
        ("block_kind", Generation::V18),
        ("goal_mode", Generation::V16),
        ("branch_name", Generation::V15),
    ]
    .into_iter()
    .find(|(column, _)| has(column))
    .map_or(Generation::V13, |(_, generation)| generation)
}

/// Why rows may not be written to these tables.
fn unwritable(tables: &[Table]) -> Option<String> {
    if tables.iter().all(|table| table.found.is_empty()) {
        return Some("it was never initialised; Hermes does that".to_owned());
    }
    tables.iter().find_map(unwritable_table)
}

fn unwritable_table(table: &Table) -> Option<String> {
    let Table {
        name,
        required,
        found,
    } = table;
    if let Some(missing) = required.iter().find(|column| !found.contains_key(**column)) {
        return Some(format!(
            "{name}.{missing} is missing, so it is older than Hermes 0.13.0; open it with Hermes once"
        ));
    }
    // Our statements fill the columns of 0.13.0 wherever they must be filled.
    let mut unknown = found
        .iter()
        .filter(|(column, _)| !required.contains(&column.as_str()));
    if let Some((column, _)) = unknown.find(|(_, column)| column.required) {
        return Some(format!(
            "{name}.{column} must be filled and is not known here"
        ));
    }
    let id = found.get("id").filter(|_| *name != "tasks");
    if id.is_some_and(|id| !id.kind.eq_ignore_ascii_case("INTEGER")) {
        return Some(format!(
            "{name}.id is no integer, as before Hermes 0.16.0; open it with Hermes once"
        ));
    }
    None
}
