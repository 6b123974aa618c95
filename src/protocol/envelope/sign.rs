//! Signing: from a binding and a payload to the bytes that are sent.
//!
//! The canonical form has its fields in the order of their names, so the envelope is written in
//! one go, the payload included, and its signature is put in where it belongs. Identifiers,
//! ordinal and attempt are not judged here; whoever verifies does.

use hmac::Mac;
use uuid::Uuid;

use super::{Binding, Kind, USUAL_ENVELOPE_BYTES};
use crate::protocol::digest::{Digest, hex};
use crate::protocol::error::ProtocolError;
use crate::protocol::json::{Json, Layout, Members, write_json};
use crate::protocol::key::Key;
use crate::protocol::limits::{
    MAX_ENVELOPE_LIFETIME_SECONDS, MAX_IDENTIFIER_BYTES, MAX_WIRE_BYTES, PROTOCOL_VERSION,
};

/// The member `signature`, from the comma before it.
const SIGNATURE_MEMBER_BYTES: usize = 79;

/// A payload that is in its canonical form already, as the store keeps it.
#[derive(Debug, Clone, Copy)]
pub struct CanonicalPayload<'a> {
    /// The canonical text; it is sent byte for byte and never looked at.
    pub json: &'a str,
    /// The digest of that text.
    pub digest: &'a Digest,
}

/// Signs a message; the result is its complete canonical text.
///
/// `now` is in seconds since the epoch. The lifetime is brought into 1..=300. Without a delivery
/// identifier, or with an empty one, a random one is made.
///
/// The limit on the size is the reference's and counts all but the signature: an envelope that
/// passes with fewer than 79 bytes to spare is refused by whoever verifies it; see
/// [`largest_payload_bytes`].
///
/// # Errors
/// Those of [`canonical_json`](crate::protocol::canonical_json) for the payload;
/// [`ProtocolError::ExceedsWireLimit`].
pub fn sign_envelope(
    key: &Key,
    kind: Kind,
    binding: &Binding,
    payload: &Json,
    now: i64,
    lifetime_seconds: i64,
    delivery_id: Option<&str>,
) -> Result<Vec<u8>, ProtocolError> {
    let mut members = begin(kind, binding, now, lifetime_seconds, delivery_id);
    let text = members.value("payload");
    let start = text.len();
    write_json(text, payload, 1, Layout::Compact)?;
    let digest = Digest::of(text.as_bytes().get(start..).unwrap_or_default());
    finish(members, key, binding, &digest)
}

/// Signs a message around a payload that is canonical already; all else is as with
/// [`sign_envelope`].
///
/// # Errors
/// [`ProtocolError::ExceedsWireLimit`]
pub fn sign_canonical_payload(
    key: &Key,
    kind: Kind,
    binding: &Binding,
    payload: CanonicalPayload<'_>,
    now: i64,
    lifetime_seconds: i64,
    delivery_id: Option<&str>,
) -> Result<Vec<u8>, ProtocolError> {
    let mut members = begin(kind, binding, now, lifetime_seconds, delivery_id);
    members.value("payload").push_str(payload.json);
    finish(members, key, binding, payload.digest)
}

/// The envelope up to where its payload begins.
fn begin(
    kind: Kind,
    binding: &Binding,
    now: i64,
    lifetime_seconds: i64,
    delivery_id: Option<&str>,
) -> Members {
    let mut members = Members::with_capacity(USUAL_ENVELOPE_BYTES);
    members.integer("attempt", &binding.attempt);
    members.string("board", &binding.board);
    match delivery_id {
        Some(given) if !given.is_empty() => members.string("delivery_id", given),
        _ => members.string("delivery_id", &Uuid::new_v4().to_string()),
    }
    let lifetime_seconds = lifetime_seconds.clamp(1, MAX_ENVELOPE_LIFETIME_SECONDS);
    members.integer("expires_at", now.saturating_add(lifetime_seconds));
    members.integer("issued_at", now);
    members.string("kind", kind.as_str());
    members
}

/// Completes and signs the envelope whose payload has just been written.
fn finish(
    members: Members,
    key: &Key,
    binding: &Binding,
    digest: &Digest,
) -> Result<Vec<u8>, ProtocolError> {
    let (mut text, signature_at) = unsigned(members, binding, digest);
    if text.len() > MAX_WIRE_BYTES {
        return Err(ProtocolError::ExceedsWireLimit);
    }
    let signature = hex(&key.mac().chain_update(&text).finalize().into_bytes());
    text.insert_str(signature_at, &format!(r#","signature":"{signature}""#));
    Ok(text.into_bytes())
}

/// The complete envelope but for its signature, and where that belongs.
fn unsigned(mut members: Members, binding: &Binding, digest: &Digest) -> (String, usize) {
    members.string("payload_digest", digest.as_str());
    members.string("run_id", &binding.run_id);
    let signature_at = members.len();
    members.string("task_id", &binding.task_id);
    members.integer("version", PROTOCOL_VERSION);
    members.integer("worker_ordinal", binding.worker_ordinal);
    (members.end(), signature_at)
}

/// How long a canonical payload may be so that its envelope is taken at the other end, signature
/// included, at any time, under any delivery identifier and in any attempt that fits 64 bits.
pub fn largest_payload_bytes(kind: Kind, binding: &Binding) -> usize {
    let widest = Binding {
        attempt: i64::MAX.into(),
        ..binding.clone()
    };
    let delivery_id = "x".repeat(MAX_IDENTIFIER_BYTES);
    let mut members = begin(kind, &widest, i64::MAX, 1, Some(&delivery_id));
    members.value("payload");
    let (text, _) = unsigned(members, &widest, &Digest::of(b""));
    MAX_WIRE_BYTES.saturating_sub(text.len() + SIGNATURE_MEMBER_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{parse_wire, verify_envelope};

    const NOW: i64 = 1_700_000_000;

    fn binding() -> Binding {
        Binding {
            board: "metis".to_owned(),
            task_id: "t_1a2b3c4d".to_owned(),
            run_id: "23".to_owned(),
            worker_ordinal: 4_711,
            attempt: i64::MAX.into(),
        }
    }

    fn verifies(payload_bytes: usize) -> bool {
        let key = Key::from_bytes(b"any".to_vec());
        let payload = Json::from("x".repeat(payload_bytes - 2));
        let delivery_id = "d".repeat(MAX_IDENTIFIER_BYTES);
        let signed = sign_envelope(
            &key,
            Kind::Assignment,
            &binding(),
            &payload,
            NOW,
            120,
            Some(&delivery_id),
        );
        let message = parse_wire(&signed.unwrap());
        message
            .and_then(|message| verify_envelope(&key, message, None, NOW, 10_000))
            .is_ok()
    }

    #[test]
    fn the_largest_payload_is_taken_at_the_other_end() {
        let largest = largest_payload_bytes(Kind::Assignment, &binding());
        assert!(verifies(largest));
        // Until the clock has 19 digits, two times of 10 digits leave 18 bytes unused.
        assert!(verifies(largest + 18));
        assert!(!verifies(largest + 19));
    }

    #[test]
    fn without_a_delivery_identifier_every_message_gets_its_own() {
        let key = Key::from_bytes(b"any".to_vec());
        let sign = |given| {
            let payload = Json::Null;
            sign_envelope(&key, Kind::Poll, &binding(), &payload, NOW, 120, given).unwrap()
        };
        assert_ne!(sign(None), sign(None));
        assert_ne!(sign(Some("")), sign(Some("")));
        assert_eq!(sign(Some("d-1")), sign(Some("d-1")));
        let message = parse_wire(&sign(None)).unwrap();
        assert!(verify_envelope(&key, message, Some(Kind::Poll), NOW, 10_000).is_ok());
    }
}
