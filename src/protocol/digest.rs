//! SHA-256 digests and their lower-case hexadecimal form.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, held as 64 lower-case hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Digest(String);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(hex(&Sha256::digest(bytes)))
    }

    /// Takes a digest from its digits; `None` unless there are exactly 64, in lower case.
    pub fn parse(digits: &str) -> Option<Self> {
        unhex::<32>(digits).map(|_| Self(digits.to_owned()))
    }

    /// The 64 digits by value.
    pub fn into_string(self) -> String {
        self.0
    }

    /// The 64 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Digest({})", self.0)
    }
}

/// The bytes in lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(bytes)
}

/// Reads exactly `2 * N` lower-case hexadecimal digits.
pub(crate) fn unhex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let read = base16ct::lower::decode(digits, &mut bytes).ok()?;
    (read.len() == N).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_read_in_lower_case_only_and_in_full() {
        let digest = Digest::of(b"");
        assert!(digest.as_str().starts_with("e3b0c442"));
        assert_eq!(Digest::parse(digest.as_str()), Some(digest.clone()));
        assert_eq!(Digest::parse(&digest.as_str().to_uppercase()), None);
        assert_eq!(Digest::parse(&digest.as_str()[1..]), None);
        assert_eq!(Digest::parse(&format!("{digest}0")), None);
        assert_eq!(Digest::parse(""), None);
    }
}
