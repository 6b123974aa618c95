//! `serve --once`: one cycle, one line, whatever is broken.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::process::{Ended, Home, ended};

fn once(home: &Home, variables: &[(&str, &str)]) -> Ended {
    let mut command = home.command(&["serve", "--once", "--config", "pool.toml"]);
    ended(command.envs(variables.iter().copied()))
}

/// The summary of a call that ended well.
#[track_caller]
fn summary(told: &Ended) -> Value {
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(told.out.lines().count(), 1, "{told:?}");
    let summary: Value = serde_json::from_str(&told.out).unwrap();
    let keys: Vec<&String> = summary.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        ["boards", "ended", "intents", "deferred", "not_ready"]
    );
    summary
}

#[test]
fn a_cycle_over_a_good_board_puts_nothing_off() {
    let home = Home::new();
    home.task("t", &[]);
    let before = home.content();
    // Ports that are taken are none of its business.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let told = once(&home, &[("HERMES_POOL_HTTP_BIND", &address)]);
    let expected = json!({"boards": 1, "ended": 0, "intents": 0, "deferred": 0, "not_ready": []});
    assert_eq!(summary(&told), expected);
    assert_eq!(
        home.content(),
        before,
        "no worker was seen, so nothing is claimed"
    );
    assert!(home.path("state/assignments.db").exists());
}

#[test]
fn work_that_is_put_off_is_counted_and_is_no_failure() {
    let home = Home::new();
    let sick = home.path("hermes/kanban/boards/sick");
    std::fs::create_dir(&sick).unwrap();
    std::fs::write(sick.join("kanban.db"), "no database ".repeat(100)).unwrap();
    let told = summary(&once(&home, &[]));
    assert_eq!(
        (&told["boards"], &told["deferred"]),
        (&json!(2), &json!(1)),
        "{told}"
    );
}

#[test]
fn a_missing_key_and_a_broken_store_are_told_and_are_no_failure() {
    let home = Home::new();
    let told = summary(&once(&home, &[("HERMES_POOL_POOL_KEY_FILE", "no.key")]));
    let reasons = told["not_ready"].as_array().unwrap();
    assert_eq!(reasons.len(), 1, "{told}");
    assert!(reasons[0].as_str().unwrap().contains("no.key"), "{told}");

    std::fs::write(
        home.path("state/assignments.db"),
        "no database ".repeat(100),
    )
    .unwrap();
    for rest in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(home.path(&format!("state/assignments.db{rest}")));
    }
    let told = summary(&once(&home, &[]));
    let reasons = told["not_ready"].as_array().unwrap();
    assert!(
        reasons[0].as_str().unwrap().contains("assignments.db"),
        "{told}"
    );
}

#[test]
fn a_wrong_configuration_ends_with_2_and_a_held_folder_with_1() {
    let home = Home::new();
    let told = once(&home, &[("HERMES_POOL_POOL_SLOTS", "x")]);
    assert_eq!((told.code, told.out.as_str()), (Some(2), ""), "{told:?}");
    assert!(told.err.contains("pool.slots"), "{told:?}");
    let coordinator = home.serve();
    let told = once(&home, &[]);
    assert_eq!((told.code, told.out.as_str()), (Some(1), ""), "{told:?}");
    let pid = coordinator.process.child.id();
    assert!(told.err.contains(&format!("pid {pid}")), "{told:?}");
}
