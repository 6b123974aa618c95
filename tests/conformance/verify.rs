//! `verify/1`: messages of every kind of wrongness.

use hermes_pool::protocol::{Envelope, Json, Key, ProtocolError, canonical_json, verify_envelope};
use serde_json::Value;

use super::vectors::{Difference, bytes, expected_error, good, integer, parse_text, same, text};

/// The reference has three slots.
const SLOTS: u16 = 3;

pub(crate) fn replay(case: &Value) -> Result<(), Difference> {
    let key = Key::from_bytes(bytes(case, "key_hex"));
    let now = integer(case, "now");
    let message = parse_text(text(case, "envelope_json")).map_err(|error| error.to_string())?;
    let outcome = verify(&key, &message, case["expected_kind"].as_str(), now);
    let Some(envelope) = good(outcome, expected_error(case))? else {
        return Ok(());
    };
    let field = |name| message.get(name).and_then(Json::as_str);
    same("kind", Some(envelope.kind.as_str()), field("kind"))?;
    same("board", Some(&*envelope.binding.board), field("board"))?;
    same(
        "delivery",
        Some(&*envelope.delivery_id),
        field("delivery_id"),
    )?;
    let digest = envelope.payload_digest.as_str();
    same("digest", Some(digest), field("payload_digest"))?;
    let payload = canonical_json(&envelope.payload).map_err(|error| error.to_string())?;
    same("payload", envelope.payload_json().as_bytes(), &*payload)
}

/// No kind and an empty kind mean any. A kind that does not exist cannot be expected in our types;
/// the reference refuses every message for it that gets as far as that check.
fn verify(
    key: &Key,
    message: &Json,
    expected_kind: Option<&str>,
    now: i64,
) -> Result<Envelope, ProtocolError> {
    let verify = |expected| verify_envelope(key, message.clone(), expected, now, SLOTS);
    let Some(name) = expected_kind.filter(|name| !name.is_empty()) else {
        return verify(None);
    };
    if let Ok(kind) = name.parse() {
        return verify(Some(kind));
    }
    match verify(None) {
        Err(
            earlier @ (ProtocolError::OversizedMessage
            | ProtocolError::InvalidMessage
            | ProtocolError::VersionMismatch),
        ) => Err(earlier),
        _ => Err(ProtocolError::UnexpectedKind),
    }
}
