//! A worker as the wire sees it: it signs requests and verifies answers, and keeps no lease.

use hermes_pool::clock::{Clock, SystemClock};
use hermes_pool::domain::{BoardSlug, RunId, RunKey, TaskId};
use hermes_pool::protocol::{
    Ack, Binding, Envelope, HeartbeatReport, Json, Key, Kind, PollRequest, WorkerResult,
    derive_ordinal_key, parse_wire, sign_envelope, verify_envelope,
};

use super::Outcome;

/// Validity of a request, in seconds.
const LIFETIME_SECONDS: i64 = 120;

/// The worker of one slot.
pub(crate) struct Worker {
    key: Key,
    slots: u16,
    clock: SystemClock,
    /// The run that it holds, once it was handed one.
    binding: Binding,
}

impl Worker {
    /// The worker of `ordinal` in a pool of `slots` slots.
    pub(crate) fn new(master: &Key, ordinal: u16, slots: u16) -> Outcome<Self> {
        Ok(Self {
            key: derive_ordinal_key(master, ordinal, slots)?,
            slots,
            clock: SystemClock::new(),
            binding: Binding::without_run(i64::from(ordinal)),
        })
    }

    /// A request for work.
    pub(crate) fn poll(&self, wait_seconds: u8) -> Outcome<Vec<u8>> {
        let payload = PollRequest { wait_seconds }.to_json();
        let nothing = Binding::without_run(self.binding.worker_ordinal);
        self.sign(Kind::Poll, &nothing, &payload)
    }

    /// Takes the run that answers a poll; returns its name.
    pub(crate) fn take(&mut self, reply: &[u8]) -> Outcome<RunKey> {
        self.binding = self.verify(reply, Kind::Assignment)?.binding;
        Ok(RunKey {
            board: BoardSlug::parse(&self.binding.board)?,
            task: TaskId::parse(&self.binding.task_id)?,
            run: RunId::parse(&self.binding.run_id)?,
        })
    }

    /// The report that the task is done.
    pub(crate) fn completed(&self) -> Outcome<Vec<u8>> {
        let result = WorkerResult::Completed {
            summary: Some("done".to_owned()),
            result: None,
            metadata: None,
        };
        self.sign(Kind::Result, &self.binding, &result.to_json())
    }

    /// Makes sure that a result was accepted.
    pub(crate) fn accepted(&self, reply: &[u8]) -> Outcome<()> {
        match Ack::parse(&self.verify(reply, Kind::Ack)?.payload)? {
            Ack::Accepted { .. } => Ok(()),
            other => Err(format!("a result was answered {other:?}").into()),
        }
    }

    /// A sign of life for the run.
    pub(crate) fn heartbeat(&self) -> Outcome<Vec<u8>> {
        let payload = HeartbeatReport { activity: None }.to_json();
        self.sign(Kind::Heartbeat, &self.binding, &payload)
    }

    /// Makes sure that a heartbeat was accepted as a new one.
    pub(crate) fn confirm(&self, reply: &[u8]) -> Outcome<()> {
        match Ack::parse(&self.verify(reply, Kind::Ack)?.payload)? {
            Ack::Alive {
                duplicate: false, ..
            } => Ok(()),
            other => Err(format!("a heartbeat was answered {other:?}").into()),
        }
    }

    fn sign(&self, kind: Kind, binding: &Binding, payload: &Json) -> Outcome<Vec<u8>> {
        let now = self.clock.now().whole_seconds();
        Ok(sign_envelope(
            &self.key,
            kind,
            binding,
            payload,
            now,
            LIFETIME_SECONDS,
            None,
        )?)
    }

    fn verify(&self, reply: &[u8], kind: Kind) -> Outcome<Envelope> {
        let now = self.clock.now().whole_seconds();
        Ok(verify_envelope(
            &self.key,
            parse_wire(reply)?,
            Some(kind),
            now,
            self.slots,
        )?)
    }
}
