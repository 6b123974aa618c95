//! From text to a [`Json`] value, with the leniency of the reference.
//!
//! `NaN`, `Infinity`, `-Infinity` and lone surrogates are accepted, and the last of several equal
//! keys wins. The parser keeps the containers that are open in a vector, so that hostile nesting
//! costs heap up to a limit, and never the stack.

use super::decode::decode;
use super::text::{plain_bytes, push_code_point};
use super::{Integer, Json, Object, Text};
use crate::protocol::error::ProtocolError;
use crate::protocol::limits::MAX_NESTING;

type Result<T> = std::result::Result<T, ProtocolError>;

const MALFORMED: ProtocolError = ProtocolError::Malformed;
/// Room for the members of an envelope.
const USUAL_MEMBERS: usize = 13;

/// Reads a JSON document in any of its encodings.
///
/// # Errors
/// [`ProtocolError::Malformed`] for everything that is not JSON, nests deeper than
/// [`MAX_NESTING`] or holds an integer of too many digits.
pub fn parse_json(bytes: &[u8]) -> Result<Json> {
    let text = decode(bytes).ok_or(MALFORMED)?;
    let mut parser = Parser {
        bytes: &text,
        position: 0,
    };
    let value = parser.document()?;
    parser.skip_whitespace();
    match parser.peek() {
        None => Ok(value),
        Some(_) => Err(MALFORMED),
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// A container whose end has not been read.
enum Open {
    Array(Vec<Json>),
    /// The members so far, and the key of the one being read.
    Object(Vec<(Text, Json)>, Text),
}

/// What stands at the beginning of a value.
enum Begun {
    Whole(Json),
    Container(Open),
}

impl<'a> Parser<'a> {
    fn document(&mut self) -> Result<Json> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            match self.begin_value(open.len())? {
                Begun::Container(container) => open.push(container),
                Begun::Whole(value) => {
                    if let Some(document) = self.close_value(&mut open, value)? {
                        return Ok(document);
                    }
                }
            }
        }
    }

    /// Puts a value that is complete into the innermost container and closes all that end here.
    /// Returns the document when nothing is open any more.
    fn close_value(&mut self, open: &mut Vec<Open>, mut value: Json) -> Result<Option<Json>> {
        while let Some(container) = open.pop() {
            self.skip_whitespace();
            let delimiter = self.next().ok_or(MALFORMED)?;
            value = match (container, delimiter) {
                (Open::Array(mut items), b',') => {
                    items.push(value);
                    open.push(Open::Array(items));
                    return Ok(None);
                }
                (Open::Array(mut items), b']') => {
                    items.push(value);
                    Json::Array(items)
                }
                (Open::Object(mut members, key), b',') => {
                    members.push((key, value));
                    self.skip_whitespace();
                    let key = self.key()?;
                    open.push(Open::Object(members, key));
                    return Ok(None);
                }
                (Open::Object(mut members, key), b'}') => {
                    members.push((key, value));
                    Json::object(members)
                }
                _ => return Err(MALFORMED),
            };
        }
        Ok(Some(value))
    }

    /// Reads a scalar or an empty container as a whole, and of any other container the beginning.
    fn begin_value(&mut self, depth: usize) -> Result<Begun> {
        self.skip_whitespace();
        let whole = match self.peek().ok_or(MALFORMED)? {
            b'[' | b'{' if depth >= MAX_NESTING => return Err(MALFORMED),
            b'[' => return self.begin_array(),
            b'{' => return self.begin_object(),
            b'"' => {
                self.position += 1;
                Json::String(self.string()?)
            }
            b'n' => self.literal("null", Json::Null)?,
            b't' => self.literal("true", Json::Bool(true))?,
            b'f' => self.literal("false", Json::Bool(false))?,
            b'N' => self.literal("NaN", Json::Float(f64::NAN))?,
            b'I' => self.literal("Infinity", Json::Float(f64::INFINITY))?,
            _ => self.number()?,
        };
        Ok(Begun::Whole(whole))
    }

    fn begin_array(&mut self) -> Result<Begun> {
        self.position += 1;
        self.skip_whitespace();
        if self.take(b']') {
            return Ok(Begun::Whole(Json::Array(Vec::new())));
        }
        Ok(Begun::Container(Open::Array(Vec::new())))
    }

    fn begin_object(&mut self) -> Result<Begun> {
        self.position += 1;
        self.skip_whitespace();
        if self.take(b'}') {
            return Ok(Begun::Whole(Json::Object(Object::new())));
        }
        let key = self.key()?;
        let members = Vec::with_capacity(USUAL_MEMBERS);
        Ok(Begun::Container(Open::Object(members, key)))
    }

    /// A key and the colon behind it.
    fn key(&mut self) -> Result<Text> {
        if !self.take(b'"') {
            return Err(MALFORMED);
        }
        let key = self.string()?;
        self.skip_whitespace();
        if self.take(b':') {
            Ok(key)
        } else {
            Err(MALFORMED)
        }
    }

    fn literal(&mut self, spelling: &str, value: Json) -> Result<Json> {
        if !self.rest().starts_with(spelling.as_bytes()) {
            return Err(MALFORMED);
        }
        self.position += spelling.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Json> {
        let start = self.position;
        let negative = self.take(b'-');
        if negative && self.peek() == Some(b'I') {
            return self.literal("Infinity", Json::Float(f64::NEG_INFINITY));
        }
        // Nothing that may follow a number begins with a digit, so a second digit is refused there.
        if !self.take(b'0') {
            self.digits()?;
        }
        let mut is_float = false;
        if self.take(b'.') {
            is_float = true;
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            is_float = true;
            let _sign = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        let spelling = self.bytes.get(start..self.position).unwrap_or_default();
        let spelling = str::from_utf8(spelling).map_err(|_| MALFORMED)?;
        if is_float {
            spelling.parse().map(Json::Float).map_err(|_| MALFORMED)
        } else {
            Integer::parse(spelling).map(Json::Int).ok_or(MALFORMED)
        }
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<()> {
        let rest = self.rest();
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.position += count;
        if count == 0 { Err(MALFORMED) } else { Ok(()) }
    }

    /// The content of a string whose opening quote has been read, up to its closing quote.
    fn string(&mut self) -> Result<Text> {
        let mut content = self.plain_characters()?.to_vec();
        loop {
            match self.next() {
                Some(b'"') => return Text::from_extended_utf8(content).ok_or(MALFORMED),
                Some(b'\\') => self.escape(&mut content)?,
                _ => return Err(MALFORMED),
            }
            content.extend_from_slice(self.plain_characters()?);
        }
    }

    /// What stands as it is, up to a quote, a backslash or a control character.
    fn plain_characters(&mut self) -> Result<&'a [u8]> {
        let rest = self.rest();
        let plain = plain_bytes(rest).ok_or(MALFORMED)?;
        self.position += plain;
        Ok(rest.get(..plain).unwrap_or_default())
    }

    fn escape(&mut self, content: &mut Vec<u8>) -> Result<()> {
        let byte = match self.next().ok_or(MALFORMED)? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let code = self.escaped_code_point()?;
                push_code_point(content, code);
                return Ok(());
            }
            _ => return Err(MALFORMED),
        };
        content.push(byte);
        Ok(())
    }

    /// The code point of an escape, joined with a second escape if the two are a surrogate pair.
    fn escaped_code_point(&mut self) -> Result<u32> {
        let high = self.four_hex_digits()?;
        if !(0xD800..0xDC00).contains(&high) || !self.rest().starts_with(b"\\u") {
            return Ok(high);
        }
        let after_high = self.position;
        self.position += 2;
        let low = self.four_hex_digits()?;
        if (0xDC00..0xE000).contains(&low) {
            return Ok(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00));
        }
        self.position = after_high;
        Ok(high)
    }

    fn four_hex_digits(&mut self) -> Result<u32> {
        let digits = self.rest().first_chunk::<4>().ok_or(MALFORMED)?;
        let code = digits.iter().try_fold(0, |code, &digit| {
            char::from(digit)
                .to_digit(16)
                .map(|digit| code << 4 | digit)
        });
        self.position += 4;
        code.ok_or(MALFORMED)
    }

    fn skip_whitespace(&mut self) {
        let blank = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.position += self.rest().iter().take_while(blank).count();
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.position..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.position += 1;
        Some(byte)
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }
}
