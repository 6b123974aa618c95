//! Durable heartbeats through the actors: signed, parsed, verified, stored, committed, answered. The answers are verified
//! when the clock stands still again: what a client does with them is no work of the pool.
//!
//! Against raw SQLite doing the same two statements, in commits of as many heartbeats as there are senders. Goal: at least
//! 0.6 of it with 1 sender, 0.5 with 64, 0.35 with 256. With 1 sender also against the same behind a thread of its own, since
//! the two hand-overs between threads are a large part of what a single heartbeat takes.

use std::path::Path;
use std::time::{Duration, Instant};

use actix::System;
use hermes_pool::actors::Pool;

use crate::support::figures::{Session, WARM_UP, cpu_seconds, median};
use crate::support::pool::{Ground, Local};
use crate::support::raw::{Raw, RawOnThread};
use crate::support::table::Line;
use crate::support::{Outcome, scratch};

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

/// Turns of each in a round.
const TURNS: u32 = 10;

/// Measures.
pub(crate) fn measure(session: &Session) -> Outcome<Vec<Line>> {
    let mut lines = Vec::new();
    for (senders, goal) in SENDERS {
        let mut rounds = Vec::new();
        for _ in 0..session.rounds {
            let folder = scratch()?;
            let round = one_round(folder.path(), senders, session.round);
            rounds.push(System::new().block_on(round)?);
        }
        let each = |of: fn(&Round) -> f64| rounds.iter().map(of).collect::<Vec<_>>();
        let costs = each(|round| round.ours.processor_seconds * 1e6 / round.ours.count);
        let line = Line::new(
            format!("senders {senders}"),
            "/s",
            each(|round| round.ours.per_second()),
        )
        .against("raw SQLite", each(|round| round.raw.per_second()))
        .note(format!("{:.0} us of processor each", median(&costs)));
        lines.push(match goal {
            Some(goal) => line.at_least(goal),
            None => line,
        });
        if senders == 1 {
            let ours = each(|round| round.ours.per_second());
            let asked = each(|round| round.on_thread.per_second());
            lines.push(Line::new("senders 1", "/s", ours).against("raw on a thread", asked));
        }
    }
    Ok(lines)
}

/// What one round saw.
#[derive(Default)]
struct Round {
    ours: Counted,
    raw: Counted,
    /// With one sender only.
    on_thread: Counted,
}

/// The pool and raw SQLite in turns, so that whatever else the machine does meets both.
async fn one_round(folder: &Path, senders: u16, duration: Duration) -> Outcome<Round> {
    let mut raw = Raw::new(&folder.join("raw.db"), senders)?;
    let on_thread = match senders {
        1 => Some(RawOnThread::start(Raw::new(&folder.join("thread.db"), 1)?)),
        _ => None,
    };
    let mut beating = Beating::start(folder, senders).await?;
    raw.beat_for(WARM_UP)?;
    if let Some(raw) = &on_thread {
        raw.beat_for(WARM_UP)?;
    }
    let (mut round, turn) = (Round::default(), duration / TURNS);
    for _ in 0..TURNS {
        round.ours.add(&beating.beat_for(turn).await?);
        round.raw.add(&raw.beat_for(turn)?.into());
        if let Some(raw) = &on_thread {
            round.on_thread.add(&raw.beat_for(turn)?.into());
        }
    }
    Ok(round)
}

/// Heartbeats a second of one pool with this many senders.
pub(super) async fn heartbeats(folder: &Path, senders: u16, duration: Duration) -> Outcome<f64> {
    let mut beating = Beating::start(folder, senders).await?;
    Ok(beating.beat_for(duration).await?.per_second())
}

/// Heartbeats that were taken.
#[derive(Default)]
struct Counted {
    count: f64,
    seconds: f64,
    /// Of all threads: a figure that holds also while others use the machine.
    processor_seconds: f64,
}

impl From<(f64, f64)> for Counted {
    /// A count and its seconds.
    fn from((count, seconds): (f64, f64)) -> Self {
        Self {
            count,
            seconds,
            processor_seconds: 0.0,
        }
    }
}

impl Counted {
    fn add(&mut self, more: &Self) {
        self.count += more.count;
        self.seconds += more.seconds;
        self.processor_seconds += more.processor_seconds;
    }

    fn per_second(&self) -> f64 {
        self.count / self.seconds
    }
}

/// A pool, and senders that hold runs of it.
struct Beating {
    pool: Pool,
    senders: Vec<Local>,
}

impl Beating {
    /// Starts both, and lets them warm up.
    async fn start(folder: &Path, senders: u16) -> Outcome<Self> {
        let ground = Ground::new(folder, SLOTS)?;
        let pool = ground.start().await?;
        let mut beating = Self {
            pool,
            senders: Vec::new(),
        };
        for ordinal in 0..senders {
            let holder = ground.holder(&beating.pool, ordinal).await?;
            beating.senders.push(holder);
        }
        beating.beat_for(WARM_UP).await?;
        Ok(beating)
    }

    /// Has each sender send one heartbeat after the other.
    async fn beat_for(&mut self, duration: Duration) -> Outcome<Counted> {
        let (began, used_before) = (Instant::now(), cpu_seconds("self")?);
        // A task for each, so that a sender is woken alone.
        let senders = self.senders.drain(..);
        let tasks: Vec<_> = senders
            .map(|sender| actix::spawn(beat_until(sender, began + duration)))
            .collect();
        let mut beaten = Vec::new();
        for task in tasks {
            beaten.push(task.await??);
        }
        let mut counted = Counted {
            count: 0.0,
            seconds: began.elapsed().as_secs_f64(),
            processor_seconds: cpu_seconds("self")? - used_before,
        };
        for (sender, answers) in beaten {
            for answer in answers {
                sender.confirm(&answer)?;
                counted.count += 1.0;
            }
            self.senders.push(sender);
        }
        Ok(counted)
    }
}

impl Drop for Beating {
    fn drop(&mut self) {
        self.pool.stop();
    }
}

/// A sender, and the answers that it got.
type Beaten = (Local, Vec<Vec<u8>>);

async fn beat_until(sender: Local, end: Instant) -> Outcome<Beaten> {
    let mut answers = Vec::new();
    while Instant::now() < end {
        answers.push(sender.beat().await?);
    }
    Ok((sender, answers))
}
