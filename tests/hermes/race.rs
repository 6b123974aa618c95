//! Several claimers of one board, Hermes among them.

use std::collections::BTreeSet;

use hermes_pool::board::Board;
use hermes_pool::board::hermes::HermesBoards;
use hermes_pool::domain::{BoardSlug, ClaimLock, TaskId};
use serde_json::json;

use super::answers;
use super::oracle::Oracle;
use super::stage::NOW;

const TASKS: usize = 50;

fn task_id(number: usize) -> TaskId {
    TaskId::parse(&format!("t_{number:08x}")).unwrap()
}

#[test]
fn claimers_that_race_for_the_same_tasks_get_each_once() {
    let home = tempfile::tempdir().unwrap();
    let Some(mut oracle) = Oracle::start(home.path()) else {
        return;
    };
    oracle.get("clock", json!({"set": NOW}));
    oracle.get("board_create", json!({"slug": "lab"}));
    for number in 1..=TASKS {
        let made = json!({"board": "lab", "title": "t", "assignee": "codex-cli"});
        assert_eq!(
            oracle.get("task_create", made)["id"],
            task_id(number).as_str()
        );
    }
    let home = oracle.home().to_owned();
    let claim_all = |pool: &str| -> Vec<String> {
        let boards = HermesBoards::new(home.clone(), answers::settings());
        let mut board = boards.open(&BoardSlug::parse("lab").unwrap()).unwrap();
        let claims = (1..=TASKS).map(|number| {
            let lock = ClaimLock::recorded(&format!("pool/{pool}:ffffffff:{number}"));
            board.claim(&task_id(number), &lock, 900, NOW).unwrap()
        });
        claims
            .flatten()
            .map(|claim| claim.run.to_string())
            .collect()
    };
    let (mut runs, by_hermes) = std::thread::scope(|scope| {
        let pools = ["p1", "p2"].map(|pool| scope.spawn(move || claim_all(pool)));
        let by_hermes: Vec<String> = (1..=TASKS)
            .rev()
            .filter_map(|number| {
                let task = task_id(number);
                let claim = oracle.get("claim", json!({"board": "lab", "id": task.as_str()}));
                claim["run"].as_i64().map(|run| run.to_string())
            })
            .collect();
        let runs: Vec<String> = pools
            .into_iter()
            .flat_map(|pool| pool.join().unwrap())
            .collect();
        (runs, by_hermes)
    });
    runs.extend(by_hermes);
    assert_eq!(runs.len(), TASKS, "every task is claimed, and once");
    assert_eq!(runs.iter().collect::<BTreeSet<_>>().len(), TASKS);
    let dump = oracle.get("dump", json!({"board": "lab"}));
    assert_eq!(dump["tables"]["task_runs"].as_array().unwrap().len(), TASKS);
    let events = dump["tables"]["task_events"].as_array().unwrap();
    let claimed = events.iter().filter(|event| event["kind"] == "claimed");
    assert_eq!(claimed.count(), TASKS);
}
