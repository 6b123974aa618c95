//! Tells what happens, as the pool's events say it, one short line each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::actors::{Listener, PoolEvent};
use crate::board::hermes::HermesBoard;
use crate::clock::{Clock, SystemClock};
use crate::domain::{Binding, Timestamp};

use super::stage::Stage;
use crate::cli::failure::Failure;
use crate::cli::output::{one_line, say};

/// Says lines with the time since the demo began.
pub(super) struct Teller {
    clock: SystemClock,
    began: Timestamp,
}

impl Teller {
    /// Begins to count.
    pub(super) fn new() -> Self {
        let clock = SystemClock::new();
        let began = clock.now();
        Self { clock, began }
    }

    /// Says one line.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn tell(&self, text: &str) -> Result<(), Failure> {
        let seconds = self.clock.now() - self.began;
        say(&format!("{seconds:5.1} s  {}", one_line(text)))
    }
}

/// Follows the pool until every task has ended.
pub(super) struct Narrator<'a> {
    stage: &'a Stage,
    teller: &'a Teller,
    board: HermesBoard,
    /// The last status that was told of each task.
    statuses: BTreeMap<String, String>,
    offered: Vec<Binding>,
    ended: BTreeSet<String>,
}

impl<'a> Narrator<'a> {
    /// Tells how the board is at the beginning.
    ///
    /// # Errors
    /// If the board cannot be read.
    pub(super) fn begin(stage: &'a Stage, teller: &'a Teller) -> Result<Self, Failure> {
        let mut board = stage.open_board().map_err(Failure::failed)?;
        let tasks = board.tasks().map_err(Failure::failed)?;
        let waiting = tasks.iter().filter(|task| task.status == "todo").count();
        teller.tell(&format!(
            "board {}: {} tasks, {waiting} of them wait for their parents",
            stage.board,
            tasks.len()
        ))?;
        Ok(Self {
            stage,
            teller,
            board,
            statuses: tasks
                .into_iter()
                .map(|task| (task.id, task.status))
                .collect(),
            offered: Vec::new(),
            ended: BTreeSet::new(),
        })
    }

    /// Tells of events until every task has ended; waits for each at most `patience`.
    ///
    /// # Errors
    /// If nothing happens, or the board cannot be read.
    pub(super) async fn follow(
        &mut self,
        events: &mut Listener,
        patience: Duration,
    ) -> Result<(), Failure> {
        while self.ended.len() < self.stage.tasks.len() {
            let event = events.wait_for(patience, |_| true).await;
            match event.map_err(|_| Failure::failed("the pool fell silent"))? {
                PoolEvent::Offered(binding) => self.offered(binding)?,
                PoolEvent::Fenced(binding) => {
                    let (title, attempt) = (self.title(&binding), binding.attempt);
                    self.teller
                        .tell(&format!("{title} is fenced; attempt {attempt} follows"))?;
                }
                PoolEvent::Ended { binding, .. } => self.ended(&binding)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn offered(&mut self, binding: Binding) -> Result<(), Failure> {
        let (title, ordinal, attempt) = (self.title(&binding), binding.ordinal, binding.attempt);
        if self.offered.contains(&binding) {
            return self.teller.tell(&format!(
                "worker {ordinal} is offered attempt {attempt} of {title} again"
            ));
        }
        self.offered.push(binding);
        self.teller.tell(&format!(
            "worker {ordinal} takes {title}, attempt {attempt}"
        ))
    }

    /// Tells how the board stands now, as far as it is another way than before.
    fn ended(&mut self, binding: &Binding) -> Result<(), Failure> {
        let task = binding.key.task.to_string();
        for line in self.board.tasks().map_err(Failure::failed)? {
            let known = self.statuses.insert(line.id.clone(), line.status.clone());
            if line.id == task {
                let word = self.last_word(&task)?;
                self.teller
                    .tell(&format!("\"{}\" is {}: {word}", line.title, line.status))?;
            } else if known.as_deref() == Some("todo") && line.status == "ready" {
                self.teller.tell(&format!(
                    "\"{}\" is ready, its parents are done",
                    line.title
                ))?;
            }
        }
        self.ended.insert(task);
        Ok(())
    }

    /// What the last run of a task said.
    fn last_word(&mut self, task: &str) -> Result<String, Failure> {
        let runs = self.board.runs(task).map_err(Failure::failed)?;
        let word = runs
            .into_iter()
            .last()
            .and_then(|run| run.error.or(run.summary));
        Ok(word.unwrap_or_default())
    }

    fn title(&self, binding: &Binding) -> String {
        let task = self.stage.task(binding.key.task.as_str());
        task.map_or_else(
            || binding.key.to_string(),
            |task| format!("\"{}\"", task.sample.title),
        )
    }
}
