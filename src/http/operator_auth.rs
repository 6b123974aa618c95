//! Who may use the operator endpoints.
//!
//! Whatever changes something needs the bearer token, on loopback too, since a worker's command may run on the same host.
//! Reading needs it only where the port is not loopback.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix_web::ResponseError;
use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::Method;
use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use actix_web::middleware::Next;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::protocol::{Key, ProtocolError, generate_key, read_key, write_key_file};

use super::error::HttpError;

/// The token file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the operator token {} cannot be used: {cause}", path.display())]
pub struct TokenError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    #[source]
    pub cause: ProtocolError,
}

/// Decides who may read and who may write.
#[derive(Clone)]
pub struct OperatorAuth(Arc<Rules>);

struct Rules {
    token: Tag,
    reading_is_open: bool,
}

/// What is kept of a token: enough to recognise it.
type Tag = [u8; 32];

impl OperatorAuth {
    /// Takes the token from its file, which is made (private, with a random token) where it does not exist.
    ///
    /// # Errors
    /// [`TokenError`] when the file is not private, too short, or cannot be read or made.
    pub fn open(token_file: &Path, listens_on: SocketAddr) -> Result<Self, TokenError> {
        let unusable = |cause| TokenError {
            path: token_file.to_owned(),
            cause,
        };
        if !token_file.exists() {
            generate_key()
                .and_then(|token| write_key_file(token_file, &token))
                .map_err(unusable)?;
        }
        let token = read_key(token_file).map_err(unusable)?;
        Ok(Self::new(&token, listens_on))
    }

    fn new(token: &Key, listens_on: SocketAddr) -> Self {
        Self(Arc::new(Rules {
            token: tag(token.bytes()).finalize().into_bytes().into(),
            reading_is_open: listens_on.ip().is_loopback(),
        }))
    }

    /// Whether a request with this method and these headers may be served.
    ///
    /// # Errors
    /// [`HttpError::TokenRequired`] where it may not.
    pub fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), HttpError> {
        let reads = matches!(*method, Method::GET | Method::HEAD);
        if reads && self.0.reading_is_open {
            return Ok(());
        }
        let given = headers
            .get(AUTHORIZATION)
            .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "))
            .ok_or(HttpError::TokenRequired)?;
        // Codes over a fixed text under both tokens are compared, in a time that does not depend on where they differ.
        tag(given.trim_ascii())
            .verify_slice(&self.0.token)
            .map_err(|_| HttpError::TokenRequired)
    }
}

impl fmt::Debug for OperatorAuth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OperatorAuth(..)")
    }
}

#[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
fn tag(token: &[u8]) -> Hmac<Sha256> {
    let mut tag = Hmac::new_from_slice(token).expect("HMAC takes keys of every length");
    tag.update(b"hermes-pool operator token");
    tag
}

/// The value of the `Authorization` header for the token in a file.
///
/// # Errors
/// [`TokenError`] when the file cannot be read or its token is no text.
pub fn bearer_token(token_file: &Path) -> Result<String, TokenError> {
    let unusable = |cause| TokenError {
        path: token_file.to_owned(),
        cause,
    };
    let token = read_key(token_file).map_err(unusable)?;
    let token = str::from_utf8(token.bytes()).map_err(|_| unusable(ProtocolError::KeyLength))?;
    Ok(format!("Bearer {token}"))
}

/// The middleware of the operator server.
///
/// # Errors
/// Those of the services behind it.
pub async fn require_token<B: MessageBody + 'static>(
    auth: OperatorAuth,
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    match auth.check(request.method(), request.headers()) {
        Ok(()) => Ok(next.call(request).await?.map_into_boxed_body()),
        Err(refusal) => Ok(request.into_response(refusal.error_response())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::HeaderValue;
    use std::os::unix::fs::PermissionsExt;

    fn headers(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !authorization.is_empty() {
            headers.insert(AUTHORIZATION, HeaderValue::from_str(authorization).unwrap());
        }
        headers
    }

    #[test]
    fn writing_always_needs_the_token_and_reading_only_beyond_loopback() {
        let token = Key::from_bytes(b"0123456789abcdef0123456789abcdef".to_vec());
        let right = "Bearer 0123456789abcdef0123456789abcdef";
        for (listens_on, method, authorization, allowed) in [
            ("127.0.0.1:1", Method::GET, "", true),
            ("[::1]:1", Method::HEAD, "", true),
            ("127.0.0.1:1", Method::POST, "", false),
            ("127.0.0.1:1", Method::POST, right, true),
            ("127.0.0.1:1", Method::DELETE, "Bearer wrong", false),
            ("0.0.0.0:1", Method::GET, "", false),
            ("0.0.0.0:1", Method::GET, right, true),
            ("10.0.0.1:1", Method::GET, "Bearer ", false),
            (
                "10.0.0.1:1",
                Method::GET,
                "Basic 0123456789abcdef0123456789abcdef",
                false,
            ),
            (
                "10.0.0.1:1",
                Method::GET,
                "Bearer 0123456789abcdef0123456789abcdeg",
                false,
            ),
        ] {
            let auth = OperatorAuth::new(&token, listens_on.parse().unwrap());
            let answer = auth.check(&method, &headers(authorization));
            assert_eq!(
                answer.is_ok(),
                allowed,
                "{method} on {listens_on} with {authorization:?}"
            );
        }
    }

    #[test]
    fn the_token_file_is_made_once_private_and_random() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("operator.token");
        let anywhere = "0.0.0.0:1".parse().unwrap();
        OperatorAuth::open(&path, anywhere).unwrap();
        assert_eq!(
            path.metadata().unwrap().permissions().mode() & 0o7777,
            0o600
        );
        let authorization = bearer_token(&path).unwrap();

        let again = OperatorAuth::open(&path, anywhere).unwrap();
        assert!(again.check(&Method::POST, &headers(&authorization)).is_ok());
    }

    #[test]
    fn a_token_file_that_others_can_read_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("operator.token");
        std::fs::write(&path, "0123456789abcdef0123456789abcdef").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let told = OperatorAuth::open(&path, "127.0.0.1:1".parse().unwrap()).unwrap_err();
        assert!(told.to_string().contains(&*path.to_string_lossy()));
    }
}
