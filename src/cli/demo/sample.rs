//! The tasks of the demo's board, and what the sample command makes of each.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What comes before the instructions in a task's body.
const MARK: &str = "demo-task: ";

/// Instructions for the sample command: one line of a task's body.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Script {
    /// How long to work.
    pub(super) seconds: u64,
    /// The result, as the last line of the command's output.
    pub(super) answer: Value,
}

impl Script {
    /// Finds the instructions in the context of a task.
    pub(super) fn find(context: &str) -> Option<Self> {
        let line = context.lines().find_map(|line| line.strip_prefix(MARK))?;
        serde_json::from_str(line).ok()
    }
}

/// One task.
pub(super) struct Sample {
    pub(super) title: &'static str,
    /// Higher comes first.
    pub(super) priority: i64,
    /// Tasks of this list that have to be done before; each stands before this one.
    pub(super) parents: &'static [usize],
    seconds: u64,
    end: End,
}

/// How a task is meant to end.
enum End {
    /// Done, with this summary.
    Done(&'static str),
    /// Blocked, with this question.
    Asks(&'static str),
}

/// The first task is long enough for its worker to be killed in the middle of it.
pub(super) const SAMPLES: [Sample; 6] = [
    Sample {
        title: "Index the archive",
        priority: 9,
        parents: &[],
        seconds: 6,
        end: End::Done("4,096 pages indexed"),
    },
    Sample {
        title: "Count last month's orders",
        priority: 5,
        parents: &[],
        seconds: 3,
        end: End::Done("1,204 orders"),
    },
    Sample {
        title: "Fetch the exchange rates",
        priority: 5,
        parents: &[],
        seconds: 2,
        end: End::Done("31 rates"),
    },
    Sample {
        title: "Write the sales report",
        priority: 5,
        parents: &[1, 2],
        seconds: 3,
        end: End::Done("12 pages, 3 charts"),
    },
    Sample {
        title: "Send the sales report",
        priority: 5,
        parents: &[3],
        seconds: 1,
        end: End::Done("sent to 7 readers"),
    },
    Sample {
        title: "Order new paper",
        priority: 1,
        parents: &[],
        seconds: 1,
        end: End::Asks("A4 or letter?"),
    },
];

impl Sample {
    /// The body of the task, with the instructions in it.
    pub(super) fn body(&self) -> String {
        let answer = match self.end {
            End::Done(summary) => json!({ "outcome": "completed", "summary": summary }),
            End::Asks(question) => {
                json!({ "outcome": "blocked", "block_kind": "needs_input", "reason": question })
            }
        };
        let script = json!({ "seconds": self.seconds, "answer": answer });
        format!("Sample work. The sample command finds its instructions here.\n{MARK}{script}")
    }

    /// The status that the board must show in the end.
    pub(super) fn last_status(&self) -> &'static str {
        match self.end {
            End::Done(_) => "done",
            End::Asks(_) => "blocked",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{WorkerResult, parse_json};

    #[test]
    fn the_sample_command_finds_its_instructions_in_the_context_of_every_task() {
        for sample in &SAMPLES {
            let context = format!(
                "# {}\n\n## Body\n{}\n\n## More\n",
                sample.title,
                sample.body()
            );
            let script = Script::find(&context).unwrap();
            assert_eq!(script.seconds, sample.seconds);
            let answer = parse_json(script.answer.to_string().as_bytes()).unwrap();
            WorkerResult::parse(&answer).unwrap();
        }
        assert_eq!(Script::find("## Body\nwork"), None);
    }
}
