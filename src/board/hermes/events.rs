//! The one place that appends to a board's stream of events.
//!
//! People are notified by events, so kinds and keys are exactly Hermes' own, and ids are always given by the table.

use rusqlite::params;

use super::connection::Visit;
use super::text;
use crate::board::BoardError;
use crate::protocol::Json;

/// The content of an event, with its keys in the order in which Hermes writes them.
#[derive(Clone, Debug, Default)]
pub(super) struct Payload(Vec<(&'static str, Json)>);

impl Payload {
    /// A payload without members, which is stored as NULL.
    pub(super) fn empty() -> Self {
        Self::default()
    }

    /// Adds a member.
    #[must_use]
    pub(super) fn with(mut self, key: &'static str, value: impl Into<Json>) -> Self {
        self.0.push((key, value.into()));
        self
    }

    /// Adds the members of another payload.
    #[must_use]
    pub(super) fn and(mut self, other: &Self) -> Self {
        self.0.extend(other.0.iter().cloned());
        self
    }

    /// The members as Hermes' tables hold them, also where they are a run's metadata.
    pub(super) fn to_text(&self) -> Result<Option<String>, BoardError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let mut members = Vec::with_capacity(self.0.len());
        for (key, value) in &self.0 {
            members.push(format!("\"{key}\": {}", text::json(value)?));
        }
        Ok(Some(format!("{{{}}}", members.join(", "))))
    }
}

/// Appends an event to a task's stream; `run` is `None` where it belongs to no run.
pub(super) fn append(
    visit: &Visit<'_>,
    task: &str,
    run: Option<i64>,
    kind: &str,
    payload: &Payload,
) -> Result<(), BoardError> {
    visit
        .sql
        .prepare_cached(
            "INSERT INTO task_events (task_id, run_id, kind, payload, created_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![task, run, kind, payload.to_text()?, visit.now])?;
    Ok(())
}
