//! How the demo ended: a table, and whether everything went as it should.

use std::collections::BTreeMap;

use crate::actors::Pool;
use crate::board::BoardError;
use crate::domain::TaskId;
use crate::store::{PageStart, Record};

use super::stage::{Stage, Task};
use crate::cli::failure::Failure;
use crate::cli::output::say;
use crate::cli::table::table;

/// What became of one task.
struct Outcome<'a> {
    task: &'a Task,
    status: String,
    runs: usize,
    /// The assignment of its run.
    record: Option<Record>,
    last_word: String,
}

/// Shows what became of every task, and judges it. `victim` is the task whose worker was killed.
///
/// # Errors
/// If a task did not end as it should.
pub(super) async fn conclude(stage: &Stage, pool: &Pool, victim: &TaskId) -> Result<(), Failure> {
    let records = pool
        .readers()
        .read(|reader| reader.page(&PageStart::First, 1000))
        .await
        .map_err(Failure::failed)?;
    let records: BTreeMap<TaskId, Record> = records
        .rows
        .into_iter()
        .flatten()
        .map(|record| (record.assignment.binding().key.task.clone(), record))
        .collect();
    let outcomes = outcomes(stage, &records).map_err(Failure::failed)?;
    let rows: Vec<[String; 8]> = outcomes.iter().map(Outcome::row).collect();
    say(&format!(
        "\n{}\n",
        table(
            [
                "TASK", "TITLE", "STATUS", "RUNS", "WORKER", "ATTEMPT", "OFFERS", "SUMMARY"
            ],
            &rows
        )
    ))?;
    match outcomes.iter().find_map(|outcome| outcome.fault(victim)) {
        None => Ok(()),
        Some(fault) => Err(Failure::Failed(format!(
            "the demo did not go as it should: {fault}"
        ))),
    }
}

fn outcomes<'a>(
    stage: &'a Stage,
    records: &BTreeMap<TaskId, Record>,
) -> Result<Vec<Outcome<'a>>, BoardError> {
    let mut board = stage.open_board()?;
    let lines = board.tasks()?;
    let outcome = |task: &'a Task| {
        let line = lines.iter().find(|line| line.id == task.id.as_str());
        let runs = board.runs(task.id.as_str())?;
        let last = runs.last();
        let last_word = last.and_then(|run| run.error.clone().or_else(|| run.summary.clone()));
        Ok(Outcome {
            task,
            status: line.map(|line| line.status.clone()).unwrap_or_default(),
            runs: runs.len(),
            record: records.get(&task.id).cloned(),
            last_word: last_word.unwrap_or_default(),
        })
    };
    stage.tasks.iter().map(outcome).collect()
}

impl Outcome<'_> {
    fn row(&self) -> [String; 8] {
        let of_record = |show: &dyn Fn(&Record) -> String| {
            self.record.as_ref().map_or_else(|| "-".to_owned(), show)
        };
        [
            self.task.id.to_string(),
            self.task.sample.title.to_owned(),
            self.status.clone(),
            self.runs.to_string(),
            of_record(&|record| record.assignment.binding().ordinal.to_string()),
            of_record(&|record| record.assignment.binding().attempt.to_string()),
            of_record(&|record| record.claim.offers.to_string()),
            self.last_word.clone(),
        ]
    }

    /// What is not as it should be.
    fn fault(&self, victim: &TaskId) -> Option<String> {
        let title = self.task.sample.title;
        let expected = self.task.sample.last_status();
        if self.status != expected {
            return Some(format!("\"{title}\" is {}, not {expected}", self.status));
        }
        if self.runs != 1 {
            return Some(format!("\"{title}\" took {} runs, not one", self.runs));
        }
        let Some(record) = &self.record else {
            return Some(format!("the store knows nothing of \"{title}\""));
        };
        let (attempt, offers) = (record.assignment.binding().attempt, record.claim.offers);
        let expected = if self.task.id == *victim { 2 } else { 1 };
        ((attempt.0, offers) != (1, expected)).then(|| {
            format!(
                "\"{title}\" ended at offer {offers} of attempt {attempt}, not at offer {expected} of attempt 1"
            )
        })
    }
}
