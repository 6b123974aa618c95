//! Completing a task, and what follows it in transactions of its own.
//!
//! The completion itself is one transaction. What follows (a note on references to tasks that do not exist, forgetting
//! failures, promoting children) is Hermes' own sequence; after a crash in between it is repeated without harm.
//!
//! Deliberately absent: copying artifacts and removing workspaces. The pool's workers work elsewhere.

use rusqlite::params;

use super::connection::Visit;
use super::events::{self, Payload};
use super::features::Generation;
use super::run::{self, Closing};
use super::text;
use crate::board::BoardError;
use crate::protocol::{Json, Object};

/// Characters of the summary that an event carries.
const EVENT_SUMMARY_CHARACTERS: usize = 400;
/// Shortest task id that a text is searched for, in hexadecimal digits behind its prefix.
const ID_DIGITS: usize = 8;

/// What a completion leaves behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Completion<'a> {
    /// Summary for people.
    pub summary: Option<&'a str>,
    /// The result itself.
    pub result: Option<&'a str>,
    /// Everything else.
    pub metadata: Option<&'a Object>,
}

impl Completion<'_> {
    /// The first of its texts that is not empty.
    pub(super) fn text(&self) -> Option<&str> {
        let mut texts = [self.summary, self.result].into_iter().flatten();
        texts.find(|text| !text.is_empty())
    }

    /// What stands as the run's summary.
    fn handoff(&self) -> Option<&str> {
        self.summary.or(self.result)
    }

    /// Whether anything is worth keeping of a task that never ran.
    fn is_worth_keeping(&self) -> bool {
        self.text().is_some() || self.metadata.is_some_and(|metadata| !metadata.is_empty())
    }

    fn event(&self, generation: Generation, cards: &[String]) -> Result<Payload, BoardError> {
        let summary = match self.handoff().filter(|handoff| !handoff.is_empty()) {
            None => None,
            Some(handoff) if text::trim(handoff).is_empty() => {
                return Err(BoardError::Refused(
                    "the summary is nothing but white space".to_owned(),
                ));
            }
            Some(handoff) => Some(text::first_line(handoff, EVENT_SUMMARY_CHARACTERS)),
        };
        let characters = self.result.map_or(0, text::length);
        let mut payload = Payload::empty()
            .with("result_len", i64::try_from(characters).unwrap_or(i64::MAX))
            .with("summary", summary);
        if !cards.is_empty() {
            payload = payload.with("verified_cards", cards.to_vec());
        }
        let artifacts = self.artifacts();
        if generation >= Generation::V15 && !artifacts.is_empty() {
            payload = payload.with("artifacts", artifacts);
        }
        Ok(payload)
    }

    fn artifacts(&self) -> Vec<String> {
        self.metadata
            .and_then(|metadata| metadata.get("artifacts"))
            .and_then(Json::as_array)
            .unwrap_or_default()
            .iter()
            .filter_map(Json::as_str)
            .map(|path| text::trim(path).to_owned())
            .filter(|path| !path.is_empty())
            .collect()
    }
}

/// Completes a task; `None` if `expected_run` is not its current run or it cannot be completed. The inner value is the run
/// that was closed, if any was. `cards` are ids of tasks that the worker made, already checked.
pub(super) fn complete(
    visit: &Visit<'_>,
    task: &str,
    expected_run: Option<i64>,
    completion: &Completion<'_>,
    cards: &[String],
) -> Result<Option<Option<i64>>, BoardError> {
    let forget_block = if visit.features.generation >= Generation::V18 {
        ", block_kind = NULL, block_recurrences = 0"
    } else {
        ""
    };
    let done = visit
        .sql
        .prepare_cached(&format!(
            "UPDATE tasks SET status = 'done', result = ?2, completed_at = ?3,
                    claim_lock = NULL, claim_expires = NULL, worker_pid = NULL{forget_block}
              WHERE id = ?1 AND status IN ('running', 'ready', 'blocked') AND (?4 IS NULL OR current_run_id = ?4)",
        ))?
        .execute(params![task, completion.result, visit.now, expected_run])?;
    if done != 1 {
        return Ok(None);
    }
    let metadata = completion.metadata.map_or(Ok(None), text::json_object)?;
    let closing = Closing {
        status: "done",
        outcome: "completed",
        summary: completion.handoff(),
        error: None,
        metadata: metadata.as_deref(),
    };
    let mut run = run::close(visit, task, &closing)?;
    if run.is_none() && completion.is_worth_keeping() {
        run = Some(run::insert_closed(visit, task, &closing)?);
    }
    let payload = completion.event(visit.features.generation, cards)?;
    events::append(visit, task, run, "completed", &payload)?;
    Ok(Some(run))
}

/// The ids in a completion's texts that name no task of this board, without repeats.
pub(super) fn dangling_references(
    visit: &Visit<'_>,
    completion: &Completion<'_>,
) -> Result<Vec<String>, BoardError> {
    let mut dangling: Vec<String> = Vec::new();
    for text in [completion.summary, completion.result]
        .into_iter()
        .flatten()
    {
        for id in task_ids(text) {
            if !dangling.iter().any(|known| known == id) && !exists(visit, id)? {
                dangling.push(id.to_owned());
            }
        }
    }
    Ok(dangling)
}

/// Notes references to tasks that do not exist. It is advice for people and never in the way.
pub(super) fn note_dangling(
    visit: &Visit<'_>,
    task: &str,
    run: Option<i64>,
    dangling: Vec<String>,
) -> Result<(), BoardError> {
    let payload = Payload::empty()
        .with("phantom_refs", dangling)
        .with("source", "completion_summary");
    events::append(
        visit,
        task,
        run,
        "suspected_hallucinated_references",
        &payload,
    )
}

/// Whether a task of this id is on the board.
pub(super) fn exists(visit: &Visit<'_>, task: &str) -> Result<bool, BoardError> {
    Ok(visit
        .sql
        .prepare_cached("SELECT 1 FROM tasks WHERE id = ?1")?
        .exists([task])?)
}

/// The words of a text that look like task ids: `t_` and at least eight lower-case hexadecimal digits.
fn task_ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| {
            word.strip_prefix("t_").is_some_and(|digits| {
                digits.len() >= ID_DIGITS
                    && digits
                        .bytes()
                        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_ids_are_found_as_whole_words() {
        let found: Vec<_> = task_ids(
            "t_deadbeef, (t_00000001) t_0000000 xt_00000002 t_0000000g t_ABCDEF01 t_00000003_ t_123456789a/t_deadbeef",
        )
        .collect();
        assert_eq!(
            found,
            ["t_deadbeef", "t_00000001", "t_123456789a", "t_deadbeef"]
        );
    }
}
