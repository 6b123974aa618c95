//! Reads single values and gathers what is wrong with them, so that all of it can be told at once.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use toml::Value;

use super::layers::{Environment, Given, Layers};
use super::problem::Problem;

/// Reads from the layers; every method that finds a value wrong notes it and answers `None`.
pub(super) struct Reader<'a> {
    layers: Layers<'a>,
    /// Relative paths count from here.
    folder: &'a Path,
    /// `~` is this folder.
    home: Option<PathBuf>,
    problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(layers: Layers<'a>, folder: &'a Path, environment: &Environment) -> Self {
        let home = environment
            .get("HOME")
            .filter(|home| !home.is_empty())
            .map(PathBuf::from);
        Self {
            problems: layers.unknown(),
            layers,
            folder,
            home,
        }
    }

    /// All that was wrong.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    /// Notes a problem that lies between several values.
    pub(super) fn note(&mut self, section: &str, key: &str, what: impl Into<String>) {
        self.problems.push(Problem {
            at: format!("{section}.{key}"),
            what: what.into(),
        });
    }

    /// A whole number within limits.
    pub(super) fn number<T: TryFrom<i64>>(
        &mut self,
        section: &str,
        key: &str,
        allowed: RangeInclusive<i64>,
    ) -> Option<T> {
        let must = if allowed == (i64::MIN..=i64::MAX) {
            "must be a whole number".to_owned()
        } else {
            format!(
                "must be a whole number from {} to {}",
                allowed.start(),
                allowed.end()
            )
        };
        let read = |given: &Given<'_>| match given {
            Given::Toml(Value::Integer(number)) => Some(*number),
            Given::Toml(_) => None,
            Given::Variable(_, text) => text.to_str()?.trim().parse().ok(),
        };
        self.read(section, key, &must, |given| {
            read(given)
                .filter(|number| allowed.contains(number))
                .and_then(|number| T::try_from(number).ok())
        })
    }

    /// A text that `parse` accepts; `must` says which those are.
    pub(super) fn text<T>(
        &mut self,
        section: &str,
        key: &str,
        must: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        self.read(section, key, must, |given| match given {
            Given::Toml(Value::String(text)) => parse(text),
            Given::Toml(_) => None,
            Given::Variable(_, text) => parse(text.to_str()?),
        })
    }

    /// A list of texts, each of which `parse` accepts, none twice.
    pub(super) fn list<T: PartialEq>(
        &mut self,
        section: &str,
        key: &str,
        must: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<Vec<T>> {
        let distinct = |items: Vec<T>| {
            let repeated = items
                .iter()
                .enumerate()
                .any(|(index, item)| items.iter().take(index).any(|earlier| earlier == item));
            (!repeated).then_some(items)
        };
        self.read(section, key, must, |given| match given {
            Given::Toml(Value::Array(items)) => items
                .iter()
                .map(|item| parse(item.as_str()?))
                .collect::<Option<Vec<T>>>()
                .and_then(distinct),
            Given::Toml(_) => None,
            Given::Variable(_, text) => text
                .to_str()?
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(&parse)
                .collect::<Option<Vec<T>>>()
                .and_then(distinct),
        })
    }

    /// A path, made to count from the right folder; the empty one is `None` within.
    pub(super) fn optional_path(&mut self, section: &str, key: &str) -> Option<Option<PathBuf>> {
        let (folder, home) = (self.folder, self.home.clone());
        let must =
            "must be a path; of paths that start with ~ only ~ and ~/... work, and need HOME";
        self.text(section, key, must, |text| {
            let text = text.trim();
            if text.is_empty() {
                return Some(None);
            }
            let path = match text.strip_prefix('~') {
                None => PathBuf::from(text),
                Some("") => home.clone()?,
                Some(rest) => home.as_ref()?.join(rest.strip_prefix('/')?),
            };
            Some(Some(folder.join(path)))
        })
    }

    /// A path that must be given.
    pub(super) fn path(&mut self, section: &str, key: &str) -> Option<PathBuf> {
        let path = self.optional_path(section, key)?;
        if path.is_none() {
            self.note(section, key, "must be a path, but is empty");
        }
        path
    }

    fn read<T>(
        &mut self,
        section: &str,
        key: &str,
        must: &str,
        read: impl Fn(&Given<'_>) -> Option<T>,
    ) -> Option<T> {
        let given = self.layers.find(section, key)?;
        let value = read(&given);
        if value.is_none() {
            let given = shown(&given);
            self.note(section, key, format!("{must}, but is {given}"));
        }
        value
    }
}

/// The longest part of a wrong value that is repeated to its author.
const SHOWN_CHARACTERS: usize = 80;

fn shown(given: &Given<'_>) -> String {
    let cut = |text: &str| text.chars().take(SHOWN_CHARACTERS).collect::<String>();
    match given {
        Given::Toml(Value::String(text)) => format!("{:?}", cut(text)),
        Given::Toml(value) => cut(&value.to_string()).replace('\n', " "),
        Given::Variable(name, text) => {
            format!("{:?} in the variable {name}", cut(&text.to_string_lossy()))
        }
    }
}
