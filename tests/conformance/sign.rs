//! `sign/1`: from a binding and a payload to a signed envelope.

use hermes_pool::protocol::{
    Binding, CanonicalPayload, Integer, Json, Key, Kind, ProtocolError, canonical_json,
    payload_digest, sign_canonical_payload, sign_envelope,
};
use serde_json::Value;

use super::vectors::{
    Difference, bytes, expected_error, good, has_tag, integer, parse_text, same, text,
};

/// The length of a signature with its name, quotes and comma.
const SIGNATURE_BYTES: i64 = 79;

pub(crate) fn replay(case: &Value) -> Result<(), Difference> {
    if has_tag(case, "lenient_python_typing") {
        return Ok(());
    }
    let Some(signed) = good(sign(case), expected_error(case))? else {
        return Ok(());
    };
    let signed = String::from_utf8(signed).map_err(|error| error.to_string())?;
    same("envelope", &*signed, text(case, "envelope_json"))?;
    let length = i64::try_from(signed.len()).unwrap();
    same("length", length, integer(case, "signed_bytes"))?;
    let unsigned = length - SIGNATURE_BYTES;
    same("unsigned length", unsigned, integer(case, "unsigned_bytes"))
}

/// Signs in both ways, which have to come to the same. The conversions that a dynamic language
/// makes inside come first, in the order of the reference.
fn sign(case: &Value) -> Result<Vec<u8>, ProtocolError> {
    let key = Key::from_bytes(bytes(case, "key_hex"));
    let binding = binding(&parse_text(text(case, "binding_json"))?)?;
    let payload = parse_text(text(case, "payload_json"))?;
    let canonical = String::from_utf8(canonical_json(&payload)?).unwrap();
    let kind: Kind = text(case, "kind").parse()?;
    let (now, lifetime) = (integer(case, "now"), integer(case, "lifetime"));
    let delivery_id = Some(text(case, "delivery_id"));

    let signed = sign_envelope(&key, kind, &binding, &payload, now, lifetime, delivery_id);
    let stored = CanonicalPayload {
        json: &canonical,
        digest: &payload_digest(&payload)?,
    };
    let again = sign_canonical_payload(&key, kind, &binding, stored, now, lifetime, delivery_id);
    assert_eq!(signed, again);
    signed
}

/// Missing names are empty, a missing ordinal is -1, a missing attempt 0.
fn binding(fields: &Json) -> Result<Binding, ProtocolError> {
    let name = |field| match fields.get(field) {
        None | Some(Json::Null) => Ok(String::new()),
        Some(name) => name
            .as_str()
            .map(str::to_owned)
            .ok_or(ProtocolError::InvalidMessage),
    };
    let number = |field, missing: i64| match fields.get(field) {
        Some(Json::Int(number)) => number.clone(),
        _ => Integer::from(missing),
    };
    Ok(Binding {
        board: name("board")?,
        task_id: name("task_id")?,
        run_id: name("run_id")?,
        worker_ordinal: number("worker_ordinal", -1).as_i64().unwrap(),
        attempt: number("attempt", 0),
    })
}
