//! `canonical_json/1`: the canonical form and the digest of a value.

use hermes_pool::protocol::{canonical_json, payload_digest};
use serde_json::Value;

use super::vectors::{Difference, bytes, expected_error, good, parse_text, same, same_text, text};

pub(crate) fn replay(case: &Value) -> Result<(), Difference> {
    let parsed = parse_text(text(case, "json_text"));
    let fails_in = |stage| expected_error(case).filter(|error| error["stage"] == stage);
    let Some(value) = good(parsed, fails_in("parse"))? else {
        return Ok(());
    };
    let Some(canonical) = good(canonical_json(&value), fails_in("encode"))? else {
        return Ok(());
    };
    same_text("canonical form", &canonical, &bytes(case, "canonical_hex"))?;
    let digest = payload_digest(&value).map_err(|error| error.to_string())?;
    same("digest", digest.as_str(), text(case, "sha256"))
}
