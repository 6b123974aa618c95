//! `keys/1`: the keys of ordinals.

use hermes_pool::protocol::{Key, ProtocolError, derive_ordinal_key};
use serde_json::Value;

use super::folder::key_bytes;
use super::vectors::{Difference, bytes, expected_error, good, integer, same_text};

/// The reference has three slots.
const SLOTS: u16 = 3;

pub(crate) fn replay(case: &Value) -> Result<(), Difference> {
    let master = Key::from_bytes(bytes(case, "master_hex"));
    // An ordinal that is not even a slot number cannot be written in our types.
    let derived = u16::try_from(integer(case, "ordinal"))
        .map_err(|_| ProtocolError::InvalidDerivation)
        .and_then(|ordinal| derive_ordinal_key(&master, ordinal, SLOTS));
    match good(derived, expected_error(case))? {
        Some(key) => same_text("key", &key_bytes(&key), &bytes(case, "key_hex")),
        None => Ok(()),
    }
}
