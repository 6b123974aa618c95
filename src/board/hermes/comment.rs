//! Comments on a task. They carry no run and no fence.

use rusqlite::params;

use super::connection::Visit;
use super::events::{self, Payload};
use super::{complete, text};
use crate::board::BoardError;

/// Adds a comment and returns its id.
///
/// # Errors
/// [`BoardError::Refused`] where author or body are empty or the task is unknown.
pub(super) fn comment(
    visit: &Visit<'_>,
    task: &str,
    author: &str,
    body: &str,
) -> Result<i64, BoardError> {
    let refuse = |what: &str| Err(BoardError::Refused(what.to_owned()));
    if text::trim(body).is_empty() {
        return refuse("a comment needs a text");
    }
    if text::trim(author).is_empty() {
        return refuse("a comment needs an author");
    }
    if !complete::exists(visit, task)? {
        return refuse("there is no such task");
    }
    visit
        .sql
        .prepare_cached(
            "INSERT INTO task_comments (task_id, author, body, created_at) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![
            task,
            text::trim(author),
            text::trim(body),
            visit.now
        ])?;
    let id = visit.sql.last_insert_rowid();
    let characters = i64::try_from(text::length(body)).unwrap_or(i64::MAX);
    let payload = Payload::empty()
        .with("author", author)
        .with("len", characters);
    events::append(visit, task, None, "commented", &payload)?;
    Ok(id)
}
