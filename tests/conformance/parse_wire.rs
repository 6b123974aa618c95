//! `parse_wire/1`: request bodies.

use hermes_pool::protocol::{canonical_json, parse_wire};
use serde_json::Value;

use super::vectors::{Difference, bytes, expected_error, good, same_text};

pub(crate) fn replay(case: &Value) -> Result<(), Difference> {
    let body = bytes(case, "body_hex");
    let Some(value) = good(parse_wire(&body), expected_error(case))? else {
        return Ok(());
    };
    match good(canonical_json(&value), case.get("canonical_error"))? {
        Some(canonical) => same_text("canonical form", &canonical, &bytes(case, "canonical_hex")),
        None => Ok(()),
    }
}
