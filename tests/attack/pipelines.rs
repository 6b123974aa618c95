//! Requests that are sent without waiting for an answer, and answers that nobody reads.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::peer::Target;
use crate::process::until;
use crate::wire::{Wire, post};

/// Connections of a flood, and the requests that each sends in one go.
const CONNECTIONS: usize = 60;
const REQUESTS: usize = 2000;
/// What each of these connections may cost in memory, KiB.
const CONNECTION_LIMIT_KIB: u64 = 48;
/// How soon an honest poll has to be answered.
const AT_ONCE: Duration = Duration::from_secs(1);
const POLLS: usize = 40;
/// So many answers fit in no buffers that the system has for one connection.
const MORE_THAN_FITS: usize = 40_000;

const LOOK: &[u8] = b"GET /api/v1/pool HTTP/1.1\r\nHost: pool\r\n\r\n";

/// Sends the request so often on each of some connections, and reads nothing.
fn pipelines(address: SocketAddr, count: usize, request: &[u8], times: usize) -> Vec<TcpStream> {
    let requests = request.repeat(times);
    let connect = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nonblocking(true).unwrap();
        // As much as the system takes without waiting.
        let _ = stream.write_all(&requests);
        stream
    };
    (0..count).map(connect).collect()
}

/// How long an honest worker that comes anew waits for the answer to its poll.
fn poll(target: &Target) -> Duration {
    let came = Instant::now();
    let answer = target.peer(1).say("poll", None, "{}");
    assert_eq!(answer.status, 200);
    came.elapsed()
}

fn assert_bounded(flood: impl FnOnce(&Target) -> Vec<TcpStream>) {
    let _alone = crate::alone();
    let target = Target::start(&[]);
    for _ in 0..POLLS {
        poll(&target);
        target.coordinator.get("/api/v1/pool");
    }
    let before = target.resident_kib();
    let _flood = flood(&target);
    let polled: Vec<_> = (0..POLLS)
        .map(|_| (poll(&target), target.resident_kib()))
        .collect();
    let took = polled.iter().map(|(took, _)| *took).max().unwrap();
    let most = polled.iter().map(|(_, resident)| *resident).max().unwrap();
    eprintln!("resident: {before} KiB, flooded {most} KiB; the slowest poll took {took:?}");
    assert!(took < AT_ONCE, "answered after {took:?}");
    assert!(most < before + CONNECTIONS as u64 * CONNECTION_LIMIT_KIB);
}

#[test]
fn requests_sent_in_one_go_cost_no_more_memory_than_one_and_keep_no_worker_waiting() {
    let request = post("/v2/heartbeat", b"{}");
    assert_bounded(|target| pipelines(target.workers, CONNECTIONS, &request, REQUESTS));
}

#[test]
fn answers_to_operators_that_are_not_read_cost_no_memory() {
    assert_bounded(|target| pipelines(target.operators, CONNECTIONS, LOOK, REQUESTS));
}

#[test]
fn chunks_with_requests_behind_them_cost_no_memory() {
    let chunked =
        b"POST /nowhere HTTP/1.1\r\nHost: pool\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let requests = [chunked.as_slice(), &LOOK.repeat(REQUESTS)].concat();
    assert_bounded(|target| {
        let mut all = pipelines(target.workers, CONNECTIONS / 2, &requests, 1);
        all.extend(pipelines(
            target.workers,
            CONNECTIONS / 2,
            chunked,
            REQUESTS,
        ));
        all
    });
}

#[test]
fn a_client_that_does_not_read_its_answers_is_sent_away_after_the_client_timeout() {
    let _alone = crate::alone();
    let target = Target::start(&[("HERMES_POOL_HTTP_CLIENT_TIMEOUT_SECONDS", "2")]);
    let mut flood = pipelines(target.operators, 3, LOOK, MORE_THAN_FITS);
    until("they are sent away", || {
        // What they sent ahead was not read, so that their connections are reset.
        flood.retain(|stream| stream.take_error().unwrap().is_none());
        flood.is_empty().then_some(())
    });
}

#[test]
fn a_client_that_waits_for_each_answer_keeps_its_connection() {
    let target = Target::start(&[]);
    let mut worker = target.peer(0);
    for _ in 0..100 {
        let answer = worker.say("poll", None, "{}");
        assert_eq!((answer.status, answer.header("connection")), (200, None));
    }
    let mut operator = Wire::open(target.operators);
    for _ in 0..100 {
        operator.send(LOOK);
        assert_eq!(operator.answer().unwrap().status, 200);
    }
}
