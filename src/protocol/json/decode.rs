//! From the bytes of a document to one encoding.
//!
//! JSON may come in UTF-8, UTF-16 or UTF-32, with or without a byte order mark. Everything is
//! turned into extended UTF-8 (see [`super::text`]); a body that is UTF-8 already is not copied.
//! Whether the bytes of a string are well-formed is judged when the string is read: outside of
//! strings only ASCII is allowed anyway.

use std::borrow::Cow;

use super::text::push_code_point;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteOrder {
    Little,
    Big,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf16(ByteOrder),
    Utf32(ByteOrder),
}

/// The document in extended UTF-8, without its byte order mark; `None` if it cannot be decoded.
pub(crate) fn decode(bytes: &[u8]) -> Option<Cow<'_, [u8]>> {
    let (encoding, content) = detect(bytes);
    match encoding {
        Encoding::Utf8 => Some(Cow::Borrowed(content)),
        Encoding::Utf16(order) => decode_utf16(content, order).map(Cow::Owned),
        Encoding::Utf32(order) => decode_utf32(content, order).map(Cow::Owned),
    }
}

/// Tells the encoding by the mark or, without one, by the zero bytes at the beginning: a document
/// begins with an ASCII character. The second value is what follows the mark.
fn detect(bytes: &[u8]) -> (Encoding, &[u8]) {
    use ByteOrder::{Big, Little};
    use Encoding::{Utf8, Utf16, Utf32};
    match bytes {
        // The mark of UTF-32 begins like that of UTF-16 and has to be looked for first.
        [0, 0, 0xFE, 0xFF, rest @ ..] => (Utf32(Big), rest),
        [0xFF, 0xFE, 0, 0, rest @ ..] => (Utf32(Little), rest),
        [0xFE, 0xFF, rest @ ..] => (Utf16(Big), rest),
        [0xFF, 0xFE, rest @ ..] => (Utf16(Little), rest),
        [0xEF, 0xBB, 0xBF, rest @ ..] => (Utf8, rest),
        [0, 0, _, _, ..] => (Utf32(Big), bytes),
        [0, _, _, _, ..] | [0, _] => (Utf16(Big), bytes),
        [_, 0, 0, 0, ..] => (Utf32(Little), bytes),
        [_, 0, _, _, ..] | [_, 0] => (Utf16(Little), bytes),
        _ => (Utf8, bytes),
    }
}

fn decode_utf16(bytes: &[u8], order: ByteOrder) -> Option<Vec<u8>> {
    let (units, odd) = bytes.as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    let units = units.iter().map(|&unit| match order {
        ByteOrder::Little => u16::from_le_bytes(unit),
        ByteOrder::Big => u16::from_be_bytes(unit),
    });
    let mut out = Vec::with_capacity(bytes.len());
    for decoded in char::decode_utf16(units) {
        let code = decoded.map_or_else(|lone| u32::from(lone.unpaired_surrogate()), u32::from);
        push_code_point(&mut out, code);
    }
    Some(out)
}

fn decode_utf32(bytes: &[u8], order: ByteOrder) -> Option<Vec<u8>> {
    let (codes, odd) = bytes.as_chunks::<4>();
    if !odd.is_empty() {
        return None;
    }
    let mut out = Vec::with_capacity(bytes.len());
    for &code in codes {
        let code = match order {
            ByteOrder::Little => u32::from_le_bytes(code),
            ByteOrder::Big => u32::from_be_bytes(code),
        };
        if code > u32::from(char::MAX) {
            return None;
        }
        push_code_point(&mut out, code);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_mark_the_zero_bytes_decide() {
        use ByteOrder::{Big, Little};
        for (bytes, encoding) in [
            (&b""[..], Encoding::Utf8),
            (b"\0", Encoding::Utf8),
            (b"\0a", Encoding::Utf16(Big)),
            (b"1\0", Encoding::Utf16(Little)),
            (b"\0\0", Encoding::Utf16(Big)),
            (b"\0{}", Encoding::Utf8),
            (b"\0{\0}", Encoding::Utf16(Big)),
            (b"{\0}\0", Encoding::Utf16(Little)),
            (b"{\0\0}", Encoding::Utf16(Little)),
            (b"{\0\0\0", Encoding::Utf32(Little)),
            (b"\0\0\0{", Encoding::Utf32(Big)),
            (b"\0\0\0\0", Encoding::Utf32(Big)),
        ] {
            assert_eq!(detect(bytes), (encoding, bytes), "{bytes:x?}");
        }
    }
}
