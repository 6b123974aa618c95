//! Attacks: what a stranger, or a worker that has gone bad, can do over sockets to a pool that others rely on.
//!
//! Load, slowness and silence meet the program's own process; what valid envelopes can be misused for is tried on real
//! servers in this one. `tests/http` has the hostile messages that need one request each.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

mod crowd;
mod deadly;
mod endpoints;
mod flood;
#[path = "../http/message.rs"]
#[expect(dead_code, reason = "hostile messages are written in tests/http")]
mod message;
mod misuse;
mod peer;
mod pipelines;
#[path = "../serve/process.rs"]
#[expect(dead_code, reason = "tests/serve does more with a process")]
mod process;
mod secrets;
#[path = "../http/served.rs"]
#[expect(dead_code, reason = "tests/http does more with servers")]
mod served;
#[path = "../support/mod.rs"]
mod support;
#[path = "../http/wire.rs"]
#[expect(dead_code, reason = "tests/http does more with a connection")]
mod wire;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Latency is measured here, so that one test at a time loads the machine.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // Nothing is kept in it that a test which failed could have spoilt.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
