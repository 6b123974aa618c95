//! Connections in numbers: idle ones, half-open ones, and senders that never come to an end.

use std::time::{Duration, Instant};

use crate::peer::{Peer, Target};
use crate::process::until;
use crate::wire::Wire;

/// Connections that made one request and keep silent since.
const IDLE: usize = 1000;
/// Connections that stall in the head of a request, and as many that stall in its body.
const STALLED: usize = 60;
/// Places that a small pool has, and requests of which most of the body never comes: more than that.
const PLACES: &str = "40";
const SLOW: usize = 60;
/// How soon somebody who comes anew has to be served, or told that he has to wait.
const AT_ONCE: Duration = Duration::from_secs(1);
const NEWCOMERS: usize = 40;
/// What each connection may cost in memory, KiB.
const CONNECTION_LIMIT_KIB: u64 = 48;

const HALF_HEAD: &[u8] = b"POST /v2/poll HTTP/1.1\r\nHost: po";
const HALF_BODY: &[u8] =
    b"POST /v2/heartbeat HTTP/1.1\r\nHost: pool\r\nContent-Length: 60000\r\n\r\n{";

fn connections(target: &Target, count: usize, said: &[u8]) -> Vec<Wire> {
    let connect = |_| {
        let mut wire = Wire::open(target.workers);
        wire.send(said);
        wire
    };
    (0..count).map(connect).collect()
}

/// An honest worker comes anew, polls, and is answered at once; the status.
fn newcomer(target: &Target) -> u16 {
    let came = Instant::now();
    let answer = target.peer(2).say("poll", None, "{}");
    let took = came.elapsed();
    assert!(took < AT_ONCE, "answered after {took:?}");
    if answer.status == 503 {
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    answer.status
}

#[test]
fn a_thousand_idle_and_many_stalled_connections_keep_nobody_from_being_served() {
    let _alone = crate::alone();
    let target = Target::start(&[]);
    let mut worker = target.peer(0);
    let run = target.run_of(&mut worker);
    let before = target.resident_kib();
    let mut idle = connections(&target, IDLE, b"GET / HTTP/1.1\r\nHost: pool\r\n\r\n");
    for wire in &mut idle {
        assert_eq!(wire.answer().unwrap().status, 404);
    }
    let stalled = [HALF_HEAD, HALF_BODY].map(|said| connections(&target, STALLED, said));
    let after = target.resident_kib();

    for _ in 0..NEWCOMERS {
        assert_eq!(newcomer(&target), 200);
        let beat = worker.request("heartbeat", Some(&run), "{}");
        let (took, answer) = worker.ask(&beat);
        assert_eq!(answer.status, 200);
        assert!(took < AT_ONCE, "answered after {took:?}");
    }
    let connections = (IDLE + 2 * STALLED) as u64;
    eprintln!("resident: {before} KiB, with {connections} connections {after} KiB");
    assert!(after < before + connections * CONNECTION_LIMIT_KIB);
    drop((idle, stalled));
}

#[test]
fn senders_that_never_come_to_an_end_take_no_place_from_anybody_and_are_sent_away() {
    let _alone = crate::alone();
    let target = Target::start(&[
        ("HERMES_POOL_HTTP_CLIENT_TIMEOUT_SECONDS", "10"),
        ("HERMES_POOL_HTTP_MAX_REQUESTS", PLACES),
    ]);
    // What the first requests leave behind is none of the slow senders' doing.
    for _ in 0..NEWCOMERS {
        assert_eq!(newcomer(&target), 200);
    }
    let before = target.resident_kib();
    let mut slow = connections(&target, SLOW, HALF_BODY);
    for _ in 0..NEWCOMERS / 4 {
        assert_eq!(newcomer(&target), 200);
        assert_eq!(target.coordinator.get("/healthz").0, 200);
    }
    for one in &mut slow {
        assert_eq!(one.answer().unwrap().status, 408);
        assert!(one.is_closed());
    }
    let after = target.resident_kib();
    eprintln!("resident: {before} KiB, after {SLOW} slow senders {after} KiB");
    assert!(after < before + SLOW as u64 * CONNECTION_LIMIT_KIB);
}

#[test]
fn where_all_places_are_taken_others_are_told_at_once_and_served_when_there_is_one() {
    let _alone = crate::alone();
    let target = Target::start(&[
        ("HERMES_POOL_POOL_SLOTS", PLACES),
        ("HERMES_POOL_HTTP_MAX_REQUESTS", PLACES),
    ]);
    let places: u16 = PLACES.parse().unwrap();
    // One long poll of every ordinal: there is no work, so all of them wait.
    let mut waiting: Vec<Peer> = (0..places).map(|ordinal| target.peer(ordinal)).collect();
    for peer in &mut waiting {
        let poll = peer.request("poll", None, r#"{"wait_seconds":30}"#);
        peer.wire.send(&poll);
    }
    until("all of them wait", || {
        let (_, pool) = target.coordinator.get("/api/v1/pool");
        let slots = pool["slots"].as_array().unwrap();
        let mut states = slots.iter().map(|slot| slot["state"].as_str());
        states.all(|state| state == Some("waiting")).then_some(())
    });
    for _ in 0..NEWCOMERS / 4 {
        assert_eq!(newcomer(&target), 503);
        // Operators have a server of their own.
        assert_eq!(target.coordinator.get("/healthz").0, 200);
    }
    drop(waiting);
    until("there is a place again", || {
        (newcomer(&target) == 200).then_some(())
    });
}
