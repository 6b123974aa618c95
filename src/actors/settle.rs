//! How a run is to be ended on its board: the pool's policy, as functions over values.
//!
//! Deliberately absent: boards and stores. The Reconciler carries what is decided here.

use crate::board::{Ending, mark};
use crate::domain::{
    Binding, ExpectedEnding, FailCause, Fence, PoolId, SELF_FENCE_SECONDS, Timestamp,
};
use crate::protocol::{BlockKind, Json, PayloadError, WorkerResult, parse_json};

/// What the pool needs to know of itself to end a run.
#[derive(Clone, Debug)]
pub struct EndingPolicy {
    /// The pool's id.
    pub pool: PoolId,
    /// The store's identity.
    pub fence: Fence,
    /// Failures after which a task without its own limit is given up.
    pub failure_limit: i64,
}

/// Why a stored result cannot be settled.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnusableResult {
    /// It is no JSON.
    #[error("the stored result is no JSON: {0}")]
    Json(#[from] crate::protocol::ProtocolError),
    /// It is no result.
    #[error("the stored result cannot be settled: {0}")]
    Payload(#[from] PayloadError),
}

impl EndingPolicy {
    /// What the mark of a completion names, beside the fence.
    fn marked(binding: &Binding) -> String {
        format!("{}/{}/{}", binding.key, binding.ordinal, binding.attempt)
    }

    /// How a result ends its run. A dependency without an open parent would bounce back at once, so a person is asked.
    #[must_use]
    pub(super) fn of_result(
        &self,
        binding: &Binding,
        result: WorkerResult,
        open_parent: bool,
    ) -> Ending {
        match result {
            WorkerResult::Completed {
                summary,
                result,
                metadata,
            } => {
                let metadata = metadata.unwrap_or_default();
                Ending::Complete {
                    summary: unless_blank(summary),
                    result: unless_blank(result),
                    metadata: Json::Object(mark::put(
                        metadata,
                        &Self::marked(binding),
                        self.fence.as_str(),
                    )),
                }
            }
            WorkerResult::Blocked { reason, kind } => Ending::Block {
                kind: match kind {
                    BlockKind::Dependency if !open_parent => BlockKind::NeedsInput,
                    kind => kind,
                },
                reason,
            },
            WorkerResult::Failed { reason } => Ending::Fail {
                reason: reason.unwrap_or_else(|| "the worker failed without a reason".to_owned()),
                failure_limit: self.failure_limit,
            },
            WorkerResult::RateLimited { reason, .. } => Ending::RateLimit {
                reason: reason.unwrap_or_else(|| "the worker met a quota".to_owned()),
            },
            WorkerResult::Released { reason } => Ending::Release { reason },
        }
    }

    /// How a run ends whose slot was released without a result.
    #[must_use]
    pub(super) fn of_cause(&self, cause: FailCause, binding: &Binding) -> Ending {
        match cause {
            FailCause::Exhausted => Ending::Block {
                kind: BlockKind::Transient,
                reason: Some(format!(
                    "the execution pool gave up after attempt {}: no worker finished the run",
                    binding.attempt
                )),
            },
            FailCause::NeverFetched => Ending::Release {
                reason: Some("no worker of the execution pool fetched the run".to_owned()),
            },
            FailCause::Unreadable => Ending::Release {
                reason: Some("the execution pool cannot read its own record of the run".to_owned()),
            },
            FailCause::Unsettled
            | FailCause::Unconfirmed
            | FailCause::Superseded
            | FailCause::LimitPassed => Ending::Release {
                reason: Some("the execution pool could not confirm its claim".to_owned()),
            },
        }
    }

    /// What the board must show for `ending` to be recognised as ours.
    #[must_use]
    pub(super) fn expected(&self, binding: &Binding, ending: &Ending) -> ExpectedEnding {
        match ending {
            Ending::Complete { .. } => ExpectedEnding::Completed {
                mark: mark::text(&Self::marked(binding), self.fence.as_str()),
            },
            Ending::Block { reason, .. } => ExpectedEnding::Blocked {
                reason: reason.clone(),
            },
            Ending::Fail { .. } => ExpectedEnding::Failed,
            Ending::RateLimit { .. } => ExpectedEnding::RateLimited,
            Ending::Release { .. } => ExpectedEnding::Released,
            Ending::TimeOut { .. } => ExpectedEnding::TimedOut,
        }
    }
}

/// A board refuses a summary that is nothing but white space; such a text says nothing, so it counts as absent.
fn unless_blank(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty())
}

/// Reads a stored result.
///
/// # Errors
/// [`UnusableResult`] for a text that is no result; such a row is left to people.
pub(super) fn read_result(result_json: &str) -> Result<WorkerResult, UnusableResult> {
    Ok(WorkerResult::parse(&parse_json(result_json.as_bytes())?)?)
}

/// Whether the ending of a result depends on the task's parents.
#[must_use]
pub(super) fn asks_for_parents(result: &WorkerResult) -> bool {
    matches!(
        result,
        WorkerResult::Blocked {
            kind: BlockKind::Dependency,
            ..
        }
    )
}

/// When a task that met a quota may be claimed again, where its worker named a time.
#[must_use]
pub(super) fn not_before(result: &WorkerResult, now: Timestamp) -> Option<Timestamp> {
    match result {
        WorkerResult::RateLimited {
            retry_after_seconds: Some(seconds),
            ..
        } => Some((now + *seconds as f64).min(Timestamp::LAST)),
        _ => None,
    }
}

/// Whether a run has passed its limit of time; gives the seconds that it ran and the limit.
#[must_use]
pub(super) fn passed_limit(
    started_at: i64,
    max_runtime_seconds: Option<i64>,
    now: Timestamp,
) -> Option<(i64, i64)> {
    let limit = max_runtime_seconds.filter(|limit| *limit > 0)?;
    let elapsed = now.whole_seconds().saturating_sub(started_at);
    (elapsed >= limit).then_some((elapsed, limit))
}

/// Whether a claim counts as unconfirmed: neither clock may have passed the limit without the board's word.
#[must_use]
pub(super) fn is_unconfirmed(wall_seconds: f64, monotonic_seconds: f64) -> bool {
    wall_seconds.max(monotonic_seconds) > SELF_FENCE_SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Attempt, BoardSlug, Ordinal, RunId, RunKey, TaskId};

    fn policy() -> EndingPolicy {
        EndingPolicy {
            pool: PoolId::parse("p1").unwrap(),
            fence: Fence::parse("ffffffff").unwrap(),
            failure_limit: 2,
        }
    }

    fn binding() -> Binding {
        Binding {
            key: RunKey {
                board: BoardSlug::parse("lab").unwrap(),
                task: TaskId::parse("t_1").unwrap(),
                run: RunId::parse("7").unwrap(),
            },
            ordinal: Ordinal(0),
            attempt: Attempt(1),
        }
    }

    #[test]
    fn each_outcome_becomes_its_ending() {
        let block = |kind| Ending::Block {
            kind,
            reason: Some("r".to_owned()),
        };
        let cases = [
            (
                r#"{"outcome":"blocked","block_kind":"dependency","reason":"r"}"#,
                true,
                block(BlockKind::Dependency),
            ),
            (
                r#"{"outcome":"blocked","block_kind":"dependency","reason":"r"}"#,
                false,
                block(BlockKind::NeedsInput),
            ),
            (
                r#"{"outcome":"blocked","block_kind":"capability","reason":"r"}"#,
                false,
                block(BlockKind::Capability),
            ),
            (
                r#"{"outcome":"failed","reason":"r"}"#,
                false,
                Ending::Fail {
                    reason: "r".to_owned(),
                    failure_limit: 2,
                },
            ),
            (
                r#"{"outcome":"rate_limited","reason":"r"}"#,
                false,
                Ending::RateLimit {
                    reason: "r".to_owned(),
                },
            ),
            (
                r#"{"outcome":"released"}"#,
                false,
                Ending::Release { reason: None },
            ),
        ];
        for (json, open_parent, wanted) in cases {
            assert_eq!(
                policy().of_result(&binding(), read_result(json).unwrap(), open_parent),
                wanted,
                "{json}"
            );
        }
    }

    #[test]
    fn a_completion_carries_the_mark_and_no_blank_text() {
        let json = r#"{"outcome":"completed","summary":" \n","result":"ok","metadata":{"pool":"forged","n":1}}"#;
        let ending = policy().of_result(&binding(), read_result(json).unwrap(), false);
        let Ending::Complete {
            summary,
            result,
            metadata,
        } = ending
        else {
            panic!()
        };
        assert_eq!((summary, result.as_deref()), (None, Some("ok")));
        assert_eq!(metadata.get("n").and_then(Json::as_i64), Some(1));
        assert_eq!(
            mark::find(&metadata).as_deref(),
            Some("lab/t_1/7/0/1@ffffffff")
        );
    }

    #[test]
    fn what_is_no_result_is_left_to_people() {
        for json in ["", "[]", "{}", r#"{"outcome":"done"}"#] {
            assert!(read_result(json).is_err(), "{json}");
        }
    }

    #[test]
    fn limits_of_time() {
        for (limit, now, wanted) in [
            (None, 5000.0, None),
            (Some(60), 1059.9, None),
            (Some(60), 1060.0, Some((60, 60))),
            (Some(0), 5000.0, None),
        ] {
            assert_eq!(passed_limit(1000, limit, Timestamp(now)), wanted);
        }
        assert!(!is_unconfirmed(780.0, 780.0));
        assert!(is_unconfirmed(781.0, 0.0));
        assert!(is_unconfirmed(0.0, 781.0));
    }
}
