//! Payloads of results.

use std::str::FromStr;

use super::fields::{Fields, PayloadError, count};
use crate::protocol::json::{Json, Object};

/// How a run ended, as its worker reports it.
///
/// Only what has the wrong type is refused. A reason that is missing costs a person some insight,
/// whereas refusing its result would cost the run, so every reason may be left out.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerResult {
    /// The task is done.
    Completed {
        /// What was done, in a few words.
        summary: Option<String>,
        /// What came out of it.
        result: Option<String>,
        /// Anything else, for programs.
        metadata: Option<Object>,
    },
    /// The task cannot go on by itself.
    Blocked {
        /// Why, for people.
        reason: Option<String>,
        /// What it takes to go on.
        kind: BlockKind,
    },
    /// The worker failed at the task; this counts against the task's limit.
    Failed {
        /// Why, for people.
        reason: Option<String>,
    },
    /// The worker met a quota; this does not count.
    RateLimited {
        /// Why, for people.
        reason: Option<String>,
        /// For how long it makes no sense to try again, in seconds.
        retry_after_seconds: Option<u64>,
    },
    /// The worker gives the run back; this does not count.
    Released {
        /// Why, for people.
        reason: Option<String>,
    },
}

/// What a blocked task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// An answer from a person; also what holds where a result names no kind.
    NeedsInput,
    /// An ability that the worker does not have.
    Capability,
    /// Another task.
    Dependency,
    /// Something that passes by itself.
    Transient,
}

impl BlockKind {
    /// The name on the wire and on the boards.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NeedsInput => "needs_input",
            Self::Capability => "capability",
            Self::Dependency => "dependency",
            Self::Transient => "transient",
        }
    }
}

/// The name is not that of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("unknown block kind")]
pub struct UnknownBlockKind;

impl FromStr for BlockKind {
    type Err = UnknownBlockKind;

    fn from_str(name: &str) -> Result<Self, UnknownBlockKind> {
        match name {
            "needs_input" => Ok(Self::NeedsInput),
            "capability" => Ok(Self::Capability),
            "dependency" => Ok(Self::Dependency),
            "transient" => Ok(Self::Transient),
            _ => Err(UnknownBlockKind),
        }
    }
}

impl WorkerResult {
    /// Reads the payload of a `result`.
    ///
    /// # Errors
    /// `invalid_result` if it is not an object, has no known `outcome`, or a field of that outcome
    /// has the wrong type.
    pub fn parse(payload: &Json) -> Result<Self, PayloadError> {
        let fields = Fields::of(payload, "invalid_result")?;
        let outcome = fields.required("outcome", "text", Json::as_str)?;
        match outcome {
            "completed" => Ok(Self::Completed {
                summary: fields.optional_text("summary")?,
                result: fields.optional_text("result")?,
                metadata: fields
                    .optional("metadata", "an object", Json::as_object)?
                    .cloned(),
            }),
            "blocked" => Ok(Self::Blocked {
                reason: fields.optional_text("reason")?,
                kind: block_kind(fields)?,
            }),
            "failed" => Ok(Self::Failed {
                reason: fields.optional_text("reason")?,
            }),
            "rate_limited" => Ok(Self::RateLimited {
                reason: fields.optional_text("reason")?,
                retry_after_seconds: fields.optional(
                    "retry_after_seconds",
                    "a whole number of seconds",
                    count,
                )?,
            }),
            "released" => Ok(Self::Released {
                reason: fields.optional_text("reason")?,
            }),
            _ => Err(fields
                .fail("outcome must be one of completed, blocked, failed, rate_limited, released")),
        }
    }

    /// The name of the outcome on the wire.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Blocked { .. } => "blocked",
            Self::Failed { .. } => "failed",
            Self::RateLimited { .. } => "rate_limited",
            Self::Released { .. } => "released",
        }
    }

    /// The payload that says this; what is left out here is left out there.
    pub fn to_json(&self) -> Json {
        let text = |text: &Option<String>| text.as_deref().map(Json::from);
        let fields = match self {
            Self::Completed {
                summary,
                result,
                metadata,
            } => vec![
                ("summary", text(summary)),
                ("result", text(result)),
                ("metadata", metadata.clone().map(Json::from)),
            ],
            Self::Blocked { reason, kind } => vec![
                ("reason", text(reason)),
                ("block_kind", Some(Json::from(kind.as_str()))),
            ],
            Self::RateLimited {
                reason,
                retry_after_seconds,
            } => vec![
                ("reason", text(reason)),
                ("retry_after_seconds", retry_after_seconds.map(Json::from)),
            ],
            Self::Failed { reason } | Self::Released { reason } => vec![("reason", text(reason))],
        };
        let present = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        Json::object(present.chain([("outcome", Json::from(self.outcome()))]))
    }
}

fn block_kind(fields: Fields<'_>) -> Result<BlockKind, PayloadError> {
    let wanted = "one of needs_input, capability, dependency, transient";
    let kind = fields.optional("block_kind", wanted, |value| value.as_str()?.parse().ok())?;
    Ok(kind.unwrap_or(BlockKind::NeedsInput))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::parse_json;

    fn parse(text: &str) -> Result<WorkerResult, PayloadError> {
        WorkerResult::parse(&parse_json(text.as_bytes()).unwrap())
    }

    #[test]
    fn every_outcome_is_read_and_written() {
        for text in [
            r#"{"outcome":"completed"}"#,
            r#"{"metadata":{"n":1.0},"outcome":"completed","result":"r","summary":"s"}"#,
            r#"{"block_kind":"capability","outcome":"blocked","reason":"r"}"#,
            r#"{"block_kind":"dependency","outcome":"blocked"}"#,
            r#"{"block_kind":"transient","outcome":"blocked"}"#,
            r#"{"block_kind":"needs_input","outcome":"blocked"}"#,
            r#"{"outcome":"failed","reason":"r"}"#,
            r#"{"outcome":"rate_limited","reason":"r","retry_after_seconds":5}"#,
            r#"{"outcome":"released"}"#,
        ] {
            let again = crate::protocol::canonical_json(&parse(text).unwrap().to_json());
            assert_eq!(again.unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn fields_that_are_left_out_null_or_unknown_do_no_harm() {
        let failed = WorkerResult::Failed { reason: None };
        for text in [
            r#"{"outcome":"failed"}"#,
            r#"{"outcome":"failed","reason":null}"#,
            r#"{"outcome":"failed","summary":5,"more":{}}"#,
        ] {
            assert_eq!(parse(text).as_ref(), Ok(&failed), "{text}");
        }
        let blocked = WorkerResult::Blocked {
            reason: None,
            kind: BlockKind::NeedsInput,
        };
        assert_eq!(parse(r#"{"outcome":"blocked"}"#), Ok(blocked));
    }

    #[test]
    fn what_cannot_be_settled_is_refused() {
        for (text, message) in [
            ("[]", "payload must be an object"),
            ("{}", "outcome is missing"),
            (r#"{"outcome":null}"#, "outcome is missing"),
            (r#"{"outcome":1}"#, "outcome must be text"),
            (
                r#"{"outcome":"Completed"}"#,
                "outcome must be one of completed, blocked, failed, rate_limited, released",
            ),
            (
                r#"{"outcome":"completed","summary":1}"#,
                "summary must be text",
            ),
            (
                r#"{"outcome":"completed","metadata":[]}"#,
                "metadata must be an object",
            ),
            (
                r#"{"outcome":"blocked","block_kind":"other"}"#,
                "block_kind must be one of needs_input, capability, dependency, transient",
            ),
            (
                r#"{"outcome":"released","reason":{}}"#,
                "reason must be text",
            ),
            (
                r#"{"outcome":"rate_limited","retry_after_seconds":-1}"#,
                "retry_after_seconds must be a whole number of seconds",
            ),
            (
                r#"{"outcome":"rate_limited","retry_after_seconds":1.5}"#,
                "retry_after_seconds must be a whole number of seconds",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.code(), "invalid_result");
            assert_eq!(error.to_string(), message, "{text}");
        }
    }
}
