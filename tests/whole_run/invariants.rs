//! What must hold after any run, whatever was killed in it: judged by the boards, the store and the workers' own words.

use std::collections::BTreeMap;

use serde_json::Value;

use super::site::{Row, Site};

/// Lines by which a worker tells that its coordinator was away: its connection was refused, or broke with the process.
const AWAY: [&str; 3] = [
    "ConnectionRefusedError: ",
    "ConnectionResetError: ",
    "RemoteDisconnected: ",
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

    /// Every task is done, by exactly one of its runs, and after its parents.
    pub(crate) fn assert_all_done_once(&self) {
        for task in self.rows("tasks") {
            assert_eq!(task["status"], "done", "{}: {task}", self.slug);
            assert_eq!(task["claim_lock"], Value::Null, "{}: {task}", self.slug);
            let runs = self.rows("task_runs").iter();
            let completed = runs
                .filter(|run| run["task_id"] == task["id"] && run["outcome"] == "completed")
                .count();
            assert_eq!(completed, 1, "{}: {task}", self.slug);
        }
        for run in self.rows("task_runs") {
            let wanted = usize::from(run["outcome"] == "completed");
            assert_eq!(self.events("claimed", run).count(), 1, "{run}");
            assert_eq!(self.events("completed", run).count(), wanted, "{run}");
            assert_ne!(run["ended_at"], Value::Null, "{run}");
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

/// A worker noticed no more of its coordinator's deaths than that nobody answered; what it was told is accepted stands on
/// the board.
pub(crate) fn assert_undisturbed(said: &[String], boards: &[Dump]) {
    for line in said {
        let line = line
            .strip_prefix("hermes-pool-client: ")
            .unwrap_or_else(|| panic!("{line}: no line of the client: {said:#?}"));
        let line = line.strip_prefix("heartbeat: ").unwrap_or(line);
        if line.starts_with("begun: ") || AWAY.iter().any(|away| line.starts_with(away)) {
            continue;
        }
        let accepted = line
            .strip_suffix(": completed")
            .or_else(|| line.strip_suffix(": blocked"))
            .or_else(|| line.strip_suffix(": failed"));
        let Some(name) = accepted else {
            panic!("{line}: {said:#?}");
        };
        assert!(
            stands_on_its_board(name, line, boards),
            "{line} is not on its board"
        );
    }
}

/// Whether the run of a line such as `lab/t_1 run 7 attempt 1: completed` has that outcome on its board.
fn stands_on_its_board(name: &str, line: &str, boards: &[Dump]) -> bool {
    let mut words = name.split([' ', '/']);
    let (slug, task) = (words.next(), words.next());
    let run = words.nth(1).and_then(|run| run.parse::<i64>().ok());
    let outcome = match line.rsplit(' ').next() {
        Some("failed") => Some("crashed"),
        other => other,
    };
    boards
        .iter()
        .filter(|board| Some(board.slug.as_str()) == slug)
        .flat_map(|board| board.rows("task_runs"))
        .any(|row| {
            row["id"].as_i64() == run
                && row["task_id"].as_str() == task
                && row["outcome"].as_str() == outcome
        })
}
