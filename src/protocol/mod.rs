//! The wire protocol: JSON, digests, keys, envelopes and the shapes of their payloads.
//!
//! Byte for byte the protocol of the Python reference. This layer knows no HTTP, no database and no
//! clock: bytes and times come in as values, bytes and values go out.
//!
//! A request takes this way: [`parse_wire`] → [`envelope_ordinal`] (which key?) →
//! [`verify_envelope`] → the payload's own type, such as [`WorkerResult::parse`]. A reply takes the
//! way of [`sign_envelope`], or of [`sign_canonical_payload`] where a stored payload is sent again.

mod canonical;
mod digest;
mod document;
mod envelope;
mod error;
mod files;
mod json;
mod key;
mod key_file;
mod limits;
mod payload;
mod wire;

pub use canonical::{canonical_json, canonical_text, payload_digest};
pub use digest::Digest;
pub use document::{spaced_json, write_document};
pub use envelope::{
    Binding, CanonicalPayload, Envelope, Kind, envelope_ordinal, largest_payload_bytes,
    sign_canonical_payload, sign_envelope, verify_envelope,
};
pub use error::ProtocolError;
pub(crate) use json::Members;
pub use json::{Integer, Json, Object, Text, parse_json};
pub use key::{Key, derive_ordinal_key, generate_key};
pub use key_file::{read_key, write_key_file};
pub use limits::{
    DEFAULT_ENVELOPE_LIFETIME_SECONDS, MAX_ACTIVITY_BYTES, MAX_CLOCK_SKEW_SECONDS,
    MAX_CONTEXT_BYTES, MAX_ENVELOPE_LIFETIME_SECONDS, MAX_IDENTIFIER_BYTES, MAX_INTEGER_DIGITS,
    MAX_KEY_BYTES, MAX_NESTING, MAX_SLOTS, MAX_WAIT_SECONDS, MAX_WIRE_BYTES, MIN_KEY_BYTES,
    PROTOCOL_VERSION,
};
pub use payload::{
    Ack, AssignedTask, AssignmentPayload, BlockKind, HeartbeatReport, PayloadError, PollRequest,
    RunLimits, UnknownBlockKind, WorkerResult, WorkspaceSpec,
};
pub use wire::parse_wire;
