//! Connections in numbers: idle ones, half-open ones, and senders that never come to an end.

use std::time::{Duration, Instant};

use crate::peer::Target;
use crate::process::until;
use crate::wire::Wire;

/// Connections that made one request and keep silent since.
const IDLE: usize = 1000;
/// Connections that stall in the head of a request, and as many that stall in its body.
const STALLED: usize = 60;
/// Places that the second pool has, and requests of which most of the body never comes: more than that.
const PLACES: &str = "40";
const HOGS: usize = 60;
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
fn where_all_places_are_taken_others_are_told_at_once_and_served_when_the_time_of_the_slow_is_over()
{
    let _alone = crate::alone();
    let target = Target::start(&[
        ("HERMES_POOL_HTTP_CLIENT_TIMEOUT_SECONDS", "10"),
        ("HERMES_POOL_HTTP_MAX_REQUESTS", PLACES),
    ]);
    let before = target.resident_kib();
    let mut hogs = connections(&target, HOGS, HALF_BODY);
    until("all places are taken", || {
        (newcomer(&target) == 503).then_some(())
    });
    for _ in 0..NEWCOMERS / 4 {
        newcomer(&target);
        // Operators have a server of their own.
        assert_eq!(target.coordinator.get("/healthz").0, 200);
    }
    until("the slow are sent away", || {
        (newcomer(&target) == 200).then_some(())
    });
    let mut timed_out = 0;
    for hog in &mut hogs {
        match hog.answer().unwrap().status {
            408 => timed_out += 1,
            503 => {}
            other => panic!("{other}"),
        }
        assert!(hog.is_closed());
    }
    assert!(timed_out > HOGS / 2, "{timed_out}");
    let after = target.resident_kib();
    assert!(after < before + HOGS as u64 * CONNECTION_LIMIT_KIB);
}
