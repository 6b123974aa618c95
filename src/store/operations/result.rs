//! A worker's result: durable before it is acknowledged, once and for all.

use super::super::transition::{Loaded, write};
use super::super::{Refusal, StoreError, Tx};
use super::presented::is_superseded;
use super::{Operation, Presented};
use crate::domain::{Assignment, Binding, Submission, Timestamp};

/// Stores the result of a run.
#[derive(Clone, Debug)]
pub struct SubmitResult {
    /// The message.
    pub presented: Presented,
    /// Canonical text of its payload.
    pub payload_json: String,
}

/// A result that is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Whose it is.
    pub binding: Binding,
    /// It was so before this message.
    pub duplicate: bool,
}

impl Operation for SubmitResult {
    type Reply = Receipt;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<Receipt, StoreError> {
        let Loaded { assignment, entry } = self.presented.held(tx)?;
        // A remembered result comes first, whatever became of the run: its worker may not have seen the acknowledgement.
        if let Some(remembered) = remembered(&assignment) {
            if remembered != self.presented.payload_digest {
                return Err(Refusal::ConflictingResult.into());
            }
            return Ok(Receipt {
                binding: assignment.binding().clone(),
                duplicate: true,
            });
        }
        if is_superseded(&assignment, &entry) {
            return Err(Refusal::RunSuperseded.into());
        }
        let submission = Submission {
            digest: self.presented.payload_digest,
            payload_json: self.payload_json,
        };
        let change = match assignment {
            Assignment::Assigned(state) => state.submit(submission, now),
            Assignment::Running(state) => state
                .submit(submission, now)
                .map_err(|_| Refusal::LeaseExpired)?,
            _ => return Err(Refusal::NotAccepting.into()),
        };
        write(tx, &change, &entry, None)?;
        Ok(Receipt {
            binding: change.binding(),
            duplicate: false,
        })
    }
}

/// The digest of the result that is remembered. An empty one counts as none, as it does in the reference.
fn remembered(assignment: &Assignment) -> Option<&str> {
    let digest = match assignment {
        Assignment::Assigned(_) | Assignment::Running(_) => None,
        Assignment::Submitted(state) => Some(state.result_digest()),
        Assignment::LeaseFailed(state) => state.result_digest(),
        Assignment::Ended(state) => state.result_digest(),
    };
    digest.filter(|digest| !digest.is_empty())
}
