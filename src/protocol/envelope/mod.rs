//! Signed envelopes: what is said, about which attempt of which run, until when, by whom.
//!
//! An [`Envelope`] can only be had by verification, so holding one is the proof that it is
//! authentic and fresh. Signing produces the bytes to send, not a value.

mod sign;
mod verify;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

pub use sign::{CanonicalPayload, largest_payload_bytes, sign_canonical_payload, sign_envelope};
pub use verify::{envelope_ordinal, verify_envelope};

use super::digest::Digest;
use super::error::ProtocolError;
use super::json::{Integer, Json};

/// Room for an envelope with a small payload.
const USUAL_ENVELOPE_BYTES: usize = 640;

/// What an envelope says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A worker asks for work.
    Poll,
    /// The pool gives a run to a worker.
    Assignment,
    /// A worker is alive and holds its run.
    Heartbeat,
    /// A worker reports how its run ended.
    Result,
    /// The pool answers anything but a poll that got work.
    Ack,
}

impl Kind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Assignment => "assignment",
            Self::Heartbeat => "heartbeat",
            Self::Result => "result",
            Self::Ack => "ack",
        }
    }

    /// Whether board, task and run may be empty in an envelope of this kind.
    fn may_lack_run(self) -> bool {
        matches!(self, Self::Poll | Self::Ack)
    }
}

impl FromStr for Kind {
    type Err = ProtocolError;

    fn from_str(name: &str) -> Result<Self, ProtocolError> {
        match name {
            "poll" => Ok(Self::Poll),
            "assignment" => Ok(Self::Assignment),
            "heartbeat" => Ok(Self::Heartbeat),
            "result" => Ok(Self::Result),
            "ack" => Ok(Self::Ack),
            _ => Err(ProtocolError::UnsupportedKind),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The attempt of a run that an envelope is about, as it stands on the wire.
///
/// In a verified envelope the three names are identifiers, or empty where the kind is `poll` or
/// `ack`; the ordinal is a slot of the pool; the attempt is not negative and has no upper bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Slug of the board.
    pub board: String,
    /// The task on that board.
    pub task_id: String,
    /// The run of that task.
    pub run_id: String,
    /// The worker slot.
    pub worker_ordinal: i64,
    /// The fencing token.
    pub attempt: Integer,
}

impl Binding {
    /// The binding of a message that is about no run.
    pub fn without_run(worker_ordinal: i64) -> Self {
        Self {
            board: String::new(),
            task_id: String::new(),
            run_id: String::new(),
            worker_ordinal,
            attempt: Integer::from(0_i64),
        }
    }
}

/// A message that was authentic and inside its validity window when it was verified.
#[derive(Debug, Clone)]
pub struct Envelope {
    /// What is said.
    pub kind: Kind,
    /// About which attempt of which run.
    pub binding: Binding,
    /// The sender's name for this message.
    pub delivery_id: String,
    /// When it was signed, in seconds since the epoch.
    pub issued_at: Integer,
    /// When it ends to be valid, in seconds since the epoch.
    pub expires_at: Integer,
    /// The digest of the payload's canonical text.
    pub payload_digest: Digest,
    /// The payload.
    pub payload: Json,
    /// The canonical text of the whole message, and where the payload stands in it.
    canonical: String,
    payload_span: Range<usize>,
}

impl Envelope {
    /// The canonical text of the payload, the one that the digest covers.
    pub fn payload_json(&self) -> &str {
        self.canonical
            .get(self.payload_span.clone())
            .unwrap_or_default()
    }
}
