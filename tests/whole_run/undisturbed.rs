//! A whole run in peace: what Hermes finds on its board afterwards is what its own workers would have left there.

use serde_json::{Value, json};

use super::boards::{self, runs_end};
use super::invariants::{Dump, assert_settled, assert_undisturbed};
use super::oracle::Oracle;
use super::process::Process;
use super::replay::{CRASH, replay};
use super::site::{Site, workers_address};

const BOARD: &str = "lab";
const WORKERS: u16 = 3;

/// The tasks of the board, by what is special about them.
struct Tasks {
    parents: [String; 2],
    child: String,
    grandchild: String,
    limited: String,
    asks: String,
    fails_once: String,
    /// Tasks in the order of their priority.
    queue: Vec<String>,
}

impl Tasks {
    fn all(&self) -> impl Iterator<Item = &String> {
        let named = [
            &self.child,
            &self.grandchild,
            &self.limited,
            &self.asks,
            &self.fails_once,
        ];
        self.parents.iter().chain(named).chain(&self.queue)
    }
}

/// Makes the board and its tasks with Hermes, and subscribes to all of them.
fn prepare(oracle: &mut Oracle) -> Tasks {
    boards::create(oracle, BOARD);
    let mut add = |title: &str, more: Value| boards::add(oracle, BOARD, title, more);
    let done = |summary: &str, result: &str| {
        runs_end(&[json!({
            "outcome": "completed", "summary": summary, "result": result,
            "metadata": {"files": ["größe.md"], "n": 1},
        })])
    };
    let parents = [
        add(
            "Überschrift für 東京 🗼",
            json!({"body": done("Zeile eins\nZeile zwei: fertig ✓", "naïve café")}),
        ),
        add("a second parent", json!({"assignee": "claude-cli"})),
    ];
    let child = add(
        "a child of both",
        json!({"parents": parents, "priority": 9}),
    );
    let grandchild = add(
        "a grandchild",
        json!({"parents": [child], "assignee": "claude-cli"}),
    );
    let limited = add("limited in time", json!({"max_runtime_seconds": 600}));
    let asks =
        json!({"outcome": "blocked", "block_kind": "needs_input", "reason": "which colour?"});
    let asks = add("asks a question", json!({"body": runs_end(&[asks])}));
    let crash = json!({"outcome": "failed", "reason": CRASH});
    let recovery = json!({"outcome": "completed", "summary": "at the second try"});
    let fails_once = add("fails once", json!({"body": runs_end(&[crash, recovery])}));
    let queue = [30, 20, 10, 0]
        .iter()
        .map(|priority| {
            let title = format!("priority {priority}");
            add(&title, json!({"priority": priority, "tenant": "acme"}))
        })
        .collect();
    let tasks = Tasks {
        parents,
        child,
        grandchild,
        limited,
        asks,
        fails_once,
        queue,
    };
    for id in tasks.all() {
        oracle.get("subscribe", json!({"board": BOARD, "id": id}));
    }
    tasks
}

/// A pool serves the board until every run is over. Returns what the workers said.
fn serve(site: &Site, runs: usize) -> Vec<Vec<String>> {
    let mut coordinator = site.serve("");
    let address = workers_address(&mut coordinator);
    let workers: Vec<Process> = (0..WORKERS)
        .map(|ordinal| site.worker(ordinal, &address))
        .collect();
    coordinator.until(|| site.has_finalized(runs));
    coordinator.stop();
    workers.into_iter().map(Process::kill).collect()
}

#[test]
fn a_board_of_hermes_is_worked_off_as_by_hermes_own_workers() {
    let home = tempfile::tempdir().unwrap();
    let Some(mut oracle) = Oracle::start(home.path()) else {
        return;
    };
    let tasks = prepare(&mut oracle);
    let site = Site::new("undisturbed", oracle.home(), &[BOARD], WORKERS, 0);
    let said = serve(&site, tasks.all().count() + 1);

    let dump = oracle.get("dump", json!({"board": BOARD, "time": "mask"}));
    let board = [Dump::new(BOARD, dump.clone())];
    assert_eq!(assert_settled(&site, &board), 0);
    for said in &said {
        assert_undisturbed(said, &board);
    }
    assert_shown(&mut oracle, &tasks);
    assert_order(&board[0], &tasks);
    assert_told(&mut oracle, &tasks);

    // The same history once more, every step of it made by Hermes itself.
    let other_home = tempfile::tempdir().unwrap();
    let mut hermes = Oracle::start(other_home.path()).expect("it was there a moment ago");
    hermes.get("clock", json!({"set": 1_800_000_000}));
    prepare(&mut hermes);
    assert_eq!(replay(&mut hermes, BOARD, &dump), Vec::<String>::new());
}

/// Each task, its runs and its events as Hermes' own `show` gives them.
fn assert_shown(oracle: &mut Oracle, tasks: &Tasks) {
    let done_at_once = ["claimed", "heartbeat", "completed"].as_slice();
    let failed_first = &[&["claimed", "heartbeat", "crashed"], done_at_once].concat();
    for id in tasks.all() {
        let shown = oracle.get("task_show", json!({"board": BOARD, "id": id}));
        let (status, outcomes, kinds): (_, &[&str], &[&str]) = if *id == tasks.asks {
            (
                "blocked",
                &["blocked"],
                &["claimed", "heartbeat", "blocked"],
            )
        } else if *id == tasks.fails_once {
            ("done", &["crashed", "completed"], failed_first)
        } else {
            ("done", &["completed"], done_at_once)
        };
        assert_eq!(shown["task"]["status"], status, "{shown:#}");
        assert_eq!(texts(&shown["runs"], "outcome"), outcomes, "{shown:#}");
        // A run may be over before its board is told that the worker lives.
        let seen = texts(&shown["events"], "kind");
        let of_runs = |kinds: &[&str]| -> Vec<String> {
            let others = ["created", "promoted", "heartbeat"];
            let kept = kinds.iter().filter(|kind| !others.contains(*kind));
            kept.map(|kind| (*kind).to_owned()).collect()
        };
        assert_eq!(of_runs(&seen), of_runs(kinds), "{shown:#}");
        let diagnostics = oracle.get("diagnostics", json!({"board": BOARD, "id": id}));
        assert_eq!(diagnostics, json!([]), "{id}");
    }
    let first = oracle.get("task_show", json!({"board": BOARD, "id": tasks.parents[0]}));
    assert_eq!(first["task"]["title"], "Überschrift für 東京 🗼");
    assert_eq!(first["task"]["result"], "naïve café");
    let run = &first["runs"][0];
    assert_eq!(run["summary"], "Zeile eins\nZeile zwei: fertig ✓");
    assert_eq!(run["metadata"]["files"], json!(["größe.md"]));
    let completed = event(&first, "completed");
    assert_eq!(
        completed["payload"]["result_len"],
        "naïve café".chars().count()
    );
    let claimed = event(&first, "claimed");
    assert_eq!(keys(&claimed["payload"]), ["expires", "lock", "run_id"]);
    let limited = oracle.get("task_show", json!({"board": BOARD, "id": tasks.limited}));
    assert_eq!(limited["runs"][0]["max_runtime_seconds"], 600);
}

/// Parents before children, and the more urgent task first.
fn assert_order(board: &Dump, tasks: &Tasks) {
    let number = |kind: &str, id: &String| {
        let mut events = board.rows("task_events").iter();
        events
            .find(|event| event["kind"] == kind && event["task_id"] == id.as_str())
            .and_then(|event| event["id"].as_i64())
            .expect("the task has such an event")
    };
    for parent in &tasks.parents {
        assert!(number("completed", parent) < number("claimed", &tasks.child));
    }
    assert!(number("completed", &tasks.child) < number("claimed", &tasks.grandchild));
    let claims = tasks.queue.iter().map(|id| number("claimed", id));
    assert!(claims.is_sorted(), "the queue is claimed in order");
}

/// What Hermes tells the people who follow the tasks.
fn assert_told(oracle: &mut Oracle, tasks: &Tasks) {
    let told = oracle.get("notify_poll", json!({"board": BOARD}));
    for id in tasks.all() {
        let wanted: &[&str] = if *id == tasks.asks {
            &["blocked"]
        } else if *id == tasks.fails_once {
            &["crashed", "completed"]
        } else {
            &["completed"]
        };
        let of_task = told.as_array().unwrap().iter();
        let kinds: Vec<&str> = of_task
            .filter(|event| event["task_id"] == id.as_str())
            .map(|event| event["kind"].as_str().unwrap())
            .collect();
        assert_eq!(kinds, wanted, "{id}: {told:#}");
    }
    assert_eq!(
        oracle.get("notify_poll", json!({"board": BOARD})),
        json!([])
    );
}

fn texts<'a>(rows: &'a Value, column: &str) -> Vec<&'a str> {
    let rows = rows.as_array().expect("a list of rows");
    rows.iter()
        .map(|row| row[column].as_str().unwrap_or_default())
        .collect()
}

fn event<'a>(shown: &'a Value, kind: &str) -> &'a Value {
    let mut events = shown["events"].as_array().expect("a list of events").iter();
    events
        .find(|event| event["kind"] == kind)
        .expect("the task has such an event")
}

fn keys(payload: &Value) -> Vec<&str> {
    let payload = payload.as_object().expect("the event has a payload");
    let mut keys: Vec<&str> = payload.keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}
