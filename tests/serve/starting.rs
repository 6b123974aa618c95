//! Who may start, and what is said to those who may not.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use super::process::{Home, ended, until};

/// `serve` with these variables over the configuration, which must fail with one line on stderr beside the log.
#[track_caller]
fn refused(home: &Home, variables: &[(&str, &str)], code: i32, texts: &[&str]) {
    let mut command = home.command(&["serve", "--config", "pool.toml"]);
    command
        .envs(variables.iter().copied())
        .env("RUST_LOG", "off");
    let told = ended(&mut command);
    assert_eq!((told.code, told.out.as_str()), (Some(code), ""), "{told:?}");
    assert_eq!(told.err.lines().count(), 1, "{told:?}");
    for text in texts {
        assert!(told.err.contains(text), "{text} is missing: {told:?}");
    }
}

#[test]
fn a_second_coordinator_is_refused_and_takes_over_when_the_first_was_killed() {
    let home = Home::new();
    let task = home.task("t", &[]);
    let mut first = home.serve();
    let pid = first.process.child.id().to_string();
    refused(
        &home,
        &[],
        1,
        &[
            "another coordinator",
            &format!("pid {pid}"),
            "pool.state_dir",
        ],
    );
    // The one that serves was not disturbed, and holds a run when it dies.
    let gate = home.path("gate");
    let line = format!(
        "until [ -e '{}' ]; do sleep 0.05; done; echo done",
        gate.display()
    );
    first.wait_until_ready();
    let worker = home.worker(0, &first, &line);
    until("the run is offered", || {
        (first.count("running") == 1).then_some(())
    });
    drop(worker);
    first.process.kill();

    let second = home.serve();
    second.wait_until_ready();
    assert_eq!(second.count("running"), 1);
    std::fs::write(gate, "").unwrap();
    let _worker = home.worker(0, &second, &line);
    home.wait_for_status(&task, "done");
    assert_eq!(home.runs(&task).len(), 1);
}

#[test]
fn a_port_that_is_taken_is_named_with_its_setting() {
    let home = Home::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for (variable, setting) in [
        ("HERMES_POOL_HTTP_BIND", "http.bind"),
        ("HERMES_POOL_OPERATOR_BIND", "operator.bind"),
    ] {
        refused(
            &home,
            &[(variable, &address)],
            1,
            &[setting, &address, "another address"],
        );
    }
    assert!(
        !home.path("state/assignments.db").exists(),
        "who has no port opens no store"
    );
    drop(taken);
    home.serve().wait_until_ready();
}

#[test]
fn a_folder_or_a_token_that_cannot_be_used_is_named() {
    let home = Home::new();
    std::fs::write(home.path("file"), "").unwrap();
    let folder = home.path("file/state");
    let folder = folder.to_str().unwrap();
    refused(
        &home,
        &[("HERMES_POOL_POOL_STATE_DIR", folder)],
        1,
        &[folder, "pool.state_dir"],
    );

    let token = home.path("token");
    std::fs::write(&token, "t".repeat(64)).unwrap();
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let token = token.to_str().unwrap();
    let variables = [("HERMES_POOL_OPERATOR_TOKEN_FILE", token)];
    refused(
        &home,
        &variables,
        1,
        &[
            "operator.token_file: the token must be in a private regular file",
            &format!("chmod 600 {token}"),
        ],
    );
}

#[test]
fn check_sees_who_holds_the_store_and_names_boards_without_tables() {
    let home = Home::new();
    let mut coordinator = home.serve();
    coordinator.wait_until_ready();
    let mut check = home.command(&["check", "--config", "pool.toml"]);
    let beside = ended(&mut check);
    assert_eq!((beside.code, beside.err.as_str()), (Some(0), ""));
    coordinator.process.kill();

    std::fs::create_dir(home.path("hermes/kanban/boards/new")).unwrap();
    std::fs::write(home.path("hermes/kanban/boards/new/kanban.db"), "").unwrap();
    let told = ended(&mut check);
    assert_eq!((told.code, told.err.as_str()), (Some(0), ""));
    let note = "/hermes; new has no tables until Hermes looks at it)";
    assert!(told.out.contains(note), "{told:?}");

    let lock = rusqlite::Connection::open(home.path("state/assignments.db")).unwrap();
    lock.execute_batch("BEGIN IMMEDIATE").unwrap();
    let told = ended(&mut check);
    assert_eq!(
        (told.code, told.err.lines().count()),
        (Some(1), 1),
        "{told:?}"
    );
    assert!(told.err.starts_with("pool.state_dir: "), "{told:?}");
    assert!(
        told.err.contains("is locked by another process"),
        "{told:?}"
    );
}

#[test]
fn a_wrong_configuration_is_wrong_usage() {
    let home = Home::new();
    refused(
        &home,
        &[("HERMES_POOL_POOL_SLOTS", "0")],
        2,
        &["pool.slots"],
    );
    let home = Home::new();
    std::fs::write(home.path("pool.toml"), "[pool]\nslot = 3\n").unwrap();
    refused(&home, &[], 2, &["pool.slot"]);
    std::fs::remove_file(home.path("pool.toml")).unwrap();
    refused(&home, &[], 2, &["pool.toml"]);
}
