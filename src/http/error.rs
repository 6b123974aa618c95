//! The one place that turns a failure into an HTTP answer: status, headers and unsigned JSON.
//!
//! Invariant: an answer says nothing about other ordinals, boards, files or the host. What people need to mend a fault of
//! the host goes to the log of whoever found it.

use actix_web::http::StatusCode;
use actix_web::http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use actix_web::{HttpResponse, ResponseError, Route, web};
use serde_json::{Value, json};

use crate::domain::Timestamp;
use crate::protocol::ProtocolError;

/// Why a request gets no answer of its own.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HttpError {
    /// The message is not authentic, or not even a message.
    #[error("{error}")]
    Protocol {
        /// What is wrong with it.
        error: ProtocolError,
        /// The time of the check; told where it decided.
        now: Timestamp,
    },
    /// The request has no body.
    #[error("{}", ProtocolError::EmptyRequest)]
    EmptyBody,
    /// The body is, or says it is, longer than an envelope can be.
    #[error("{}", ProtocolError::OversizedRequest)]
    OversizedBody,
    /// The body ended before it was complete, or its transfer coding is broken.
    #[error("the request body is incomplete")]
    IncompleteBody,
    /// The body did not arrive in time.
    #[error("the request did not arrive in time")]
    Timeout,
    /// Nothing is served under this path.
    #[error("no such path")]
    NotFound,
    /// The path is served, under another method.
    #[error("method not allowed, use {allow}")]
    MethodNotAllowed {
        /// The methods it is served under, as the `Allow` header lists them.
        allow: &'static str,
    },
    /// A query of an operator endpoint is none.
    #[error("the query is invalid: after is what the page before gave as next, limit is a number")]
    BadQuery,
    /// The operator's bearer token is missing or another one.
    #[error("the operator's bearer token is required")]
    TokenRequired,
    /// A limit of requests or of stored work is reached. Nothing was stored.
    #[error("too many requests at once, try again")]
    Overloaded,
    /// The pool cannot answer now, or does not know whether it stored the message: the same message may be sent again.
    #[error("the pool cannot answer now, send the same message again")]
    Unavailable,
    /// What an operator asks for stands in the store, which cannot be read.
    #[error("the store cannot be read now: /readyz and the log of the coordinator say why")]
    StoreUnreadable,
    /// A fault of the coordinator.
    #[error("internal error")]
    Internal,
}

/// Seconds after which a refused client may come again.
const RETRY_AFTER_SECONDS: &str = "1";

impl HttpError {
    /// The code for machines.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Protocol { error, .. } => match protocol_status(error) {
                StatusCode::INTERNAL_SERVER_ERROR => "internal",
                _ => error.code(),
            },
            Self::EmptyBody => ProtocolError::EmptyRequest.code(),
            Self::OversizedBody => ProtocolError::OversizedRequest.code(),
            Self::IncompleteBody => ProtocolError::Malformed.code(),
            Self::Timeout => "timeout",
            Self::NotFound => "not_found",
            Self::MethodNotAllowed { .. } => "method_not_allowed",
            Self::BadQuery => "invalid_query",
            Self::TokenRequired => "token_required",
            Self::Overloaded => "overloaded",
            Self::Unavailable | Self::StoreUnreadable => "unavailable",
            Self::Internal => "internal",
        }
    }

    fn document(&self) -> Value {
        let message = match self.status_code() {
            StatusCode::INTERNAL_SERVER_ERROR => Self::Internal.to_string(),
            _ => self.to_string(),
        };
        let mut error = json!({ "code": self.code(), "message": message });
        if let Self::Protocol {
            error: ProtocolError::OutsideWindow,
            now,
        } = self
            && let Some(error) = error.as_object_mut()
        {
            error.insert("server_time".into(), now.whole_seconds().into());
        }
        json!({ "error": error })
    }
}

impl ResponseError for HttpError {
    fn status_code(&self) -> StatusCode {
        match self {
            Self::Protocol { error, .. } => protocol_status(error),
            Self::EmptyBody | Self::IncompleteBody | Self::BadQuery => StatusCode::BAD_REQUEST,
            Self::OversizedBody => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::TokenRequired => StatusCode::UNAUTHORIZED,
            Self::Overloaded | Self::Unavailable | Self::StoreUnreadable => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = HttpResponse::build(self.status_code());
        match self {
            Self::MethodNotAllowed { allow } => {
                response.insert_header((ALLOW, *allow));
            }
            Self::TokenRequired => {
                response.insert_header((WWW_AUTHENTICATE, "Bearer"));
            }
            Self::Overloaded | Self::Unavailable | Self::StoreUnreadable => {
                response.insert_header((RETRY_AFTER, RETRY_AFTER_SECONDS));
            }
            _ => {}
        }
        response.json(self.document())
    }
}

/// The status of a message that is not authentic. Failures of the own host are nobody's business outside.
fn protocol_status(error: &ProtocolError) -> StatusCode {
    match error {
        ProtocolError::EmptyRequest
        | ProtocolError::Malformed
        | ProtocolError::NotAnObject
        | ProtocolError::OversizedMessage
        | ProtocolError::InvalidMessage
        | ProtocolError::VersionMismatch
        | ProtocolError::UnexpectedKind
        | ProtocolError::InvalidIdentifier(_)
        | ProtocolError::InvalidBinding
        | ProtocolError::OutsidePool => StatusCode::BAD_REQUEST,
        ProtocolError::OversizedRequest => StatusCode::PAYLOAD_TOO_LARGE,
        ProtocolError::OutsideWindow
        | ProtocolError::InvalidLifetime
        | ProtocolError::DigestMismatch
        | ProtocolError::NotAuthentic => StatusCode::UNAUTHORIZED,
        ProtocolError::UnsupportedKind
        | ProtocolError::ExceedsWireLimit
        | ProtocolError::InvalidDerivation
        | ProtocolError::KeyUnavailable { .. }
        | ProtocolError::KeyNotPrivate
        | ProtocolError::KeyLength
        | ProtocolError::KeyUnwritable { .. }
        | ProtocolError::NoRandomness
        | ProtocolError::LinkedDirectory
        | ProtocolError::DocumentUnwritable { .. } => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// What a resource answers to every method but those it serves: `allow` lists them.
pub fn only(allow: &'static str) -> Route {
    web::to(move || async move { Err::<HttpResponse, _>(HttpError::MethodNotAllowed { allow }) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn told(error: ProtocolError) -> (u16, String) {
        let error = HttpError::Protocol {
            error,
            now: Timestamp(1_700_000_000.9),
        };
        (error.status_code().as_u16(), error.document().to_string())
    }

    #[test]
    fn messages_that_are_not_authentic_get_the_status_and_code_of_the_interface() {
        for (error, status, code, message) in [
            (
                ProtocolError::EmptyRequest,
                400,
                "empty_request",
                "empty or oversized request",
            ),
            (
                ProtocolError::OversizedRequest,
                413,
                "too_large",
                "empty or oversized request",
            ),
            (
                ProtocolError::Malformed,
                400,
                "malformed",
                "malformed JSON request",
            ),
            (
                ProtocolError::NotAnObject,
                400,
                "malformed",
                "request must be a JSON object",
            ),
            (
                ProtocolError::OversizedMessage,
                400,
                "invalid_message",
                "invalid or oversized pool message",
            ),
            (
                ProtocolError::InvalidMessage,
                400,
                "invalid_message",
                "invalid pool message",
            ),
            (
                ProtocolError::VersionMismatch,
                400,
                "version_mismatch",
                "pool message fields do not match version 2",
            ),
            (
                ProtocolError::UnexpectedKind,
                400,
                "unexpected_kind",
                "unexpected message kind",
            ),
            (
                ProtocolError::InvalidIdentifier("run_id"),
                400,
                "invalid_identifier",
                "invalid run_id",
            ),
            (
                ProtocolError::InvalidBinding,
                400,
                "invalid_binding",
                "invalid numeric binding",
            ),
            (
                ProtocolError::OutsidePool,
                400,
                "outside_pool",
                "worker binding is outside the pool",
            ),
            (
                ProtocolError::InvalidLifetime,
                401,
                "invalid_lifetime",
                "pool message lifetime is invalid",
            ),
            (
                ProtocolError::DigestMismatch,
                401,
                "digest_mismatch",
                "pool payload digest mismatch",
            ),
            (
                ProtocolError::NotAuthentic,
                401,
                "not_authentic",
                "pool message authentication failed",
            ),
        ] {
            let expected = json!({"error": {"code": code, "message": message}}).to_string();
            assert_eq!(told(error), (status, expected));
        }
    }

    #[test]
    fn a_message_outside_its_window_is_told_the_time_of_the_server() {
        let expected = r#"{"error":{"code":"outside_window","message":"pool message is outside its validity window","server_time":1700000000}}"#;
        assert_eq!(
            told(ProtocolError::OutsideWindow),
            (401, expected.to_owned())
        );
    }

    #[test]
    fn faults_of_the_own_host_are_not_told_to_anybody() {
        let error = ProtocolError::KeyUnavailable {
            path: "/secret/place".into(),
            error: Errno::NOENT,
        };
        let expected = r#"{"error":{"code":"internal","message":"internal error"}}"#;
        assert_eq!(told(error), (500, expected.to_owned()));
    }
}
