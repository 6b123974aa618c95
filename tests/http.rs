//! The worker and operator endpoints over real sockets: real servers, a real pool on real files, and a client whose every
//! byte is under the test's control.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

#[path = "support/mod.rs"]
mod support;

#[path = "http/hostile_bodies.rs"]
mod hostile_bodies;
#[path = "http/hostile_fields.rs"]
mod hostile_fields;
#[path = "http/hostile_messages.rs"]
mod hostile_messages;
#[path = "http/hostile_requests.rs"]
mod hostile_requests;
#[path = "http/message.rs"]
mod message;
#[path = "http/operator.rs"]
mod operator;
#[path = "http/readiness.rs"]
mod readiness;
#[path = "http/refusals.rs"]
mod refusals;
#[path = "http/rows.rs"]
mod rows;
#[path = "http/served.rs"]
mod served;
#[path = "http/waiting.rs"]
mod waiting;
#[path = "http/wire.rs"]
mod wire;
