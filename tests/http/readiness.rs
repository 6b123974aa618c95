//! A pool that is not ready says so to everybody, and recovers by itself.

use std::fs;

use hermes_pool::protocol::write_key_file;

use crate::message::ordinal_key;
use crate::served::{Served, options};
use crate::support::Stage;
use crate::wire::post;

/// What `/readyz` answers.
fn reasons(served: &Served) -> (u16, Vec<String>) {
    let answer = served.operate("GET", "/readyz", "");
    let document = answer.json();
    let reasons: Vec<String> = serde_json::from_value(document["reasons"].clone()).unwrap();
    assert_eq!(document["ready"], reasons.is_empty());
    (answer.status, reasons)
}

#[track_caller]
fn assert_unavailable(served: &Served, request: &[u8]) {
    let answer = served.exchange(request);
    let (status, code, _) = answer.error();
    assert_eq!((status, code.as_str()), (503, "unavailable"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(served.operate("GET", "/healthz", "").status, 200);
}

fn assert_recovers(served: &Served) {
    served.until(|served| {
        served.advance(1.0);
        reasons(served).0 == 200
    });
    assert_eq!(reasons(served), (200, Vec::new()));
}

#[test]
fn a_pool_without_its_key_answers_when_the_key_is_there() {
    let stage = Stage::new(2);
    let key_file = stage.settings.key_file.clone();
    let text = fs::read_to_string(&key_file).unwrap();
    fs::remove_file(&key_file).unwrap();
    let served = Served::start_unready(stage, options());
    let key = ordinal_key(text.trim(), 0);
    let poll = || {
        let message = served.worker(0).message("poll").sealed(&key);
        post("/v2/poll", &message.body())
    };
    assert_unavailable(&served, &poll());
    assert_eq!(served.exchange(&post("/v2/poll", b"{}")).status, 400);
    served.until(|served| reasons(served).1.len() == 1);
    let (status, told) = reasons(&served);
    assert_eq!(status, 503);
    assert!(told[0].contains(key_file.to_str().unwrap()), "{told:?}");

    write_key_file(&key_file, &served.stage.master).unwrap();
    assert_recovers(&served);
    assert_eq!(served.exchange(&poll()).status, 200);
}

#[test]
fn a_pool_whose_store_cannot_be_opened_answers_when_it_can() {
    let stage = Stage::new(2);
    let board = stage.board("lab");
    let in_the_way = stage.settings.state_dir.join("assignments.db");
    fs::create_dir_all(&in_the_way).unwrap();
    let mut served = Served::start_unready(stage, options());
    served.until(|served| !reasons(served).1[0].contains("being opened"));
    let (status, told) = reasons(&served);
    assert_eq!((status, told.len()), (503, 1));
    assert!(told[0].contains(in_the_way.to_str().unwrap()), "{told:?}");
    let poll = served.worker(0).poll_request(0);
    assert_unavailable(&served, &poll);
    for path in ["/api/v1/pool", "/api/v1/assignments"] {
        let answer = served.operate("GET", path, "");
        assert_eq!(answer.error().0, 503, "{path}");
    }
    let metrics = served.operate("GET", "/metrics", "");
    assert_eq!(metrics.status, 200);
    assert!(metrics.text().contains("hermes_pool_ready 0\n"));

    fs::remove_dir(&in_the_way).unwrap();
    assert_recovers(&served);
    served.wait(async { served.pool.opened().await });
    served.running(&board, "t", 0);
}

#[test]
fn a_store_that_cannot_be_written_is_told_until_it_can() {
    let stage = Stage::new(2);
    let board = stage.board("lab");
    let mut served = Served::start(stage);
    let (_, job) = served.running(&board, "t", 0);
    let writer = served.store();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let worker = served.worker(0);
    let beat = worker.message("heartbeat").of(&job).sealed(&worker.key);
    assert_unavailable(&served, &post("/v2/heartbeat", &beat.body()));
    let (status, told) = reasons(&served);
    assert_eq!((status, told.len()), (503, 1));
    assert!(told[0].contains("locked by another process"), "{told:?}");

    writer.execute_batch("ROLLBACK").unwrap();
    let (status, signed) = worker.deliver(&beat);
    assert_eq!(
        (status, &signed.payload()["duplicate"]),
        (200, &false.into())
    );
    assert_eq!(reasons(&served), (200, Vec::new()));
}

#[test]
fn a_pool_that_drains_is_not_ready_and_a_sick_board_changes_nothing() {
    let stage = Stage::new(2);
    let board = stage.board("sick");
    let database = stage.database(&board);
    fs::write(&database, b"this is no database at all").unwrap();
    // A whole board may stand in its log alone.
    fs::remove_file(database.with_extension("db-wal")).unwrap();
    let served = Served::start(stage);
    served.until(|served| {
        let view = served.operate("GET", "/api/v1/pool", "").json();
        view["boards"][0]["state"] == "unreadable"
    });
    assert_eq!(reasons(&served), (200, Vec::new()));
    served.pool.drain();
    assert_eq!(
        reasons(&served),
        (503, vec!["the pool is draining".to_owned()])
    );
}
