//! The port on real rows: order, refusals, fates, and rows that nobody can understand.

use hermes_pool::board::mark;
use hermes_pool::board::{Board, Ending};
use hermes_pool::domain::{
    Expected, ExpectedEnding, Fate, Landing, Outcome, TaskId, Terminal, Verdict, judge,
};
use hermes_pool::protocol::{BlockKind, Json, Object};

use super::stage::{self, NOW, Stage, TTL, lanes, lock, run_ref};

#[test]
fn one_bad_row_hides_no_other() {
    let stage = Stage::new();
    let mut board = stage.open();
    let good = stage::add(&mut board, "good");
    stage.sql(
        "INSERT INTO tasks (id, title, status, assignee, created_at, priority)
              VALUES ('t bad', 'x', 'ready', 'codex-cli', 'yesterday', 'high');
         INSERT INTO tasks (id, title, status, assignee, created_at, max_runtime_seconds, consecutive_failures)
              VALUES ('t_0badc0de', x'ff00', 'ready', 'codex-cli', '1800000000', 'soon', 'many');
         INSERT INTO task_runs (task_id, status, outcome, started_at, ended_at)
              VALUES ('t_0badc0de', 'done', 'completed', 'then', '2026-01-01');",
    );
    let listing = board.ready(&lanes(), 9, NOW).unwrap();
    let ready: Vec<_> = listing
        .ready
        .iter()
        .map(|ready| ready.task.as_str())
        .collect();
    // The row without a known priority comes last, whatever else is wrong with it.
    assert_eq!(ready, [good.as_str(), "t_0badc0de"], "{listing:?}");
    assert_eq!(listing.refused.len(), 1, "{listing:?}");
    assert_eq!(listing.refused[0].task, "t bad");

    let bad = TaskId::parse("t_0badc0de").unwrap();
    let claim = board.claim(&bad, &lock("1"), TTL, NOW).unwrap().unwrap();
    assert!(
        board
            .brief(&bad, NOW)
            .unwrap()
            .context
            .contains("t_0badc0de")
    );
    let fail = Ending::Fail {
        reason: "no".to_owned(),
        failure_limit: 2,
    };
    let ended = board.end(&run_ref(&bad, &claim.run), &lock("1"), &fail, NOW);
    assert!(ended.unwrap().is_some());
}

#[test]
fn a_task_that_must_not_be_taken_is_refused_and_cannot_be_claimed() {
    let stage = Stage::new();
    let mut board = stage.open();
    let goal = stage::add(&mut board, "goal");
    let held = stage::add(&mut board, "held");
    stage.sql(&format!(
        "UPDATE tasks SET goal_mode = 1 WHERE id = '{goal}'; UPDATE tasks SET claim_lock = 'x' WHERE id = '{held}'"
    ));
    let listing = board.ready(&lanes(), 9, NOW).unwrap();
    assert_eq!((listing.ready.len(), listing.refused.len()), (0, 2));
    for task in [&goal, &held] {
        assert_eq!(board.claim(task, &lock("1"), TTL, NOW).unwrap(), None);
    }
    assert_eq!(stage.number("SELECT COUNT(*) FROM task_runs"), 0);
}

#[test]
fn a_lane_that_becomes_a_profile_is_left_to_hermes_at_once() {
    let stage = Stage::new();
    let mut board = stage.open();
    let task = stage::add(&mut board, "a");
    assert_eq!(board.ready(&lanes(), 9, NOW).unwrap().ready.len(), 1);
    std::fs::create_dir_all(stage.home.path().join("profiles/codex-cli")).unwrap();
    assert_eq!(board.claim(&task, &lock("1"), TTL, NOW).unwrap(), None);
    let listing = board.ready(&lanes(), 9, NOW).unwrap();
    assert!(listing.refused[0].why.contains("profile"), "{listing:?}");
    assert!(stage.boards.is_profile("codex-cli"));
    assert!(stage.boards.is_profile("default"));
    assert!(!stage.boards.is_profile("../profiles"));
}

#[test]
fn a_list_ends_with_the_tasks_that_were_asked_for() {
    let stage = Stage::new();
    let mut board = stage.open();
    for title in ["a", "b", "c"] {
        stage::add(&mut board, title);
    }
    assert_eq!(board.ready(&lanes(), 2, NOW).unwrap().ready.len(), 2);
}

/// A task that was claimed, ended in one way, and judged against what the pool expected.
fn judged(ending: &Ending, expected: ExpectedEnding) -> (Outcome, Option<Landing>, Terminal) {
    let stage = Stage::new();
    let mut board = stage.open();
    let task = stage::add(&mut board, "a");
    let claim = board.claim(&task, &lock("1"), TTL, NOW).unwrap().unwrap();
    let run = run_ref(&task, &claim.run);
    assert_eq!(
        board.claimed_run(&task, &lock("1")).unwrap(),
        Some(claim.run.clone())
    );
    assert_eq!(board.claimed_run(&task, &lock("2")).unwrap(), None);
    assert_eq!(board.lock_of(&run).unwrap(), Some(lock("1")));
    let ended = board
        .end(&run, &lock("1"), ending, NOW + 10)
        .unwrap()
        .unwrap();
    assert_eq!(
        board.end(&run, &lock("1"), ending, NOW + 10).unwrap(),
        None,
        "once is enough"
    );
    let fate = board.fate(&run, Some(&lock("1")), None, NOW + 10).unwrap();
    let expected = Expected {
        lock: Some(lock("1")),
        ending: Some(expected),
    };
    let Verdict::Over(evidence) = judge(&expected, &fate) else {
        panic!("{fate:?}");
    };
    let Fate::Ended(run) = fate else {
        panic!("{fate:?}");
    };
    assert_eq!(run.landing, ended.landing);
    (run.outcome, run.landing, evidence.terminal())
}

#[test]
fn every_ending_is_recognised_as_our_own_afterwards() {
    let text = || Some("why".to_owned());
    let marked = Json::Object(mark::put(Object::new(), "a-1", "ffffffff"));
    let complete = Ending::Complete {
        summary: text(),
        result: None,
        metadata: marked,
    };
    let block = |kind| Ending::Block {
        kind,
        reason: text(),
    };
    let fail = Ending::Fail {
        reason: "why".to_owned(),
        failure_limit: 2,
    };
    let quota = Ending::RateLimit {
        reason: "why".to_owned(),
    };
    let time_out = Ending::TimeOut {
        elapsed_seconds: 61,
        limit_seconds: 60,
        failure_limit: 2,
    };
    let mark = mark::text("a-1", "ffffffff");
    let blocked = || ExpectedEnding::Blocked { reason: text() };
    for (ending, expected, outcome, landing) in [
        (
            &complete,
            ExpectedEnding::Completed { mark },
            Outcome::Completed,
            None,
        ),
        (
            &block(BlockKind::Capability),
            blocked(),
            Outcome::Blocked,
            Some(Landing::Blocked),
        ),
        (
            &block(BlockKind::Dependency),
            blocked(),
            Outcome::Blocked,
            Some(Landing::Todo),
        ),
        (&fail, ExpectedEnding::Failed, Outcome::Crashed, None),
        (
            &quota,
            ExpectedEnding::RateLimited,
            Outcome::RateLimited,
            None,
        ),
        (
            &Ending::Release { reason: text() },
            ExpectedEnding::Released,
            Outcome::Reclaimed,
            None,
        ),
        (&time_out, ExpectedEnding::TimedOut, Outcome::TimedOut, None),
    ] {
        assert_eq!(
            judged(ending, expected),
            (outcome, landing, Terminal::Finalized),
            "{ending:?}"
        );
    }
}

#[test]
fn an_expired_claim_is_still_current_and_a_deleted_task_is_proved_by_the_anchor() {
    let stage = Stage::new();
    let mut board = stage.open();
    stage::add(&mut board, "the oldest");
    let task = stage::add(&mut board, "a");
    let anchor = board.anchor().unwrap();
    let claim = board.claim(&task, &lock("1"), TTL, NOW).unwrap().unwrap();
    let run = run_ref(&task, &claim.run);
    let fate = board
        .fate(&run, Some(&lock("1")), Some(&anchor), NOW + TTL + 1)
        .unwrap();
    assert!(
        matches!(
            fate,
            Fate::Current {
                expired: true,
                started_at: NOW,
                ..
            }
        ),
        "{fate:?}"
    );

    stage.sql(&format!(
        "DELETE FROM tasks WHERE id = '{task}'; DELETE FROM task_runs; DELETE FROM task_events WHERE task_id = '{task}'"
    ));
    let look = |board: &mut hermes_pool::board::hermes::HermesBoard, anchor| {
        board.fate(&run, Some(&lock("1")), anchor, NOW).unwrap()
    };
    assert_eq!(look(&mut board, Some(&anchor)), Fate::TaskGone);
    assert!(
        matches!(look(&mut board, None), Fate::BoardReplaced { .. }),
        "nothing proves it"
    );
    stage.sql("UPDATE tasks SET created_at = 1");
    assert!(matches!(
        look(&mut board, Some(&anchor)),
        Fate::BoardReplaced { .. }
    ));
}

#[test]
fn what_follows_a_completion_can_be_repeated() {
    let stage = Stage::new();
    let mut board = stage.open();
    let parent = stage::add(&mut board, "parent");
    let mut child = stage::task("child");
    child.parents = vec![parent.to_string()];
    let child = board.create_task(&child, NOW).unwrap();
    let claim = board.claim(&parent, &lock("1"), TTL, NOW).unwrap().unwrap();
    let complete = Ending::Complete {
        summary: None,
        result: Some("ok".to_owned()),
        metadata: Json::Object(Object::new()),
    };
    board
        .end(&run_ref(&parent, &claim.run), &lock("1"), &complete, NOW)
        .unwrap()
        .unwrap();
    let events = "SELECT COUNT(*) FROM task_events";
    let before = stage.number(events);
    board.finish_completion(&parent, NOW).unwrap();
    assert_eq!(stage.number(events), before);
    // A crash between the completion and the promotion.
    stage.sql(&format!(
        "UPDATE tasks SET status = 'todo' WHERE id = '{child}'"
    ));
    board.finish_completion(&parent, NOW).unwrap();
    assert_eq!(
        board.ready(&lanes(), 9, NOW).unwrap().ready[0]
            .task
            .as_str(),
        child
    );
}

#[test]
fn a_quota_rests_the_task_and_tells_until_when() {
    let stage = Stage::new();
    let mut board = stage.open();
    let task = stage::add(&mut board, "a");
    let claim = board.claim(&task, &lock("1"), TTL, NOW).unwrap().unwrap();
    let quota = Ending::RateLimit {
        reason: "q".repeat(600),
    };
    board
        .end(&run_ref(&task, &claim.run), &lock("1"), &quota, NOW)
        .unwrap()
        .unwrap();
    let listing = board.ready(&lanes(), 9, NOW + 299).unwrap();
    assert_eq!(listing.refused[0].until, Some(NOW + 300));
    assert_eq!(
        board.claim(&task, &lock("2"), TTL, NOW + 299).unwrap(),
        None
    );
    assert_eq!(board.ready(&lanes(), 9, NOW + 300).unwrap().ready.len(), 1);
    assert_eq!(stage.number("SELECT consecutive_failures FROM tasks"), 0);
    assert_eq!(
        stage.number("SELECT length(last_failure_error) FROM tasks"),
        500
    );
}
