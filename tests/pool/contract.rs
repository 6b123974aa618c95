//! The contract of the reference's fault tests (`test_execution_pool_faults.py`), kept by our actors on real files.
//!
//! | the reference's test | kept by |
//! |---|---|
//! | one poisoned board and task never abort the work behind them | [`a_poisoned_board_and_task_never_stop_the_work_behind_them`] |
//! | adoption conflict leaves the ordinal free and kanban untouched | [`an_adoption_that_fails_leaves_the_slot_free_and_the_board_as_it_is`], `ownership::a_run_whose_number_a_restored_board_gave_out_before_is_given_back_and_its_task_claimed_anew` |
//! | dispatch defers storage and identity faults without blocking the run | [`a_store_fault_at_dispatch_blocks_nothing_and_the_run_is_adopted_later`] |
//! | dispatch still parks the exact run on a real capability failure | `dispatch::a_task_that_cannot_be_offered_is_parked_as_capability` |
//! | a failing park write is absorbed rather than wedging the pass | [`a_park_that_fails_is_put_off_and_the_next_task_is_served`] |
//! | one unprocessable result never blocks the results behind it | [`a_result_that_is_none_never_stops_the_results_behind_it`] |
//! | startup maintenance is as safe as the steady-state loop | [`the_first_cycle_over_a_poisoned_store_and_no_boards_is_guarded`], `tests/serve/starting.rs`, `tests/serve/mending.rs` |
//! | maintenance cycle counts deferrals and keeps running | `tests/serve/once.rs`: `work_that_is_put_off_is_counted_and_is_no_failure` |
//! | the poison row survives restart on the same volume and then resolves | [`a_given_up_run_survives_a_restart_and_is_then_resolved`] |
//! | a store write fault while recording leaves the row retryable | [`a_store_fault_while_the_end_is_recorded_leaves_the_row_to_the_next_pass`] |
//! | finalize reports whether the exact row changed | `tests/store/ending.rs`, `tests/conformance/store.rs` |
//! | deferral reporting is deduplicated and bounded | [`what_is_put_off_is_logged_once_for_each_change`]; bounded: the tests of `src/actors/ledger.rs` |
//! | protocol exposes only the store on its compatibility surface | none: it is about attributes of a Python module |
//! | adoption stops as soon as the last ordinal is taken | [`adoption_stops_at_the_last_slot_and_gives_the_rest_back`] |
//! | an unreadable board registry defers instead of escaping | [`boards_that_cannot_be_listed_are_put_off_and_the_known_ones_go_on`] |
//! | an unreadable claim path defers instead of escaping | `places::a_visit_that_always_breaks_puts_off_what_it_was_for_and_nothing_else` |
//! | an owned workspace without a canonical run is skipped silently | [`a_task_that_runs_without_a_run_is_left_alone`] |
//! | a result cannot be accepted onto an already terminal row | `leases::a_silent_worker_is_fenced_at_its_deadline_and_parked_after_the_last_attempt` |
//! | a non-string message kind is rejected before any lookup | the vectors of `tests/conformance/verify.rs`, `tests/http/hostile_fields.rs` |

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hermes_pool::actors::{ListBoards, PoolEvent};
use hermes_pool::board::hermes::NewTask;
use hermes_pool::domain::{BoardSlug, FailCause, Terminal};
use hermes_pool::faults::{Fault, FaultPoint, Work};
use rusqlite::Connection;

use crate::support::{PATIENCE, Running, Stage};

const COMPLETED: &str = r#"{"outcome":"completed"}"#;

/// Lets the Dispatcher of board `a` claim `count` tasks and die after each, so that only their intents are left.
async fn leave_claims_behind(stage: &Stage, pool: &mut Running<'_>, count: usize) {
    stage
        .faults
        .arm_work(Work::Step, "a/intents", Fault::PanicAlways);
    stage.faults.arm(FaultPoint::RunClaimed, Fault::PanicAlways);
    let board = BoardSlug::parse("a").unwrap();
    let mut heard = pool.pool.listen();
    let patience = Instant::now() + PATIENCE;
    for _ in 0..count {
        loop {
            assert!(Instant::now() < patience);
            pool.worker(0).poll().await;
            let died = |event: &PoolEvent| matches!(event, PoolEvent::Restarted(name) if name == "dispatcher-a");
            let soon = Duration::from_millis(20);
            if heard.wait_for(soon, died).await.is_ok() {
                break;
            }
            pool.advance(1.0);
        }
    }
    let tasks = stage.boards.open(&board).unwrap().tasks().unwrap();
    let running = tasks.iter().filter(|task| task.status == "running");
    assert_eq!(running.count(), count);
    stage.faults.disarm();
}

fn has(pool: &Running<'_>, scope: &str, what: &str) -> bool {
    let entries = pool.pool.ledger().entries();
    entries
        .iter()
        .any(|(item, _)| item.scope.to_string().starts_with(scope) && item.what == what)
}

#[actix::test]
async fn a_poisoned_board_and_task_never_stop_the_work_behind_them() {
    let stage = Stage::new(3);
    let (board, broken) = (stage.board("a"), stage.board("broken"));
    let database = stage.database(&broken);
    let _ = std::fs::remove_file(database.with_file_name("kanban.db-wal"));
    std::fs::write(database, "poison".repeat(99)).unwrap();
    let tasks = [stage.task(&board, "first"), stage.task(&board, "second")];
    let mut pool = stage.start().await;
    leave_claims_behind(&stage, &mut pool, 2).await;
    stage
        .faults
        .arm_work(Work::Visit, "a/read the task", Fault::PanicOnce);
    let mut heard = pool.pool.listen();
    for _ in 0..2 {
        let added = |event: &PoolEvent| matches!(event, PoolEvent::Added(_));
        pool.pass(&board).await;
        heard.wait_for(PATIENCE, added).await.unwrap();
    }
    for task in &tasks {
        assert_eq!(stage.runs(&board, task).len(), 1);
        assert!(!stage.event_kinds(&board, task).contains(&"blocked".into()));
    }
    assert!(has(&pool, "broken", "look for work"));
}

#[actix::test]
async fn an_adoption_that_fails_leaves_the_slot_free_and_the_board_as_it_is() {
    let stage = Stage::new(1);
    let (board, other) = (stage.board("a"), stage.board("b"));
    let task = stage.task(&board, "t");
    let mut pool = stage.start().await;
    leave_claims_behind(&stage, &mut pool, 1).await;
    let stopped = stage.faults.stopped();
    stage
        .faults
        .arm_work(Work::Operation, "AddAssignment", Fault::PanicAlways);
    let before = stage.event_kinds(&board, &task);
    // The pass that meets the fault may be one of the pool's own.
    let patience = Instant::now() + PATIENCE;
    while stage.faults.stopped() < stopped + 1 {
        assert!(Instant::now() < patience);
        pool.pass(&board).await;
    }
    assert_eq!(pool.snapshot().await.counts, Default::default());
    assert_eq!(stage.event_kinds(&board, &task), before);
    stage.faults.disarm();
    // Nothing holds the slot: what comes next gets it, be it this run or another board's.
    stage.task(&other, "next");
    let mut heard = pool.pool.listen();
    pool.pass(&board).await;
    for _ in 0..2 {
        let worker = pool.worker(0);
        let patience = Instant::now() + PATIENCE;
        let job = loop {
            assert!(Instant::now() < patience);
            if let Some(job) = worker.poll().await {
                break job;
            }
            pool.a_moment(0.5).await;
        };
        assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok");
        let is_end = |event: &PoolEvent| matches!(event, PoolEvent::Ended { .. });
        heard.wait_for(PATIENCE, is_end).await.unwrap();
    }
    assert_eq!(stage.status(&board, &task), "done");
}

#[actix::test]
async fn a_store_fault_at_dispatch_blocks_nothing_and_the_run_is_adopted_later() {
    for operation in ["RecordIntent", "AddAssignment"] {
        let stage = Stage::new(1);
        let board = stage.board("a");
        let task = stage.task(&board, "t");
        stage
            .faults
            .arm_work(Work::Operation, operation, Fault::PanicAlways);
        let mut pool = stage.start().await;
        pool.worker(0).poll().await;
        let patience = Instant::now() + PATIENCE;
        while pool.pool.ledger().is_empty() {
            assert!(Instant::now() < patience, "{operation}");
            pool.a_moment(0.1).await;
        }
        assert!(
            !stage.event_kinds(&board, &task).contains(&"blocked".into()),
            "{operation}"
        );
        stage.faults.disarm();
        pool.hear_after_a_while(|event| matches!(event, PoolEvent::Added(_)))
            .await;
        assert_eq!(stage.runs(&board, &task).len(), 1, "{operation}");
    }
}

#[actix::test]
async fn a_park_that_fails_is_put_off_and_the_next_task_is_served() {
    let stage = Stage::new(2);
    let board = stage.board("a");
    let title = "ü".repeat(30_000);
    let large = stage.add(
        &board,
        NewTask {
            title,
            ..NewTask::default()
        },
    );
    let small = stage.task(&board, "small");
    for visit in ["a/park", "a/give the claim back"] {
        stage
            .faults
            .arm_work(Work::Visit, visit, Fault::PanicAlways);
    }
    let mut pool = stage.start().await;
    pool.worker(0).poll().await;
    pool.hear_after_a_while(
        |event| matches!(event, PoolEvent::Added(binding) if binding.key.task == small),
    )
    .await;
    pool.pass(&board).await;
    assert!(has(&pool, &format!("a/{large}"), "give the claim back"));
    assert_eq!(stage.status(&board, &large), "running");
    stage.faults.disarm();
    pool.pass(&board).await;
    assert_eq!(stage.status(&board, &large), "blocked");
    assert_eq!(
        stage.runs(&board, &large).len(),
        1,
        "the exact run is parked"
    );
    assert!(!has(&pool, &format!("a/{large}"), "give the claim back"));
}

#[actix::test]
async fn a_result_that_is_none_never_stops_the_results_behind_it() {
    let stage = Stage::new(2);
    let board = stage.board("a");
    let tasks = [stage.task(&board, "first"), stage.task(&board, "second")];
    let mut pool = stage.start().await;
    // Both results wait in the store while nothing is settled.
    stage
        .faults
        .arm_work(Work::Step, "a/settle", Fault::PanicAlways);
    for ordinal in 0..2 {
        let worker = pool.worker(ordinal);
        let patience = Instant::now() + PATIENCE;
        let job = loop {
            assert!(Instant::now() < patience);
            if let Some(job) = worker.poll().await {
                break job;
            }
            pool.a_moment(0.1).await;
        };
        assert_eq!(worker.submit(&job, COMPLETED).await.code(), "ok");
    }
    let store = Connection::open(stage.settings.state_dir.join("assignments.db")).unwrap();
    store.busy_timeout(PATIENCE).unwrap();
    let poisoned = store
        .execute(
            "UPDATE assignments SET result_json='[]' WHERE task_id=?1",
            [tasks[0].as_str()],
        )
        .unwrap();
    assert_eq!(poisoned, 1);
    stage.faults.disarm();
    pool.pass(&board).await;
    assert_eq!(stage.status(&board, &tasks[1]), "done");
    assert_eq!(stage.status(&board, &tasks[0]), "running");
    assert!(has(&pool, &format!("a/{}", tasks[0]), "settle"));
}

/// A run whose attempts are used up on a board that cannot be written to.
async fn given_up<'a>(stage: &'a Stage, board: &BoardSlug) -> (Running<'a>, Connection) {
    let mut pool = stage.start().await;
    let worker = pool.worker(0);
    worker.poll().await;
    pool.hear(|event| matches!(event, PoolEvent::Added(_)))
        .await;
    worker.poll().await.unwrap();
    for _ in 0..2 {
        pool.advance(90.5);
        pool.hear(|event| matches!(event, PoolEvent::Fenced(_)))
            .await;
        worker.poll().await.unwrap();
    }
    let lock = stage.sql(board);
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    pool.advance(90.5);
    pool.hear(|event| matches!(event, PoolEvent::LeaseFailed(_, FailCause::Exhausted)))
        .await;
    (pool, lock)
}

fn is_finalized(event: &PoolEvent) -> bool {
    matches!(
        event,
        PoolEvent::Ended {
            terminal: Terminal::Finalized,
            ..
        }
    )
}

#[actix::test]
async fn a_given_up_run_survives_a_restart_and_is_then_resolved() {
    let stage = Stage::impatient(1);
    let board = stage.board("a");
    let task = stage.task(&board, "t");
    let (pool, lock) = given_up(&stage, &board).await;
    pool.stop().await;

    let mut pool = stage.start().await;
    pool.pass(&board).await;
    let snapshot = pool.snapshot().await;
    assert_eq!(snapshot.counts.lease_failed, 1);
    assert!(snapshot.slots[0].run.is_none(), "the row holds no slot");
    assert!(has(&pool, "a", "settle"));
    lock.execute_batch("ROLLBACK").unwrap();
    pool.pass(&board).await;
    pool.hear(is_finalized).await;
    assert_eq!(stage.status(&board, &task), "blocked");
    assert!(!has(&pool, "a", "settle"));
}

#[actix::test]
async fn the_first_cycle_over_a_poisoned_store_and_no_boards_is_guarded() {
    let stage = Stage::impatient(1);
    let board = stage.board("a");
    stage.task(&board, "t");
    let (pool, _lock) = given_up(&stage, &board).await;
    pool.stop().await;
    let boards = stage.boards.root().join("kanban/boards");
    std::fs::rename(&boards, stage.folder.path().join("aside")).unwrap();
    std::fs::write(&boards, "no directory").unwrap();

    let pool = stage.begin();
    let cycle = tokio::time::timeout(PATIENCE, pool.pool.run_once())
        .await
        .unwrap();
    assert!(
        cycle.deferred > 0 && cycle.not_ready.is_empty(),
        "{cycle:?}"
    );
    assert!(has(&pool, "pool:boards", "list the boards"));
    assert_eq!(pool.snapshot().await.counts.lease_failed, 1);
}

#[actix::test]
async fn a_store_fault_while_the_end_is_recorded_leaves_the_row_to_the_next_pass() {
    let stage = Stage::impatient(1);
    let board = stage.board("a");
    let task = stage.task(&board, "t");
    let (mut pool, lock) = given_up(&stage, &board).await;
    stage
        .faults
        .arm_work(Work::Operation, "End", Fault::PanicAlways);
    lock.execute_batch("ROLLBACK").unwrap();
    pool.pass(&board).await;
    assert_eq!(stage.status(&board, &task), "blocked");
    assert_eq!(pool.snapshot().await.counts.lease_failed, 1);
    assert!(has(&pool, "a/", "record the end"));
    stage.faults.disarm();
    pool.pass(&board).await;
    pool.hear(is_finalized).await;
    let blocks = stage.event_kinds(&board, &task);
    let blocks = blocks.iter().filter(|kind| *kind == "blocked").count();
    assert_eq!(blocks, 1, "what is on the board is not written again");
}

#[actix::test]
async fn adoption_stops_at_the_last_slot_and_gives_the_rest_back() {
    let stage = Stage::impatient(3);
    let board = stage.board("a");
    let tasks: Vec<_> = (0..4)
        .map(|n| stage.task(&board, &format!("t{n}")))
        .collect();
    let mut pool = stage.start().await;
    leave_claims_behind(&stage, &mut pool, 4).await;
    pool.pass(&board).await;
    let counts = pool.snapshot().await.counts;
    assert_eq!(counts.assigned + counts.running, 3);
    let mut given_back = 0;
    for task in &tasks {
        let kinds = stage.event_kinds(&board, task);
        assert!(!kinds.contains(&"blocked".into()), "{kinds:?}");
        given_back += kinds.iter().filter(|kind| *kind == "reclaimed").count();
    }
    assert_eq!(given_back, 1, "the fourth goes back, uncounted");
}

#[actix::test]
async fn boards_that_cannot_be_listed_are_put_off_and_the_known_ones_go_on() {
    let stage = Stage::impatient(1);
    let board = stage.board("a");
    let mut pool = stage.start().await;
    let root = stage.boards.root().join("kanban");
    // The boards stay where they are under another name; their listing meets a file.
    std::fs::rename(root.join("boards"), root.join("aside")).unwrap();
    std::fs::write(root.join("boards"), "no directory").unwrap();
    let boards = pool.pool.boards().unwrap();
    boards.ask(ListBoards).await.unwrap();
    assert!(has(&pool, "pool:boards", "list the boards"));
    assert!(
        pool.pool.board(&board).is_some(),
        "what cannot be listed stays as it was"
    );

    std::fs::remove_file(root.join("boards")).unwrap();
    std::fs::rename(root.join("aside"), root.join("boards")).unwrap();
    boards.ask(ListBoards).await.unwrap();
    assert!(!has(&pool, "pool:boards", "list the boards"));
    stage.task(&board, "t");
    pool.worker(0).poll().await;
    pool.hear_after_a_while(|event| matches!(event, PoolEvent::Added(_)))
        .await;
}

#[actix::test]
async fn a_task_that_runs_without_a_run_is_left_alone() {
    let stage = Stage::impatient(1);
    let board = stage.board("a");
    let owned = stage.task(&board, "owned");
    stage
        .sql(&board)
        .execute(
            "UPDATE tasks SET status='running', current_run_id=NULL, workspace_path='/owned' WHERE id=?1",
            [owned.as_str()],
        )
        .unwrap();
    let before = stage.events(&board, &owned);
    let mut pool = stage.start().await;
    pool.worker(0).poll().await;
    pool.a_moment(6.0).await;
    pool.pass(&board).await;
    assert_eq!(stage.events(&board, &owned), before);
    assert!(pool.pool.ledger().is_empty());
    assert_eq!(pool.snapshot().await.counts, Default::default());
}

/// What the pool's log says of one board.
struct LinesOf(&'static str, Mutex<Vec<String>>);

impl log::Log for LinesOf {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        let line = record.args().to_string();
        if line.contains(self.0) {
            self.1.lock().unwrap().push(line);
        }
    }

    fn flush(&self) {}
}

impl LinesOf {
    fn beginning_with(&self, begin: &str) -> Vec<String> {
        let mut lines = self.1.lock().unwrap().clone();
        lines.retain(|line| line.starts_with(begin));
        lines
    }
}

#[actix::test]
async fn what_is_put_off_is_logged_once_for_each_change() {
    static LINES: LinesOf = LinesOf("logged-board", Mutex::new(Vec::new()));
    log::set_logger(&LINES).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    let stage = Stage::impatient(1);
    let board = stage.board("logged-board");
    let task = stage.task(&board, "t");
    let (pool, lock) = given_up(&stage, &board).await;
    // Whichever work meets it first tells it.
    let put_off = "deferred scope=logged-board ";
    let tries = 5;
    for _ in 0..tries {
        pool.pass(&board).await;
    }
    assert!(has(&pool, "logged-board", "settle"));
    let lines = LINES.beginning_with(put_off);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("locked"), "its cause is told: {lines:?}");

    // Another cause is news, and so is the end. That the file is another one is found out before what it is.
    lock.execute_batch("ROLLBACK").unwrap();
    let database = stage.database(&board);
    let aside = stage.folder.path().join("aside");
    std::fs::rename(&database, &aside).unwrap();
    std::fs::create_dir(&database).unwrap();
    for _ in 0..tries {
        pool.pass(&board).await;
    }
    let lines = LINES.beginning_with(put_off);
    let cause_of = |line: &String| {
        let (_, why) = line.split_once(" why=").unwrap();
        why.trim_end_matches(" (changed)").to_owned()
    };
    let causes: BTreeSet<_> = lines.iter().map(cause_of).collect();
    assert!(causes.len() > 1, "{lines:?}");
    assert_eq!(causes.len(), lines.len(), "each is told once: {lines:?}");
    std::fs::remove_dir(&database).unwrap();
    std::fs::rename(&aside, &database).unwrap();
    for _ in 0..tries {
        pool.pass(&board).await;
    }
    assert_eq!(stage.status(&board, &task), "blocked");
    let resolved = LINES.beginning_with("resolved scope=logged-board why=");
    assert!(!resolved.is_empty());
    let told: BTreeSet<_> = LINES.beginning_with(put_off).iter().map(cause_of).collect();
    for line in resolved {
        assert!(told.contains(&cause_of(&line)), "{line}: {told:?}");
    }
}
