//! Payloads of polls and heartbeats.

use super::fields::{Fields, PayloadError};
use crate::protocol::json::Json;
use crate::protocol::limits::{MAX_ACTIVITY_BYTES, MAX_WAIT_SECONDS};

/// A worker asks for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollRequest {
    /// How long the answer may be held back while there is none, in seconds: 0..=30.
    pub wait_seconds: u8,
}

impl PollRequest {
    /// Reads the payload of a `poll`; without `wait_seconds` the answer comes at once.
    ///
    /// # Errors
    /// `invalid_poll` if it is not an object or `wait_seconds` not an integer in 0..=30.
    pub fn parse(payload: &Json) -> Result<Self, PayloadError> {
        let fields = Fields::of(payload, "invalid_poll")?;
        let wait_seconds = fields.optional("wait_seconds", "an integer from 0 to 30", |value| {
            let seconds = u8::try_from(value.as_i64()?).ok()?;
            (seconds <= MAX_WAIT_SECONDS).then_some(seconds)
        })?;
        Ok(Self {
            wait_seconds: wait_seconds.unwrap_or(0),
        })
    }

    /// The payload that says this.
    pub fn to_json(&self) -> Json {
        Json::object([("wait_seconds", Json::from(i64::from(self.wait_seconds)))])
    }
}

/// A worker is alive and tells what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatReport {
    /// What the worker is doing, for people; at most 12 KiB.
    pub activity: Option<String>,
}

impl HeartbeatReport {
    /// Reads the payload of a `heartbeat`.
    ///
    /// # Errors
    /// `invalid_heartbeat` if it is not an object, or `activity` not a text of at most
    /// [`MAX_ACTIVITY_BYTES`].
    pub fn parse(payload: &Json) -> Result<Self, PayloadError> {
        let fields = Fields::of(payload, "invalid_heartbeat")?;
        let activity = fields.optional_text("activity")?;
        match &activity {
            Some(text) if text.len() > MAX_ACTIVITY_BYTES => Err(fields.fail(format!(
                "activity has {} bytes, at most {MAX_ACTIVITY_BYTES} are taken",
                text.len()
            ))),
            _ => Ok(Self { activity }),
        }
    }

    /// The payload that says this.
    pub fn to_json(&self) -> Json {
        match &self.activity {
            Some(activity) => Json::object([("activity", Json::from(activity.as_str()))]),
            None => Json::Object(crate::protocol::Object::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::parse_json;

    fn json(text: &str) -> Json {
        parse_json(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_poll_waits_from_0_to_30_seconds() {
        for (payload, wait_seconds) in [
            ("{}", 0),
            (r#"{"wait_seconds":null}"#, 0),
            (r#"{"wait_seconds":0}"#, 0),
            (r#"{"wait_seconds":-0}"#, 0),
            (r#"{"wait_seconds":30,"unknown":[]}"#, 30),
        ] {
            let request = PollRequest::parse(&json(payload)).unwrap();
            assert_eq!(request, PollRequest { wait_seconds }, "{payload}");
            assert_eq!(PollRequest::parse(&request.to_json()), Ok(request));
        }
        for payload in [
            "null",
            "[]",
            r#"{"wait_seconds":31}"#,
            r#"{"wait_seconds":-1}"#,
            r#"{"wait_seconds":286}"#,
            r#"{"wait_seconds":1.0}"#,
            r#"{"wait_seconds":true}"#,
            r#"{"wait_seconds":"5"}"#,
            r#"{"wait_seconds":18446744073709551616}"#,
        ] {
            let error = PollRequest::parse(&json(payload)).unwrap_err();
            assert_eq!(error.code(), "invalid_poll", "{payload}");
        }
    }

    #[test]
    fn activity_is_bounded_in_bytes() {
        let report = |text: String| HeartbeatReport {
            activity: Some(text),
        };
        let longest = report("é".repeat(MAX_ACTIVITY_BYTES / 2));
        assert_eq!(HeartbeatReport::parse(&longest.to_json()), Ok(longest));
        let longer = report("é".repeat(MAX_ACTIVITY_BYTES / 2) + "e");
        let error = HeartbeatReport::parse(&longer.to_json()).unwrap_err();
        assert_eq!(error.code(), "invalid_heartbeat");
        assert_eq!(
            error.message(),
            "activity has 12289 bytes, at most 12288 are taken"
        );
    }

    #[test]
    fn a_heartbeat_need_not_tell_anything() {
        for payload in ["{}", r#"{"activity":null}"#, r#"{"other":1}"#] {
            let report = HeartbeatReport::parse(&json(payload)).unwrap();
            assert_eq!(report, HeartbeatReport { activity: None });
        }
        for payload in ["[]", r#""text""#, r#"{"activity":5}"#] {
            let error = HeartbeatReport::parse(&json(payload)).unwrap_err();
            assert_eq!(error.code(), "invalid_heartbeat");
        }
    }
}
