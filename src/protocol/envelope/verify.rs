//! Verification: the only way to an [`Envelope`].
//!
//! The checks come in the order of the reference, and the first that fails decides. The canonical
//! form is made once; digest and signature are computed over parts of it.

use std::ops::Range;

use hmac::Mac;

use super::{Binding, Envelope, Kind, USUAL_ENVELOPE_BYTES};
use crate::protocol::digest::{Digest, unhex};
use crate::protocol::error::ProtocolError;
use crate::protocol::json::{Integer, Json, Layout, Object, write_json, write_string};
use crate::protocol::key::Key;
use crate::protocol::limits::{
    MAX_CLOCK_SKEW_SECONDS, MAX_ENVELOPE_LIFETIME_SECONDS, MAX_IDENTIFIER_BYTES, MAX_WIRE_BYTES,
    PROTOCOL_VERSION,
};

type Result<T> = std::result::Result<T, ProtocolError>;

/// The fields of an envelope, no less and no more, in the order of their names.
const FIELDS: [&str; 13] = [
    "attempt",
    "board",
    "delivery_id",
    "expires_at",
    "issued_at",
    "kind",
    "payload",
    "payload_digest",
    "run_id",
    "signature",
    "task_id",
    "version",
    "worker_ordinal",
];

/// Reads no more of a message than the ordinal that selects the key to verify it with.
///
/// # Errors
/// [`ProtocolError::InvalidMessage`] if the message is not an object,
/// [`ProtocolError::OutsidePool`] if the ordinal is not an integer in `0..slots`.
pub fn envelope_ordinal(message: &Json, slots: u16) -> Result<u16> {
    let fields = message.as_object().ok_or(ProtocolError::InvalidMessage)?;
    fields
        .get("worker_ordinal")
        .and_then(Json::as_i64)
        .and_then(|ordinal| u16::try_from(ordinal).ok())
        .filter(|ordinal| *ordinal < slots)
        .ok_or(ProtocolError::OutsidePool)
}

/// Verifies structure, validity window, digest and signature of a message.
///
/// `expected` of `None` takes any kind; `now` is in seconds since the epoch. Whether the key belongs
/// to the ordinal in the message is the caller's to see to, with [`envelope_ordinal`].
///
/// # Errors
/// The first check that fails, in this order: [`ProtocolError::OversizedMessage`] or, for text
/// without a canonical form, [`ProtocolError::InvalidMessage`];
/// [`VersionMismatch`](ProtocolError::VersionMismatch);
/// [`UnexpectedKind`](ProtocolError::UnexpectedKind);
/// [`InvalidIdentifier`](ProtocolError::InvalidIdentifier);
/// [`InvalidBinding`](ProtocolError::InvalidBinding); [`OutsidePool`](ProtocolError::OutsidePool);
/// [`OutsideWindow`](ProtocolError::OutsideWindow);
/// [`InvalidLifetime`](ProtocolError::InvalidLifetime);
/// [`DigestMismatch`](ProtocolError::DigestMismatch);
/// [`NotAuthentic`](ProtocolError::NotAuthentic).
pub fn verify_envelope(
    key: &Key,
    message: Json,
    expected: Option<Kind>,
    now: i64,
    slots: u16,
) -> Result<Envelope> {
    let Json::Object(fields) = message else {
        return Err(ProtocolError::OversizedMessage);
    };
    let canonical = Canonical::of(&fields)?;
    let [
        attempt,
        board,
        delivery_id,
        expires_at,
        issued_at,
        kind,
        payload,
        payload_digest,
        run_id,
        signature,
        task_id,
        version,
        worker_ordinal,
    ] = fields
        .into_exactly(FIELDS)
        .ok_or(ProtocolError::VersionMismatch)?;
    if !is_version_2(&version) {
        return Err(ProtocolError::VersionMismatch);
    }
    let kind = kind_of(&kind, expected)?;
    let board = run_name(board, "board", kind)?;
    let task_id = run_name(task_id, "task_id", kind)?;
    let run_id = run_name(run_id, "run_id", kind)?;
    let delivery_id = text(delivery_id)
        .filter(|name| is_identifier(name))
        .ok_or(ProtocolError::InvalidIdentifier("delivery_id"))?;

    let ordinal = integer(worker_ordinal)?;
    let attempt = integer(attempt)?;
    let issued_at = integer(issued_at)?;
    let expires_at = integer(expires_at)?;
    let worker_ordinal = ordinal
        .as_i64()
        .filter(|ordinal| (0..i64::from(slots)).contains(ordinal) && !attempt.is_negative())
        .ok_or(ProtocolError::OutsidePool)?;
    check_times(&issued_at, &expires_at, now)?;

    let payload_digest = canonical.check_digest(&payload_digest)?;
    canonical.check_signature(&signature, key)?;
    Ok(Envelope {
        kind,
        binding: Binding {
            board,
            task_id,
            run_id,
            worker_ordinal,
            attempt,
        },
        delivery_id,
        issued_at,
        expires_at,
        payload_digest,
        payload,
        canonical: canonical.text,
        payload_span: canonical.payload,
    })
}

/// The canonical text of a message, and where two of its members stand in it.
struct Canonical {
    text: String,
    /// The value of `payload`.
    payload: Range<usize>,
    /// The whole member `signature`, from the comma before it.
    signature: Range<usize>,
}

impl Canonical {
    /// Text that cannot be encoded is reported before the size, so all is encoded first.
    fn of(fields: &Object) -> Result<Self> {
        let mut canonical = Self {
            text: String::with_capacity(USUAL_ENVELOPE_BYTES),
            payload: 0..0,
            signature: 0..0,
        };
        let text = &mut canonical.text;
        text.push('{');
        for (index, (key, value)) in fields.iter().enumerate() {
            let member = text.len();
            if index > 0 {
                text.push(',');
            }
            let key = key.as_str().ok_or(ProtocolError::InvalidMessage)?;
            write_string(text, key);
            text.push(':');
            let start = text.len();
            write_json(text, value, 1, Layout::Compact)?;
            match key {
                "payload" => canonical.payload = start..text.len(),
                "signature" => canonical.signature = member..text.len(),
                _ => {}
            }
        }
        text.push('}');
        if text.len() > MAX_WIRE_BYTES {
            return Err(ProtocolError::OversizedMessage);
        }
        Ok(canonical)
    }

    fn check_digest(&self, given: &Json) -> Result<Digest> {
        let payload = self.text.get(self.payload.clone()).unwrap_or_default();
        let digest = Digest::of(payload.as_bytes());
        match given.as_str() {
            Some(given) if given == digest.as_str() => Ok(digest),
            _ => Err(ProtocolError::DigestMismatch),
        }
    }

    /// Compares in constant time. The signature is never the first member, so the text without it
    /// is canonical too.
    fn check_signature(&self, given: &Json, key: &Key) -> Result<()> {
        let given: [u8; 32] = given
            .as_str()
            .and_then(unhex)
            .ok_or(ProtocolError::NotAuthentic)?;
        let before = self.text.get(..self.signature.start).unwrap_or_default();
        let after = self.text.get(self.signature.end..).unwrap_or_default();
        key.mac()
            .chain_update(before)
            .chain_update(after)
            .verify_slice(&given)
            .map_err(|_| ProtocolError::NotAuthentic)
    }
}

/// The version is compared as a number, so a float will do.
fn is_version_2(version: &Json) -> bool {
    match version {
        Json::Int(number) => number.as_i64() == Some(PROTOCOL_VERSION),
        Json::Float(number) => *number == 2.0,
        _ => false,
    }
}

fn kind_of(kind: &Json, expected: Option<Kind>) -> Result<Kind> {
    kind.as_str()
        .and_then(|name| name.parse().ok())
        .filter(|kind| expected.is_none_or(|expected| expected == *kind))
        .ok_or(ProtocolError::UnexpectedKind)
}

/// One of the three names of a run; they may be empty where there need not be a run.
fn run_name(name: Json, field: &'static str, kind: Kind) -> Result<String> {
    text(name)
        .filter(|name| is_identifier(name) || (name.is_empty() && kind.may_lack_run()))
        .ok_or(ProtocolError::InvalidIdentifier(field))
}

fn text(value: Json) -> Option<String> {
    match value {
        Json::String(text) => text.into_string(),
        _ => None,
    }
}

fn integer(value: Json) -> Result<Integer> {
    match value {
        Json::Int(number) => Ok(number),
        _ => Err(ProtocolError::InvalidBinding),
    }
}

/// A letter or digit, then letters, digits, `_`, `.` and `-`; ASCII only.
fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    name.len() <= MAX_IDENTIFIER_BYTES
        && bytes
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

/// Both ends of the window are included. Times beyond 128 bits count as the end of that range:
/// past the window they are at opposite ends, so that their distance is too long in any case.
fn check_times(issued_at: &Integer, expires_at: &Integer, now: i64) -> Result<()> {
    let (issued, expires) = (issued_at.saturating_i128(), expires_at.saturating_i128());
    let (now, skew) = (i128::from(now), i128::from(MAX_CLOCK_SKEW_SECONDS));
    if issued > now + skew || expires < now - skew {
        return Err(ProtocolError::OutsideWindow);
    }
    let lifetime = expires.saturating_sub(issued);
    if (1..=i128::from(MAX_ENVELOPE_LIFETIME_SECONDS)).contains(&lifetime) {
        Ok(())
    } else {
        Err(ProtocolError::InvalidLifetime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_decides_which_ordinals_there_are() {
        let message = |ordinal: i64| Json::object([("worker_ordinal", ordinal.into())]);
        for (ordinal, slots, expected) in [
            (0, 1, Ok(0)),
            (1, 1, Err(ProtocolError::OutsidePool)),
            (9_999, 10_000, Ok(9_999)),
            (10_000, 10_000, Err(ProtocolError::OutsidePool)),
            (-1, 10_000, Err(ProtocolError::OutsidePool)),
            (65_536, 10_000, Err(ProtocolError::OutsidePool)),
        ] {
            assert_eq!(envelope_ordinal(&message(ordinal), slots), expected);
        }
    }

    #[test]
    fn times_of_any_size_are_judged_without_overflow() {
        let time = |digits: &str| Integer::parse(digits).unwrap();
        let huge = "9".repeat(100);
        let minus_huge = format!("-{huge}");
        for (issued_at, expires_at, now, expected) in [
            ("100", "400", 100, Ok(())),
            ("100", "401", 100, Err(ProtocolError::InvalidLifetime)),
            ("130", "131", 100, Ok(())),
            ("131", "132", 100, Err(ProtocolError::OutsideWindow)),
            ("69", "70", 100, Ok(())),
            ("68", "69", 100, Err(ProtocolError::OutsideWindow)),
            ("100", "100", 100, Err(ProtocolError::InvalidLifetime)),
            (&minus_huge, &huge, 0, Err(ProtocolError::InvalidLifetime)),
            (&huge, &huge, i64::MAX, Err(ProtocolError::OutsideWindow)),
            (
                "0",
                &minus_huge,
                i64::MIN,
                Err(ProtocolError::OutsideWindow),
            ),
            (
                "9223372036854775807",
                "9223372036854775808",
                i64::MAX,
                Ok(()),
            ),
        ] {
            let outcome = check_times(&time(issued_at), &time(expires_at), now);
            assert_eq!(outcome, expected, "{issued_at} {expires_at} {now}");
        }
    }
}
