//! How a command fails: what it tells, and with which exit code.

use std::process::ExitCode;

use crate::config::ConfigError;

/// Why a command did not do what it was asked for. The text says what to do about it.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command was given wrongly, or the configuration is wrong.
    Usage(String),
    /// It was given rightly and could not be done.
    Failed(String),
}

impl Failure {
    /// A failure that is nobody's mistake in writing.
    pub(super) fn failed(text: impl ToString) -> Self {
        Self::Failed(text.to_string())
    }

    pub(super) fn text(&self) -> &str {
        match self {
            Self::Usage(text) | Self::Failed(text) => text,
        }
    }

    pub(super) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Failed(_) => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
        }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}
