//! A board that is archived, busy, or no longer the pool's to serve, under a pool that works on it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::process::until;
use super::stage::{BOARD, DONE, Stage};

/// Longer than one round of tries: a board that answers no sooner is given up until the next pass.
const BUSY_MILLIS: u64 = 8000;
/// How soon the pool answers workers and operators, whatever its boards do.
const AT_ONCE: Duration = Duration::from_secs(2);

impl Stage {
    fn board(&self) -> Value {
        let (_, snapshot) = self.target.coordinator.get("/api/v1/pool");
        let boards = snapshot["boards"].as_array().unwrap();
        let found = boards.iter().find(|board| board["slug"] == BOARD);
        found.cloned().unwrap_or_default()
    }
}

/// The only folder in a folder.
fn only_folder(parent: &Path) -> std::path::PathBuf {
    let mut folders = std::fs::read_dir(parent).unwrap();
    let folder = folders.next().unwrap().unwrap().path();
    assert!(folders.next().is_none());
    folder
}

#[test]
fn a_board_that_is_archived_under_the_pool_is_told_as_gone_and_neither_written_nor_made_again() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    let mut held = stage.held(0);
    // The board is told of a new run at once; no write of the pool shall be under way when the board is moved.
    until("the board is told that the worker lives", || {
        (stage.events(&held.task, "heartbeat") == 1).then_some(())
    });
    stage.oracle.get("board_remove", json!({"slug": BOARD}));
    let boards = stage.target.home.path("hermes/kanban/boards");
    let archived = only_folder(&boards.join("_archived")).join("kanban.db");
    let count = || {
        let board = rusqlite::Connection::open(&archived).unwrap();
        let count = "SELECT count(*)||'/'||coalesce(max(id),0) FROM task_events";
        let events: String = board.query_row(count, [], |row| row.get(0)).unwrap();
        let run = "SELECT status||'/'||coalesce(outcome,'none') FROM task_runs";
        let run: String = board.query_row(run, [], |row| row.get(0)).unwrap();
        (events, run)
    };
    let before = count();
    assert_eq!(before.1, "running/none");
    assert_eq!(held.say("result", DONE), "accepted");
    until("the board is told as gone", || {
        let state = stage.board()["state"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        ["gone", "closed"].contains(&state.as_str()).then_some(())
    });
    // It was looked for a few times since, and one look at an absent board is no evidence.
    let passes = || stage.board()["last_pass"].as_f64();
    for _ in 0..3 {
        let last = passes();
        until("another pass", || (passes() != last).then_some(()));
    }
    assert_eq!(stage.state_of(&held.job), "result");
    assert_eq!(count(), before, "nothing is written into the archived copy");
    assert!(!boards.join(BOARD).exists(), "the pool makes no board");
}

#[test]
fn a_board_that_is_busy_delays_what_is_written_and_nothing_else() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    let mut held = stage.held(0);
    let mut other = stage.held(1);
    let lock = json!({"board": BOARD, "ms": BUSY_MILLIS});
    let began = Instant::now();
    stage.oracle.get("hold_lock", lock);
    let answered = |what: &str, ask: &mut dyn FnMut() -> bool| {
        let asked = Instant::now();
        assert!(ask(), "{what}");
        assert!(asked.elapsed() < AT_ONCE, "{what}: {:?}", asked.elapsed());
    };
    answered("a result", &mut || held.say("result", DONE) == "accepted");
    while began.elapsed() < Duration::from_millis(BUSY_MILLIS) {
        answered("a heartbeat", &mut || other.say("heartbeat", "{}") == "ok");
        answered("health", &mut || {
            stage.target.coordinator.get("/healthz").0 == 200
        });
        std::thread::park_timeout(Duration::from_millis(200));
    }
    assert_eq!(other.say("result", DONE), "accepted");
    for held in [&held, &other] {
        until("it is completed", || {
            (stage.task(&held.task)["status"] == "done").then_some(())
        });
        assert_eq!(stage.events(&held.task, "completed"), 1);
        until("the store knows", || {
            (stage.state_of(&held.job) == "finalized").then_some(())
        });
    }
}

#[test]
fn a_lane_whose_name_a_profile_takes_is_left_to_hermes_and_the_pool_says_why() {
    let Some(mut stage) = Stage::start() else {
        return;
    };
    let mut held = stage.held(0);
    stage
        .oracle
        .get("profile_create", json!({"name": "codex-cli"}));
    let made = json!({"board": BOARD, "title": "whose?", "assignee": "codex-cli"});
    let task = stage.oracle.get("task_create", made)["id"].clone();
    let task = task.as_str().unwrap();
    let mut idle = stage.target.peer(1);
    until("the pool says why", || {
        idle.say("poll", None, "{}");
        let (_, snapshot) = stage.target.coordinator.get("/api/v1/pool");
        let deferrals = snapshot["deferrals"].as_array().unwrap().iter();
        let mut whys = deferrals.filter_map(|deferral| deferral["why"].as_str());
        whys.any(|why| why.contains("codex-cli is a profile of Hermes"))
            .then_some(())
    });
    assert_eq!(stage.task(task)["status"], "ready");
    // What was claimed before is seen through.
    assert_eq!(held.say("result", DONE), "accepted");
    until("it is completed", || {
        (stage.task(&held.task)["status"] == "done").then_some(())
    });
    let tick = stage.oracle.get("dispatch", json!({"board": BOARD}));
    assert_eq!(tick["spawned_runs"][0]["id"], task, "{tick}");
}
