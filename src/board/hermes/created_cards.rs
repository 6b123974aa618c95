//! Checking the tasks that a worker claims to have made.

use rusqlite::OptionalExtension;

use super::connection::Visit;
use super::events::{self, Payload};
use super::{row, text};
use crate::board::BoardError;
use crate::protocol::Json;

/// Characters of the summary in the event of a refusal.
const PREVIEW_CHARACTERS: usize = 200;

/// The claimed ids, each once, divided by whether they may be believed.
#[derive(Debug, Default)]
pub(super) struct Cards {
    /// Made by the completing task's assignee or for it, or linked below it.
    pub(super) verified: Vec<String>,
    /// Everything else.
    pub(super) phantom: Vec<String>,
}

/// Checks ids that the worker of `task` claims to have created.
pub(super) fn check(
    visit: &Visit<'_>,
    task: &str,
    claimed: &[String],
) -> Result<Cards, BoardError> {
    let mut cards = Cards::default();
    let assignee = visit
        .sql
        .prepare_cached("SELECT assignee FROM tasks WHERE id = ?1")?
        .query_row([task], |found| Ok(row::text(found, "assignee")))
        .optional()?;
    for id in claimed
        .iter()
        .map(|id| text::trim(id))
        .filter(|id| !id.is_empty())
    {
        if cards
            .verified
            .iter()
            .chain(&cards.phantom)
            .any(|known| known == id)
        {
            continue;
        }
        let believed = match &assignee {
            Some(assignee) => is_made_by(visit, task, assignee.as_deref(), id)?,
            None => false,
        };
        let list = if believed {
            &mut cards.verified
        } else {
            &mut cards.phantom
        };
        list.push(id.to_owned());
    }
    Ok(cards)
}

fn is_made_by(
    visit: &Visit<'_>,
    task: &str,
    assignee: Option<&str>,
    card: &str,
) -> Result<bool, BoardError> {
    let creator = visit
        .sql
        .prepare_cached("SELECT created_by FROM tasks WHERE id = ?1")?
        .query_row([card], |found| Ok(row::text(found, "created_by")))
        .optional()?
        .flatten();
    let Some(creator) = creator else {
        return Ok(false);
    };
    let is_own =
        creator == task || assignee.is_some_and(|name| !name.is_empty() && name == creator);
    Ok(is_own
        || visit
            .sql
            .prepare_cached("SELECT 1 FROM task_links WHERE parent_id = ?1 AND child_id = ?2")?
            .exists([task, card])?)
}

/// Leaves a trace of a completion that is about to be refused. `handoff` is the first text of it that is not empty.
pub(super) fn note_refusal(
    visit: &Visit<'_>,
    task: &str,
    cards: &Cards,
    handoff: Option<&str>,
) -> Result<(), BoardError> {
    if handoff.is_some_and(|handoff| text::trim(handoff).is_empty()) {
        return Err(BoardError::Refused(
            "the summary is nothing but white space".to_owned(),
        ));
    }
    let preview = handoff.map(|handoff| text::first_line(handoff, PREVIEW_CHARACTERS));
    let payload = Payload::empty()
        .with("phantom_cards", cards.phantom.clone())
        .with("verified_cards", cards.verified.clone())
        .with("summary_preview", Json::from(preview));
    events::append(
        visit,
        task,
        None,
        "completion_blocked_hallucination",
        &payload,
    )
}
