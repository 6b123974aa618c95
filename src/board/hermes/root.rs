//! Where Hermes keeps its boards, resolved as Hermes does it.
//!
//! Deliberately ignored: `HERMES_KANBAN_DB` and `HERMES_KANBAN_BOARD`. Hermes puts them into the environment of its workers,
//! and they would point every board at one file.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

/// The values that decide where the boards are. Whoever reads the environment fills this in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HomeValues {
    /// `HERMES_KANBAN_HOME`.
    pub kanban_home: Option<OsString>,
    /// `HERMES_HOME`.
    pub hermes_home: Option<OsString>,
    /// The user's home directory.
    pub user_home: Option<PathBuf>,
}

/// There is no home directory to look in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the home directory is unknown; set HERMES_KANBAN_HOME to the folder that holds the boards"
)]
pub struct NoHome;

impl HomeValues {
    /// The folder that holds the boards.
    ///
    /// # Errors
    /// [`NoHome`] where the answer depends on a home directory that is unknown.
    pub fn resolve(&self) -> Result<PathBuf, NoHome> {
        let kanban_home = trimmed(self.kanban_home.as_deref());
        if !kanban_home.is_empty() {
            return expand(&kanban_home, self.user_home.as_deref());
        }
        let native = self.user_home.as_deref().map(|home| home.join(".hermes"));
        let hermes_home = match self.hermes_home.as_deref() {
            Some(value) if !value.is_empty() => Path::new(value),
            _ => return native.ok_or(NoHome),
        };
        if let Some(native) = native
            && resolved(hermes_home).starts_with(resolved(&native))
        {
            return Ok(native);
        }
        Ok(match hermes_home.parent() {
            Some(parent) if parent.file_name() == Some(OsStr::new("profiles")) => {
                parent.parent().unwrap_or(Path::new("")).to_owned()
            }
            _ => hermes_home.to_owned(),
        })
    }
}

/// The value without white space at its ends; a value that is no text stays as it is.
fn trimmed(value: Option<&OsStr>) -> OsString {
    let value = value.unwrap_or_default();
    value
        .to_str()
        .map_or_else(|| value.to_owned(), |text| super::text::trim(text).into())
}

fn expand(value: &OsStr, user_home: Option<&Path>) -> Result<PathBuf, NoHome> {
    match Path::new(value).strip_prefix("~") {
        Ok(rest) => user_home
            .map(|home| home.join(rest).components().collect())
            .ok_or(NoHome),
        Err(_) => Ok(PathBuf::from(value)),
    }
}

/// The path with its symbolic links followed, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut known = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::ParentDir => {
                known.pop();
            }
            other => {
                known.push(other);
                if let Ok(real) = known.canonicalize() {
                    known = real;
                }
            }
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(kanban_home: &str, hermes_home: &str) -> String {
        let value = |text: &str| (!text.is_empty()).then(|| OsString::from(text));
        let values = HomeValues {
            kanban_home: value(kanban_home),
            hermes_home: value(hermes_home),
            user_home: Some(PathBuf::from("/home/u")),
        };
        values.resolve().unwrap().display().to_string()
    }

    #[test]
    fn the_first_value_that_says_something_wins() {
        for (kanban_home, hermes_home, root) in [
            (" /k ", "/h", "/k"),
            ("~/k", "", "/home/u/k"),
            ("~", "", "/home/u"),
            ("  ", "/opt/data", "/opt/data"),
            ("", "", "/home/u/.hermes"),
            ("", "/home/u/.hermes", "/home/u/.hermes"),
            ("", "/home/u/.hermes/profiles/coder", "/home/u/.hermes"),
            ("", "/home/u/.hermes/../.hermes/x", "/home/u/.hermes"),
            ("", "/opt/data/profiles/coder", "/opt/data"),
            ("", "/opt/data/profiles", "/opt/data/profiles"),
            ("", "~/x", "~/x"),
        ] {
            assert_eq!(
                resolve(kanban_home, hermes_home),
                root,
                "{kanban_home:?} {hermes_home:?}"
            );
        }
    }

    #[test]
    fn a_link_to_the_native_home_is_the_native_home() {
        let folder = tempfile::tempdir().unwrap();
        let native = folder.path().join(".hermes");
        std::fs::create_dir_all(native.join("profiles/coder")).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&native, &link).unwrap();
        let values = HomeValues {
            hermes_home: Some(link.join("profiles/coder").into()),
            user_home: Some(folder.path().to_owned()),
            kanban_home: None,
        };
        assert_eq!(values.resolve().unwrap(), native);
    }

    #[test]
    fn without_a_home_directory_only_an_explicit_place_will_do() {
        let mut values = HomeValues::default();
        assert_eq!(values.resolve(), Err(NoHome));
        values.hermes_home = Some("/opt/data".into());
        assert_eq!(values.resolve().unwrap(), Path::new("/opt/data"));
    }
}
