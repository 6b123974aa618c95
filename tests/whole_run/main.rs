//! Whole runs: boards that Hermes made, the coordinator's own process, workers written in Python from the protocol alone.
//!
//! Everything is judged from outside, by what Hermes reads on its boards, by the store's file and by what the workers
//! noticed. Where there is no Python with Hermes the tests say so and pass, except under `CI=true`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

mod boards;
#[path = "../support/differences.rs"]
mod differences;
mod invariants;
mod kill_at_random;
mod kill_points;
mod kill_worker;
#[path = "../support/oracle.rs"]
mod oracle;
mod process;
#[path = "../support/python.rs"]
mod python;
mod replay;
mod site;
mod undisturbed;
