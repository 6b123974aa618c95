//! From a board's brief to the payload that a worker is offered, within the limits of the wire.

use crate::board::Brief;
use crate::domain::{BoardSlug, LeasePolicy, RunRef};
use crate::protocol::{
    AssignedTask, AssignmentPayload, Binding, Digest, Integer, Kind, MAX_CONTEXT_BYTES,
    MAX_WIRE_BYTES, ProtocolError, RunLimits, WorkspaceSpec, canonical_text, largest_payload_bytes,
};

/// A payload as the store keeps it: it is offered byte for byte, whatever the attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    /// Its canonical text.
    pub json: String,
    /// Digest of that text.
    pub digest: Digest,
}

/// Why a task can never be offered. It is parked on its board.
#[derive(Debug, thiserror::Error)]
pub(super) enum Inability {
    /// Its context is too large.
    #[error("context of {bytes} bytes exceeds {}KiB", MAX_CONTEXT_BYTES / 1024)]
    Context {
        /// Its size.
        bytes: usize,
    },
    /// Its signed envelope is too large.
    #[error("the signed assignment exceeds {MAX_WIRE_BYTES} bytes")]
    Envelope,
    /// It cannot be written as a message at all.
    #[error("the assignment cannot be signed: {0}")]
    Unsignable(#[from] ProtocolError),
}

/// Builds the payload of a run.
///
/// # Errors
/// [`Inability`] if no worker could ever be offered it.
pub(super) fn build(
    board: &BoardSlug,
    run: &RunRef,
    brief: Brief,
    policy: &LeasePolicy,
) -> Result<Payload, Inability> {
    if brief.context.len() > MAX_CONTEXT_BYTES {
        return Err(Inability::Context {
            bytes: brief.context.len(),
        });
    }
    let payload = AssignmentPayload {
        lane: brief.lane,
        task: AssignedTask {
            id: run.task.as_str().to_owned(),
            title: brief.title,
            body: brief.body,
            priority: brief.priority,
            tenant: brief.tenant,
            skills: brief.skills,
            model_override: brief.model_override,
        },
        context: brief.context,
        workspace: WorkspaceSpec {
            kind: brief.workspace_kind,
            path: brief.workspace_path,
            branch: brief.branch,
        },
        limits: RunLimits {
            lease_seconds: policy.lease_seconds() as u64,
            max_runtime_seconds: brief
                .max_runtime_seconds
                .and_then(|seconds| u64::try_from(seconds).ok()),
        },
    };
    let json = canonical_text(&payload.to_json())?;
    if json.len() > largest_payload_bytes(Kind::Assignment, &binding(board, run)) {
        return Err(Inability::Envelope);
    }
    Ok(Payload {
        digest: Digest::of(json.as_bytes()),
        json,
    })
}

/// The binding of the largest envelope in which the run may ever be offered.
fn binding(board: &BoardSlug, run: &RunRef) -> Binding {
    Binding {
        board: board.as_str().to_owned(),
        task_id: run.task.as_str().to_owned(),
        run_id: run.run.as_str().to_owned(),
        worker_ordinal: i64::from(u16::MAX),
        attempt: Integer::from(99_i64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{RunId, TaskId};

    fn brief(context: usize, body: usize) -> Brief {
        Brief {
            lane: "codex-cli".to_owned(),
            title: "t".to_owned(),
            body: Some("b".repeat(body)),
            priority: 0,
            tenant: None,
            skills: Vec::new(),
            model_override: None,
            context: "c".repeat(context),
            workspace_kind: "scratch".to_owned(),
            workspace_path: None,
            branch: None,
            max_runtime_seconds: Some(60),
        }
    }

    #[test]
    fn what_can_never_be_offered_is_told_apart() {
        let board = BoardSlug::parse("lab").unwrap();
        let run = RunRef {
            task: TaskId::parse("t_1").unwrap(),
            run: RunId::from(7),
        };
        let policy = LeasePolicy::clamped(90, 3, 300);
        let try_with = |context, body| build(&board, &run, brief(context, body), &policy);
        assert!(try_with(32 * 1024, 8192).is_ok());
        assert!(matches!(
            try_with(32 * 1024 + 1, 0),
            Err(Inability::Context { .. })
        ));
        assert!(matches!(
            try_with(32 * 1024, 33_000),
            Err(Inability::Envelope)
        ));
        let payload = try_with(10, 10).unwrap();
        assert_eq!(payload.digest, Digest::of(payload.json.as_bytes()));
    }
}
