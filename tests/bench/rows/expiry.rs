//! How late a lease is found to be over: 10,000 running leases that end one after the other, 1,000 a second, while nobody
//! renews any.
//!
//! Goal: at most 100 ms at the 99th percentile, from the end of the lease until the fencing is durable.

use std::time::Duration;

use actix::System;
use hermes_pool::actors::PoolEvent;
use hermes_pool::clock::{Clock, SystemClock};

use super::lives::add_tasks;
use crate::support::figures::{Session, median, quantile};
use crate::support::leases::{Ends, fill};
use crate::support::pool::Ground;
use crate::support::table::Line;
use crate::support::{Outcome, scratch};

/// Leases, one of each slot.
const SLOTS: u16 = 10_000;
/// From the end of one lease to the next, in seconds.
const STEP_SECONDS: f64 = 0.001;
/// From the start of the pool to the end of the first lease, in seconds.
const LEAD_SECONDS: f64 = 3.0;
/// How long an event may take before something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let (mut middles, mut tails, mut worst) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..session.rounds.min(3) {
        let millis = System::new().block_on(lateness())?;
        middles.push(median(&millis));
        tails.push(quantile(&millis, 0.99));
        worst.push(quantile(&millis, 1.0));
    }
    Ok(vec![
        Line::new("10,000 leases, p50", "ms", middles),
        Line::new("10,000 leases, p99", "ms", tails).at_most(100.0),
        Line::new("10,000 leases, the latest", "ms", worst),
    ])
}

/// Milliseconds from the end of each lease until it was fenced.
async fn lateness() -> Outcome<Vec<f64>> {
    let folder = scratch()?;
    let ground = Ground::new(folder.path(), SLOTS)?;
    add_tasks(&ground, 0)?;
    let clock = SystemClock::new();
    let now = clock.now().0;
    let ends = Ends {
        first: now + LEAD_SECONDS,
        step: STEP_SECONDS,
    };
    let state_dir = &ground.settings.state_dir;
    fill(state_dir, ground.boards.root(), SLOTS, now, ends)?;
    let pool = ground.start().await?;
    let mut events = pool.listen();
    let mut millis = Vec::with_capacity(usize::from(SLOTS));
    while millis.len() < usize::from(SLOTS) {
        let fenced = |event: &PoolEvent| matches!(event, PoolEvent::Fenced(_));
        let event = events.wait_for(PATIENCE, fenced).await;
        if let PoolEvent::Fenced(binding) = event.map_err(|_| "a lease did not end")? {
            millis.push((clock.now().0 - ends.of(binding.ordinal.0)) * 1e3);
        }
    }
    pool.stop();
    Ok(millis)
}
