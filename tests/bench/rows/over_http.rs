//! Durable heartbeats over HTTP: the real program on loopback, with this process as its workers on the same cores.
//!
//! Goal with 64 connections: at least 12,000 a second, the 99th percentile of the latencies at most 5 times the median, and
//! at least 10 times the reference behind its own server, which takes 8 connections at most and is measured in the same
//! rounds. Requests are signed before the clock starts and answers are verified after it has stopped.

use std::net::SocketAddr;
use std::time::Instant;

use futures_util::future::try_join_all;
use hermes_pool::protocol::Key;
use tokio::runtime::Runtime;

use crate::support::connection::{Connection, request};
use crate::support::figures::{Session, median, millis_since, quantile};
use crate::support::peer::{NO_REFERENCE, Peer, reference};
use crate::support::served::Home;
use crate::support::table::Line;
use crate::support::worker::Worker;
use crate::support::{Outcome, runtime};

/// Connections at once.
const CONNECTIONS: [u16; 5] = [1, 3, 16, 64, 256];
/// The connections that the goals are for.
const JUDGED: u16 = 64;
/// Slots of the pool: one for each of the most connections.
const SLOTS: u16 = 256;
/// Heartbeats of a round for each second that it should last, by far more than one connection manages.
const HEARTBEATS: f64 = 12_000.0;
/// Connections that the reference's server takes at once.
const CONNECTIONS_OF_THE_REFERENCE: u16 = 8;
/// Slots of the reference, which the connections share.
const SLOTS_OF_THE_REFERENCE: u16 = 3;
/// What is expected of the reference each second, to size its rounds.
const HEARTBEATS_OF_THE_REFERENCE: f64 = 1000.0;

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let home = Home::new(SLOTS, SLOTS)?;
    let served = home.serve()?;
    let runtime = runtime()?;
    let mut workers = runtime.block_on(connect(served.address, &home.master, SLOTS, SLOTS))?;
    let mut other = Other::start(&home, &runtime)?;
    let mut lines = Vec::new();
    for connections in CONNECTIONS {
        let active = workers
            .get_mut(..usize::from(connections))
            .ok_or("fewer connections than wanted")?;
        let wanted = HEARTBEATS * session.round.as_secs_f64();
        let share = (wanted / f64::from(SLOTS.min(4 * connections + 8))) as usize;
        let (mut ours, mut theirs) = (Rounds::default(), Rounds::default());
        for _ in 0..session.rounds {
            ours.add(runtime.block_on(round(active, share.max(10)))?);
            if let Some(other) = other.as_mut().filter(|_| connections == JUDGED) {
                theirs.add(other.round(&runtime, session)?);
            }
        }
        lines.extend(ours.lines(connections));
        if connections == JUDGED {
            lines.push(compared(&ours, theirs));
        }
    }
    Ok(lines)
}

fn compared(ours: &Rounds, theirs: Rounds) -> Line {
    let what = format!("connections {JUDGED}, reference's {CONNECTIONS_OF_THE_REFERENCE}");
    if theirs.rates.is_empty() {
        return Line::missing(what, NO_REFERENCE);
    }
    Line::new(what, "/s", ours.rates.clone())
        .against("reference", theirs.rates)
        .at_least(10.0)
}

/// What was measured with as many connections.
#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    middles: Vec<f64>,
    tails: Vec<f64>,
}

impl Rounds {
    fn add(&mut self, (rate, latencies): (f64, Vec<f64>)) {
        self.rates.push(rate);
        self.middles.push(median(&latencies));
        self.tails.push(quantile(&latencies, 0.99));
    }

    fn lines(&self, connections: u16) -> [Line; 2] {
        let rate = Line::new(
            format!("connections {connections}"),
            "/s",
            self.rates.clone(),
        );
        let tail = Line::new(
            format!("connections {connections}, p99"),
            "ms",
            self.tails.clone(),
        )
        .against("p50", self.middles.clone());
        if connections == JUDGED {
            [rate.at_least(12_000.0), tail.at_most(5.0)]
        } else {
            [rate, tail]
        }
    }
}

/// The reference behind its own server.
struct Other {
    workers: Vec<Connected>,
    _peer: Peer,
}

impl Other {
    fn start(home: &Home, runtime: &Runtime) -> Outcome<Option<Self>> {
        let Some(modules) = reference() else {
            return Ok(None);
        };
        let mut peer = Peer::reference(&modules, home.folder(), &["serve"])?;
        let address = SocketAddr::from(([127, 0, 0, 1], peer.line()?.parse()?));
        let workers = connect(
            address,
            &home.master,
            SLOTS_OF_THE_REFERENCE,
            CONNECTIONS_OF_THE_REFERENCE,
        );
        Ok(Some(Self {
            workers: runtime.block_on(workers)?,
            _peer: peer,
        }))
    }

    fn round(&mut self, runtime: &Runtime, session: &Session) -> Outcome<(f64, Vec<f64>)> {
        let wanted = HEARTBEATS_OF_THE_REFERENCE * session.round.as_secs_f64();
        let share = wanted / f64::from(CONNECTIONS_OF_THE_REFERENCE);
        runtime.block_on(round(&mut self.workers, share as usize))
    }
}

/// A worker that holds a run, and its connection.
pub(super) struct Connected {
    worker: Worker,
    connection: Connection,
}

/// Workers that have fetched their runs. Ours come from the board, by way of the Dispatcher.
pub(super) async fn connect(
    address: SocketAddr,
    master: &Key,
    slots: u16,
    count: u16,
) -> Outcome<Vec<Connected>> {
    let fetch = |number: u16| async move {
        let mut worker = Worker::new(master, number % slots, slots)?;
        let mut connection = Connection::open(address).await?;
        let poll = request("/v2/poll", &worker.poll(30)?);
        worker.take(&connection.send(&poll).await?)?;
        Ok::<_, Box<dyn std::error::Error>>(Connected { worker, connection })
    };
    try_join_all((0..count).map(fetch)).await
}

/// Has every worker send its share; returns heartbeats a second, and the latency of each in milliseconds.
pub(super) async fn round(workers: &mut [Connected], share: usize) -> Outcome<(f64, Vec<f64>)> {
    let mut work = Vec::new();
    for line in workers {
        let signed: Outcome<Vec<_>> = (0..share)
            .map(|_| Ok(request("/v2/heartbeat", &line.worker.heartbeat()?)))
            .collect();
        work.push((line, signed?));
    }
    let began = Instant::now();
    let sent = work.into_iter().map(|(line, requests)| async move {
        let mut answers = Vec::with_capacity(requests.len());
        for request in &requests {
            let sent = Instant::now();
            let answer = line.connection.send(request).await?;
            answers.push((answer, millis_since(sent)));
        }
        Ok::<_, Box<dyn std::error::Error>>((line, answers))
    });
    let answered = try_join_all(sent).await?;
    let elapsed = began.elapsed().as_secs_f64();
    let mut latencies = Vec::new();
    for (line, answers) in answered {
        for (answer, latency) in answers {
            line.worker.confirm(&answer)?;
            latencies.push(latency);
        }
    }
    Ok((latencies.len() as f64 / elapsed, latencies))
}
