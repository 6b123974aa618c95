//! A compact object that is written member by member.
//!
//! For the few texts that are made for every message: no value stands in between. Its members come in the order of their
//! names; this is for the writer to see to.

use std::fmt::{Display, Write};

use super::encode::write_string;

/// An object whose end is not written yet.
pub(crate) struct Members {
    text: String,
}

impl Members {
    /// An object without members, with room for this many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        let mut text = String::with_capacity(bytes);
        text.push('{');
        Self { text }
    }

    /// Writes a name, which needs no escapes, and returns the text so far: the member's value is to be appended to it.
    pub(crate) fn value(&mut self, name: &str) -> &mut String {
        if self.text.len() > 1 {
            self.text.push(',');
        }
        self.text.push('"');
        self.text.push_str(name);
        self.text.push_str("\":");
        &mut self.text
    }

    /// A member whose value is a string.
    pub(crate) fn string(&mut self, name: &str, value: &str) {
        write_string(self.value(name), value);
    }

    /// A member whose value is an integer.
    pub(crate) fn integer(&mut self, name: &str, value: impl Display) {
        // Writing into a string cannot fail.
        let _ = write!(self.value(name), "{value}");
    }

    /// How many bytes are written.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// The whole object.
    pub(crate) fn end(self) -> String {
        let mut text = self.text;
        text.push('}');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Json, canonical_text};

    #[test]
    fn members_are_written_as_those_of_a_value() {
        let mut members = Members::with_capacity(0);
        members.integer("a", -1);
        members.string("b", "\"\\\n\u{e9}");
        members.value("c").push_str("[]");
        let value = Json::object([
            ("a", Json::from(-1_i64)),
            ("b", Json::from("\"\\\n\u{e9}")),
            ("c", Json::Array(Vec::new())),
        ]);
        assert_eq!(members.end(), canonical_text(&value).unwrap());
        assert_eq!(Members::with_capacity(0).end(), "{}");
    }
}
