//! The one spelling of a value that digests and signatures cover.

use super::digest::Digest;
use super::error::ProtocolError;
use super::json::{Json, Layout, write_json};

/// Encodes a value canonically: keys in the order of their code points, no blanks, UTF-8.
///
/// # Errors
/// [`ProtocolError::InvalidMessage`] if a lone surrogate is in it, [`ProtocolError::Malformed`] if
/// it nests too deep.
pub fn canonical_json(value: &Json) -> Result<Vec<u8>, ProtocolError> {
    let mut out = String::new();
    write_json(&mut out, value, 0, Layout::Compact)?;
    Ok(out.into_bytes())
}

/// The digest of a value's canonical encoding.
///
/// # Errors
/// Those of [`canonical_json`].
pub fn payload_digest(value: &Json) -> Result<Digest, ProtocolError> {
    canonical_json(value).map(|bytes| Digest::of(&bytes))
}
