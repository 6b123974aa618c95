//! A coordinator in a process of its own, Hermes on the same home, and workers in the test's hand.

use rusqlite::Connection;
use serde_json::{Value, json};

use super::message::Signed;
use super::oracle::Oracle;
use super::peer::{Peer, Target};
use super::process::{Process, until};

pub(crate) const BOARD: &str = "lab";
pub(crate) const DONE: &str = r#"{"outcome":"completed","summary":"done"}"#;
/// A claim that its owner has just extended lives at least this much longer.
pub(crate) const FRESH_SECONDS: i64 = 800;
/// More than the life of a claim.
const AGE_SECONDS: i64 = 1000;

pub(crate) struct Stage {
    pub(crate) target: Target,
    pub(crate) oracle: Oracle,
}

/// A run that the test works on.
pub(crate) struct Held {
    pub(crate) peer: Peer,
    pub(crate) job: Signed,
    pub(crate) task: String,
}

impl Stage {
    /// Starts both; `None` where Hermes is not to be had.
    pub(crate) fn start() -> Option<Self> {
        let target = Target::start(&[]);
        let oracle = Oracle::start(&target.home.path("hermes"))?;
        Some(Self { target, oracle })
    }

    /// Hermes adds a task for the pool's lane, and the ordinal fetches its run.
    pub(crate) fn held(&mut self, ordinal: u16) -> Held {
        let made = json!({"board": BOARD, "title": "a task", "assignee": "codex-cli"});
        let task = self.oracle.get("task_create", made)["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let mut peer = self.target.peer(ordinal);
        let job = fetch(&mut peer);
        assert_eq!(job.envelope["task_id"], task.as_str());
        until("its first extension is noted", || {
            self.knows_that_the_board_was_told(&job).then_some(())
        });
        Held { peer, job, task }
    }

    /// Whether the pool has noted all that it tells the board of a run that was just claimed. Who ages the run before that
    /// may be overtaken by the note.
    fn knows_that_the_board_was_told(&self, job: &Signed) -> bool {
        let run = job.envelope["run_id"].as_str().unwrap();
        self.store()
            .query_row(
                "SELECT board_heartbeat_at IS NOT NULL FROM claims WHERE run_id=?1",
                [run],
                |row| row.get(0),
            )
            .unwrap()
    }

    /// A task as Hermes shows it.
    pub(crate) fn task(&mut self, id: &str) -> Value {
        let mut shown = self
            .oracle
            .get("task_show", json!({"board": BOARD, "id": id}));
        shown["task"].take()
    }

    /// The runs of a task, oldest first.
    pub(crate) fn runs(&mut self, id: &str) -> Vec<Value> {
        let dump = self.dump();
        let runs = dump["tables"]["task_runs"].as_array().unwrap().iter();
        runs.filter(|run| run["task_id"] == id).cloned().collect()
    }

    pub(crate) fn dump(&mut self) -> Value {
        self.oracle.get("dump", json!({"board": BOARD}))
    }

    /// How many events of this kind a task has.
    pub(crate) fn events(&mut self, id: &str, kind: &str) -> usize {
        let dump = self.dump();
        let events = dump["tables"]["task_events"].as_array().unwrap().iter();
        events
            .filter(|event| event["task_id"] == id && event["kind"] == kind)
            .count()
    }

    /// Seconds that a task's claim has left.
    pub(crate) fn claim_left(&mut self, id: &str) -> i64 {
        let expires = self.task(id)["claim_expires"].as_i64().unwrap();
        expires - super::process::now()
    }

    /// One tick of Hermes' dispatcher that starts nothing.
    pub(crate) fn maintenance(&mut self) {
        self.oracle.get("maintenance", json!({"board": BOARD}));
    }

    /// All claims of the board grow old, and with them what the pool knows of its last extensions.
    pub(crate) fn age_claims(&mut self) {
        let older = format!(
            "UPDATE tasks SET claim_expires=claim_expires-{AGE_SECONDS} WHERE claim_expires IS NOT NULL"
        );
        self.oracle
            .get("sql", json!({"board": BOARD, "statements": [older]}));
        self.store()
            .execute(
                &format!("UPDATE claims SET confirmed_at=confirmed_at-{AGE_SECONDS}"),
                [],
            )
            .unwrap();
    }

    /// The state of a run in the pool's store.
    pub(crate) fn state_of(&self, job: &Signed) -> String {
        let run = job.envelope["run_id"].as_str().unwrap();
        self.store()
            .query_row(
                "SELECT state FROM assignments WHERE run_id=?1",
                [run],
                |row| row.get(0),
            )
            .unwrap()
    }

    fn store(&self) -> Connection {
        let store = Connection::open(self.target.home.path("state/assignments.db")).unwrap();
        store.busy_timeout(super::process::PATIENCE).unwrap();
        store
    }

    /// Whether somebody is in the middle of a write.
    fn is_being_written(&self) -> bool {
        let board = self.target.home.path("hermes/kanban/boards/lab/kanban.db");
        [self.target.home.path("state/assignments.db"), board]
            .iter()
            .any(|path| {
                let file = Connection::open(path).unwrap();
                file.busy_timeout(std::time::Duration::ZERO).unwrap();
                file.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err()
            })
    }

    /// Stops the coordinator where it stands, but not with a lock in its hand, which Hermes would wait for.
    pub(crate) fn freeze(&self) {
        let process = &self.target.coordinator.process;
        until("the coordinator is frozen", || {
            process.signal(rustix::process::Signal::STOP);
            until("it stands still", || is_stopped(process).then_some(()));
            if !self.is_being_written() {
                return Some(());
            }
            process.signal(rustix::process::Signal::CONT);
            None
        });
    }

    /// Lets the coordinator go on.
    pub(crate) fn thaw(&self) {
        let process = &self.target.coordinator.process;
        process.signal(rustix::process::Signal::CONT);
    }

    /// Kills the coordinator as it stands.
    pub(crate) fn kill(&mut self) {
        self.target.coordinator.process.kill();
    }

    /// Starts a coordinator in the place of one that was killed.
    pub(crate) fn restart(&mut self) {
        self.target.coordinator = self.target.home.serve();
        self.target.coordinator.wait_until_ready();
        self.target.workers = self.target.coordinator.workers.parse().unwrap();
    }

    /// The peer of a held run, connected to the coordinator that is there now.
    pub(crate) fn reconnect(&self, held: &mut Held) {
        held.peer = self.target.peer(held.peer.ordinal);
    }
}

/// Polls until there is a run.
pub(crate) fn fetch(peer: &mut Peer) -> Signed {
    until("a run is offered", || {
        let answer = peer.say("poll", None, r#"{"wait_seconds":1}"#);
        let signed = Signed::open(&peer.key, answer.text());
        (signed.kind() == "assignment").then_some(signed)
    })
}

impl Held {
    /// The code of the answer to a message about the run, or its status.
    pub(crate) fn say(&mut self, kind: &str, payload: &str) -> String {
        let answer = self.peer.say(kind, Some(&self.job), payload);
        let signed = Signed::open(&self.peer.key, answer.text());
        signed.code().to_owned()
    }
}

fn is_stopped(process: &Process) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.child.id())).unwrap();
    let (_, state) = stat.rsplit_once(')').unwrap();
    state.trim_start().starts_with('T')
}
