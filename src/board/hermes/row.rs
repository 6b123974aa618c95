//! Lenient decoding of rows.
//!
//! SQLite keeps what was written, whatever the column says: INTEGER columns have been seen holding numeric texts, ISO dates
//! and garbage. What cannot be understood reads as absent, so that one bad row never hides the others; where a value is
//! needed, its absence is judged by whoever needs it.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::cell::Cell;

/// Characters that are shown of a value that cannot be understood.
const SHOWN_CHARACTERS: usize = 60;

/// A text; numbers are spelled out.
pub(super) fn text(row: &Row<'_>, column: &str) -> Option<String> {
    match row.get_ref(column).ok()? {
        ValueRef::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        ValueRef::Integer(number) => Some(number.to_string()),
        ValueRef::Real(number) => Some(number.to_string()),
        ValueRef::Null | ValueRef::Blob(_) => None,
    }
}

/// The name of a row in its own column, fit to be told. One that is no text has none: its number stands for it, in a form
/// that no task can have.
pub(super) fn name(row: &Row<'_>, column: &str, number: &str) -> String {
    text(row, column).unwrap_or_else(|| {
        let number = integer(row, number).unwrap_or_default();
        format!("row {number}, which has no name")
    })
}

/// What stands in a column, if anything does, for people.
pub(super) fn anything(row: &Row<'_>, column: &str) -> Option<String> {
    match row.get_ref(column).ok()? {
        ValueRef::Null => None,
        ValueRef::Blob(bytes) => Some(format!("a blob of {} bytes", bytes.len())),
        _ => text(row, column),
    }
}

/// A text that evidence rests on: nothing that is no text is read as one.
pub(super) fn text_cell(row: &Row<'_>, column: &'static str) -> Cell<String> {
    match row.get_ref(column) {
        Ok(ValueRef::Null) => Cell::Nothing,
        Ok(ValueRef::Text(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => Cell::Value(text.to_owned()),
            Err(_) => unclear(row, column),
        },
        _ => unclear(row, column),
    }
}

/// A whole number that evidence rests on: only one that stands there as it is, in digits or not.
pub(super) fn integer_cell(row: &Row<'_>, column: &'static str) -> Cell<i64> {
    let number = match row.get_ref(column) {
        Ok(ValueRef::Null) => return Cell::Nothing,
        Ok(ValueRef::Integer(_) | ValueRef::Text(_)) => integer(row, column),
        _ => None,
    };
    number.map_or_else(|| unclear(row, column), Cell::Value)
}

fn unclear<T>(row: &Row<'_>, column: &str) -> Cell<T> {
    let shown: String = match row.get_ref(column) {
        Ok(ValueRef::Text(bytes)) => bytes
            .escape_ascii()
            .take(SHOWN_CHARACTERS)
            .map(char::from)
            .collect(),
        _ => anything(row, column).unwrap_or_default(),
    };
    Cell::Unclear(shown)
}

/// A whole number; fractions are cut off, numeric texts are read.
pub(super) fn integer(row: &Row<'_>, column: &str) -> Option<i64> {
    match row.get_ref(column).ok()? {
        ValueRef::Integer(number) => Some(number),
        // A cast saturates, so no value overflows here.
        ValueRef::Real(number) => number.is_finite().then_some(number as i64),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok()?.trim().parse().ok(),
        ValueRef::Null | ValueRef::Blob(_) => None,
    }
}

/// Whether a column holds what Hermes takes for true.
pub(super) fn truth(row: &Row<'_>, column: &str) -> bool {
    match row.get_ref(column) {
        Ok(ValueRef::Integer(number)) => number != 0,
        Ok(ValueRef::Real(number)) => number != 0.0,
        Ok(ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => !bytes.is_empty(),
        Ok(ValueRef::Null) | Err(_) => false,
    }
}
