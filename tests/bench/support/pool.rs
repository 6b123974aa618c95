//! A pool in this process, and workers that reach it without a network.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermes_pool::actors::{OrdinalHandle, Pool, PoolSettings};
use hermes_pool::board::hermes::{HermesBoards, Settings};
use hermes_pool::clock::{SharedClock, SystemClock};
use hermes_pool::domain::{
    Attempt, Binding, BoardSlug, ClaimLock, Lane, LeasePolicy, Ordinal, PoolId, RunId, RunKey,
    TaskId,
};
use hermes_pool::faults::Faults;
use hermes_pool::protocol::{Digest, Key, Kind, generate_key, parse_wire, write_key_file};
use hermes_pool::store::NewClaim;
use hermes_pool::store::operations::AddAssignment;

use super::Outcome;
use super::worker::Worker;

/// The lane of all tasks.
pub(crate) const LANE: &str = "bench";
/// The board of all tasks.
pub(crate) const BOARD: &str = "bench";
/// How long ended assignments are kept, in seconds: a week, as by default.
pub(crate) const RETENTION_SECONDS: u32 = 604_800;

/// What a pool is started on: `state` and `home` below a folder, made where they are not there.
pub(crate) struct Ground {
    /// The pool's key.
    pub(crate) master: Key,
    /// What may still be changed.
    pub(crate) settings: PoolSettings,
    /// The boards.
    pub(crate) boards: HermesBoards,
}

impl Ground {
    /// The ground of a pool of `slots` slots.
    pub(crate) fn new(folder: &Path, slots: u16) -> Outcome<Self> {
        let master = generate_key()?;
        let key_file = folder.join("pool.key");
        write_key_file(&key_file, &master)?;
        let home = folder.join("home");
        std::fs::create_dir_all(&home)?;
        Ok(Self {
            master,
            boards: HermesBoards::new(home, Settings::default()),
            settings: PoolSettings {
                id: PoolId::parse("bench")?,
                slots,
                policy: LeasePolicy::clamped(90, 3, 300),
                state_dir: folder.join("state"),
                key_file,
                lanes: vec![Lane::parse(LANE)?],
                include: Vec::new(),
                poll: Duration::from_millis(250),
                failure_limit: 2,
                interval_seconds: 5.0,
                retention_seconds: RETENTION_SECONDS,
                faults: Faults::default(),
            },
        })
    }

    /// Starts the pool on the real clock, and waits until it serves.
    pub(crate) async fn start(&self) -> Outcome<Pool> {
        self.start_at(Arc::new(SystemClock::new())).await
    }

    /// Starts the pool on a clock, and waits until it serves.
    pub(crate) async fn start_at(&self, clock: SharedClock) -> Outcome<Pool> {
        let pool = Pool::start(self.settings.clone(), clock, Arc::new(self.boards.clone()))?;
        pool.opened().await;
        Ok(pool)
    }

    /// Stops the pool, and waits until another one can be started.
    pub(crate) async fn stop(&self, pool: Pool) -> Outcome<()> {
        pool.stop();
        drop(pool);
        // Its threads let go of the state directory when they have ended.
        let lock = File::open(self.settings.state_dir.join("coordinator.lock"))?;
        Ok(tokio::task::spawn_blocking(move || lock.lock()).await??)
    }

    /// The worker of a slot.
    pub(crate) fn worker(&self, pool: &Pool, ordinal: u16) -> Outcome<Local> {
        Ok(Local {
            slot: pool
                .ordinal(Ordinal(ordinal))
                .ok_or("a slot of the pool has no actor")?,
            worker: Worker::new(&self.master, ordinal, self.settings.slots)?,
        })
    }

    /// The worker of a slot with a run that no board knows, as a Dispatcher would add it.
    pub(crate) async fn holder(&self, pool: &Pool, ordinal: u16) -> Outcome<Local> {
        pool.store().call(addition(pool, ordinal)?).await?;
        let mut local = self.worker(pool, ordinal)?;
        local.fetch(0).await?;
        Ok(local)
    }
}

/// A worker in this process.
pub(crate) struct Local {
    slot: OrdinalHandle,
    worker: Worker,
}

impl Local {
    /// Asks for a run, and waits for up to 30 seconds; returns its name.
    pub(crate) async fn fetch(&mut self, wait_seconds: u8) -> Outcome<RunKey> {
        let poll = parse_wire(&self.worker.poll(wait_seconds)?)?;
        let reply = self.slot.deliver(poll, Kind::Poll).await?;
        self.worker.take(&reply.envelope)
    }

    /// Sends a heartbeat; returns the signed answer.
    pub(crate) async fn beat(&self) -> Outcome<Vec<u8>> {
        let heartbeat = parse_wire(&self.worker.heartbeat()?)?;
        Ok(self
            .slot
            .deliver(heartbeat, Kind::Heartbeat)
            .await?
            .envelope)
    }

    /// Makes sure that a heartbeat was taken.
    pub(crate) fn confirm(&self, answer: &[u8]) -> Outcome<()> {
        self.worker.confirm(answer)
    }

    /// Reports that the task is done.
    pub(crate) async fn complete(&self) -> Outcome<()> {
        let result = parse_wire(&self.worker.completed()?)?;
        let reply = self.slot.deliver(result, Kind::Result).await?;
        self.worker.accepted(&reply.envelope)
    }
}

/// The run of a slot.
fn addition(pool: &Pool, ordinal: u16) -> Outcome<AddAssignment> {
    let key = RunKey {
        board: BoardSlug::parse("nowhere")?,
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
