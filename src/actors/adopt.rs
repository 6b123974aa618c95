//! From a claimed run to its assignment: what the Dispatcher does in the ordinary course, and the Reconciler after a fault.

use super::board_parts::BoardParts;
use super::board_thread::VisitError;
use super::events::PoolEvent;
use super::payload::{Payload, build};
use super::roster::Grant;
use super::scope::Scope;
use crate::board::{Board, BoardError};
use crate::domain::{Attempt, Binding, RunKey, RunRef};
use crate::faults::FaultPoint;
use crate::store::operations::{AddAssignment, Added};
use crate::store::{AddRefusal, Intent, NewClaim, StoreError};

/// Whether a run can be offered.
pub(super) enum Prepared {
    /// What its worker will be offered.
    Payload(Payload),
    /// It never can; why, for people.
    Unable(String),
}

/// Whether a run was assigned.
pub(super) enum Adopted {
    /// It was.
    Added,
    /// Another run has its name: a board that was restored from an older copy gives its numbers out again. The claim is
    /// to be given back, and the next one gets the next number.
    NameTaken,
}

/// Reads what a worker is told of a run, and brings it into the form that is offered.
///
/// # Errors
/// [`VisitError`], which is in the ledger already: the board's fault, not the task's.
pub(super) async fn prepare(
    parts: &BoardParts,
    run: &RunRef,
    scope: &Scope,
) -> Result<Prepared, VisitError> {
    let task = run.task.clone();
    let visit = move |board: &mut dyn Board, now| match board.brief(&task, now) {
        Ok(brief) => Ok(Ok(brief)),
        // A task that cannot be described will not become describable by waiting.
        Err(BoardError::BadRow { why, .. }) => Ok(Err(why)),
        Err(other) => Err(other),
    };
    let brief = match parts.visit(scope, "read the task", visit).await? {
        Ok(brief) => brief,
        Err(why) => return Ok(Prepared::Unable(why)),
    };
    Ok(match build(&parts.slug, run, brief, &parts.policy) {
        Ok(payload) => Prepared::Payload(payload),
        Err(inability) => Prepared::Unable(inability.to_string()),
    })
}

/// Turns an intent into the assignment of its run, in one transaction.
///
/// # Errors
/// [`StoreError`]; the intent stands then, and a pass resolves it.
pub(super) async fn add(
    parts: &BoardParts,
    intent: &Intent,
    run: &RunRef,
    payload: Payload,
    grant: Grant,
) -> Result<Adopted, StoreError> {
    let binding = Binding {
        key: RunKey {
            board: parts.slug.clone(),
            task: run.task.clone(),
            run: run.run.clone(),
        },
        ordinal: grant.ordinal(),
        attempt: Attempt::FIRST,
    };
    parts.faults.pass(FaultPoint::PayloadBuilt);
    let added = parts
        .store
        .call(AddAssignment {
            binding: binding.clone(),
            payload_json: payload.json,
            assignment_digest: payload.digest.as_str().to_owned(),
            claim: NewClaim {
                lock: intent.lock.clone(),
                anchor: Some(intent.anchor.clone()),
                confirmed_at: parts.clock.now(),
            },
        })
        .await;
    match added {
        Ok(Added::New | Added::AlreadyThere) => {
            parts.faults.pass(FaultPoint::AssignmentAdded);
            grant.filled();
            parts.ordinals.refresh(binding.ordinal);
            parts.events.emit(PoolEvent::Added(binding));
            Ok(Adopted::Added)
        }
        Err(StoreError::NotAdded(AddRefusal::Conflicting)) => Ok(Adopted::NameTaken),
        Err(other) => {
            // The slot may be occupied by a row that its actor has not seen yet.
            parts.ordinals.refresh(binding.ordinal);
            Err(other)
        }
    }
}
