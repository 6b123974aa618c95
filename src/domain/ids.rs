//! Names of things. Each is parsed once, where it enters, and is valid from then on.

use std::fmt;

/// A text that is no valid name for what it should name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no valid {what}")]
pub struct InvalidId {
    /// What the text should have named.
    pub what: &'static str,
    /// The text, cut to 80 characters.
    pub text: String,
}

impl InvalidId {
    fn new(what: &'static str, text: &str) -> Self {
        Self {
            what,
            text: text.chars().take(80).collect(),
        }
    }
}

/// What the wire protocol accepts as an identifier: ASCII, 1 to 128 characters, the first a letter or a digit.
fn is_signable(text: &str) -> bool {
    let mut bytes = text.bytes();
    text.len() <= 128
        && bytes
            .next()
            .is_some_and(|first| first.is_ascii_alphanumeric())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $valid:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            /// Takes a text that is a valid name.
            ///
            /// # Errors
            /// [`InvalidId`] for any other text.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                let valid: fn(&str) -> bool = $valid;
                if valid(text) { Ok(Self(text.to_owned())) } else { Err(InvalidId::new($what, text)) }
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// The name of a board: `[a-z0-9][a-z0-9_-]{0,63}`, already in its normal form.
    BoardSlug,
    "board",
    |text| {
        let mut bytes = text.bytes();
        text.len() <= 64
            && bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'))
    }
);
text_id!(
    /// The id of a task, of the kind that an envelope can carry.
    TaskId,
    "task id",
    is_signable
);
text_id!(
    /// The id of a run, of the kind that an envelope can carry. Hermes counts runs with integers.
    RunId,
    "run id",
    is_signable
);
text_id!(
    /// An assignee whose tasks this pool takes: lower case, trimmed.
    Lane,
    "lane",
    |text| !text.is_empty()
        && text.chars().count() <= 128
        && text.trim() == text
        && text.to_lowercase() == text
);

impl RunId {
    /// The number under which a Hermes board keeps this run; `None` for a run that is not from such a board.
    #[must_use]
    pub fn row_id(&self) -> Option<i64> {
        let number: i64 = self.0.parse().ok()?;
        // "+7" and "007" also parse; only the canonical spelling names a row.
        (number >= 0 && number.to_string() == self.0).then_some(number)
    }
}

impl From<u32> for RunId {
    fn from(number: u32) -> Self {
        Self(number.to_string())
    }
}

impl TryFrom<i64> for RunId {
    type Error = InvalidId;

    fn try_from(number: i64) -> Result<Self, InvalidId> {
        Self::parse(&number.to_string())
    }
}

/// One worker slot, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordinal(pub u16);

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number that fences an assignment. It starts at 1 and only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub i64);

impl Attempt {
    /// The first attempt of every assignment.
    pub const FIRST: Self = Self(1);

    /// The attempt after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One claimed attempt of a Kanban task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunKey {
    /// The board that holds the task.
    pub board: BoardSlug,
    /// The task.
    pub task: TaskId,
    /// The run of the task.
    pub run: RunId,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.board, self.task, self.run)
    }
}

/// The exact run of a task on its board, as every write there must name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRef {
    /// The task.
    pub task: TaskId,
    /// Its run.
    pub run: RunId,
}

impl From<&RunKey> for RunRef {
    fn from(key: &RunKey) -> Self {
        Self {
            task: key.task.clone(),
            run: key.run.clone(),
        }
    }
}

/// The exact holder of a run: which slot, under which attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// The run.
    pub key: RunKey,
    /// The slot that holds it.
    pub ordinal: Ordinal,
    /// The attempt under which it does.
    pub attempt: Attempt,
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ordinal={} attempt={}",
            self.key, self.ordinal, self.attempt
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_a_whole() {
        for (text, board, task) in [
            ("lab", true, true),
            ("Lab", false, true),
            ("0-a_b", true, true),
            ("-a", false, false),
            ("a.b", false, true),
            ("", false, false),
            ("a\n", false, false),
            ("ü", false, false),
        ] {
            assert_eq!(BoardSlug::parse(text).is_ok(), board, "board {text:?}");
            assert_eq!(TaskId::parse(text).is_ok(), task, "task {text:?}");
        }
        assert!(TaskId::parse(&"a".repeat(128)).is_ok());
        assert!(TaskId::parse(&"a".repeat(129)).is_err());
        assert!(BoardSlug::parse(&"a".repeat(65)).is_err());
    }

    #[test]
    fn only_the_canonical_spelling_of_a_run_names_a_row() {
        for (text, row) in [
            ("7", Some(7)),
            ("007", None),
            ("7a", None),
            ("0", Some(0)),
            ("99999999999999999999", None),
        ] {
            assert_eq!(RunId::parse(text).unwrap().row_id(), row, "{text}");
        }
    }

    #[test]
    fn a_lane_is_trimmed_and_lower_case() {
        for (text, valid) in [
            ("codex-cli", true),
            (" codex", false),
            ("Codex", false),
            ("", false),
            ("größe", true),
        ] {
            assert_eq!(Lane::parse(text).is_ok(), valid, "{text:?}");
        }
    }
}
