//! `read_key/1`: key files, and what is refused in their place.

use hermes_pool::protocol::{Digest, read_key};
use serde_json::Value;

use super::folder::{key_bytes, set_up};
use super::vectors::{Difference, expected_error, good, integer, same, text};

/// What follows this is the wording of Python and of the system.
const UNAVAILABLE: &str = "pool key is unavailable: ";

pub(crate) fn replay(case: &Value) -> Result<(), Difference> {
    let folder = set_up(case);
    let outcome = read_key(&folder.path().join(text(case, "read")));
    if let (Err(error), Some(expected)) = (&outcome, expected_error(case))
        && text(expected, "message").starts_with(UNAVAILABLE)
    {
        let message = error.to_string();
        let prefix = message.get(..UNAVAILABLE.len()).unwrap_or(&message);
        return same("beginning of the message", prefix, UNAVAILABLE);
    }
    let Some(key) = good(outcome, expected_error(case))? else {
        return Ok(());
    };
    let bytes = key_bytes(&key);
    let length = i64::try_from(bytes.len()).unwrap();
    same("length", length, integer(&case["ok"], "length"))?;
    let digest = Digest::of(&bytes);
    same("digest", digest.as_str(), text(&case["ok"], "key_sha256"))
}
