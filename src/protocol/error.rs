//! Why a message, a key or a document was refused.
//!
//! The texts are part of the contract: workers and scripts compare them with those of the
//! reference. None of them carries key material or anything the sender wrote.

use std::path::PathBuf;

use rustix::io::Errno;

/// A failure of the protocol layer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The body of the request has no bytes.
    #[error("empty or oversized request")]
    EmptyRequest,
    /// The body of the request is longer than [`MAX_WIRE_BYTES`](super::MAX_WIRE_BYTES).
    #[error("empty or oversized request")]
    OversizedRequest,
    /// The bytes are not JSON, or nested too deep, or hold an integer of too many digits.
    #[error("malformed JSON request")]
    Malformed,
    /// The body is JSON, but not an object.
    #[error("request must be a JSON object")]
    NotAnObject,
    /// The message is not an object, or its canonical form exceeds the wire limit.
    #[error("invalid or oversized pool message")]
    OversizedMessage,
    /// The message is not an object, or holds text that has no canonical form.
    #[error("invalid pool message")]
    InvalidMessage,
    /// A field is missing or unknown, or the version is another one.
    #[error("pool message fields do not match version 2")]
    VersionMismatch,
    /// The kind is unknown, or not the one that belongs here.
    #[error("unexpected message kind")]
    UnexpectedKind,
    /// The field named is not an identifier.
    #[error("invalid {0}")]
    InvalidIdentifier(&'static str),
    /// Ordinal, attempt or one of the times is not an integer.
    #[error("invalid numeric binding")]
    InvalidBinding,
    /// The ordinal is not a slot of this pool, or the attempt is negative.
    #[error("worker binding is outside the pool")]
    OutsidePool,
    /// The message is from the future or has expired.
    #[error("pool message is outside its validity window")]
    OutsideWindow,
    /// The message lives for no time or for too long.
    #[error("pool message lifetime is invalid")]
    InvalidLifetime,
    /// The payload is not the one that the digest was made for.
    #[error("pool payload digest mismatch")]
    DigestMismatch,
    /// The signature is not that of the key.
    #[error("pool message authentication failed")]
    NotAuthentic,
    /// The name of a message kind is unknown.
    #[error("unsupported message kind")]
    UnsupportedKind,
    /// The message to be signed exceeds the wire limit even without its signature.
    #[error("pool message exceeds the wire limit")]
    ExceedsWireLimit,
    /// The ordinal is not a slot, or the master key is too short or too long.
    #[error("pool key derivation input is invalid")]
    InvalidDerivation,
    /// The key file cannot be opened or read.
    #[error("pool key is unavailable: {}: {error}", path.display())]
    KeyUnavailable {
        /// The path as it was given.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: Errno,
    },
    /// The key file is not a regular file, or group or others have rights on it.
    #[error("pool key must be a private regular file")]
    KeyNotPrivate,
    /// The key has fewer than 32 or more than 4096 bytes.
    #[error("pool key length is outside the safe range")]
    KeyLength,
    /// The key file cannot be written; one that exists is never overwritten.
    #[error("pool key cannot be written: {}: {error}", path.display())]
    KeyUnwritable {
        /// The path as it was given.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: Errno,
    },
    /// The system has no random bytes to give.
    #[error("no random bytes are available for a pool key")]
    NoRandomness,
    /// The folder of a document is a symbolic link.
    #[error("pool state directory must not be a symlink")]
    LinkedDirectory,
    /// The document cannot be written.
    #[error("pool document cannot be written: {}: {error}", path.display())]
    DocumentUnwritable {
        /// The path as it was given.
        path: PathBuf,
        /// What the system said.
        #[source]
        error: Errno,
    },
}

impl ProtocolError {
    /// The code under which the failure is reported to a client.
    ///
    /// Failures that concern only the own host (keys, documents) have codes too, although no
    /// reply ever carries them.
    pub fn code(&self) -> &'static str {
        match self {
            Self::EmptyRequest => "empty_request",
            Self::OversizedRequest | Self::ExceedsWireLimit => "too_large",
            Self::Malformed | Self::NotAnObject => "malformed",
            Self::OversizedMessage | Self::InvalidMessage => "invalid_message",
            Self::VersionMismatch => "version_mismatch",
            Self::UnexpectedKind | Self::UnsupportedKind => "unexpected_kind",
            Self::InvalidIdentifier(_) => "invalid_identifier",
            Self::InvalidBinding => "invalid_binding",
            Self::OutsidePool => "outside_pool",
            Self::OutsideWindow => "outside_window",
            Self::InvalidLifetime => "invalid_lifetime",
            Self::DigestMismatch => "digest_mismatch",
            Self::NotAuthentic => "not_authentic",
            Self::InvalidDerivation
            | Self::KeyUnavailable { .. }
            | Self::KeyNotPrivate
            | Self::KeyLength
            | Self::KeyUnwritable { .. }
            | Self::NoRandomness => "invalid_key",
            Self::LinkedDirectory | Self::DocumentUnwritable { .. } => "unwritable_document",
        }
    }
}
