//! What is broken at the start makes the pool not ready, and is found mended without a restart.

use hermes_pool::protocol::write_key_file;

use super::process::{Coordinator, Home, until};

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
