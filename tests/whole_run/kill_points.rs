//! The coordinator is killed between any two durable steps of a run, started again, and goes on where it was.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Mutex;

use hermes_pool::faults::FaultPoint;
use rustix::process::Signal;
use serde_json::json;

use super::boards;
use super::invariants::{Dump, assert_settled, assert_undisturbed};
use super::oracle::Oracle;
use super::site::{Site, fixed_port};

/// Deaths at the same time.
const AT_ONCE: usize = 4;

#[test]
fn a_coordinator_killed_between_any_two_durable_steps_finishes_the_run_once() {
    let home = tempfile::tempdir().unwrap();
    let Some(mut oracle) = Oracle::start(home.path()) else {
        return;
    };
    for &point in FaultPoint::ALL {
        let slug = board(point);
        boards::create(&mut oracle, &slug);
        let parent = boards::add(&mut oracle, &slug, "parent", json!({}));
        boards::add(&mut oracle, &slug, "child", json!({"parents": [parent]}));
    }
    let points: Mutex<VecDeque<FaultPoint>> = Mutex::new(FaultPoint::ALL.iter().copied().collect());
    let next = || points.lock().unwrap().pop_front();
    let home = oracle.home().to_owned();
    let ended: Vec<(FaultPoint, Site, Vec<String>)> = std::thread::scope(|scope| {
        let (home, next) = (&home, &next);
        let die = move || -> Vec<_> {
            std::iter::from_fn(next)
                .map(|point| {
                    let (site, worker) = die_and_go_on(point, home);
                    (point, site, worker)
                })
                .collect()
        };
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(die)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(ended.len(), FaultPoint::ALL.len());
    let mut dumps = oracle.dump();
    for (point, site, worker) in ended {
        let slug = board(point);
        let board = Dump::new(&slug, dumps[&slug].take());
        board.assert_all_done_once();
        let boards = [board];
        assert_eq!(
            assert_settled(&site, &boards),
            0,
            "{point}: no run is given back"
        );
        assert_undisturbed(&worker, &boards);
    }
}

fn board(point: FaultPoint) -> String {
    point.as_str().replace('_', "-")
}

/// A pool with one worker and one point at which its first coordinator dies; returns what the worker said.
fn die_and_go_on(point: FaultPoint, home: &Path) -> (Site, Vec<String>) {
    let port = fixed_port();
    let site = Site::new(point.as_str(), home, &[&board(point)], 1, port);
    // What happens while a run is worked on must not be overtaken by its end.
    let gate = (point <= FaultPoint::ClaimExtended).then(|| site.close_gate());
    let doomed = site.serve(&format!("{point}=kill"));
    let worker = site.worker(0, &format!("127.0.0.1:{port}"));
    let (status, said) = doomed.ended();
    assert_eq!(
        status.signal(),
        Some(Signal::KILL.as_raw()),
        "{point}: {status}: {said:#?}"
    );
    drop(gate);
    let mut coordinator = site.serve("");
    coordinator.until(|| site.has_finalized(2));
    coordinator.stop();
    let said = worker.kill();
    (site, said)
}
