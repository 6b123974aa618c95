//! How soon a task is in a worker's hands.
//!
//! From `ready`: Hermes makes a task on a board of the running program, whose one worker waits in a long poll over HTTP.
//! Measured from Hermes' call, so Hermes' own commit counts as ours. Goal: `poll_millis` + 20 ms at the median, + 100 ms at
//! the 99th percentile.
//!
//! From a freed slot: the worker polls as soon as its result is acknowledged, and the next task waits already. Goal: 20 ms at
//! the median, from the slot's release to the next assignment.

use std::time::{Duration, Instant};

use actix::System;
use hermes_pool::actors::PoolEvent;
use hermes_pool::clock::{Clock, SystemClock};

use super::lives::add_tasks;
use crate::support::connection::{Connection, request};
use crate::support::figures::{Session, quantile};
use crate::support::peer::{NO_HERMES, Peer};
use crate::support::pool::{Ground, LANE};
use crate::support::served::Home;
use crate::support::table::Line;
use crate::support::worker::Worker;
use crate::support::{Outcome, runtime, scratch};

/// `poll_millis`, as by default.
const POLL_MILLIS: f64 = 250.0;
/// How long an event may take before something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let samples = session.choose(120, 10);
    let mut lines = match from_ready(samples)? {
        Some(millis) => vec![
            Line::new(
                "ready to assignment, p50",
                "ms",
                vec![quantile(&millis, 0.5)],
            )
            .at_most(POLL_MILLIS + 20.0),
            Line::new(
                "ready to assignment, p99",
                "ms",
                vec![quantile(&millis, 0.99)],
            )
            .at_most(POLL_MILLIS + 100.0),
        ],
        None => vec![Line::missing("ready to assignment", NO_HERMES)],
    };
    let folder = scratch()?;
    let (released, reported) =
        System::new().block_on(from_release(&Ground::new(folder.path(), 1)?, samples))?;
    lines.push(
        Line::new(
            "freed slot to assignment, p50",
            "ms",
            vec![quantile(&released, 0.5)],
        )
        .at_most(20.0),
    );
    lines.push(Line::new(
        "freed slot to assignment, p99",
        "ms",
        vec![quantile(&released, 0.99)],
    ));
    lines.push(Line::new(
        "result to next assignment, p50",
        "ms",
        vec![quantile(&reported, 0.5)],
    ));
    Ok(lines)
}

/// Milliseconds from Hermes' call to the assignment; `None` without Hermes.
fn from_ready(samples: usize) -> Outcome<Option<Vec<f64>>> {
    let home = Home::new(1, 0)?;
    let served = home.serve()?;
    let Some(mut hermes) = Peer::hermes(&home.boards(), &["ready", LANE])? else {
        return Ok(None);
    };
    hermes.line()?;
    let clock = SystemClock::new();
    let mut worker = Worker::new(&home.master, 0, home.slots)?;
    let mut millis = Vec::new();
    runtime()?.block_on(async {
        let mut connection = Connection::open(served.address).await?;
        for _ in 0..samples {
            let poll = request("/v2/poll", &worker.poll(30)?);
            let answer = connection.send(&poll);
            let asked = async {
                // At any moment between two looks at the board, with the worker waiting by then.
                let pause = 50 + fastrand::u64(..POLL_MILLIS as u64);
                tokio::time::sleep(Duration::from_millis(pause)).await;
                hermes.ask()
            };
            let (answer, asked) = tokio::join!(answer, asked);
            let arrived = clock.now();
            asked?;
            worker.take(&answer?)?;
            let began: f64 = hermes.line()?.parse()?;
            millis.push((arrived.0 - began) * 1e3);
            let result = request("/v2/result", &worker.completed()?);
            worker.accepted(&connection.send(&result).await?)?;
        }
        Ok(Some(millis))
    })
}

/// Milliseconds from the release of the only slot to its next assignment, and from its result to that assignment.
async fn from_release(ground: &Ground, samples: usize) -> Outcome<(Vec<f64>, Vec<f64>)> {
    add_tasks(ground, samples + 1)?;
    let pool = ground.start().await?;
    let mut worker = ground.worker(&pool, 0)?;
    worker.fetch(30).await?;
    let (mut released, mut reported) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        let mut events = pool.listen();
        let sent = Instant::now();
        worker.complete().await?;
        let free = async {
            let over = |event: &PoolEvent| matches!(event, PoolEvent::Ended { .. });
            events
                .wait_for(PATIENCE, over)
                .await
                .map(|_| Instant::now())
        };
        let next = async { worker.fetch(30).await.map(|_| Instant::now()) };
        let (free, next) = tokio::join!(free, next);
        let (free, next) = (free.map_err(|_| "a run did not end")?, next?);
        released.push(next.saturating_duration_since(free).as_secs_f64() * 1e3);
        reported.push(next.duration_since(sent).as_secs_f64() * 1e3);
    }
    pool.stop();
    Ok((released, reported))
}
