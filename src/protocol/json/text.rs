//! Text as JSON has it: code points, among them surrogates that belong to no pair.
//!
//! Text is kept in UTF-8, extended so that a lone surrogate takes the three bytes its number would
//! take. In this form the order of bytes is the order of code points, and two surrogates written
//! one by one stay different from the character that such a pair means in UTF-16.

use std::cmp::Ordering;
use std::fmt;

/// A string of code points that may hold lone surrogates.
#[derive(Clone, PartialEq, Eq)]
pub struct Text(Form);

/// Invariant: `Surrogates` holds at least one surrogate, so that equal texts have equal forms.
#[derive(Clone, PartialEq, Eq)]
enum Form {
    Utf8(String),
    Surrogates(Vec<u8>),
}

impl Text {
    /// The text, unless a lone surrogate is in it.
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Form::Utf8(text) => Some(text),
            Form::Surrogates(_) => None,
        }
    }

    /// The text by value, unless a lone surrogate is in it.
    pub fn into_string(self) -> Option<String> {
        match self.0 {
            Form::Utf8(text) => Some(text),
            Form::Surrogates(_) => None,
        }
    }

    /// The bytes in extended UTF-8; this is plain UTF-8 if there is no lone surrogate.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Form::Utf8(text) => text.as_bytes(),
            Form::Surrogates(bytes) => bytes,
        }
    }

    /// Takes bytes in extended UTF-8; `None` if they are nothing of the kind.
    pub(crate) fn from_extended_utf8(bytes: Vec<u8>) -> Option<Self> {
        match String::from_utf8(bytes) {
            Ok(text) => Some(Self(Form::Utf8(text))),
            Err(error) => {
                let bytes = error.into_bytes();
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    (_, rest) = split_code_point(rest)?;
                }
                Some(Self(Form::Surrogates(bytes)))
            }
        }
    }

    /// The numbers of all code points, surrogates included.
    pub(crate) fn code_points(&self) -> impl Iterator<Item = u32> + '_ {
        let mut rest = self.as_bytes();
        std::iter::from_fn(move || {
            let (code, tail) = split_code_point(rest)?;
            rest = tail;
            Some(code)
        })
    }
}

/// The bytes that JSON does not let stand as they are in a string, by their number. A table, since every byte of every
/// message is looked up in it, more than once.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut control = 0;
    while control < 0x20 {
        escaped[control] = true;
        control += 1;
    }
    escaped[b'"' as usize] = true;
    escaped[b'\\' as usize] = true;
    escaped
};

/// How many bytes stand as they are in a string, up to a quote, a backslash or a control character; `None` if all do.
pub(crate) fn plain_bytes(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| ESCAPED[usize::from(byte)])
}

/// Takes the first code point off; `None` at the end and where the bytes are not extended UTF-8.
fn split_code_point(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let continuation = |byte: u8| (byte & 0xC0 == 0x80).then_some(u32::from(byte & 0x3F));
    match *bytes {
        [a @ 0..0x80, ref rest @ ..] => Some((u32::from(a), rest)),
        [a @ 0xC2..0xE0, b, ref rest @ ..] => {
            Some((u32::from(a & 0x1F) << 6 | continuation(b)?, rest))
        }
        [a @ 0xE0..0xF0, b, c, ref rest @ ..] => {
            let code = u32::from(a & 0x0F) << 12 | continuation(b)? << 6 | continuation(c)?;
            (code >= 0x800).then_some((code, rest))
        }
        [a @ 0xF0..0xF5, b, c, d, ref rest @ ..] => {
            let high = u32::from(a & 0x07) << 18 | continuation(b)? << 12;
            let code = high | continuation(c)? << 6 | continuation(d)?;
            (0x1_0000..0x11_0000)
                .contains(&code)
                .then_some((code, rest))
        }
        _ => None,
    }
}

/// Appends a code point (at most U+10FFFF) in extended UTF-8.
pub(crate) fn push_code_point(bytes: &mut Vec<u8>, code: u32) {
    match char::from_u32(code) {
        Some(character) => {
            bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        None => bytes.extend_from_slice(&[
            0xE0 | low_byte(code >> 12),
            0x80 | low_byte(code >> 6) & 0x3F,
            0x80 | low_byte(code) & 0x3F,
        ]),
    }
}

fn low_byte(number: u32) -> u8 {
    number.to_le_bytes()[0]
}

impl Ord for Text {
    /// By code point.
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(Form::Utf8(text.to_owned()))
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(Form::Utf8(text))
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.as_bytes()), formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(codes: &[u32]) -> Text {
        let mut bytes = Vec::new();
        for &code in codes {
            push_code_point(&mut bytes, code);
        }
        Text::from_extended_utf8(bytes).unwrap()
    }

    #[test]
    fn every_code_point_survives_and_keeps_its_place_in_the_order() {
        let codes: Vec<u32> = (0..0x11_0000).step_by(7).chain([0x10_FFFF]).collect();
        for pair in codes.windows(2) {
            let (one, two) = (text(&pair[..1]), text(&pair[1..]));
            assert_eq!(one.code_points().collect::<Vec<_>>(), &pair[..1]);
            assert!(one < two, "{:x} {:x}", pair[0], pair[1]);
        }
    }

    #[test]
    fn a_pair_written_one_by_one_is_not_the_character() {
        let pair = text(&[0xD83D, 0xDE00]);
        assert_ne!(pair, Text::from("\u{1F600}"));
        assert_eq!(pair.as_str(), None);
        assert_eq!(pair.code_points().collect::<Vec<_>>(), [0xD83D, 0xDE00]);
    }

    #[test]
    fn bytes_outside_extended_utf8_are_refused() {
        for bytes in [
            &b"\xFF"[..],
            b"\x80",
            b"\xC0\x80",
            b"\xC1\xBF",
            b"\xC3",
            b"\xE0\x9F\xBF",
            b"\xE2\x82",
            b"\xED\xA0",
            b"\xED\xA0\x80\xFF",
            b"\xF0\x8F\xBF\xBF",
            b"\xF4\x90\x80\x80",
            b"\xF5\x80\x80\x80",
        ] {
            assert_eq!(Text::from_extended_utf8(bytes.to_vec()), None, "{bytes:x?}");
        }
    }
}
