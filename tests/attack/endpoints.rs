//! Time-outs and limits hold at every endpoint, the operators' too.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::peer::Target;
use crate::wire::Wire;

const TIMEOUT_SECONDS: &str = "3";
/// When a stalled client must have been sent away: three seconds, and what a busy machine adds.
const LATEST: Duration = Duration::from_secs(12);

const FOR_WORKERS: [&str; 3] = ["POST /v2/poll", "POST /v2/heartbeat", "POST /v2/result"];
const FOR_OPERATORS: [&str; 6] = [
    "GET /",
    "GET /healthz",
    "GET /readyz",
    "GET /metrics",
    "GET /api/v1/pool",
    "GET /api/v1/assignments",
];

/// A client that does not behave, and what it gets before its connection is closed.
struct Misfit {
    address: SocketAddr,
    said: Vec<u8>,
    /// It goes on with one byte after the other.
    trickles: bool,
    gets: &'static [u16],
}

impl Misfit {
    fn live(self) -> Result<(), String> {
        let name = || {
            format!(
                "{:?}",
                String::from_utf8_lossy(&self.said[..self.said.len().min(70)])
            )
        };
        let began = Instant::now();
        let mut wire = Wire::open(self.address);
        wire.send(&self.said);
        while self.trickles && began.elapsed() < LATEST && !wire.has_heard() {
            wire.send(b" ");
            thread::park_timeout(Duration::from_millis(50));
        }
        let answer = wire
            .answer()
            .map_err(|error| format!("{}: {error}", name()))?;
        let took = began.elapsed();
        if !self.gets.contains(&answer.status) {
            return Err(format!("{}: {}", name(), answer.status));
        }
        if !wire.is_closed() {
            return Err(format!("{}: the connection stays open", name()));
        }
        if took > LATEST {
            return Err(format!("{}: it took {took:?}", name()));
        }
        Ok(())
    }
}

/// Everything that a client can leave undone, or overdo, at one endpoint. A body is of no interest to operators' endpoints.
fn misfits(address: SocketAddr, endpoint: &str, reads_bodies: bool) -> Vec<Misfit> {
    let head = |more: &str| format!("{endpoint} HTTP/1.1\r\nHost: pool\r\n{more}").into_bytes();
    let misfit = |said, trickles, gets| Misfit {
        address,
        said,
        trickles,
        gets,
    };
    let (slow, long): (&[u16], &[u16]) = if reads_bodies {
        (&[408], &[413])
    } else {
        (&[200], &[200])
    };
    vec![
        misfit(head(""), false, &[408]),
        misfit(head("X-Slow: "), true, &[408]),
        misfit(head("Content-Length: 100\r\n\r\n{"), false, slow),
        misfit(head("Content-Length: 60000\r\n\r\n{"), true, slow),
        misfit(
            head("Transfer-Encoding: chunked\r\n\r\n5\r\n{"),
            false,
            slow,
        ),
        misfit(head("Content-Length: 65537\r\n\r\n{"), false, long),
        misfit(
            head(&format!("X-Long: {}", "x".repeat(300_000))),
            false,
            &[400, 431],
        ),
    ]
}

#[test]
fn clients_that_stall_trickle_or_overdo_it_are_sent_away_from_every_endpoint() {
    let _alone = crate::alone();
    let target = Target::start(&[("HERMES_POOL_HTTP_CLIENT_TIMEOUT_SECONDS", TIMEOUT_SECONDS)]);
    let mut all = Vec::new();
    for (address, endpoints, reads_bodies) in [
        (target.workers, &FOR_WORKERS[..], true),
        (target.operators, &FOR_OPERATORS[..], false),
    ] {
        all.push(Misfit {
            address,
            said: Vec::new(),
            trickles: false,
            gets: &[408],
        });
        for endpoint in endpoints {
            all.extend(misfits(address, endpoint, reads_bodies));
        }
    }
    let problems: Vec<String> = thread::scope(|scope| {
        let living: Vec<_> = all
            .into_iter()
            .map(|one| scope.spawn(|| one.live()))
            .collect();
        let ended = living
            .into_iter()
            .filter_map(|one| one.join().unwrap().err());
        ended.collect()
    });
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert_eq!(target.peer(0).say("poll", None, "{}").status, 200);
    assert_eq!(target.coordinator.get("/readyz").0, 200);
}

#[test]
fn more_operators_than_there_are_places_for_are_told_to_come_again() {
    let _alone = crate::alone();
    let target = Target::start(&[]);
    let ask = b"GET /api/v1/pool HTTP/1.1\r\nHost: pool\r\n\r\n";
    for _ in 0..3 {
        let mut wires: Vec<Wire> = (0..200).map(|_| Wire::open(target.operators)).collect();
        for wire in &mut wires {
            wire.send(ask);
        }
        for wire in &mut wires {
            let answer = wire.answer().unwrap();
            assert!(matches!(answer.status, 200 | 503), "{answer:?}");
            let again = answer.header("retry-after");
            assert_eq!(again.is_some(), answer.status == 503);
        }
        // Workers have a server of their own.
        assert_eq!(target.peer(0).say("poll", None, "{}").status, 200);
    }
}
