//! A column as it stands there: evidence must tell nothing from what cannot be understood.

use std::fmt;

/// What stands in a column that evidence rests on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cell<T> {
    /// NULL.
    #[default]
    Nothing,
    /// A value of the column's kind.
    Value(T),
    /// Something that no such column ever holds, as people may be shown it.
    Unclear(String),
}

impl<T> Cell<T> {
    /// The value, if there is one.
    #[must_use]
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Nothing | Self::Unclear(_) => None,
        }
    }
}

impl<T: fmt::Display> Cell<T> {
    /// The value, or what to tell of `column`.
    pub(super) fn known(&self, column: &str) -> Result<Option<&T>, String> {
        match self {
            Self::Nothing => Ok(None),
            Self::Value(value) => Ok(Some(value)),
            Self::Unclear(_) => Err(self.told(column)),
        }
    }

    /// The column, and that what stands in it cannot be understood.
    pub(super) fn told(&self, column: &str) -> String {
        match self {
            Self::Nothing => format!("{column} is NULL, which cannot be understood"),
            Self::Value(value) => format!("{column} holds {value}, which cannot be understood"),
            Self::Unclear(shown) => format!("{column} holds {shown}, which cannot be understood"),
        }
    }
}
