//! Which home of boards is meant: the option, else the configuration, else Hermes' own variables.

use std::path::Path;

use crate::board::hermes::{HermesBoards, HomeValues, Settings};
use crate::config::Environment;
use crate::faults::Faults;

use super::failure::Failure;

/// The boards below the configured home, or below the one that Hermes itself would take.
pub(super) fn boards(
    configured: Option<&Path>,
    environment: &Environment,
    faults: Faults,
) -> Result<HermesBoards, Failure> {
    let values = HomeValues {
        kanban_home: configured
            .map(|home| home.as_os_str().to_owned())
            .or_else(|| environment.get("HERMES_KANBAN_HOME").cloned()),
        hermes_home: environment.get("HERMES_HOME").cloned(),
        user_home: environment
            .get("HOME")
            .filter(|home| !home.is_empty())
            .map(Into::into),
    };
    let root = values.resolve().map_err(Failure::failed)?;
    let settings = Settings {
        faults,
        ..Settings::default()
    };
    Ok(HermesBoards::new(root, settings))
}
