//! Making boards and tasks where Hermes is not installed: the same files, the same schema, the same events.
//!
//! This is the only place that creates a file of a board, and only because somebody asked for exactly that.

use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, params};
use serde_json::{Value, json};

use super::connection::Visit;
use super::events::{self, Payload};
use super::features::Generation;
use super::{complete, discovery, metadata, text};
use crate::board::BoardError;
use crate::domain::BoardSlug;
use crate::protocol::Json;

/// What people are told of a new board.
#[derive(Clone, Debug, Default)]
pub struct BoardDetails {
    /// Its name; made from the slug if absent.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// Where its tasks work if they do not say.
    pub default_workdir: Option<String>,
}

/// A task to be made.
#[derive(Clone, Debug, Default)]
pub struct NewTask {
    /// Title of the card.
    pub title: String,
    /// Its body.
    pub body: Option<String>,
    /// Who should do it.
    pub assignee: Option<String>,
    /// Who made it.
    pub created_by: Option<String>,
    /// Tenant.
    pub tenant: Option<String>,
    /// Higher comes first.
    pub priority: i64,
    /// Tasks that must be done before.
    pub parents: Vec<String>,
    /// Skills it asks for.
    pub skills: Vec<String>,
    /// Limit for one run.
    pub max_runtime_seconds: Option<i64>,
    /// Failures after which it is given up.
    pub max_retries: Option<i64>,
    /// Where it works.
    pub workspace: Workspace,
}

/// Where a task works.
#[derive(Clone, Debug, Default)]
pub enum Workspace {
    /// In a folder of its own that is thrown away.
    #[default]
    Scratch,
    /// In this folder.
    Folder(String),
    /// In a linked working tree of a repository.
    Worktree {
        /// Where, if that is decided.
        path: Option<String>,
        /// On which branch, if that is decided.
        branch: Option<String>,
    },
}

impl Workspace {
    fn kind(&self) -> &'static str {
        match self {
            Self::Scratch => "scratch",
            Self::Folder(_) => "dir",
            Self::Worktree { .. } => "worktree",
        }
    }

    fn path(&self) -> Option<&str> {
        match self {
            Self::Scratch => None,
            Self::Folder(path) => Some(path),
            Self::Worktree { path, .. } => path.as_deref(),
        }
    }

    fn branch(&self) -> Option<&str> {
        match self {
            Self::Worktree { branch, .. } => branch.as_deref(),
            Self::Scratch | Self::Folder(_) => None,
        }
    }
}

/// Makes an empty board and returns where its database is.
///
/// # Errors
/// [`BoardError::Refused`] if there is a database already, [`BoardError::Unreadable`] for what the system refuses.
pub(super) fn create_board(
    root: &Path,
    slug: &BoardSlug,
    details: &BoardDetails,
    now: i64,
) -> Result<PathBuf, BoardError> {
    let database = discovery::database(root, slug);
    if database.exists() {
        return Err(BoardError::Refused(format!(
            "there is a board at {} already",
            database.display()
        )));
    }
    write_metadata(root, slug, details, now)
        .map_err(|error| BoardError::Unreadable(format!("{}: {error}", root.display())))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let sql = Connection::open_with_flags(&database, flags)?;
    // Hermes may have opened the new file before it is closed here.
    sql.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    sql.pragma_update(None, "journal_mode", "WAL")?;
    sql.pragma_update(None, "synchronous", "FULL")?;
    sql.execute_batch("BEGIN IMMEDIATE")?;
    sql.execute_batch(include_str!("schema.sql"))?;
    sql.execute_batch("COMMIT")?;
    sql.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    Ok(database)
}

fn write_metadata(
    root: &Path,
    slug: &BoardSlug,
    details: &BoardDetails,
    now: i64,
) -> std::io::Result<()> {
    let folder = discovery::board_folder(root, slug);
    // What cannot be understood is written over, as Hermes does.
    let stored = metadata::read(&folder).unwrap_or_default();
    let mut metadata = metadata::with_defaults(slug, stored);
    let mut set = |key: &str, value: Value| {
        metadata.insert(key.to_owned(), value);
    };
    if let Some(name) = &details.name {
        set("name", json!(text::trim(name)));
    }
    if let Some(description) = &details.description {
        set("description", json!(description));
    }
    if let Some(folder) = &details.default_workdir {
        set("default_workdir", json!(folder));
    }
    set("created_at", json!(now));
    fs::create_dir_all(&folder)?;
    let mut content = serde_json::to_string_pretty(&metadata)?;
    content.push('\n');
    fs::write(folder.join("board.json"), content)
}

/// Makes a task and returns its id: ready, or waiting where a parent is not done.
///
/// # Errors
/// [`BoardError::Refused`] without a title or with an unknown parent.
pub(super) fn create_task(visit: &Visit<'_>, new: &NewTask) -> Result<String, BoardError> {
    let title = text::trim(&new.title);
    if title.is_empty() {
        return Err(BoardError::Refused("a task needs a title".to_owned()));
    }
    let status = initial_status(visit, &new.parents)?;
    let id = unused_id(visit)?;
    let assignee = new
        .assignee
        .as_deref()
        .map(text::normalised)
        .filter(|assignee| !assignee.is_empty());
    let skills = (!new.skills.is_empty()).then(|| Json::from(new.skills.clone()));
    visit
        .sql
        .prepare_cached(
            "INSERT INTO tasks (id, title, body, assignee, status, priority, created_by, created_at, workspace_kind,
                                workspace_path, tenant, max_runtime_seconds, skills, max_retries)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        )?
        .execute(params![
            id,
            title,
            new.body,
            assignee,
            status,
            new.priority,
            new.created_by,
            visit.now,
            new.workspace.kind(),
            new.workspace.path(),
            new.tenant,
            new.max_runtime_seconds,
            skills.as_ref().map(text::json).transpose()?,
            new.max_retries
        ])?;
    let branch = new
        .workspace
        .branch()
        .filter(|_| visit.features.generation >= Generation::V15);
    if let Some(branch) = branch {
        visit
            .sql
            .prepare_cached("UPDATE tasks SET branch_name = ?2 WHERE id = ?1")?
            .execute([&id, branch])?;
    }
    link(visit, &id, &new.parents)?;
    let payload = Payload::empty()
        .with("assignee", assignee)
        .with("status", status)
        .with("parents", new.parents.clone())
        .with("tenant", new.tenant.clone())
        .with("branch_name", branch)
        .with("skills", skills)
        .with("goal_mode", Json::Null);
    events::append(visit, &id, None, "created", &payload)?;
    Ok(id)
}

/// Ready, unless a parent is not done; an unknown parent is refused.
fn initial_status(visit: &Visit<'_>, parents: &[String]) -> Result<&'static str, BoardError> {
    let mut status = "ready";
    for parent in parents {
        if !complete::exists(visit, parent)? {
            return Err(BoardError::Refused(format!("there is no task {parent}")));
        }
        let is_done = visit
            .sql
            .prepare_cached("SELECT 1 FROM tasks WHERE id = ?1 AND status = 'done'")?
            .exists([parent])?;
        if !is_done {
            status = "todo";
        }
    }
    Ok(status)
}

fn unused_id(visit: &Visit<'_>) -> Result<String, BoardError> {
    loop {
        let id = format!("t_{:08x}", fastrand::u32(..));
        if !complete::exists(visit, &id)? {
            return Ok(id);
        }
    }
}

fn link(visit: &Visit<'_>, child: &str, parents: &[String]) -> Result<(), BoardError> {
    for parent in parents {
        visit
            .sql
            .prepare_cached(
                "INSERT OR IGNORE INTO task_links (parent_id, child_id) VALUES (?1, ?2)",
            )?
            .execute([parent.as_str(), child])?;
    }
    Ok(())
}
