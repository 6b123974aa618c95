//! Durable heartbeats over HTTP: the real program on loopback, with this process as its workers on the same cores.
//!
//! Requests are signed before the clock starts and answers are verified after it has stopped.

use std::time::Instant;

use futures_util::future::try_join_all;

use super::Outcome;
use super::connection::{Connection, request};
use super::figures::{Effort, heading, median, quantile, row};
use super::served::{Home, Served};
use super::worker::Worker;

/// Connections at once, and the heartbeats a second that are the goal.
const CONNECTIONS: [(u16, &str); 5] = [(1, ""), (3, ""), (16, ""), (64, "12000"), (256, "")];
/// Slots of the pool: one for each of the most connections.
const SLOTS: u16 = 256;
/// Heartbeats of a round for each second that it should last, by far more than one connection manages.
const HEARTBEATS: f64 = 12_000.0;

/// Measures and prints.
pub(crate) fn measure(effort: &Effort) -> Outcome<()> {
    heading(
        "durable heartbeats over HTTP",
        &[
            "connections",
            "a second",
            "goal",
            "p50 ms",
            "p99 ms",
            "p99/p50",
        ],
    );
    let home = Home::new(SLOTS, SLOTS)?;
    let served = home.serve()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut lines = runtime.block_on(lines(&home, &served))?;
    for (connections, goal) in CONNECTIONS {
        let active = lines
            .get_mut(..usize::from(connections))
            .ok_or("fewer lines than connections")?;
        let (mut rates, mut middles, mut tails) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..effort.rounds {
            let wanted = HEARTBEATS * effort.round.as_secs_f64();
            let share = (wanted / f64::from(SLOTS.min(4 * connections + 8))) as usize;
            let (rate, latencies) = runtime.block_on(round(active, share.max(10)))?;
            rates.push(rate);
            middles.push(median(&latencies));
            tails.push(quantile(&latencies, 0.99));
        }
        let (middle, tail) = (median(&middles), median(&tails));
        row([
            connections.to_string(),
            format!("{:.0}", median(&rates)),
            goal.to_owned(),
            format!("{middle:.2}"),
            format!("{tail:.2}"),
            format!("{:.1}", tail / middle),
        ]);
    }
    println!();
    Ok(())
}

/// A worker that holds a run, and its connection.
struct Line {
    worker: Worker,
    connection: Connection,
}

/// A line for each slot. The runs come from the board, by way of the Dispatcher.
async fn lines(home: &Home, served: &Served) -> Outcome<Vec<Line>> {
    let fetch = |ordinal| async move {
        let mut worker = Worker::new(&home.master, ordinal, home.slots)?;
        let mut connection = Connection::open(served.address).await?;
        let reply = connection
            .send(&request("/v2/poll", &worker.poll(30)?))
            .await?;
        worker.take(&reply)?;
        Ok::<_, Box<dyn std::error::Error>>(Line { worker, connection })
    };
    try_join_all((0..home.slots).map(fetch)).await
}

/// Has every line send its share; returns heartbeats a second, and the latency of each in milliseconds.
async fn round(lines: &mut [Line], share: usize) -> Outcome<(f64, Vec<f64>)> {
    let mut work = Vec::new();
    for line in lines {
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
            answers.push((answer, sent.elapsed().as_secs_f64() * 1e3));
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
