//! Workers and the network between them and the pool. Real envelopes; packets that somebody else decides about.

use std::sync::Arc;
use std::time::Duration;

use hermes_pool::clock::{Clock, ManualClock};
use hermes_pool::protocol::{
    Ack, Binding, Digest, Json, Key, Kind, canonical_text, derive_ordinal_key, parse_json,
    parse_wire, sign_envelope, verify_envelope,
};

use super::coverage::{Event, saw};
use super::plan::Act;

/// How long a message is valid.
const LIFETIME_SECONDS: i64 = 120;

/// A message of one worker process.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) ordinal: u16,
    process: u32,
    pub(crate) kind: Kind,
    pub(crate) binding: Binding,
    payload: Json,
    delivery: String,
    pub(crate) bytes: Vec<u8>,
    /// When it was signed, on the clock that never jumps.
    pub(crate) sent_at: Duration,
}

impl Message {
    /// Digest of its payload, as the store keeps it.
    pub(crate) fn digest(&self) -> String {
        let text = canonical_text(&self.payload).unwrap();
        Digest::of(text.as_bytes()).as_str().to_owned()
    }
}

/// Something under way.
#[derive(Clone, Debug)]
pub(crate) enum Packet {
    ToPool(Message),
    ToWorker { asked: Message, reply: Vec<u8> },
}

#[derive(Debug, Default)]
struct Worker {
    process: u32,
    job: Option<Binding>,
    /// What it has said and not been answered; it says nothing else before.
    open: Option<Message>,
    last: Option<Message>,
    /// Runs that processes of this slot have held.
    former: Vec<Binding>,
}

pub(crate) struct Workers {
    keys: Vec<Key>,
    clock: Arc<ManualClock>,
    workers: Vec<Worker>,
    pub(crate) packets: Vec<Packet>,
    serial: u32,
}

impl Workers {
    pub(crate) fn new(master: &Key, slots: u16, clock: Arc<ManualClock>) -> Self {
        Self {
            keys: (0..slots)
                .map(|ordinal| derive_ordinal_key(master, ordinal, slots).unwrap())
                .collect(),
            workers: (0..slots).map(|_| Worker::default()).collect(),
            clock,
            packets: Vec::new(),
            serial: 0,
        }
    }

    pub(crate) fn slots(&self) -> u16 {
        self.workers.len() as u16
    }

    pub(crate) fn act(&mut self, nth: u8, act: Act) {
        let ordinal = u16::from(nth) % self.slots();
        match act {
            Act::GoOn => self.go_on(ordinal),
            Act::Repeat => self.repeat(ordinal),
            Act::Submit(how) => {
                if let Some(job) = self.worker(ordinal).job.clone() {
                    self.submit(ordinal, &job, how);
                }
            }
            Act::Die { lives_on } => {
                saw(Event::WorkerDied);
                let worker = self.worker(ordinal);
                worker.process += 1;
                let job = worker.job.take();
                if lives_on && job.is_some() {
                    saw(Event::WorkerLivedOn);
                }
                worker.former.extend(job.filter(|_| lives_on));
                (worker.open, worker.last) = (None, None);
            }
            Act::SubmitLate(how) => {
                if let Some(job) = self.former(ordinal, how) {
                    saw(Event::LateResult);
                    self.submit(ordinal, &job, how);
                }
            }
            Act::BeatLate(which) => {
                if let Some(job) = self.former(ordinal, which) {
                    saw(Event::LateHeartbeat);
                    self.send(ordinal, Kind::Heartbeat, job, Json::object::<&str>([]));
                }
            }
        }
    }

    /// A worker whose network and coordinator work: asks until it has a run, and completes it.
    pub(crate) fn act_in_health(&mut self, ordinal: u16) {
        if self.worker(ordinal).open.is_some() {
            self.repeat(ordinal);
        } else if let Some(job) = self.worker(ordinal).job.clone() {
            self.submit(ordinal, &job, 0);
        } else {
            self.go_on(ordinal);
        }
    }

    fn worker(&mut self, ordinal: u16) -> &mut Worker {
        &mut self.workers[usize::from(ordinal)]
    }

    fn former(&mut self, ordinal: u16, which: u8) -> Option<Binding> {
        let former = &self.worker(ordinal).former;
        (!former.is_empty()).then(|| former[usize::from(which) % former.len()].clone())
    }

    fn go_on(&mut self, ordinal: u16) {
        if let Some(job) = self.worker(ordinal).job.clone() {
            return self.send(ordinal, Kind::Heartbeat, job, Json::object::<&str>([]));
        }
        self.serial += 1;
        let wait = i64::from(self.serial % 2) * 20;
        let payload = Json::object([("wait_seconds", Json::from(wait))]);
        let nobody = Binding::without_run(i64::from(ordinal));
        self.send(ordinal, Kind::Poll, nobody, payload);
    }

    fn repeat(&mut self, ordinal: u16) {
        let Some(mut last) = self.worker(ordinal).last.clone() else {
            return;
        };
        (last.bytes, last.sent_at) = (self.sign(&last), self.clock.elapsed());
        self.packets.push(Packet::ToPool(last));
    }

    /// The text of a result names the attempt that it comes from.
    fn submit(&mut self, ordinal: u16, job: &Binding, how: u8) {
        self.serial += 1;
        let text = format!(
            "ordinal={ordinal} attempt={} n={}",
            job.attempt, self.serial
        );
        let result = match how % 8 {
            0..=3 => format!(r#"{{"outcome":"completed","summary":"{text}"}}"#),
            4 => format!(r#"{{"outcome":"blocked","block_kind":"needs_input","reason":"{text}"}}"#),
            5 => format!(r#"{{"outcome":"failed","reason":"{text}"}}"#),
            6 => format!(
                r#"{{"outcome":"rate_limited","reason":"{text}","retry_after_seconds":40}}"#
            ),
            _ => format!(r#"{{"outcome":"released","reason":"{text}"}}"#),
        };
        let payload = parse_json(result.as_bytes()).unwrap();
        self.send(ordinal, Kind::Result, job.clone(), payload);
    }

    fn send(&mut self, ordinal: u16, kind: Kind, binding: Binding, payload: Json) {
        self.serial += 1;
        let mut message = Message {
            ordinal,
            process: self.worker(ordinal).process,
            kind,
            binding,
            payload,
            delivery: format!("delivery-{}", self.serial),
            bytes: Vec::new(),
            sent_at: self.clock.elapsed(),
        };
        message.bytes = self.sign(&message);
        let worker = self.worker(ordinal);
        worker.last = Some(message.clone());
        worker.open = Some(message.clone());
        self.packets.push(Packet::ToPool(message));
    }

    fn sign(&self, message: &Message) -> Vec<u8> {
        sign_envelope(
            &self.keys[usize::from(message.ordinal)],
            message.kind,
            &message.binding,
            &message.payload,
            self.clock.now().whole_seconds(),
            LIFETIME_SECONDS,
            Some(&message.delivery),
        )
        .unwrap()
    }

    /// What a reply says, if it is authentic and still valid.
    pub(crate) fn open(&self, asked: &Message, reply: &[u8]) -> Option<Result<Ack, Binding>> {
        let key = &self.keys[usize::from(asked.ordinal)];
        let now = self.clock.now().whole_seconds();
        let envelope = verify_envelope(key, parse_wire(reply).ok()?, None, now, self.slots());
        let envelope = envelope.ok()?;
        assert_eq!(envelope.delivery_id, asked.delivery);
        Some(match envelope.kind {
            Kind::Assignment => Err(envelope.binding),
            _ => Ok(Ack::parse(&envelope.payload).unwrap()),
        })
    }

    /// A reply arrives.
    pub(crate) fn hear(&mut self, asked: &Message, reply: &[u8]) {
        let Some(said) = self.open(asked, reply) else {
            return;
        };
        let worker = self.worker(asked.ordinal);
        let is_awaited = worker
            .open
            .as_ref()
            .is_some_and(|open| open.delivery == asked.delivery);
        if worker.process != asked.process || !is_awaited {
            return;
        }
        worker.open = None;
        match said {
            Err(binding) => worker.job = Some(binding),
            Ok(Ack::Accepted { .. } | Ack::Rejected { .. }) => {
                let over = worker.job.take();
                worker.former.extend(over);
            }
            Ok(Ack::Idle | Ack::Alive { .. }) => {}
        }
    }
}
