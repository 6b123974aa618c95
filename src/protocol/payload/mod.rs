//! What the payloads of verified envelopes say, judged at the door.
//!
//! Unknown fields are ignored. An optional field may be left out or be `null`. Everything else that
//! has another type than it should is refused, so that nothing is stored that cannot be settled.

mod ack;
mod assignment;
mod fields;
mod requests;
mod result;

pub use ack::Ack;
pub use assignment::{AssignedTask, AssignmentPayload, RunLimits, WorkspaceSpec};
pub use fields::PayloadError;
pub use requests::{HeartbeatReport, PollRequest};
pub use result::{BlockKind, UnknownBlockKind, WorkerResult};
