//! Durable heartbeats through the actors: signed, parsed, verified, stored, committed, answered, and the answer verified.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::System;
use hermes_pool::actors::{OrdinalHandle, Pool, PoolSettings};
use hermes_pool::board::hermes::{HermesBoards, Settings};
use hermes_pool::clock::SystemClock;
use hermes_pool::domain::{
    Attempt, Binding, BoardSlug, ClaimLock, Lane, LeasePolicy, Ordinal, PoolId, RunId, RunKey,
    TaskId,
};
use hermes_pool::faults::Faults;
use hermes_pool::protocol::{Digest, Key, Kind, generate_key, parse_wire, write_key_file};
use hermes_pool::store::NewClaim;
use hermes_pool::store::operations::AddAssignment;

use super::figures::{Effort, heading, median, row};
use super::worker::Worker;
use super::{Outcome, raw, scratch};

/// Slots of the pool: one for each of the most senders.
const SLOTS: u16 = 256;
/// Senders at once, and the part of raw SQLite that is the goal.
const SENDERS: [(u16, &str); 5] = [(1, "0.60"), (3, ""), (16, ""), (64, "0.50"), (256, "0.35")];

/// Measures and prints.
pub(crate) fn measure(effort: &Effort) -> Outcome<()> {
    heading(
        "durable heartbeats in-process",
        &[
            "senders",
            "a second",
            "raw SQLite",
            "ratio",
            "goal",
            "CPU us each",
        ],
    );
    for (senders, goal) in SENDERS {
        let (mut ours, mut limits, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        let mut costs = Vec::new();
        for _ in 0..effort.rounds {
            let folder = scratch()?;
            let limit = raw::heartbeats_per_second(folder.path(), senders, effort.round)?;
            let (our, cost) =
                System::new().block_on(heartbeats(folder.path(), senders, effort.round))?;
            ours.push(our);
            costs.push(cost);
            limits.push(limit);
            ratios.push(our / limit);
        }
        row([
            senders.to_string(),
            format!("{:.0}", median(&ours)),
            format!("{:.0}", median(&limits)),
            format!("{:.2}", median(&ratios)),
            goal.to_owned(),
            format!("{:.0}", median(&costs)),
        ]);
    }
    println!();
    Ok(())
}

/// Heartbeats a second of one pool with this many senders, and the microseconds of all threads that each takes. The
/// second figure holds also while others use the machine.
async fn heartbeats(folder: &Path, senders: u16, duration: Duration) -> Outcome<(f64, f64)> {
    let master = generate_key()?;
    let pool = start_pool(folder, &master)?;
    pool.opened().await;
    let mut holders = Vec::new();
    for ordinal in 0..senders {
        holders.push(Holder::of(&pool, &master, ordinal).await?);
    }
    let (began, used_before) = (Instant::now(), cpu_seconds()?);
    // A task for each, so that a sender is woken alone.
    let tasks: Vec<_> = holders
        .into_iter()
        .map(|holder| actix::spawn(async move { holder.beat_until(began + duration).await }))
        .collect();
    let mut total = 0;
    for task in tasks {
        total += task.await??;
    }
    let (elapsed, used) = (began.elapsed(), cpu_seconds()? - used_before);
    pool.stop();
    let total = f64::from(total);
    Ok((total / elapsed.as_secs_f64(), used * 1e6 / total))
}

/// The clock ticks in which Linux tells processes' times, on whatever it runs.
const TICKS_PER_SECOND: f64 = 100.0;

/// Processor time that this process has used, in steps of the system's clock tick.
fn cpu_seconds() -> Outcome<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name in parentheses may hold blanks; the 12th and 13th field after it are user and system time.
    let (_, fields) = stat
        .rsplit_once(')')
        .ok_or("no name in the process's state")?;
    let mut ticks = 0.0;
    for field in fields.split_whitespace().skip(11).take(2) {
        ticks += field.parse::<f64>()?;
    }
    Ok(ticks / TICKS_PER_SECOND)
}

/// A pool on the real clock whose home has no boards.
fn start_pool(folder: &Path, master: &Key) -> Outcome<Pool> {
    let key_file = folder.join("pool.key");
    write_key_file(&key_file, master)?;
    let settings = PoolSettings {
        id: PoolId::parse("bench")?,
        slots: SLOTS,
        policy: LeasePolicy::clamped(90, 3, 300),
        state_dir: folder.join("state"),
        key_file,
        lanes: vec![Lane::parse("bench")?],
        include: Vec::new(),
        poll: Duration::from_millis(250),
        failure_limit: 2,
        interval_seconds: 5.0,
        retention_seconds: 604_800,
        faults: Faults::default(),
    };
    let home = folder.join("home");
    std::fs::create_dir(&home)?;
    let boards = HermesBoards::new(home, Settings::default());
    Ok(Pool::start(
        settings,
        Arc::new(SystemClock::new()),
        Arc::new(boards),
    )?)
}

/// A worker that was handed a run, and its way to the pool.
struct Holder {
    slot: OrdinalHandle,
    worker: Worker,
}

impl Holder {
    /// Adds a run to a slot, and has its worker fetch it.
    async fn of(pool: &Pool, master: &Key, ordinal: u16) -> Outcome<Self> {
        pool.store().call(addition(pool, ordinal)?).await?;
        let slot = pool
            .ordinal(Ordinal(ordinal))
            .ok_or("a slot of the pool has no actor")?;
        let mut worker = Worker::new(master, ordinal, SLOTS)?;
        let poll = parse_wire(&worker.poll(0)?)?;
        worker.take(&slot.deliver(poll, Kind::Poll).await?.envelope)?;
        Ok(Self { slot, worker })
    }

    /// Sends one heartbeat after the other; returns how many were accepted.
    async fn beat_until(&self, end: Instant) -> Outcome<u32> {
        let mut count = 0;
        while Instant::now() < end {
            let heartbeat = parse_wire(&self.worker.heartbeat()?)?;
            let reply = self.slot.deliver(heartbeat, Kind::Heartbeat).await?;
            self.worker.confirm(&reply.envelope)?;
            count += 1;
        }
        Ok(count)
    }
}

/// The run of a slot, as a Dispatcher would add it.
fn addition(pool: &Pool, ordinal: u16) -> Outcome<AddAssignment> {
    let key = RunKey {
        board: BoardSlug::parse("bench")?,
        task: TaskId::parse(&format!("t_{ordinal:08x}"))?,
        run: RunId::parse(&ordinal.to_string())?,
    };
    let payload_json = "{}".to_owned();
    Ok(AddAssignment {
        binding: Binding {
            key,
            ordinal: Ordinal(ordinal),
            attempt: Attempt(1),
        },
        assignment_digest: Digest::of(payload_json.as_bytes()).as_str().to_owned(),
        payload_json,
        claim: NewClaim {
            lock: ClaimLock::recorded(&format!("pool/bench:ffffffff:{ordinal}")),
            anchor: None,
            confirmed_at: pool.clock().now(),
        },
    })
}
