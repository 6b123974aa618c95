//! Text as Hermes counts, trims and writes it: by characters, with the white space of its language.

use crate::board::BoardError;
use crate::protocol::{Json, Object, parse_json, spaced_json};

/// Whether Hermes takes a character for white space: Unicode's, and the four separators of ASCII.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

/// Whether a character ends a line.
fn ends_line(character: char) -> bool {
    matches!(
        character,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// The text without white space at its ends.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches(is_blank)
}

/// The text without white space at its end.
pub(super) fn trim_end(text: &str) -> &str {
    text.trim_end_matches(is_blank)
}

/// An assignee in the form in which lanes are compared.
pub(super) fn normalised(assignee: &str) -> String {
    trim(assignee).to_lowercase()
}

/// The first line of the trimmed text, at most `limit` characters of it.
pub(super) fn first_line(text: &str, limit: usize) -> &str {
    let line = trim(text).split(ends_line).next().unwrap_or_default();
    cut(line, limit)
}

/// The first `limit` characters.
pub(super) fn cut(text: &str, limit: usize) -> &str {
    match text.char_indices().nth(limit) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// How many characters the text has.
pub(super) fn length(text: &str) -> usize {
    text.chars().count()
}

/// JSON as it stands in Hermes' tables.
///
/// # Errors
/// [`BoardError::Refused`] for text that no table can hold (lone surrogates), as Hermes does.
pub(super) fn json(value: &Json) -> Result<String, BoardError> {
    spaced_json(value).map_err(|error| BoardError::Refused(error.to_string()))
}

/// An object as it stands in Hermes' tables: NULL where it is empty.
///
/// # Errors
/// As [`json`].
pub(super) fn json_object(members: &Object) -> Result<Option<String>, BoardError> {
    if members.is_empty() {
        return Ok(None);
    }
    json(&Json::Object(members.clone())).map(Some)
}

/// Reads JSON out of a table; what cannot be read is as good as absent.
pub(super) fn parse(text: Option<&str>) -> Option<Json> {
    text.filter(|text| !text.is_empty())
        .and_then(|text| parse_json(text.as_bytes()).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_characters() {
        assert_eq!(cut("größe", 3), "grö");
        assert_eq!(cut("größe", 5), "größe");
        assert_eq!(cut("", 5), "");
        assert_eq!(length("größe"), 5);
    }

    #[test]
    fn a_first_line_ends_where_hermes_ends_it() {
        for (text, line) in [
            ("  one\r\ntwo", "one"),
            ("\u{1f}one\u{2028}two", "one"),
            ("one\u{b}two", "one"),
            ("", ""),
            ("\n \n", ""),
            ("abcdef", "abcd"),
        ] {
            assert_eq!(first_line(text, 4), line, "{text:?}");
        }
    }

    #[test]
    fn json_is_spaced_and_keeps_its_characters() {
        let value = parse(Some(r#"{"b":[1,2.0,"ü\n"],"a":null}"#)).unwrap();
        assert_eq!(
            json(&value).unwrap(),
            r#"{"a": null, "b": [1, 2.0, "ü\n"]}"#
        );
        assert_eq!(json_object(&Object::new()).unwrap(), None);
        assert_eq!(parse(Some("{")), None);
    }
}
