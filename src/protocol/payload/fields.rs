//! Reading the fields of a payload, with errors that name them.

use crate::protocol::json::{Json, Object};

/// A payload of the wrong shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PayloadError {
    code: &'static str,
    message: String,
}

impl PayloadError {
    /// The code under which the failure is reported: `invalid_poll`, `invalid_heartbeat` or
    /// `invalid_result`, and `invalid_assignment` or `invalid_ack` at the worker's end.
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// What is wrong, for people.
    pub fn message(&self) -> &str {
        &self.message
    }
}

/// The fields of one object, and the code that its failures have.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    members: &'a Object,
    code: &'static str,
}

type Result<T> = std::result::Result<T, PayloadError>;

impl<'a> Fields<'a> {
    pub(super) fn of(payload: &'a Json, code: &'static str) -> Result<Self> {
        match payload {
            Json::Object(members) => Ok(Self { members, code }),
            _ => Err(PayloadError {
                code,
                message: "payload must be an object".to_owned(),
            }),
        }
    }

    pub(super) fn fail(&self, message: impl Into<String>) -> PayloadError {
        PayloadError {
            code: self.code,
            message: message.into(),
        }
    }

    /// An optional field; `null` counts as left out. `read` gives `None` for a value of the wrong
    /// type, and `wanted` says what it should have been.
    pub(super) fn optional<T>(
        &self,
        name: &str,
        wanted: &str,
        read: impl FnOnce(&'a Json) -> Option<T>,
    ) -> Result<Option<T>> {
        match self.members.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => match read(value) {
                Some(value) => Ok(Some(value)),
                None => Err(self.fail(format!("{name} must be {wanted}"))),
            },
        }
    }

    /// A field that has to be there.
    pub(super) fn required<T>(
        &self,
        name: &str,
        wanted: &str,
        read: impl FnOnce(&'a Json) -> Option<T>,
    ) -> Result<T> {
        self.optional(name, wanted, read)?
            .ok_or_else(|| self.fail(format!("{name} is missing")))
    }

    pub(super) fn optional_text(&self, name: &str) -> Result<Option<String>> {
        self.optional(name, "text", text)
    }

    pub(super) fn required_text(&self, name: &str) -> Result<String> {
        self.required(name, "text", text)
    }

    /// A field that is an object of its own.
    pub(super) fn nested(&self, name: &str) -> Result<Fields<'a>> {
        let members = self.required(name, "an object", Json::as_object)?;
        Ok(Fields {
            members,
            code: self.code,
        })
    }
}

/// Text by value.
pub(super) fn text(value: &Json) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// A whole number of at least zero.
pub(super) fn count(value: &Json) -> Option<u64> {
    value.as_i64().and_then(|number| u64::try_from(number).ok())
}
