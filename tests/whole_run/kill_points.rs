//! The coordinator is killed between any two durable steps of a run, started again, and goes on where it was.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Mutex;

use hermes_pool::faults::FaultPoint;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::boards::{self, runs_end};
use super::invariants::{Dump, assert_settled, assert_undisturbed};
use super::oracle::Oracle;
use super::site::{Site, fixed_port, workers_address};

/// Deaths at the same time.
const AT_ONCE: usize = 4;

/// One death: where, and how the run ends that it happens in.
#[derive(Clone, Copy)]
struct Death {
    point: FaultPoint,
    ending: &'static Ending,
}

/// How the first run of a board ends.
struct Ending {
    name: &'static str,
    /// The worker's result as JSON.
    result: &'static str,
    /// The outcomes of the task's runs on the board.
    outcomes: &'static [&'static str],
}

static COMPLETED: Ending = Ending {
    name: "completed",
    result: r#"{"outcome":"completed","summary":"done"}"#,
    outcomes: &["completed"],
};

/// Every other ending. Where it gives the task back, the next run completes it.
static OTHERS: [Ending; 4] = [
    Ending {
        name: "blocked",
        result: r#"{"outcome":"blocked","block_kind":"needs_input","reason":"which?"}"#,
        outcomes: &["blocked"],
    },
    Ending {
        name: "failed",
        result: r#"{"outcome":"failed","reason":"no luck"}"#,
        outcomes: &["crashed", "completed"],
    },
    Ending {
        name: "rate-limited",
        result: r#"{"outcome":"rate_limited","reason":"quota","retry_after_seconds":1}"#,
        // Hermes lets such a task rest.
        outcomes: &["rate_limited"],
    },
    Ending {
        name: "released",
        result: r#"{"outcome":"released","reason":"not now"}"#,
        outcomes: &["reclaimed", "completed"],
    },
];

impl Death {
    fn board(self) -> String {
        format!("{}-{}", self.ending.name, self.point).replace('_', "-")
    }

    /// A task, and where it gets done one that waits for it. Returns the first.
    fn prepare(self, oracle: &mut Oracle) -> String {
        let slug = self.board();
        boards::create(oracle, &slug);
        let first: Value = serde_json::from_str(self.ending.result).unwrap();
        let body = runs_end(&[first, json!({"outcome": "completed"})]);
        let task = boards::add(oracle, &slug, "task", json!({"body": body}));
        if self.is_done() {
            boards::add(oracle, &slug, "child", json!({"parents": [task]}));
        }
        task
    }

    fn is_done(self) -> bool {
        self.ending.outcomes.last() == Some(&"completed")
    }

    fn runs(self) -> usize {
        self.ending.outcomes.len() + usize::from(self.is_done())
    }

    /// A pool with one worker and one point at which its first coordinator dies; returns what the worker said.
    fn die_and_go_on(self, home: &Path) -> (Site, Vec<String>) {
        let port = fixed_port();
        let site = Site::new(&self.board(), home, &[&self.board()], 1, port);
        // What happens while a run is worked on must not be overtaken by its end.
        let gate = (self.point <= FaultPoint::ClaimExtended).then(|| site.close_gate());
        let doomed = site.serve(&format!("{}=kill", self.point));
        let worker = site.worker(0, &format!("127.0.0.1:{port}"));
        let (status, said) = doomed.ended();
        assert_eq!(
            status.signal(),
            Some(Signal::KILL.as_raw()),
            "{}: {status}: {said:#?}",
            self.board()
        );
        drop(gate);
        let mut coordinator = site.serve("");
        workers_address(&mut coordinator);
        coordinator.until(|| site.has_finalized(self.runs()));
        coordinator.stop();
        let said = worker.kill();
        (site, said)
    }
}

#[test]
fn a_coordinator_killed_between_any_two_durable_steps_finishes_the_run_once() {
    let every_point = FaultPoint::ALL.iter().map(|&point| Death {
        point,
        ending: &COMPLETED,
    });
    die(every_point.collect());
}

#[test]
fn a_coordinator_killed_around_any_ending_writes_it_once() {
    let around = [
        FaultPoint::ResultCommitted,
        FaultPoint::EndingWritten,
        FaultPoint::EndRecorded,
    ];
    let each = OTHERS
        .iter()
        .flat_map(|ending| around.map(|point| Death { point, ending }));
    die(each.collect());
}

/// Dies all these deaths, a few at a time, each on a board of its own, and looks at what is left.
fn die(deaths: Vec<Death>) {
    let home = tempfile::tempdir().unwrap();
    let Some(mut oracle) = Oracle::start(home.path()) else {
        return;
    };
    let tasks: Vec<String> = deaths
        .iter()
        .map(|death| death.prepare(&mut oracle))
        .collect();
    let home = oracle.home();
    let queue: Mutex<VecDeque<_>> = Mutex::new(deaths.into_iter().zip(tasks).collect());
    let next = || queue.lock().unwrap().pop_front();
    let one_after_the_other = || -> Vec<_> {
        std::iter::from_fn(next)
            .map(|(death, task)| (death, task, death.die_and_go_on(home)))
            .collect()
    };
    let ended: Vec<_> = std::thread::scope(|scope| {
        let threads = [(); AT_ONCE].map(|()| scope.spawn(one_after_the_other));
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    let mut dumps = oracle.dump();
    for (death, task, (site, said)) in ended {
        let slug = death.board();
        let board = Dump::new(&slug, dumps[&slug].take());
        assert_eq!(board.outcomes(&task), death.ending.outcomes, "{slug}");
        board.assert_each_run_ended_once();
        if death.is_done() {
            board.assert_all_done_once();
        }
        let boards = [board];
        assert_eq!(
            assert_settled(&site, &boards),
            0,
            "{slug}: no run is given back"
        );
        assert_undisturbed(&said, &boards);
    }
}
