//! What a worker's message says about the run it holds, and the checks that each message goes through.

use super::super::transition::{Entry, Loaded};
use super::super::{Refusal, StoreError, Tx};
use crate::domain::Assignment;
use crate::protocol::{self, Envelope, Kind};

/// The facts of a verified message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presented {
    /// What is said.
    pub kind: Kind,
    /// Which attempt of which run the sender believes to hold. The names need not be those of any run.
    pub binding: protocol::Binding,
    /// The sender's name for the message.
    pub delivery_id: String,
    /// Digest of its payload.
    pub payload_digest: String,
}

impl From<Envelope> for Presented {
    fn from(envelope: Envelope) -> Self {
        Self {
            kind: envelope.kind,
            binding: envelope.binding,
            delivery_id: envelope.delivery_id,
            payload_digest: envelope.payload_digest.into_string(),
        }
    }
}

impl Presented {
    /// The run's assignment, if the sender holds it under its current attempt.
    pub(super) fn held(&self, tx: &Tx<'_>) -> Result<Loaded, StoreError> {
        let presented = &self.binding;
        let key = (
            presented.board.as_str(),
            presented.task_id.as_str(),
            presented.run_id.as_str(),
        );
        let loaded = Loaded::by_key(tx, key)?.ok_or(Refusal::UnknownAssignment)?;
        let binding = loaded.assignment.binding();
        if i64::from(binding.ordinal.0) != presented.worker_ordinal {
            return Err(Refusal::WrongOrdinal.into());
        }
        if Some(binding.attempt.0) != presented.attempt.as_i64() {
            return Err(Refusal::StaleAttempt.into());
        }
        Ok(loaded)
    }
}

/// Whether the pool itself ended the run, and no result of it is remembered.
pub(super) fn is_superseded(assignment: &Assignment, entry: &Entry) -> bool {
    let digest = match assignment {
        Assignment::Assigned(_) | Assignment::Running(_) | Assignment::Submitted(_) => {
            return false;
        }
        Assignment::LeaseFailed(state) => state.result_digest(),
        Assignment::Ended(state) => state.result_digest(),
    };
    digest.is_none_or(str::is_empty) && entry.cause().is_some_and(|cause| cause.supersedes())
}
