//! The payloads of acknowledgements, refusals included.

use super::fields::{Fields, PayloadError};
use crate::protocol::json::Json;

/// What the pool answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ack {
    /// To a poll: there is nothing to do.
    Idle,
    /// To a heartbeat: it is durable.
    Alive {
        /// Whether this delivery was known already.
        duplicate: bool,
        /// When the lease ends, in seconds since the epoch.
        lease_until_seconds: i64,
    },
    /// To a result: it is durable.
    Accepted {
        /// Whether this result was known already.
        duplicate: bool,
    },
    /// To anything authentic that the pool refuses.
    Rejected {
        /// Why, for programs.
        code: String,
        /// Why, for people.
        message: String,
    },
}

impl Ack {
    /// The payload that says this.
    pub fn to_json(&self) -> Json {
        let status = |status: &str| ("status", Json::from(status));
        match self {
            Self::Idle => Json::object([status("idle")]),
            Self::Alive {
                duplicate,
                lease_until_seconds,
            } => Json::object([
                status("ok"),
                ("duplicate", Json::from(*duplicate)),
                ("lease_until", Json::from(*lease_until_seconds)),
            ]),
            Self::Accepted { duplicate } => {
                Json::object([status("accepted"), ("duplicate", Json::from(*duplicate))])
            }
            Self::Rejected { code, message } => Json::object([
                status("rejected"),
                ("code", Json::from(code.as_str())),
                ("message", Json::from(message.as_str())),
            ]),
        }
    }

    /// Reads the payload of an `ack`.
    ///
    /// # Errors
    /// `invalid_ack` for another status and for fields that are missing or of the wrong type.
    pub fn parse(payload: &Json) -> Result<Self, PayloadError> {
        let fields = Fields::of(payload, "invalid_ack")?;
        let duplicate = || fields.required("duplicate", "true or false", Json::as_bool);
        match fields.required("status", "text", Json::as_str)? {
            "idle" => Ok(Self::Idle),
            "ok" => Ok(Self::Alive {
                duplicate: duplicate()?,
                lease_until_seconds: fields.required("lease_until", "an integer", Json::as_i64)?,
            }),
            "accepted" => Ok(Self::Accepted {
                duplicate: duplicate()?,
            }),
            "rejected" => Ok(Self::Rejected {
                code: fields.required_text("code")?,
                message: fields.required_text("message")?,
            }),
            _ => Err(fields.fail("status must be one of idle, ok, accepted, rejected")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{canonical_json, parse_json};

    #[test]
    fn every_answer_is_written_and_read() {
        for text in [
            r#"{"status":"idle"}"#,
            r#"{"duplicate":true,"lease_until":1700000090,"status":"ok"}"#,
            r#"{"duplicate":false,"status":"accepted"}"#,
            r#"{"code":"stale_attempt","message":"m","status":"rejected"}"#,
        ] {
            let ack = Ack::parse(&parse_json(text.as_bytes()).unwrap()).unwrap();
            assert_eq!(canonical_json(&ack.to_json()).unwrap(), text.as_bytes());
        }
    }

    #[test]
    fn an_answer_that_is_none_is_refused() {
        for text in [
            "[]",
            "{}",
            r#"{"status":"fine"}"#,
            r#"{"status":"accepted"}"#,
            r#"{"status":"ok","duplicate":false,"lease_until":"soon"}"#,
        ] {
            let error = Ack::parse(&parse_json(text.as_bytes()).unwrap()).unwrap_err();
            assert_eq!(error.code(), "invalid_ack", "{text}");
        }
    }
}
