//! The pool, driven through its actors on real files, with a clock that the tests move.

#[path = "support/mod.rs"]
mod support;

#[path = "pool/dispatch.rs"]
mod dispatch;
#[path = "pool/isolation.rs"]
mod isolation;
#[path = "pool/leases.rs"]
mod leases;
#[path = "pool/ownership.rs"]
mod ownership;
#[path = "pool/results.rs"]
mod results;
