//! The coordinator is killed again and again at any time, with three workers and three boards under load.
//!
//! `HERMES_POOL_TEST_SEED` repeats the times of a run that failed, as far as times can be repeated;
//! `cargo test --test whole_run -- --ignored` dies two hundred times.

use std::time::Duration;

use serde_json::json;

use super::boards;
use super::invariants::{Dump, assert_settled, assert_undisturbed};
use super::oracle::Oracle;
use super::process::Process;
use super::site::{Site, fixed_port};

const BOARDS: [&str; 3] = ["one", "two", "three"];
const WORKERS: u16 = 3;
/// Tasks that each board gets for each life of the coordinator, so that there is always something to do.
const TASKS: usize = 4;
/// Deaths in a row; then a coordinator finishes what there is in peace.
const DEATHS: usize = 5;
/// How long a coordinator lives, at most, after its first offer.
const LIFE_MILLIS: u64 = 60;
const SEED_VARIABLE: &str = "HERMES_POOL_TEST_SEED";

#[test]
fn a_coordinator_killed_at_any_time_loses_nothing_and_does_nothing_twice() {
    die_at_random(20 / DEATHS);
}

#[test]
#[ignore = "takes minutes: two hundred deaths"]
fn a_coordinator_killed_two_hundred_times_loses_nothing_and_does_nothing_twice() {
    die_at_random(200 / DEATHS);
}

fn die_at_random(rounds: usize) {
    let home = tempfile::tempdir().unwrap();
    let Some(mut oracle) = Oracle::start(home.path()) else {
        return;
    };
    let seed = std::env::var(SEED_VARIABLE)
        .map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    eprintln!("{SEED_VARIABLE}={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for slug in BOARDS {
        boards::create(&mut oracle, slug);
    }
    let port = fixed_port();
    let site = Site::new("random", oracle.home(), &BOARDS, WORKERS, port);
    let address = format!("127.0.0.1:{port}");
    let workers: Vec<Process> = (0..WORKERS)
        .map(|ordinal| site.worker(ordinal, &address))
        .collect();
    for round in 1..=rounds {
        for _ in 0..DEATHS {
            add_tasks(&mut oracle);
            let mut coordinator = site.serve("");
            coordinator.hear("event=offered");
            // Not to wait for anything: the moment of death is meant to be any.
            std::thread::sleep(Duration::from_millis(random.u64(0..LIFE_MILLIS)));
            coordinator.kill();
        }
        let mut coordinator = site.serve("");
        coordinator.until(|| site.has_finalized(round * DEATHS * TASKS * BOARDS.len()));
        coordinator.stop();
    }
    let said: Vec<Vec<String>> = workers.into_iter().map(Process::kill).collect();
    let mut dumps = oracle.dump();
    let boards = BOARDS.map(|slug| Dump::new(slug, dumps[slug].take()));
    for board in &boards {
        board.assert_all_done_once();
    }
    let given_back = assert_settled(&site, &boards);
    eprintln!("{} deaths, {given_back} runs given back", rounds * DEATHS);
    for said in said {
        assert_undisturbed(&said, &boards);
    }
}

/// Every second task waits for the one before it.
fn add_tasks(oracle: &mut Oracle) {
    for slug in BOARDS {
        let mut parents = json!([]);
        for number in 0..TASKS {
            let id = boards::add(oracle, slug, "task", json!({"parents": parents}));
            parents = if number % 2 == 0 {
                json!([id])
            } else {
                json!([])
            };
        }
    }
}
