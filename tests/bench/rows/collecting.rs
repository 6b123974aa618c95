//! The latency of heartbeats, 2,000 a second from 64 workers, while 1,000,000 ended assignments are collected.
//!
//! Against the same pool on the same store while nothing is old enough. Goal: at most 3 times its 99th percentile. A
//! heartbeat counts from the moment when it is due, so that one that is held up does not hide those behind it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::System;
use hermes_pool::actors::Pool;
use hermes_pool::clock::{Clock, SharedClock, SystemClock, Wait};
use hermes_pool::domain::Timestamp;

use crate::support::figures::{Session, millis_since, quantile};
use crate::support::pool::{Ground, Local, RETENTION_SECONDS};
use crate::support::table::Line;
use crate::support::{Outcome, scratch};

/// Workers, each of a slot.
const WORKERS: u16 = 64;
/// From one heartbeat of a worker to its next: 2,000 a second of all.
const PERIOD: Duration = Duration::from_millis(32);
/// How long assignments are kept where all of them are to be collected, in seconds: a day.
const SHORT_RETENTION_SECONDS: u32 = 86_400;

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let duration = Duration::from_secs(session.choose(20, 3));
    let (mut without, mut with, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..session.rounds.min(3) {
        for (retention, tails) in [
            (RETENTION_SECONDS, &mut without),
            (SHORT_RETENTION_SECONDS, &mut with),
        ] {
            let folder = scratch()?;
            let beats = beats(folder.path(), session, retention, duration);
            let (millis, collected) = System::new().block_on(beats)?;
            tails.push(quantile(&millis, 0.99));
            if retention == SHORT_RETENTION_SECONDS {
                rates.push(collected);
            } else if collected > 0.0 {
                return Err("something was collected that is to be kept".into());
            }
        }
    }
    Ok(vec![
        Line::new("heartbeats while collecting, p99", "ms", with)
            .against("undisturbed", without)
            .at_most(3.0),
        Line::new("collected meanwhile", "/s", rates),
    ])
}

/// Milliseconds from when each heartbeat was due until it was acknowledged, and assignments collected each second.
async fn beats(
    folder: &Path,
    session: &Session,
    retention_seconds: u32,
    duration: Duration,
) -> Outcome<(Vec<f64>, f64)> {
    let mut ground = Ground::new(folder, WORKERS)?;
    ground.settings.retention_seconds = retention_seconds;
    session.history()?.copy_store(&ground.settings.state_dir)?;
    let clock: SharedClock = Arc::new(Hurried(SystemClock::new()));
    let pool = ground.start_at(clock).await?;
    let mut holders = Vec::new();
    for ordinal in 0..WORKERS {
        holders.push(ground.holder(&pool, ordinal).await?);
    }
    let (before, began) = (ended(&pool).await?, Instant::now());
    let tasks: Vec<_> = holders
        .into_iter()
        .enumerate()
        .map(|(number, holder)| {
            let first = began + PERIOD * number as u32 / u32::from(WORKERS);
            actix::spawn(beat_on_time(holder, first, began + duration))
        })
        .collect();
    let mut millis = Vec::new();
    for task in tasks {
        millis.extend(task.await??);
    }
    let collected = before - ended(&pool).await?;
    let seconds = began.elapsed().as_secs_f64();
    pool.stop();
    Ok((millis, collected / seconds))
}

/// Sends heartbeats when they are due; returns the latency of each.
async fn beat_on_time(holder: Local, first: Instant, end: Instant) -> Outcome<Vec<f64>> {
    let (mut due, mut millis) = (first, Vec::new());
    while due < end {
        tokio::time::sleep_until(due.into()).await;
        let answer = holder.beat().await?;
        millis.push(millis_since(due));
        holder.confirm(&answer)?;
        due += PERIOD;
    }
    Ok(millis)
}

/// Ended assignments in the store.
async fn ended(pool: &Pool) -> Outcome<f64> {
    let counts = pool.readers().read(|reader| reader.counts()).await?;
    let ended = counts
        .iter()
        .filter(|(state, _)| state == "finalized" || state == "stale");
    Ok(ended.map(|(_, count)| *count as f64).sum())
}

/// The real time, on which nobody waits a whole minute: the first look for something to collect comes at once.
struct Hurried(SystemClock);

/// The longest wait.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Clock for Hurried {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn wait_until(&self, deadline: Timestamp) -> Wait {
        self.0.wait_until(deadline)
    }

    fn wait_for(&self, duration: Duration) -> Wait {
        self.0.wait_for(duration.min(LONGEST_WAIT))
    }
}
