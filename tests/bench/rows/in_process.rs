//! Durable heartbeats through the actors: signed, parsed, verified, stored, committed, answered. The answers are verified
//! when the clock stands still again: what a client does with them is no work of the pool.
//!
//! Against raw SQLite doing the same two statements, in commits of as many heartbeats as there are senders. Goal: at least
//! 0.6 of it with 1 sender, 0.5 with 64, 0.35 with 256.

use std::path::Path;
use std::time::{Duration, Instant};

use actix::System;

use crate::support::figures::{Session, WARM_UP, cpu_seconds, median};
use crate::support::pool::{Ground, Local};
use crate::support::table::Line;
use crate::support::{Outcome, raw, scratch};

/// Slots of the pool: one for each of the most senders.
const SLOTS: u16 = 256;
/// Senders at once, and the part of raw SQLite that is the goal.
const SENDERS: [(u16, Option<f64>); 5] = [
    (1, Some(0.6)),
    (3, None),
    (16, None),
    (64, Some(0.5)),
    (256, Some(0.35)),
];

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let mut lines = Vec::new();
    for (senders, goal) in SENDERS {
        let (mut ours, mut limits, mut costs) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..session.rounds {
            let folder = scratch()?;
            let limit = raw::heartbeats_per_second(folder.path(), senders, session.round)?;
            let (our, cost) =
                System::new().block_on(heartbeats(folder.path(), senders, session.round))?;
            ours.push(our);
            costs.push(cost);
            limits.push(limit);
        }
        let line = Line::new(format!("senders {senders}"), "/s", ours)
            .against("raw SQLite", limits)
            .note(format!("{:.0} us of processor each", median(&costs)));
        lines.push(match goal {
            Some(goal) => line.at_least(goal),
            None => line,
        });
    }
    Ok(lines)
}

/// Heartbeats a second of one pool with this many senders, and the microseconds of all threads that each takes. The
/// second figure holds also while others use the machine.
pub(super) async fn heartbeats(
    folder: &Path,
    senders: u16,
    duration: Duration,
) -> Outcome<(f64, f64)> {
    let ground = Ground::new(folder, SLOTS)?;
    let pool = ground.start().await?;
    let mut holders = Vec::new();
    for ordinal in 0..senders {
        holders.push(ground.holder(&pool, ordinal).await?);
    }
    let mut beaten = beat_for(holders, WARM_UP).await?;
    confirm(&beaten)?;
    let holders = beaten.drain(..).map(|(holder, _)| holder).collect();
    let (began, used_before) = (Instant::now(), cpu_seconds("self")?);
    let beaten = beat_for(holders, duration).await?;
    let (elapsed, used) = (began.elapsed(), cpu_seconds("self")? - used_before);
    pool.stop();
    let total = confirm(&beaten)?;
    Ok((total / elapsed.as_secs_f64(), used * 1e6 / total))
}

/// A sender, and the answers that it got.
type Beaten = (Local, Vec<Vec<u8>>);

/// Has each send one heartbeat after the other.
async fn beat_for(holders: Vec<Local>, duration: Duration) -> Outcome<Vec<Beaten>> {
    let end = Instant::now() + duration;
    // A task for each, so that a sender is woken alone.
    let tasks: Vec<_> = holders
        .into_iter()
        .map(|holder| actix::spawn(beat_until(holder, end)))
        .collect();
    let mut beaten = Vec::new();
    for task in tasks {
        beaten.push(task.await??);
    }
    Ok(beaten)
}

async fn beat_until(holder: Local, end: Instant) -> Outcome<Beaten> {
    let mut answers = Vec::new();
    while Instant::now() < end {
        answers.push(holder.beat().await?);
    }
    Ok((holder, answers))
}

/// Makes sure that all were taken; returns how many there were.
fn confirm(beaten: &[Beaten]) -> Outcome<f64> {
    let mut total = 0.0;
    for (holder, answers) in beaten {
        for answer in answers {
            holder.confirm(answer)?;
            total += 1.0;
        }
    }
    Ok(total)
}
