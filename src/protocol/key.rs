//! Pool keys and the keys of single ordinals.
//!
//! A key is used as the bytes it is made of: a file of hexadecimal digits *is* the key, it is not
//! decoded. Nothing shows the content of a key: there is no `Display`, and `Debug` hides it.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::digest::hex;
use super::error::ProtocolError;
use super::limits::{MAX_KEY_BYTES, MIN_KEY_BYTES};

/// A secret that signs and verifies.
#[derive(Clone)]
pub struct Key {
    bytes: Vec<u8>,
    /// A code that has the key and no message yet.
    unfed: Hmac<Sha256>,
}

impl Key {
    /// Takes the bytes as they are. Their number is not checked: signing and verifying work with
    /// any.
    #[expect(clippy::expect_used, reason = "HMAC takes keys of every length")]
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        let unfed = Hmac::new_from_slice(&bytes).expect("HMAC takes keys of every length");
        Self { bytes, unfed }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A code over messages, to be fed.
    pub(crate) fn mac(&self) -> Hmac<Sha256> {
        self.unfed.clone()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(..)")
    }
}

/// Derives the key of one worker slot from the key of the pool.
///
/// # Errors
/// [`ProtocolError::InvalidDerivation`] if the ordinal is not below `slots`, or the master has
/// fewer than 32 or more than 4096 bytes.
pub fn derive_ordinal_key(master: &Key, ordinal: u16, slots: u16) -> Result<Key, ProtocolError> {
    let safe_length = MIN_KEY_BYTES..=MAX_KEY_BYTES;
    if ordinal >= slots || !safe_length.contains(&master.bytes.len()) {
        return Err(ProtocolError::InvalidDerivation);
    }
    let mut mac = master.mac();
    mac.update(format!("hermes-execution-pool-v2:worker:{ordinal}").as_bytes());
    Ok(Key::from_bytes(
        hex(&mac.finalize().into_bytes()).into_bytes(),
    ))
}

/// Makes a new pool key: 32 random bytes in hexadecimal digits.
///
/// # Errors
/// [`ProtocolError::NoRandomness`] if the system has none to give.
pub fn generate_key() -> Result<Key, ProtocolError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|_| ProtocolError::NoRandomness)?;
    Ok(Key::from_bytes(hex(&bytes).into_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_never_shows_its_content() {
        let key = Key::from_bytes(b"secret-secret-secret-secret-secret".to_vec());
        assert_eq!(format!("{key:?}"), "Key(..)");
    }

    #[test]
    fn ordinals_up_to_the_number_of_slots_have_keys_of_their_own() {
        let master = generate_key().unwrap();
        let last = derive_ordinal_key(&master, 9_999, 10_000).unwrap();
        let other = derive_ordinal_key(&master, 9_998, 10_000).unwrap();
        assert_ne!(last.bytes(), other.bytes());
        let outside = derive_ordinal_key(&master, 10_000, 10_000);
        assert_eq!(outside.unwrap_err(), ProtocolError::InvalidDerivation);
    }

    #[test]
    fn new_keys_are_64_digits_and_differ() {
        let (one, two) = (generate_key().unwrap(), generate_key().unwrap());
        assert_ne!(one.bytes(), two.bytes());
        let lower_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        assert!(one.bytes().len() == 64 && one.bytes().iter().all(lower_hex));
    }
}
