//! Where a value comes from: the environment before the file before the built-in defaults.
//!
//! The annotated default file is the one list of what exists. A key that it does not hold is unknown, wherever it stands.

use std::collections::BTreeMap;
use std::ffi::OsString;

use toml::{Table, Value};

use super::problem::{ConfigError, Problem};

/// The annotated default configuration.
pub const DEFAULT_TOML: &str = include_str!("../../config/pool.toml");

/// Variables by name. Handed in, so that tests need not change those of their process.
pub type Environment = BTreeMap<String, OsString>;

/// Every variable of ours starts with it. Those without a section's name after it are none of the configuration's: the
/// reference worker hands its command some.
const PREFIX: &str = "HERMES_POOL_";

/// A value as it was given.
pub(super) enum Given<'a> {
    /// In the file, or by default.
    Toml(&'a Value),
    /// By the variable of this name.
    Variable(String, &'a OsString),
}

/// All places that may give a value.
pub(super) struct Layers<'a> {
    environment: &'a Environment,
    file: Table,
    defaults: Table,
}

impl<'a> Layers<'a> {
    /// Parses the text of a file; `name` is what messages call it.
    pub(super) fn new(
        text: &str,
        name: &str,
        environment: &'a Environment,
    ) -> Result<Self, ConfigError> {
        Ok(Self {
            environment,
            file: parse(text, name)?,
            defaults: parse(DEFAULT_TOML, "the built-in configuration")?,
        })
    }

    /// The value that counts; `None` for a key that is not in the default file.
    pub(super) fn find(&self, section: &str, key: &str) -> Option<Given<'_>> {
        let variable = variable(section, key);
        if let Some(text) = self.environment.get(&variable) {
            return Some(Given::Variable(variable, text));
        }
        entry(&self.file, section, key)
            .or_else(|| entry(&self.defaults, section, key))
            .map(Given::Toml)
    }

    /// Everything that was given and means nothing.
    pub(super) fn unknown(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (section, value) in &self.file {
            let Some(Value::Table(known)) = self.defaults.get(section) else {
                problems.push(Problem {
                    at: section.clone(),
                    what: format!("unknown section; known are {}", names(&self.defaults)),
                });
                continue;
            };
            let Value::Table(keys) = value else {
                problems.push(Problem {
                    at: section.clone(),
                    what: format!("must be a section: write [{section}] and its keys below it"),
                });
                continue;
            };
            for key in keys.keys().filter(|key| !known.contains_key(*key)) {
                problems.push(Problem {
                    at: format!("{section}.{key}"),
                    what: format!("unknown key; [{section}] has {}", names(known)),
                });
            }
        }
        problems.extend(self.unknown_variables());
        problems
    }

    fn unknown_variables(&self) -> impl Iterator<Item = Problem> {
        self.environment.keys().filter_map(|name| {
            let rest = name.strip_prefix(PREFIX)?;
            let (section, known) = self.defaults.iter().find_map(|(section, value)| {
                let key = rest.strip_prefix(&section.to_uppercase())?;
                key.starts_with('_').then_some((section, value.as_table()?))
            })?;
            let is_known = known.keys().any(|key| variable(section, key) == *name);
            (!is_known).then(|| Problem {
                at: name.clone(),
                what: format!("unknown variable; [{section}] has {}", names(known)),
            })
        })
    }
}

/// The variable that overrides a key.
fn variable(section: &str, key: &str) -> String {
    format!("{PREFIX}{section}_{key}").to_uppercase()
}

fn entry<'a>(table: &'a Table, section: &str, key: &str) -> Option<&'a Value> {
    table.get(section)?.as_table()?.get(key)
}

fn names(table: &Table) -> String {
    let names: Vec<&str> = table.keys().map(String::as_str).collect();
    names.join(", ")
}

fn parse(text: &str, name: &str) -> Result<Table, ConfigError> {
    text.parse::<Table>().map_err(|error| {
        let before = error
            .span()
            .and_then(|span| text.get(..span.start))
            .unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        ConfigError::Syntax {
            place: format!("{name}:{line}:{column}"),
            message: error.message().replace('\n', " "),
        }
    })
}
