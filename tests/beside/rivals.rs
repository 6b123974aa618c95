//! Two pools that were given the same name by mistake, and Hermes, claim from the same board.

use serde_json::json;

use super::oracle::Oracle;
use super::whole_run::boards;
use super::whole_run::invariants::Dump;
use super::whole_run::process::Process;
use super::whole_run::site::{Site, workers_address};

const BOARD: &str = "lab";
const TASKS: usize = 50;

#[test]
fn two_pools_and_hermes_that_race_for_fifty_tasks_claim_each_once() {
    let home = tempfile::tempdir().unwrap();
    let Some(mut oracle) = Oracle::start(home.path()) else {
        return;
    };
    boards::create(&mut oracle, BOARD);
    let sites = ["one", "two"].map(|name| Site::new(name, oracle.home(), &[BOARD], 2, 0));
    let mut pools: Vec<(Process, Vec<Process>)> = sites
        .iter()
        .map(|site| {
            let mut coordinator = site.serve("");
            let address = workers_address(&mut coordinator);
            let workers = (0..2).map(|ordinal| site.worker(ordinal, &address));
            (coordinator, workers.collect())
        })
        .collect();
    let add = |_| boards::add(&mut oracle, BOARD, "task", json!({}));
    let tasks: Vec<String> = (0..TASKS).map(add).collect();
    // The pools begin at the front, and Hermes at the back.
    let mut by_hermes = 0;
    for task in tasks.iter().rev() {
        let claim = oracle.get("claim", json!({"board": BOARD, "id": task}));
        if let Some(run) = claim["run"].as_i64() {
            by_hermes += 1;
            let done = json!({"board": BOARD, "id": task, "run": run, "summary": "by hand"});
            assert_eq!(oracle.get("complete", done), true);
        }
    }
    let by_pools = || sites.iter().map(|site| site.rows().len()).sum::<usize>();
    pools[0].0.until(|| {
        let ended = sites
            .iter()
            .all(|site| site.has_finalized(site.rows().len()));
        ended && by_pools() + by_hermes == TASKS
    });
    for (coordinator, workers) in pools {
        coordinator.stop();
        workers.into_iter().for_each(|worker| drop(worker.kill()));
    }
    eprintln!("{by_hermes} by Hermes, {} by the pools", by_pools());
    assert!(by_hermes > 0 && by_pools() > 0, "there was a race");
    let dump = oracle.get("dump", json!({"board": BOARD}));
    Dump::new(BOARD, dump).assert_all_done_once();
}
