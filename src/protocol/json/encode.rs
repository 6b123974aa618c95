//! From a [`Json`] value to text.
//!
//! The encoder keeps its own stack and refuses the nesting that the parser refuses.

use std::fmt::Write;
use std::slice;

use super::float::write_float;
use super::text::plain_bytes;
use super::{Json, Text};
use crate::protocol::error::ProtocolError;
use crate::protocol::limits::MAX_NESTING;

type Result<T> = std::result::Result<T, ProtocolError>;

/// How a value is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// No blanks, all text as it is. Lone surrogates cannot be written.
    Compact,
    /// As compact, but with a blank behind each comma and colon.
    Spaced,
    /// One member a line, two blanks for each level, ASCII only. Takes any text.
    Indented,
}

/// A container with members that are not written yet.
struct Open<'a> {
    rest: Rest<'a>,
    is_first: bool,
}

enum Rest<'a> {
    Array(slice::Iter<'a, Json>),
    Object(slice::Iter<'a, (Text, Json)>),
}

impl<'a> Rest<'a> {
    /// The next value, with its key where there are keys.
    fn next(&mut self) -> Option<(Option<&'a Text>, &'a Json)> {
        match self {
            Self::Array(items) => items.next().map(|value| (None, value)),
            Self::Object(members) => members.next().map(|(key, value)| (Some(key), value)),
        }
    }

    fn brackets(&self) -> (char, char) {
        match self {
            Self::Array(_) => ('[', ']'),
            Self::Object(_) => ('{', '}'),
        }
    }
}

/// Appends a value that stands below `outer` levels of others.
///
/// # Errors
/// [`ProtocolError::InvalidMessage`] for text that the layout cannot express,
/// [`ProtocolError::Malformed`] for nesting beyond [`MAX_NESTING`].
pub(crate) fn write_json(
    out: &mut String,
    value: &Json,
    outer: usize,
    layout: Layout,
) -> Result<()> {
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut current = value;
    loop {
        if let Some(rest) = write_scalar_or_enter(out, current, layout)? {
            if outer + open.len() >= MAX_NESTING {
                return Err(ProtocolError::Malformed);
            }
            out.push(rest.brackets().0);
            open.push(Open {
                rest,
                is_first: true,
            });
        }
        current = loop {
            let depth = open.len();
            let Some(container) = open.last_mut() else {
                return Ok(());
            };
            if let Some((key, value)) = container.rest.next() {
                if !std::mem::replace(&mut container.is_first, false) {
                    out.push_str(match layout {
                        Layout::Spaced => ", ",
                        Layout::Compact | Layout::Indented => ",",
                    });
                }
                break_line(out, layout, depth);
                if let Some(key) = key {
                    write_key(out, key, layout)?;
                }
                break value;
            }
            if !container.is_first {
                break_line(out, layout, depth - 1);
            }
            out.push(container.rest.brackets().1);
            open.pop();
        };
    }
}

fn write_scalar_or_enter<'a>(
    out: &mut String,
    value: &'a Json,
    layout: Layout,
) -> Result<Option<Rest<'a>>> {
    match value {
        Json::Null => out.push_str("null"),
        Json::Bool(true) => out.push_str("true"),
        Json::Bool(false) => out.push_str("false"),
        Json::Int(number) => {
            // Writing into a string cannot fail.
            let _ = write!(out, "{number}");
        }
        Json::Float(number) => write_float(out, *number),
        Json::String(text) => write_text(out, text, layout)?,
        Json::Array(items) => return Ok(Some(Rest::Array(items.iter()))),
        Json::Object(members) => return Ok(Some(Rest::Object(members.iter()))),
    }
    Ok(None)
}

fn break_line(out: &mut String, layout: Layout, depth: usize) {
    if layout == Layout::Indented {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    }
}

fn write_key(out: &mut String, key: &Text, layout: Layout) -> Result<()> {
    write_text(out, key, layout)?;
    out.push_str(match layout {
        Layout::Compact => ":",
        Layout::Spaced | Layout::Indented => ": ",
    });
    Ok(())
}

fn write_text(out: &mut String, text: &Text, layout: Layout) -> Result<()> {
    match layout {
        Layout::Compact | Layout::Spaced => {
            write_string(out, text.as_str().ok_or(ProtocolError::InvalidMessage)?);
        }
        Layout::Indented => write_ascii_string(out, text),
    }
    Ok(())
}

/// Appends a string with its quotes; only quotes, backslashes and control characters are escaped.
pub(crate) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    while let Some(position) = plain_bytes(rest.as_bytes()) {
        let (plain, tail) = rest.split_at(position);
        out.push_str(plain);
        let mut characters = tail.chars();
        if let Some(character) = characters.next() {
            write_escape(out, u32::from(character));
        }
        rest = characters.as_str();
    }
    out.push_str(rest);
    out.push('"');
}

/// Appends a string with its quotes; everything outside printable ASCII is escaped.
fn write_ascii_string(out: &mut String, text: &Text) {
    out.push('"');
    for code in text.code_points() {
        match char::from_u32(code) {
            Some(plain @ ' '..='~') if plain != '"' && plain != '\\' => out.push(plain),
            Some(wide) if code > 0xFFFF => {
                for unit in wide.encode_utf16(&mut [0; 2]) {
                    write_escape(out, u32::from(*unit));
                }
            }
            _ => write_escape(out, code),
        }
    }
    out.push('"');
}

fn write_escape(out: &mut String, code: u32) {
    match code {
        0x08 => out.push_str("\\b"),
        0x09 => out.push_str("\\t"),
        0x0A => out.push_str("\\n"),
        0x0C => out.push_str("\\f"),
        0x0D => out.push_str("\\r"),
        0x22 => out.push_str("\\\""),
        0x5C => out.push_str("\\\\"),
        _ => {
            // Writing into a string cannot fail.
            let _ = write!(out, "\\u{code:04x}");
        }
    }
}
