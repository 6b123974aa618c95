//! The one spelling of a value that digests and signatures cover.

use super::digest::Digest;
use super::error::ProtocolError;
use super::json::{Json, Layout, write_json};

/// Room for a small value.
const USUAL_TEXT_BYTES: usize = 256;

/// Encodes a value canonically: keys in the order of their code points, no blanks.
///
/// # Errors
/// [`ProtocolError::InvalidMessage`] if a lone surrogate is in it, [`ProtocolError::Malformed`] if
/// it nests too deep.
pub fn canonical_text(value: &Json) -> Result<String, ProtocolError> {
    let mut text = String::with_capacity(USUAL_TEXT_BYTES);
    write_json(&mut text, value, 0, Layout::Compact)?;
    Ok(text)
}

/// [`canonical_text`] as the bytes that digests and signatures are made over.
///
/// # Errors
/// Those of [`canonical_text`].
pub fn canonical_json(value: &Json) -> Result<Vec<u8>, ProtocolError> {
    canonical_text(value).map(String::into_bytes)
}

/// The digest of a value's canonical encoding.
///
/// # Errors
/// Those of [`canonical_text`].
pub fn payload_digest(value: &Json) -> Result<Digest, ProtocolError> {
    canonical_text(value).map(|text| Digest::of(text.as_bytes()))
}
