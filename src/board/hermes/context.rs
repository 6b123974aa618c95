//! What a worker is told of its task: the same text that Hermes hands its own workers.
//!
//! All limits count characters. Releases differ only by what they show at all; times are local, and from 0.18 each has a
//! coarse age beside it, since readers take a bare time for the present.

use std::fmt::Write;

use super::card::{self, Attempt, Card};
use super::connection::Visit;
use super::features::Generation;
use super::recent::RecentWork;
use super::{row, text};
use crate::board::{BoardError, Brief};
use crate::protocol::Json;
use jiff::Timestamp;
use jiff::tz::TimeZone;

const BODY_CHARACTERS: usize = 8192;
const FIELD_CHARACTERS: usize = 4096;
const COMMENT_CHARACTERS: usize = 2048;
const LINE_CHARACTERS: usize = 200;
const COMMENTS: usize = 30;
/// Seconds between a task's limit and the one that Hermes gives its workers' terminals.
const TERMINAL_GRACE_SECONDS: i64 = 30;

/// Everything that a worker is told.
///
/// # Errors
/// [`BoardError::BadRow`] if there is no such task.
pub(super) fn brief(
    visit: &Visit<'_>,
    recent: &mut RecentWork,
    zone: &TimeZone,
    task: &str,
) -> Result<Brief, BoardError> {
    let card = card::find(visit, task)?.ok_or_else(|| BoardError::BadRow {
        task: task.to_owned(),
        why: "there is no such task".to_owned(),
    })?;
    let context = Page::new(visit, zone).render(&card, recent)?;
    let lane = card
        .assignee
        .as_deref()
        .unwrap_or_default()
        .trim()
        .to_lowercase();
    Ok(Brief {
        lane,
        body: card.body.as_deref().map(|body| cap(body, BODY_CHARACTERS)),
        title: card.title,
        priority: card.priority,
        tenant: card.tenant,
        skills: card.skills,
        model_override: card.model_override,
        context,
        workspace_kind: card.workspace_kind,
        workspace_path: card.workspace_path,
        branch: card.branch,
        max_runtime_seconds: card.max_runtime_seconds,
    })
}

/// A text being written, line by line.
struct Page<'a> {
    visit: &'a Visit<'a>,
    zone: &'a TimeZone,
    generation: Generation,
    text: String,
}

impl<'a> Page<'a> {
    fn new(visit: &'a Visit<'a>, zone: &'a TimeZone) -> Self {
        Self {
            visit,
            zone,
            generation: visit.features.generation,
            text: String::new(),
        }
    }

    fn line(&mut self, line: impl AsRef<str>) {
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    fn render(mut self, card: &Card, recent: &mut RecentWork) -> Result<String, BoardError> {
        self.head(card);
        if let Some(body) = filled(card.body.as_deref()) {
            self.line("## Body");
            self.line(cap(body, BODY_CHARACTERS));
            self.line("");
        }
        if self.generation >= Generation::V16 {
            self.attachments(&card.id)?;
        }
        self.attempts(&card.id)?;
        self.parents(&card.id)?;
        self.recent_work(card, recent)?;
        self.comments(&card.id)?;
        let mut context = text::trim_end(&self.text).to_owned();
        context.push('\n');
        Ok(context)
    }

    fn head(&mut self, card: &Card) {
        let or = |value: &Option<String>, absent: &str| {
            let value = value.as_deref().filter(|value| !value.is_empty());
            value.unwrap_or(absent).to_owned()
        };
        self.line(format!("# Kanban task {}: {}", card.id, card.title));
        self.line("");
        self.line(format!("Assignee: {}", or(&card.assignee, "(unassigned)")));
        self.line(format!("Status:   {}", card.status));
        if let Some(tenant) = card.tenant.as_deref().filter(|tenant| !tenant.is_empty()) {
            self.line(format!("Tenant:   {tenant}"));
        }
        let path = or(&card.workspace_path, "(unresolved)");
        self.line(format!("Workspace: {} @ {path}", card.workspace_kind));
        if self.generation >= Generation::V15 {
            if let Some(limit) = card.max_runtime_seconds {
                self.line(format!("Max runtime: {limit}s"));
                if limit > 0 {
                    let terminal = (limit - TERMINAL_GRACE_SECONDS).max(1);
                    self.line(format!("Terminal timeout: {terminal}s"));
                }
            }
            if let Some(branch) = card.branch.as_deref().filter(|branch| !branch.is_empty()) {
                self.line(format!("Branch:   {branch}"));
            }
        }
        self.line("");
    }

    fn attachments(&mut self, task: &str) -> Result<(), BoardError> {
        let mut statement = self.visit.sql.prepare_cached(
            "SELECT filename, stored_path, content_type, size FROM task_attachments
              WHERE task_id = ?1 ORDER BY created_at, id",
        )?;
        let mut rows = statement.query([task])?;
        let mut is_first = true;
        while let Some(found) = rows.next()? {
            if std::mem::take(&mut is_first) {
                self.line("## Attachments");
                self.line(
                    "Files attached to this task. Read them with the file/terminal tools at the absolute paths below:",
                );
            }
            let name = row::text(found, "filename").unwrap_or_default();
            let path = row::text(found, "stored_path").unwrap_or_default();
            let mut details = String::new();
            if let Some(kind) = row::text(found, "content_type").filter(|kind| !kind.is_empty()) {
                details = format!(", {kind}");
            }
            if let Some(size) = row::integer(found, "size").filter(|size| *size != 0) {
                // Writing into a string cannot fail.
                let _ = write!(
                    details,
                    ", {} KB",
                    (size.saturating_add(1023) / 1024).max(1)
                );
            }
            self.line(format!("- `{name}`{details} → `{path}`"));
        }
        if !is_first {
            self.line("");
        }
        Ok(())
    }

    fn attempts(&mut self, task: &str) -> Result<(), BoardError> {
        let (total, shown) = card::closed_runs(self.visit, task)?;
        if shown.is_empty() {
            return Ok(());
        }
        let omitted = total - shown.len();
        self.line("## Prior attempts on this task");
        self.omission(omitted, "attempt", shown.len());
        for (number, attempt) in (omitted + 1..).zip(&shown) {
            let outcome = attempt
                .outcome
                .as_deref()
                .filter(|outcome| !outcome.is_empty());
            self.line(format!(
                "### Attempt {number} — {} ({}, {})",
                outcome.unwrap_or(&attempt.status),
                attempt
                    .profile
                    .as_deref()
                    .filter(|name| !name.is_empty())
                    .unwrap_or("(unknown)"),
                self.time(attempt.started_at),
            ));
            if let Some(summary) = filled(attempt.summary.as_deref()) {
                self.line(cap(summary, FIELD_CHARACTERS));
            }
            if let Some(error) = filled(attempt.error.as_deref()) {
                self.line(format!("_error_: {}", cap(error, FIELD_CHARACTERS)));
            }
            self.metadata(attempt.metadata.as_ref());
            self.line("");
        }
        Ok(())
    }

    fn parents(&mut self, task: &str) -> Result<(), BoardError> {
        let mut is_first = true;
        for id in card::parent_ids(self.visit, task)? {
            let Some(parent) =
                card::find(self.visit, &id)?.filter(|parent| parent.status == "done")
            else {
                continue;
            };
            if std::mem::take(&mut is_first) {
                self.line("## Parent task results");
                if self.generation >= Generation::V18 {
                    self.line(
                        "_Handoffs from upstream tasks, captured when each parent completed (see age below). These are \
                         point-in-time snapshots, not live state — if a result drives your current work and it's not \
                         recent, re-verify against the source before acting on it as current._",
                    );
                }
            }
            let run = card::latest_completed_run(self.visit, &id)?;
            self.parent(&id, &parent, run.as_ref());
        }
        Ok(())
    }

    fn parent(&mut self, id: &str, parent: &Card, run: Option<&Attempt>) {
        let ended_at = run.and_then(|run| run.ended_at).filter(|end| *end != 0);
        let done_at = ended_at.or(parent.completed_at.filter(|end| *end != 0));
        match done_at.filter(|_| self.generation >= Generation::V18) {
            Some(at) => self.line(format!("### {id} (completed {})", age(self.visit.now, at))),
            None => self.line(format!("### {id}")),
        }
        let result = parent.result.as_deref().filter(|result| !result.is_empty());
        let handoff = filled(run.and_then(|run| run.summary.as_deref())).or(result);
        match handoff {
            Some(handoff) => self.line(cap(handoff, FIELD_CHARACTERS)),
            None => self.line("(no result recorded)"),
        }
        self.metadata(run.and_then(|run| run.metadata.as_ref()));
        self.line("");
    }

    fn recent_work(&mut self, card: &Card, recent: &mut RecentWork) -> Result<(), BoardError> {
        let Some(assignee) = card.assignee.as_deref().filter(|name| !name.is_empty()) else {
            return Ok(());
        };
        let runs = recent.of(self.visit, assignee, &card.id)?;
        if runs.is_empty() {
            return Ok(());
        }
        self.line(format!("## Recent work by @{assignee}"));
        for run in runs {
            let summary = run.summary.as_deref().unwrap_or_default();
            let first = match text::trim(summary) {
                "" => "(no summary)",
                summary => text::first_line(summary, LINE_CHARACTERS),
            };
            let time = self.time(run.ended_at);
            self.line(format!("- {} — {} ({time}): {first}", run.task, run.title));
        }
        self.line("");
        Ok(())
    }

    fn comments(&mut self, task: &str) -> Result<(), BoardError> {
        let total: i64 = self
            .visit
            .sql
            .prepare_cached("SELECT COUNT(*) FROM task_comments WHERE task_id = ?1")?
            .query_row([task], |found| found.get(0))?;
        let total = usize::try_from(total).unwrap_or(0);
        if total == 0 {
            return Ok(());
        }
        let omitted = total.saturating_sub(COMMENTS);
        self.line("## Comment thread");
        self.omission(omitted, "comment", total - omitted);
        let mut statement = self.visit.sql.prepare_cached(
            "SELECT author, body, created_at FROM task_comments WHERE task_id = ?1
              ORDER BY created_at, id LIMIT -1 OFFSET ?2",
        )?;
        let mut rows = statement.query((task, i64::try_from(omitted).unwrap_or(i64::MAX)))?;
        while let Some(found) = rows.next()? {
            // The frame tells the reader that what follows is another worker's word; it must not be broken out of.
            let author = row::text(found, "author")
                .unwrap_or_default()
                .replace('`', "");
            let time = self.time(row::integer(found, "created_at").unwrap_or(0));
            self.line(format!("comment from worker `{author}` at {time}:"));
            let body = row::text(found, "body").unwrap_or_default();
            self.line(cap(&body, COMMENT_CHARACTERS));
            self.line("");
        }
        Ok(())
    }

    fn omission(&mut self, omitted: usize, what: &str, shown: usize) {
        if omitted > 0 {
            let plural = if omitted == 1 { "" } else { "s" };
            self.line(format!(
                "_({omitted} earlier {what}{plural} omitted; showing most recent {shown})_"
            ));
        }
    }

    fn metadata(&mut self, metadata: Option<&Json>) {
        if let Some(text) = metadata.and_then(|metadata| text::json(metadata).ok()) {
            self.line(format!("_metadata_: `{}`", cap(&text, FIELD_CHARACTERS)));
        }
    }

    /// A local time, with its age where the board's owner shows one.
    fn time(&self, seconds: i64) -> String {
        let local = Timestamp::from_second(seconds).map_or_else(
            |_| seconds.to_string(),
            |time| {
                let local = time.to_zoned_datetime(self.zone.clone());
                local.strftime("%Y-%m-%d %H:%M").to_string()
            },
        );
        if self.generation >= Generation::V18 {
            format!("{local}, {}", age(self.visit.now, seconds))
        } else {
            local
        }
    }
}

/// The text, if there is more in it than white space.
fn filled(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text::trim(text).is_empty())
}

/// Cuts a text and says how much is missing.
fn cap(text: &str, limit: usize) -> String {
    let text = text::trim(text);
    let length = text::length(text);
    if length <= limit {
        return text.to_owned();
    }
    format!(
        "{}… [truncated, {} chars omitted]",
        text::cut(text, limit),
        length - limit
    )
}

/// How long ago something was, coarsely. A time in the future is a clock that differs, not a prophecy.
fn age(now: i64, then: i64) -> String {
    match now.saturating_sub(then) {
        ..60 => "just now".to_owned(),
        seconds @ 60..3600 => format!("{}m ago", seconds / 60),
        seconds @ 3600..86_400 => format!("{}h ago", seconds / 3600),
        seconds => format!("{}d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_coarse_and_never_in_the_future() {
        for (seconds, shown) in [
            (-5, "just now"),
            (59, "just now"),
            (60, "1m ago"),
            (3599, "59m ago"),
            (3600, "1h ago"),
            (86_399, "23h ago"),
            (86_400, "1d ago"),
        ] {
            assert_eq!(age(1000, 1000 - seconds), shown, "{seconds}");
        }
    }

    #[test]
    fn a_cut_text_says_how_much_is_missing() {
        assert_eq!(cap("  größe  ", 5), "größe");
        assert_eq!(cap("größer", 5), "größe… [truncated, 1 chars omitted]");
    }
}
