//! A store in a folder of its own, with short ways to say what a test needs.

use std::path::PathBuf;

use hermes_pool::domain::{
    Anchor, Attempt, Binding, BoardSlug, ClaimLock, Evidence, LeasePolicy, Ordinal, Receipt, RunId,
    RunKey, TaskId, Timestamp,
};
use hermes_pool::protocol::{self, Digest, Kind};
use hermes_pool::store::operations::{AddAssignment, Heartbeat, Offer, Presented, SubmitResult};
use hermes_pool::store::{Intent, NewClaim, Operation, Reader, Store, StoreError};
use rusqlite::Connection;

pub(crate) const START: Timestamp = Timestamp(1_700_000_000.0);

/// The tables as the reference makes them.
pub(crate) const REFERENCE_TABLES: &str = include_str!("../support/reference_tables.sql");

/// What every run is offered with.
pub(crate) const PAYLOAD: &str = r#"{"title":"work"}"#;

/// A lease of 60 s, three attempts, 300 s to be fetched.
pub(crate) fn policy() -> LeasePolicy {
    LeasePolicy::clamped(60, 3, 300)
}

/// A store and the time.
pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) now: Timestamp,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("assignments.db"), 3).unwrap();
        Self {
            folder,
            store,
            now: START,
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("assignments.db")
    }

    pub(crate) fn after(&mut self, seconds: f64) -> &mut Self {
        self.now = self.now + seconds;
        self
    }

    pub(crate) fn run<O: Operation>(&mut self, operation: O) -> Result<O::Reply, StoreError> {
        self.store.run(operation, self.now)
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::open(&self.path()).unwrap()
    }

    /// A connection behind the store's back.
    pub(crate) fn raw(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    /// Adds `run` to a slot, under its first attempt.
    pub(crate) fn add(&mut self, run: u32, ordinal: u16) -> Binding {
        let binding = binding(run, ordinal);
        self.run(addition(&binding)).unwrap();
        binding
    }

    pub(crate) fn offer(&mut self, ordinal: u16, poll: &str) -> <Offer as Operation>::Reply {
        let offer = Offer {
            ordinal: Ordinal(ordinal),
            delivery_id: poll.to_owned(),
            policy: policy(),
        };
        self.run(offer).unwrap()
    }

    pub(crate) fn beat(&mut self, binding: &Binding, id: &str) -> Result<bool, StoreError> {
        let beat = Heartbeat::new(presented(Kind::Heartbeat, binding, id), policy());
        self.run(beat).map(|beat| beat.duplicate)
    }

    pub(crate) fn submit(&mut self, binding: &Binding, digest: &str) -> Result<bool, StoreError> {
        let submit = SubmitResult {
            presented: Presented {
                payload_digest: digest.to_owned(),
                ..presented(Kind::Result, binding, "r")
            },
            payload_json: "{}".to_owned(),
        };
        self.run(submit).map(|receipt| receipt.duplicate)
    }

    /// One column of the only row of a query.
    pub(crate) fn value<T: rusqlite::types::FromSql>(&self, sql: &str) -> T {
        self.raw().query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

pub(crate) fn board() -> BoardSlug {
    BoardSlug::parse("lab").unwrap()
}

pub(crate) fn key(run: u32) -> RunKey {
    RunKey {
        board: board(),
        task: TaskId::parse("t_1").unwrap(),
        run: RunId::from(run),
    }
}

pub(crate) fn binding(run: u32, ordinal: u16) -> Binding {
    Binding {
        key: key(run),
        ordinal: Ordinal(ordinal),
        attempt: Attempt::FIRST,
    }
}

pub(crate) fn with_attempt(binding: &Binding, attempt: i64) -> Binding {
    Binding {
        attempt: Attempt(attempt),
        ..binding.clone()
    }
}

pub(crate) fn lock(run: u32) -> ClaimLock {
    ClaimLock::recorded(&format!("pool/p:ffffffff:{run}"))
}

pub(crate) fn anchor() -> Anchor {
    Anchor {
        run_sequence: 6,
        event_sequence: 40,
        oldest_task: Some(("t_0".to_owned(), 1_600_000_000)),
    }
}

pub(crate) fn intent(run: u32, ordinal: u16) -> Intent {
    Intent {
        lock: lock(run),
        board: board(),
        task: key(run).task,
        ordinal: Ordinal(ordinal),
        anchor: anchor(),
    }
}

pub(crate) fn addition(binding: &Binding) -> AddAssignment {
    let run = binding.key.run.as_str().parse().unwrap();
    AddAssignment {
        binding: binding.clone(),
        payload_json: PAYLOAD.to_owned(),
        assignment_digest: Digest::of(PAYLOAD.as_bytes()).as_str().to_owned(),
        claim: NewClaim {
            lock: lock(run),
            anchor: Some(anchor()),
            confirmed_at: START,
        },
    }
}

pub(crate) fn presented(kind: Kind, binding: &Binding, id: &str) -> Presented {
    Presented {
        kind,
        binding: protocol::Binding {
            board: binding.key.board.to_string(),
            task_id: binding.key.task.to_string(),
            run_id: binding.key.run.to_string(),
            worker_ordinal: binding.ordinal.0.into(),
            attempt: binding.attempt.0.into(),
        },
        delivery_id: id.to_owned(),
        payload_digest: "e".repeat(64),
    }
}

/// Evidence that the board shows the end that the pool wrote.
pub(crate) fn written() -> Evidence {
    Evidence::written(&Receipt::of_commit("completed"))
}
