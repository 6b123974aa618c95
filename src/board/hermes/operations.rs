//! Hermes' own operations on a board, each with the reach that Hermes gives it.
//!
//! The port narrows them: it always names the exact run. They take task ids as they stand on the board.

use std::ops::ControlFlow;

use super::{
    BoardError, Brief, Completion, EventLine, HermesBoard, NewClaim, NewTask, Observation, RunLine,
    TaskLine, Waiting, block, claim, comment, complete, context, create, created_cards, evidence,
    keep, promote, ready, release, show,
};
use crate::domain::{Anchor, Landing, Lane};
use crate::faults::FaultPoint;
use crate::protocol::BlockKind;

impl HermesBoard {
    /// All ready tasks of these lanes, or of all, with or without a reason to leave them alone.
    ///
    /// # Errors
    /// [`BoardError`] when they cannot be read.
    pub fn waiting(
        &mut self,
        lanes: Option<&[Lane]>,
        now: i64,
    ) -> Result<Vec<Waiting>, BoardError> {
        self.file.read(now, |visit| {
            let mut all = Vec::new();
            ready::for_each(visit, lanes, |waiting| {
                all.push(waiting);
                ControlFlow::Continue(())
            })?;
            Ok(all)
        })
    }

    /// Claims a task, whatever it is; `None` if it cannot be had.
    ///
    /// # Errors
    /// [`BoardError`].
    pub fn claim_task(
        &mut self,
        task: &str,
        lock: &str,
        ttl_seconds: i64,
        now: i64,
    ) -> Result<Option<NewClaim>, BoardError> {
        self.file
            .write(now, |visit| claim::claim(visit, task, lock, ttl_seconds))
    }

    /// Extends a claim; `false` if the lock is not the task's (any more).
    ///
    /// # Errors
    /// [`BoardError`].
    pub fn extend_claim(
        &mut self,
        task: &str,
        lock: &str,
        ttl_seconds: i64,
        now: i64,
    ) -> Result<bool, BoardError> {
        self.file
            .write(now, |visit| keep::extend(visit, task, lock, ttl_seconds))
    }

    /// Records a sign of life of a run, or of the current one.
    ///
    /// # Errors
    /// [`BoardError`].
    pub fn record_heartbeat(
        &mut self,
        task: &str,
        run: Option<i64>,
        note: Option<&str>,
        now: i64,
    ) -> Result<bool, BoardError> {
        self.file
            .write(now, |visit| keep::heartbeat(visit, task, run, note))
    }

    /// Completes a task; with `run`, only if that is its current one. `cards` are tasks that the worker claims to have made.
    ///
    /// # Errors
    /// [`BoardError::Refused`] where Hermes refuses too (a summary of white space, cards that are not the worker's).
    /// Any error after the completion itself is one too; the run's fate shows it as completed then.
    pub fn complete_task(
        &mut self,
        task: &str,
        run: Option<i64>,
        completion: &Completion<'_>,
        cards: &[String],
        now: i64,
    ) -> Result<bool, BoardError> {
        let cards = self.checked_cards(task, completion, cards, now)?;
        let completed = self.file.write(now, |visit| {
            complete::complete(visit, task, run, completion, &cards)
        })?;
        let Some(run) = completed else {
            return Ok(false);
        };
        self.settings.faults.pass(FaultPoint::CompletionWritten);
        let dangling = self.file.read(now, |visit| {
            complete::dangling_references(visit, completion)
        })?;
        if !dangling.is_empty() {
            self.file.write(now, |visit| {
                complete::note_dangling(visit, task, run, dangling)
            })?;
        }
        self.after_completion(task, now)?;
        Ok(true)
    }

    fn checked_cards(
        &mut self,
        task: &str,
        completion: &Completion<'_>,
        claimed: &[String],
        now: i64,
    ) -> Result<Vec<String>, BoardError> {
        if claimed.is_empty() {
            return Ok(Vec::new());
        }
        let checked = self
            .file
            .read(now, |visit| created_cards::check(visit, task, claimed))?;
        if checked.phantom.is_empty() {
            return Ok(checked.verified);
        }
        self.file.write(now, |visit| {
            created_cards::note_refusal(visit, task, &checked, completion.text())
        })?;
        Err(BoardError::Refused(format!(
            "these tasks are not the worker's own: {}",
            checked.phantom.join(", ")
        )))
    }

    /// What follows a completion: failures are forgotten, waiting tasks promoted.
    ///
    /// # Errors
    /// [`BoardError`]; it can be repeated.
    pub(super) fn after_completion(&mut self, task: &str, now: i64) -> Result<(), BoardError> {
        self.file
            .write(now, |visit| promote::clear_failures(visit, task))?;
        self.settings.faults.pass(FaultPoint::CountersCleared);
        self.file.write(now, promote::promote)
    }

    /// Blocks a task; with `run`, only if that is its current one.
    ///
    /// # Errors
    /// [`BoardError`].
    pub fn block_task(
        &mut self,
        task: &str,
        run: Option<i64>,
        kind: Option<BlockKind>,
        reason: Option<&str>,
        now: i64,
    ) -> Result<Option<Landing>, BoardError> {
        self.file
            .write(now, |visit| block::block(visit, task, run, kind, reason))
    }

    /// Gives a task back that is held under `lock`, uncounted.
    ///
    /// # Errors
    /// [`BoardError`].
    pub fn release_task(
        &mut self,
        task: &str,
        lock: &str,
        reason: Option<&str>,
        now: i64,
    ) -> Result<bool, BoardError> {
        let is_released = self
            .file
            .write(now, |visit| release::release(visit, task, lock, reason))?;
        if is_released {
            self.file
                .write(now, |visit| promote::clear_failures(visit, task))?;
        }
        Ok(is_released)
    }

    /// Adds a comment and returns its id.
    ///
    /// # Errors
    /// [`BoardError::Refused`] for an empty author or body and for an unknown task.
    pub fn comment(
        &mut self,
        task: &str,
        author: &str,
        body: &str,
        now: i64,
    ) -> Result<i64, BoardError> {
        self.file
            .write(now, |visit| comment::comment(visit, task, author, body))
    }

    /// Looks at a task and a run. `recorded` is the anchor of its claim, where it is known.
    ///
    /// # Errors
    /// [`BoardError`] when they cannot be read, which is never evidence.
    pub fn observe(
        &mut self,
        task: &str,
        run: i64,
        recorded: Option<&Anchor>,
    ) -> Result<Observation, BoardError> {
        self.file
            .read(0, |visit| evidence::observe(visit, task, run, recorded))
    }

    /// What a worker is told of a task.
    ///
    /// # Errors
    /// [`BoardError::BadRow`] if there is no such task.
    pub fn brief_of(&mut self, task: &str, now: i64) -> Result<Brief, BoardError> {
        let Self {
            file,
            recent,
            settings,
            ..
        } = self;
        file.read(now, |visit| {
            context::brief(visit, recent, &settings.time_zone, task)
        })
    }

    /// Makes a task and returns its id.
    ///
    /// # Errors
    /// [`BoardError::Refused`] without a title or with an unknown parent.
    pub fn create_task(&mut self, new: &NewTask, now: i64) -> Result<String, BoardError> {
        self.file
            .write(now, |visit| create::create_task(visit, new))
    }

    /// All tasks that are not archived.
    ///
    /// # Errors
    /// [`BoardError`] when they cannot be read.
    pub fn tasks(&mut self) -> Result<Vec<TaskLine>, BoardError> {
        self.file.read(0, show::tasks)
    }

    /// The runs of a task.
    ///
    /// # Errors
    /// [`BoardError`] when they cannot be read.
    pub fn runs(&mut self, task: &str) -> Result<Vec<RunLine>, BoardError> {
        self.file.read(0, |visit| show::runs(visit, task))
    }

    /// The events of a task.
    ///
    /// # Errors
    /// [`BoardError`] when they cannot be read.
    pub fn events(&mut self, task: &str) -> Result<Vec<EventLine>, BoardError> {
        self.file.read(0, |visit| show::events(visit, task))
    }
}
