//! No secret leaves its file: not in any log line at any level, error, metric, page, environment, board or store.

use std::path::Path;

use hermes_pool::http::OperatorAuth;
use hermes_pool::protocol::derive_ordinal_key;

use crate::message::{Message, ordinal_key};
use crate::peer::Target;
use crate::process::{Process, ended, now};
use crate::wire::{Wire, post};

const SLOTS: u16 = 3;

/// Reads the environments of a worker's command, of its guard and of the worker itself.
const LOOK_AROUND: &str = "for pid in self $PPID $(cut -d' ' -f4 /proc/$PPID/stat); do \
     echo found; tr '\\0' '\\n' < /proc/$pid/environ; tr '\\0' ' ' < /proc/$pid/cmdline; done; env; cat";

/// Everything that was seen of the pool, by where it was seen.
struct Seen(Vec<(String, String)>);

impl Seen {
    fn note(&mut self, place: &str, text: impl Into<String>) {
        self.0.push((place.to_owned(), text.into()));
    }

    /// Every file below a folder, but for those that are meant to hold a secret.
    fn files(&mut self, folder: &Path, meant: &[&str]) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                self.files(&path, meant);
            } else if path.is_file() && !meant.contains(&name) {
                let bytes = std::fs::read(&path).unwrap();
                self.note(&path.display().to_string(), String::from_utf8_lossy(&bytes));
            }
        }
    }
}

/// Asks both servers for all there is, rightly and wrongly, and notes every answer.
fn ask_for_everything(target: &Target, token: &str, seen: &mut Seen) {
    let key = ordinal_key(&target.master, 1);
    let message = || Message::new("poll", 1, now());
    let forged = message().sealed(&target.master);
    let old = message().with("issued_at", 5).with("expires_at", 6);
    for body in [
        message().sealed(&key).body(),
        forged.body(),
        old.sealed(&key).body(),
        message().with("payload", "[]").sealed(&key).body(),
        message().with("kind", "\"ack\"").sealed(&key).body(),
        key.clone().into_bytes(),
        Vec::new(),
    ] {
        for path in ["/v2/poll", "/v2/heartbeat", "/v2/result", "/v2/else"] {
            let mut wire = Wire::open(target.workers);
            wire.send(&post(path, &body));
            let answer = wire.answer().unwrap();
            seen.note(path, answer.head.clone() + answer.text());
        }
    }
    let wrong = format!("Authorization: Bearer {token}x\r\n");
    let right = format!("Authorization: Bearer {token}\r\n");
    for path in [
        "/",
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/v1/pool",
        "/api/v1/assignments",
        "/else",
    ] {
        for header in ["", &wrong, &right] {
            for method in ["GET", "POST"] {
                let mut wire = Wire::open(target.operators);
                wire.send(
                    format!("{method} {path} HTTP/1.1\r\nHost: pool\r\n{header}\r\n").as_bytes(),
                );
                let answer = wire.answer().unwrap();
                seen.note(path, answer.head.clone() + answer.text());
            }
        }
    }
}

/// Ends a process, and notes all that it said.
fn silence(name: &str, process: &mut Process, seen: &mut Seen) {
    process.signal(rustix::process::Signal::TERM);
    process.wait();
    let rest: Vec<String> = process.lines.iter().collect();
    seen.note(name, process.said.join("\n") + &rest.join("\n"));
}

#[test]
fn no_secret_is_seen_anywhere_over_a_whole_run() {
    let _alone = crate::alone();
    let mut target = Target::start(&[("RUST_LOG", "trace")]);
    let task = target.home.task("looks around", &[]);
    let keys: Vec<String> = (0..SLOTS)
        .map(|ordinal| ordinal_key(&target.master, ordinal))
        .collect();
    let token = std::fs::read_to_string(target.home.path("state/operator.token")).unwrap();
    let token = token.trim();
    let mut seen = Seen(Vec::new());

    let mut worker = target.home.worker(0, &target.coordinator, LOOK_AROUND);
    target.home.wait_for_status(&task, "done");
    ask_for_everything(&target, token, &mut seen);
    for arguments in [&["status"][..], &["status", "--json"], &["check"]] {
        let arguments = [arguments, &["--config", "pool.toml"]].concat();
        let told = ended(target.home.command(&arguments).env("RUST_LOG", "trace"));
        seen.note(arguments[0], told.out + &told.err);
    }
    silence("the worker's log", &mut worker, &mut seen);
    silence(
        "the coordinator's log",
        &mut target.coordinator.process,
        &mut seen,
    );
    let summary = &target.home.runs(&task)[0].summary;
    assert_eq!(
        format!("{summary:?}").matches("found").count(),
        3,
        "{summary:?}"
    );
    let meant = ["pool.key", "worker-0.key", "operator.token"];
    seen.files(target.home.folder.path(), &meant);

    for secret in keys.iter().chain([&target.master, &token.to_owned()]) {
        assert!(secret.len() >= 32, "there is something to look for");
        for (place, text) in &seen.0 {
            assert!(
                !text.contains(secret.as_str()),
                "a secret is told by {place}"
            );
        }
    }
}

#[test]
fn core_types_show_no_secret_when_they_are_printed() {
    let home = crate::process::Home::new();
    let master = &home.master;
    let text = std::fs::read_to_string(home.path("pool.key")).unwrap();
    let derived = derive_ordinal_key(master, 1, SLOTS).unwrap();
    let any = "127.0.0.1:1".parse().unwrap();
    let auth = OperatorAuth::open(&home.path("operator.token"), any).unwrap();
    let token = std::fs::read_to_string(home.path("operator.token")).unwrap();
    let printed = format!("{master:?} {derived:?} {auth:?}");
    let secrets = [
        text.trim().to_owned(),
        ordinal_key(text.trim(), 1),
        token.trim().to_owned(),
    ];
    for secret in secrets {
        assert!(!printed.contains(&secret), "{printed}");
    }
}
