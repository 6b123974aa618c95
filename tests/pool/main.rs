//! The pool, driven through its actors on real files, with a clock that the tests move.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "../support/mod.rs"]
mod support;

mod broken;
mod contract;
mod dispatch;
mod isolation;
mod leases;
mod odd_task;
mod ownership;
mod panics;
mod places;
mod poison;
mod results;
