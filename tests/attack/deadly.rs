//! A task on which its worker dies at once, however often it is started again. Real processes on both sides.

use hermes_pool::domain::TaskId;

use crate::peer::Target;
use crate::process::{Process, until};

/// Attempts of a run, and offers of an attempt: the worker dies as often.
const ATTEMPTS: usize = 3;
const OFFERS: usize = 5;
/// The command of a deadly task kills its own guard's parent, the worker; any other is done.
const WORK: &str = "if grep -q deadly; then \
     kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 60; else echo done; fi";

/// Starts the worker of ordinal 0 again and again, as whatever looks after it would, until the task has left it.
fn die_of(target: &Target, task: &TaskId) -> usize {
    let mut deaths = 0;
    loop {
        let mut worker = target.home.worker(0, &target.coordinator, WORK);
        let lives = until("the worker dies of it, or lives on without it", || {
            if worker.child.try_wait().unwrap().is_some() {
                return Some(None);
            }
            let is_left = target.home.status(task) == "blocked";
            is_left.then_some(Some(()))
        });
        match lives {
            None => deaths += 1,
            Some(()) => return deaths,
        }
        assert!(deaths <= ATTEMPTS * OFFERS, "it is offered for ever");
    }
}

#[test]
fn a_task_that_kills_its_worker_is_fenced_by_its_offers_ends_on_the_board_and_frees_its_slot() {
    let _alone = crate::alone();
    // Leases that nothing in this test outlasts: what fences the attempts is not time.
    let mut target = Target::start(&[("HERMES_POOL_POOL_LEASE_SECONDS", "600")]);
    let deadly = target.home.task("deadly", &[]);
    let deaths = die_of(&target, &deadly);
    assert_eq!(deaths, ATTEMPTS * OFFERS);
    let runs = target.home.runs(&deadly);
    assert_eq!(runs.len(), 1, "{runs:?}");
    assert_eq!(runs[0].outcome, "blocked", "{runs:?}");
    for attempt in 2..=ATTEMPTS {
        let fenced = target.coordinator.process.hear("event=fenced");
        assert!(fenced.contains(&format!("attempt={attempt}")), "{fenced}");
    }
    let given_up = target.coordinator.process.hear("event=lease_failed");
    assert!(given_up.contains("cause=exhausted"), "{given_up}");

    // Its slot is free at once.
    let next = target.home.task("sound", &[]);
    let _worker: Process = target.home.worker(0, &target.coordinator, WORK);
    target.home.wait_for_status(&next, "done");
    assert_eq!(target.home.status(&deadly), "blocked");
}
