//! The adapter against Hermes itself, and against real files.
//!
//! `POOL_SCENARIOS=DIR cargo test --test hermes` plays every script found in DIR (default `tests/scenarios`) wholly through
//! Hermes and once more with the adapter in it, and compares the boards row by row and the answers step by step. Hermes is
//! driven by `tests/oracle/hermes_oracle.py`; `POOL_ORACLE_PYTHON` names a Python that has its package, otherwise the tests
//! install it into an environment of their own. Where that is impossible they say so and pass, except under `CI=true`.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

mod answers;
mod booking;
mod compare;
#[path = "../support/differences.rs"]
mod differences;
mod foreign;
mod identity;
#[path = "../support/oracle.rs"]
mod oracle;
mod player;
#[path = "../support/python.rs"]
mod python;
mod race;
mod rows;
mod scripts;
mod stage;
mod versions;
