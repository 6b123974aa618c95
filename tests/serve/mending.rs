//! What is broken is told, once, and found mended without a restart.

use hermes_pool::protocol::write_key_file;
use rusqlite::Connection;

use super::process::{Coordinator, Home, ended, until};

/// The one reason why the pool is not ready.
#[track_caller]
fn reason(coordinator: &Coordinator) -> String {
    let (status, document) = coordinator.get("/readyz");
    assert_eq!((status, &document["ready"]), (503, &false.into()));
    let reasons = document["reasons"].as_array().unwrap();
    assert_eq!(reasons.len(), 1, "{document}");
    assert_eq!(coordinator.get("/healthz").0, 200, "the process lives");
    reasons[0].as_str().unwrap().to_owned()
}

#[test]
fn a_key_that_is_missing_is_told_and_taken_when_it_comes() {
    let home = Home::new();
    let key_file = home.path("pool.key");
    std::fs::remove_file(&key_file).unwrap();
    let task = home.task("t", &[]);
    let coordinator = home.serve();
    until("the store is open", || {
        let (_, document) = coordinator.get("/readyz");
        (document["reasons"].as_array().unwrap().len() == 1).then_some(())
    });
    assert!(reason(&coordinator).contains("pool.key"));
    write_key_file(&key_file, &home.master).unwrap();
    coordinator.wait_until_ready();
    let _worker = home.worker(0, &coordinator, "echo done");
    home.wait_for_status(&task, "done");
}

#[test]
fn a_store_that_cannot_be_opened_is_told_and_used_when_it_is_mended() {
    let home = Home::new();
    let store = home.path("state/assignments.db");
    std::fs::create_dir(home.path("state")).unwrap();
    std::fs::write(
        &store,
        "this is no database, but it has a certain length".repeat(50),
    )
    .unwrap();
    let task = home.task("t", &[]);
    let coordinator = home.serve();
    let told = until("the store was tried", || {
        let told = reason(&coordinator);
        told.contains("assignments.db").then_some(told)
    });
    assert!(told.contains("not a database"), "{told}");
    std::fs::remove_file(&store).unwrap();
    coordinator.wait_until_ready();
    let _worker = home.worker(0, &coordinator, "echo done");
    home.wait_for_status(&task, "done");
}

#[test]
fn a_board_that_breaks_under_a_run_is_logged_once_and_once_more_when_it_is_mended() {
    let home = Home::new();
    let task = home.task("t", &[]);
    let mut coordinator = home.serve();
    coordinator.wait_until_ready();
    let gate = home.path("gate");
    let line = format!(
        "until [ -e '{}' ]; do sleep 0.05; done; echo done",
        gate.display()
    );
    let _worker = home.worker(0, &coordinator, &line);
    until("the run is offered", || {
        (coordinator.count("running") == 1).then_some(())
    });
    let database = home.path("hermes/kanban/boards/lab/kanban.db");
    let sql = Connection::open(&database).unwrap();
    let emptied = sql.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    emptied.unwrap();
    let sound = std::fs::read(&database).unwrap();
    let mut damaged = sound.clone();
    damaged[4096..].fill(0xa5);
    std::fs::write(&database, damaged).unwrap();
    // Both the look for work and the look after the run meet it, again and again.
    until("it was met often", || {
        let (_, snapshot) = coordinator.get("/api/v1/pool");
        let met = snapshot["deferrals"].as_array().unwrap().iter();
        (met.filter(|entry| entry["times"].as_i64() > Some(2))
            .count()
            == 2)
            .then_some(())
    });
    assert_eq!(coordinator.get("/readyz").0, 200);
    assert_eq!(coordinator.process.count("deferred "), 1);

    let folder = database.parent().unwrap();
    std::fs::rename(folder, home.path("aside")).unwrap();
    std::fs::create_dir(folder).unwrap();
    std::fs::write(&database, sound).unwrap();
    std::fs::write(gate, "").unwrap();
    coordinator.process.hear("resolved ");
    home.wait_for_status(&task, "done");
    assert_eq!(home.runs(&task).len(), 1);
    assert_eq!(coordinator.process.count("deferred "), 1);
    assert_eq!(coordinator.process.count("resolved "), 1);
}

#[test]
fn a_store_that_cannot_be_read_is_told_to_whoever_asks_for_the_pool_and_logged_once() {
    let home = Home::new();
    home.task("t", &[]);
    let mut coordinator = home.serve();
    coordinator.wait_until_ready();
    let store = Connection::open(home.path("state/assignments.db")).unwrap();
    store
        .execute_batch("ALTER TABLE claims RENAME TO lost")
        .unwrap();
    let _worker = home.worker(0, &coordinator, "echo done");
    let told = until("somebody needed the store", || {
        (coordinator.get("/readyz").0 == 503).then(|| reason(&coordinator))
    });
    assert!(told.contains("no such table: claims"), "{told}");
    for _ in 0..5 {
        let status = ended(
            home.command(&["status", "--config", "pool.toml"])
                .env("HERMES_POOL_OPERATOR_BIND", &coordinator.operators),
        );
        assert_eq!(status.code, Some(1), "{}", status.err);
        assert!(
            status.err.contains("cannot read its store"),
            "{}",
            status.err
        );
        assert!(status.err.contains(&told), "{}", status.err);
        let (code, document) = coordinator.get("/api/v1/pool");
        let message = document["error"]["message"].as_str().unwrap();
        assert_eq!(code, 503);
        assert!(message.contains("the store cannot be read"), "{message}");
    }
    store
        .execute_batch("ALTER TABLE lost RENAME TO claims")
        .unwrap();
    coordinator.process.hear("the store works again");
    assert_eq!(coordinator.process.count("the store fails"), 1);
    assert_eq!(coordinator.process.count("could not be read"), 0);
    assert!(coordinator.process.count("what=answer operators") <= 1);
}
