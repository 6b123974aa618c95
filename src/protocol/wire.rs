//! Request bodies.

use super::error::ProtocolError;
use super::json::{Json, parse_json};
use super::limits::MAX_WIRE_BYTES;

/// Reads a request body: JSON in any of its encodings, an object, at most 65,536 bytes.
///
/// # Errors
/// [`ProtocolError::EmptyRequest`], [`ProtocolError::OversizedRequest`],
/// [`ProtocolError::Malformed`] or [`ProtocolError::NotAnObject`], judged in this order.
pub fn parse_wire(body: &[u8]) -> Result<Json, ProtocolError> {
    if body.is_empty() {
        return Err(ProtocolError::EmptyRequest);
    }
    if body.len() > MAX_WIRE_BYTES {
        return Err(ProtocolError::OversizedRequest);
    }
    match parse_json(body)? {
        object @ Json::Object(_) => Ok(object),
        _ => Err(ProtocolError::NotAnObject),
    }
}
