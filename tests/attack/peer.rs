//! A pool in a process of its own, and peers of it whose every request is the test's.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::message::{Message, Signed, ordinal_key};
use crate::process::{Coordinator, Home, now, until};
use crate::wire::{Answer, Wire, post};

/// A coordinator under attack.
pub(crate) struct Target {
    pub(crate) home: Home,
    pub(crate) coordinator: Coordinator,
    pub(crate) workers: SocketAddr,
    pub(crate) operators: SocketAddr,
    /// The text of the pool's key file.
    pub(crate) master: String,
}

impl Target {
    /// Starts the coordinator with variables in its environment, and waits until it is ready.
    pub(crate) fn start(variables: &[(&str, &str)]) -> Self {
        let home = Home::new();
        let mut command = home.command(&["serve", "--config", "pool.toml"]);
        command.envs(variables.iter().copied());
        let coordinator = Coordinator::start(&mut command);
        coordinator.wait_until_ready();
        let master = std::fs::read_to_string(home.path("pool.key")).unwrap();
        Self {
            workers: coordinator.workers.parse().unwrap(),
            operators: coordinator.operators.parse().unwrap(),
            master: master.trim().to_owned(),
            home,
            coordinator,
        }
    }

    /// A peer with the key of this ordinal, on a connection of its own.
    pub(crate) fn peer(&self, ordinal: u16) -> Peer {
        Peer {
            ordinal,
            key: ordinal_key(&self.master, ordinal),
            wire: Wire::open(self.workers),
        }
    }

    /// Adds a task and has the ordinal fetch its run.
    pub(crate) fn run_of(&self, peer: &mut Peer) -> Signed {
        self.home.task("a task", &[]);
        until("the run is offered", || {
            let answer = peer.say("poll", None, r#"{"wait_seconds":1}"#);
            let signed = Signed::open(&peer.key, answer.text());
            (signed.kind() == "assignment").then_some(signed)
        })
    }

    /// Resident memory of the coordinator's process, KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.coordinator.process.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.unwrap().trim().trim_end_matches("kB").trim();
        number.parse().unwrap()
    }
}

/// The worker of one slot.
pub(crate) struct Peer {
    pub(crate) ordinal: u16,
    pub(crate) key: String,
    pub(crate) wire: Wire,
}

impl Peer {
    /// A request about a run, or about none.
    pub(crate) fn request(&self, kind: &str, of: Option<&Signed>, payload: &str) -> Vec<u8> {
        let mut message = Message::new(kind, self.ordinal, now()).with("payload", payload);
        if let Some(run) = of {
            message = message.of(run);
        }
        post(&format!("/v2/{kind}"), &message.sealed(&self.key).body())
    }

    /// Sends a request and reads its answer.
    pub(crate) fn say(&mut self, kind: &str, of: Option<&Signed>, payload: &str) -> Answer {
        let request = self.request(kind, of, payload);
        self.ask(&request).1
    }

    /// Sends bytes and reads one answer; how long that took.
    pub(crate) fn ask(&mut self, request: &[u8]) -> (Duration, Answer) {
        let sent = Instant::now();
        self.wire.send(request);
        let answer = self.wire.answer().expect("an answer");
        (sent.elapsed(), answer)
    }
}
