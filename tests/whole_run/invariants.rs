//! What must hold after any run, whatever was killed in it: judged by the boards, the store and the workers' own words.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::site::{Row, Site};

/// Lines by which a worker tells that its coordinator was away: its connection was refused, or broke with the process.
const AWAY: [&str; 4] = [
    "BrokenPipeError: ",
    "ConnectionRefusedError: ",
    "ConnectionResetError: ",
    "RemoteDisconnected: ",
];

/// The events that end a run; its outcome has the same name.
const ENDS: [&str; 5] = [
    "completed",
    "blocked",
    "crashed",
    "rate_limited",
    "reclaimed",
];

/// A board as Hermes dumps it.
pub(crate) struct Dump {
    slug: String,
    tables: Value,
}

impl Dump {
    pub(crate) fn new(slug: &str, mut dump: Value) -> Self {
        Self {
            slug: slug.to_owned(),
            tables: dump["tables"].take(),
        }
    }

    pub(crate) fn rows(&self, table: &str) -> &[Value] {
        self.tables[table].as_array().map_or(&[], Vec::as_slice)
    }

    fn events<'a>(&'a self, kind: &'a str, of: &'a Value) -> impl Iterator<Item = &'a Value> {
        self.rows("task_events")
            .iter()
            .filter(move |event| event["kind"] == kind && event["run_id"] == of["id"])
    }

    /// The number of the one event of this kind that a task has.
    fn only_event(&self, kind: &str, task: &Value) -> i64 {
        let mut events = self
            .rows("task_events")
            .iter()
            .filter(|event| event["kind"] == kind && event["task_id"] == *task);
        let (event, further) = (events.next(), events.next());
        assert!(
            further.is_none(),
            "{}/{task}: {kind} more than once",
            self.slug
        );
        event
            .and_then(|event| event["id"].as_i64())
            .expect("the task has such an event")
    }

    /// The outcomes of a task's runs, in order.
    pub(crate) fn outcomes(&self, task: &str) -> Vec<&str> {
        let runs = self.rows("task_runs").iter();
        runs.filter(|run| run["task_id"] == task)
            .map(|run| run["outcome"].as_str().unwrap_or_default())
            .collect()
    }

    /// Every task is done, by exactly one of its runs, and after its parents.
    pub(crate) fn assert_all_done_once(&self) {
        self.assert_each_run_ended_once();
        for task in self.rows("tasks") {
            assert_eq!(task["status"], "done", "{}: {task}", self.slug);
            assert_eq!(task["claim_lock"], Value::Null, "{}: {task}", self.slug);
            let outcomes = self.outcomes(task["id"].as_str().unwrap_or_default());
            let completed = outcomes.iter().filter(|outcome| **outcome == "completed");
            assert_eq!(completed.count(), 1, "{}: {task}", self.slug);
        }
        for link in self.rows("task_links") {
            let parent = self.only_event("completed", &link["parent_id"]);
            let first_claim = self
                .rows("task_events")
                .iter()
                .find(|event| event["kind"] == "claimed" && event["task_id"] == link["child_id"])
                .and_then(|event| event["id"].as_i64());
            assert!(
                first_claim.is_some_and(|claim| claim > parent),
                "{}: {link}",
                self.slug
            );
        }
    }

    /// Every run was claimed once and has one end, and no end of another kind.
    pub(crate) fn assert_each_run_ended_once(&self) {
        for run in self.rows("task_runs") {
            assert_ne!(run["ended_at"], Value::Null, "{}: {run}", self.slug);
            assert_eq!(self.events("claimed", run).count(), 1, "{run}");
            let mut ends = 0;
            for kind in ENDS {
                let events = self.events(kind, run).count();
                assert!(events == 0 || run["outcome"] == kind, "{kind}: {run}");
                ends += events;
            }
            assert_eq!(ends, 1, "{}: {run}", self.slug);
        }
    }
}

/// The store is settled and agrees with the boards. Returns how many runs were given back, which is the only trace that a
/// fault of the coordinator may leave.
pub(crate) fn assert_settled(site: &Site, boards: &[Dump]) -> usize {
    let rows = site.rows();
    assert_eq!(site.intents(), 0);
    assert_one_at_a_time(&rows);
    let mut known: BTreeMap<(&str, &str), &Row> = BTreeMap::new();
    for row in &rows {
        assert_eq!(row.state, "finalized", "{row:?}");
        known.insert((&row.board, &row.run), row);
    }
    let mut given_back = 0;
    let mut seen = 0;
    for board in boards {
        for run in board.rows("task_runs") {
            let id = run["id"].to_string();
            let Some(row) = known.get(&(board.slug.as_str(), id.as_str())) else {
                // The claim whose intent could not be carried out.
                assert_eq!(run["outcome"], "reclaimed", "{}: {run}", board.slug);
                given_back += 1;
                continue;
            };
            seen += 1;
            assert_eq!(run["task_id"], row.task.as_str());
            if run["outcome"] == "completed" {
                assert_eq!(run["metadata"]["pool"]["assignment"], row.mark());
            }
        }
    }
    assert_eq!(seen, rows.len(), "every row's run is on its board");
    given_back
}

/// An ordinal had one assignment at a time.
fn assert_one_at_a_time(rows: &[Row]) {
    let mut last: BTreeMap<i64, &Row> = BTreeMap::new();
    for row in rows {
        if let Some(before) = last.insert(row.ordinal, row) {
            assert!(
                before.updated_at <= row.created_at,
                "{before:?} was not over: {row:?}"
            );
        }
    }
}

/// A worker noticed no more of its coordinator's deaths than that nobody answered: it was given each run once, and what it
/// was told is accepted stands on the board.
pub(crate) fn assert_undisturbed(said: &[String], boards: &[Dump]) {
    let mut begun = BTreeSet::new();
    for (number, line) in said.iter().enumerate() {
        let is_again = line.contains("begun: ") && !begun.insert(line);
        assert!(!is_again, "more than once: {line}");
        assert!(
            is_undisturbed(line, boards),
            "after {:#?}: {line}",
            &said[number.saturating_sub(5)..number]
        );
    }
}

/// Whether a line tells of nothing but work, and a coordinator that is away.
fn is_undisturbed(line: &str, boards: &[Dump]) -> bool {
    let Some(line) = line.strip_prefix("hermes-pool-client: ") else {
        return false;
    };
    let line = line.strip_prefix("heartbeat: ").unwrap_or(line);
    if line.starts_with("begun: ") || AWAY.iter().any(|away| line.starts_with(away)) {
        return true;
    }
    let ended = line.rsplit_once(": ");
    ended.is_some_and(|(name, outcome)| stands_on_its_board(name, outcome, boards))
}

/// Whether a run, named as in `lab/t_1 run 7 attempt 1`, has this outcome on its board.
fn stands_on_its_board(name: &str, outcome: &str, boards: &[Dump]) -> bool {
    let mut words = name.split([' ', '/']);
    let (slug, task) = (words.next(), words.next());
    let run = words.nth(1).and_then(|run| run.parse::<i64>().ok());
    // Hermes' own word for it.
    let outcome = match outcome {
        "failed" => "crashed",
        "released" => "reclaimed",
        other => other,
    };
    boards
        .iter()
        .filter(|board| Some(board.slug.as_str()) == slug)
        .flat_map(|board| board.rows("task_runs"))
        .any(|row| {
            row["id"].as_i64() == run
                && row["task_id"].as_str() == task
                && row["outcome"] == outcome
        })
}
