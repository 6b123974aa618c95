//! `envelope_ordinal/1`: the ordinal that selects the key.

use hermes_pool::protocol::envelope_ordinal;
use serde_json::Value;

use super::vectors::{Difference, expected_error, good, integer, parse_text, same, text};

/// The reference has three slots.
const SLOTS: u16 = 3;

pub(crate) fn replay(case: &Value) -> Result<(), Difference> {
    let message = parse_text(text(case, "envelope_json")).map_err(|error| error.to_string())?;
    match good(envelope_ordinal(&message, SLOTS), expected_error(case))? {
        Some(ordinal) => same("ordinal", i64::from(ordinal), integer(case, "ok")),
        None => Ok(()),
    }
}
