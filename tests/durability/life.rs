//! A busy life of a store: runs come, are offered, kept alive, answered and ended, in groups; and what was acknowledged.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hermes_pool::domain::{Binding, Ordinal, Timestamp};
use hermes_pool::protocol::Kind;
use hermes_pool::store::operations::{End, Heartbeat, Offer, Presented, SubmitResult};
use hermes_pool::store::{Job, Operation, Store};
use rusqlite::Connection;

use super::disk::Disk;
use crate::fixtures::{START, addition, binding, policy, presented, written};

const SLOTS: u16 = 3;
/// Heartbeats of a run before its result.
const BEATS: u32 = 3;

/// A fact that somebody was told, and may rely on.
#[derive(Clone, Debug)]
pub(crate) enum Acknowledged {
    Added(Binding),
    Delivery(String),
    Lease(Binding, Timestamp),
    Result(Binding, String),
    Ended(Binding),
}

impl Acknowledged {
    /// Whether the store knows it, or something later that could not be without it.
    pub(crate) fn is_in(&self, sql: &Connection) -> bool {
        let (query, parameters): (_, Vec<String>) = match self {
            Self::Added(run) => ("SELECT 1 FROM assignments WHERE run_id=?1", vec![name(run)]),
            Self::Delivery(id) => (
                "SELECT 1 FROM deliveries WHERE delivery_id=?1",
                vec![id.clone()],
            ),
            Self::Lease(run, until) => (
                "SELECT 1 FROM assignments WHERE run_id=?1 \
                 AND (lease_until>=CAST(?2 AS REAL) OR state IN ('result','finalized'))",
                vec![name(run), until.0.to_string()],
            ),
            Self::Result(run, digest) => (
                "SELECT 1 FROM assignments WHERE run_id=?1 AND result_digest=?2",
                vec![name(run), digest.clone()],
            ),
            Self::Ended(run) => (
                "SELECT 1 FROM assignments WHERE run_id=?1 AND state='finalized'",
                vec![name(run)],
            ),
        };
        sql.prepare_cached(query)
            .unwrap()
            .exists(rusqlite::params_from_iter(parameters))
            .unwrap()
    }
}

fn name(run: &Binding) -> String {
    run.key.run.to_string()
}

/// What happens next in a slot.
#[derive(Clone)]
enum Next {
    Add,
    Offer(Binding),
    Beat(Binding, u32),
    Submit(Binding),
    End(Binding),
}

pub(crate) struct Life {
    path: PathBuf,
    store: Option<Store>,
    disk: Disk,
    now: Timestamp,
    runs: u32,
    messages: u32,
    slots: Vec<Next>,
    told: Arc<Mutex<Vec<Acknowledged>>>,
}

impl Life {
    pub(crate) fn begin(path: &Path, disk: Disk) -> Self {
        Self {
            path: path.to_owned(),
            store: Some(Store::open(path, SLOTS).unwrap()),
            disk,
            now: START,
            runs: 0,
            messages: 0,
            slots: vec![Next::Add; SLOTS.into()],
            told: Arc::default(),
        }
    }

    /// Closes the store, and opens it again.
    pub(crate) fn open_again(&mut self) {
        self.store = None;
        self.store = Some(Store::open(&self.path, SLOTS).unwrap());
    }

    /// All that was acknowledged, in order.
    pub(crate) fn acknowledged(&self) -> Vec<Acknowledged> {
        self.told.lock().unwrap().clone()
    }

    /// One step in every slot, all in one commit.
    pub(crate) fn commit_one_group(&mut self) {
        self.now = self.now + 1.0;
        let mut group = Vec::new();
        for ordinal in 0..SLOTS {
            let slot = usize::from(ordinal);
            let (job, next) = self.step(ordinal, self.slots[slot].clone());
            group.push(job);
            self.slots[slot] = next;
        }
        let store = self.store.as_mut().unwrap();
        let (committed, answers) = store.commit_group(group, self.now);
        committed.unwrap();
        answers.leave();
    }

    fn step(&mut self, ordinal: u16, next: Next) -> (Job, Next) {
        match next {
            Next::Add => {
                self.runs += 1;
                let run = binding(self.runs, ordinal);
                let told = vec![Acknowledged::Added(run.clone())];
                (self.job(addition(&run), told), Next::Offer(run))
            }
            Next::Offer(run) => {
                let offer = Offer {
                    ordinal: Ordinal(ordinal),
                    delivery_id: self.message(),
                    policy: policy(),
                };
                let told = vec![Acknowledged::Lease(run.clone(), self.now + 60.0)];
                (self.job(offer, told), Next::Beat(run, BEATS))
            }
            Next::Beat(run, 0) => self.step(ordinal, Next::Submit(run)),
            Next::Beat(run, left) => {
                let id = self.message();
                let beat = Heartbeat::new(presented(Kind::Heartbeat, &run, &id), policy());
                let told = vec![
                    Acknowledged::Delivery(id),
                    Acknowledged::Lease(run.clone(), self.now + 60.0),
                ];
                (self.job(beat, told), Next::Beat(run, left - 1))
            }
            Next::Submit(run) => {
                let digest = format!("{:064x}", self.runs);
                let submit = SubmitResult {
                    presented: Presented {
                        payload_digest: digest.clone(),
                        ..presented(Kind::Result, &run, &self.message())
                    },
                    payload_json: "{}".to_owned(),
                };
                let told = vec![Acknowledged::Result(run.clone(), digest)];
                (self.job(submit, told), Next::End(run))
            }
            Next::End(run) => {
                let end = End {
                    binding: run.clone(),
                    evidence: written(),
                    cause: None,
                };
                (self.job(end, vec![Acknowledged::Ended(run)]), Next::Add)
            }
        }
    }

    fn message(&mut self) -> String {
        self.messages += 1;
        format!("message-{}", self.messages)
    }

    /// An operation, and what somebody knows as soon as it is answered.
    fn job<O: Operation>(&self, operation: O, facts: Vec<Acknowledged>) -> Job {
        let (told, disk) = (Arc::clone(&self.told), self.disk.clone());
        Job::new(operation, move |outcome| {
            outcome.unwrap_or_else(|error| panic!("{error}"));
            for fact in facts {
                told.lock().unwrap().push(fact);
                disk.acknowledge();
            }
        })
    }
}
