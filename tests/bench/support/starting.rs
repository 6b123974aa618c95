//! From the start of the program to the first run in a worker's hands, and what the program holds in memory.

use std::time::Instant;

use hermes_pool::clock::{Clock, SystemClock};
use hermes_pool::domain::{
    Attempt, Binding, BoardSlug, ClaimLock, LeasePolicy, Ordinal, RunId, RunKey, TaskId,
};
use hermes_pool::protocol::Digest;
use hermes_pool::store::operations::{AddAssignment, Offer};
use hermes_pool::store::{NewClaim, Store};

use super::Outcome;
use super::connection::{Connection, request};
use super::figures::{Effort, heading, median, row};
use super::served::Home;
use super::worker::Worker;

/// A pool of the ordinary size.
const FEW_SLOTS: u16 = 3;
/// A pool of the largest size.
const MOST_SLOTS: u16 = 10_000;
/// Heartbeats before memory is looked at.
const HEARTBEATS: usize = 500;

/// Measures and prints.
pub(crate) fn measure(effort: &Effort) -> Outcome<()> {
    heading(
        "start and memory",
        &["what", "start ms", "goal", "resident MB", "goal"],
    );
    let (mut times, mut sizes) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let (millis, megabytes) = first_offer(&Home::new(FEW_SLOTS, 1)?, 0)?;
        times.push(millis);
        sizes.push(megabytes);
    }
    row([
        "empty store, 3 slots: first offer".to_owned(),
        format!("{:.0}", median(&times)),
        "100".to_owned(),
        format!("{:.1}", median(&sizes)),
        "25".to_owned(),
    ]);
    let home = Home::new(MOST_SLOTS, 0)?;
    fill(&home)?;
    let (mut times, mut sizes) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let (millis, megabytes) = first_offer(&home, MOST_SLOTS - 1)?;
        times.push(millis);
        sizes.push(megabytes);
    }
    row([
        "10,000 live runs: the last one".to_owned(),
        format!("{:.0}", median(&times)),
        "1000".to_owned(),
        format!("{:.1}", median(&sizes)),
        "150".to_owned(),
    ]);
    Ok(())
}

/// Milliseconds from the start of the program until a worker that polls has its run; and resident megabytes after it
/// has sent some heartbeats.
fn first_offer(home: &Home, ordinal: u16) -> Outcome<(f64, f64)> {
    let mut worker = Worker::new(&home.master, ordinal, home.slots)?;
    let began = Instant::now();
    let served = home.serve()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut connection = Connection::open(served.address).await?;
        // Like any worker, it asks again where the pool cannot answer yet.
        let reply = loop {
            match connection
                .send(&request("/v2/poll", &worker.poll(30)?))
                .await
            {
                Err(refused) if refused.to_string().starts_with("HTTP/1.1 503 ") => {}
                reply => break reply?,
            }
        };
        worker.take(&reply)?;
        let millis = began.elapsed().as_secs_f64() * 1e3;
        for _ in 0..HEARTBEATS {
            let heartbeat = request("/v2/heartbeat", &worker.heartbeat()?);
            worker.confirm(&connection.send(&heartbeat).await?)?;
        }
        Ok((millis, served.resident_megabytes()?))
    })
}

/// Fills the store of a home with a running assignment for each slot, on a board that does not exist.
fn fill(home: &Home) -> Outcome<()> {
    std::fs::create_dir(home.state_dir())?;
    let mut store = Store::open(&home.state_dir().join("assignments.db"), home.slots)?;
    let now = SystemClock::new().now();
    let policy = LeasePolicy::clamped(600, 3, 300);
    let mut group = Vec::new();
    for ordinal in 0..home.slots {
        let key = RunKey {
            board: BoardSlug::parse("elsewhere")?,
            task: TaskId::parse(&format!("t_{ordinal:08x}"))?,
            run: RunId::parse(&ordinal.to_string())?,
        };
        group.push((key, Ordinal(ordinal)));
    }
    let mut jobs = Vec::new();
    for (key, ordinal) in group {
        let add = AddAssignment {
            binding: Binding {
                key,
                ordinal,
                attempt: Attempt(1),
            },
            payload_json: "{}".to_owned(),
            assignment_digest: Digest::of(b"{}").as_str().to_owned(),
            claim: NewClaim {
                lock: ClaimLock::recorded(&format!("pool/bench:ffffffff:{}", ordinal.0)),
                anchor: None,
                confirmed_at: now,
            },
        };
        let offer = Offer {
            ordinal,
            delivery_id: format!("first-{}", ordinal.0),
            policy,
        };
        jobs.push(hermes_pool::store::Job::new(add, drop));
        jobs.push(hermes_pool::store::Job::new(offer, drop));
    }
    store.commit_group(jobs, now)?;
    Ok(())
}
