//! What can be wrong with a configuration, worded for the person who has to mend it.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// One thing that is wrong: where, what, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// `section.key`, or the name of a variable that means nothing.
    pub at: String,
    /// What is wrong and what is allowed.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.what)
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("configuration file {} cannot be read: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The file is not TOML.
    #[error("{place}: {message}")]
    Syntax {
        /// File, line and column, as `file:line:column`.
        place: String,
        /// What the parser expected.
        message: String,
    },
    /// Values that are not allowed: all of them, each on a line.
    #[error("{}", lines(.0))]
    Invalid(Vec<Problem>),
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    lines.join("\n")
}
