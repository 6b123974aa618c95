//! Finding boards below Hermes' root. Only directories are listed and small metadata files read ([`metadata`]); no database is
//! opened.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::connection::FileIdentity;
use super::metadata;
use crate::board::{BoardError, Found};
use crate::domain::BoardSlug;

/// The board that needs no directory of its own.
const DEFAULT_BOARD: &str = "default";

/// A board as Hermes lists it, whether or not there is a database.
#[derive(Clone, Debug, PartialEq)]
pub struct BoardEntry {
    /// Its name, and whether its owner still works on it.
    pub found: Found,
    /// Where its database is, or would be.
    pub database: PathBuf,
    /// What is known of it for people: `name`, `description` and so on, as its `board.json` and the defaults say.
    pub metadata: Map<String, Value>,
}

/// Identity of the directory that holds a board: another one is an unmount, not evidence. `None` while there is none.
pub(super) fn root_identity(root: &Path, slug: &BoardSlug) -> Option<(u64, u64)> {
    let holder = if slug.as_str() == DEFAULT_BOARD {
        root.to_owned()
    } else {
        boards_root(root)
    };
    let identity = FileIdentity::of(&holder).ok()?;
    Some((identity.device, identity.inode))
}

/// Whether anything of Hermes' boards stands in that directory, if only their archive: where nothing does, something is to
/// be mounted.
pub(super) fn holds_boards(root: &Path, slug: &BoardSlug) -> bool {
    let boards = boards_root(root);
    if slug.as_str() == DEFAULT_BOARD {
        return root.join("kanban.db").exists() || root.join("kanban").is_dir();
    }
    boards.join("_archived").is_dir() || named_boards(&boards).is_ok_and(|slugs| !slugs.is_empty())
}

/// All boards that Hermes lists: `default` first, whether or not it exists, then the others by name.
///
/// # Errors
/// [`BoardError::Unreadable`] if the directory of boards is there and cannot be listed.
pub(super) fn list(root: &Path) -> Result<Vec<BoardEntry>, BoardError> {
    let mut boards: Vec<BoardEntry> = entry(root, DEFAULT_BOARD).into_iter().collect();
    let mut slugs = named_boards(&boards_root(root))?;
    slugs.sort();
    boards.extend(slugs.iter().filter_map(|slug| entry(root, slug)));
    Ok(boards)
}

/// The boards that can be served: those with a database, each database once, under a name of `kept` if it has one, else
/// under one with a log beside it.
///
/// A link that appears beside a board in use must not take its place: the log beside a second name of a file is another
/// log, and whoever writes through both destroys the board. A database that may not even be looked at is no other's.
///
/// # Errors
/// As [`list`].
pub(super) fn serving(
    root: &Path,
    kept: &BTreeSet<BoardSlug>,
) -> Result<Vec<BoardEntry>, BoardError> {
    let mut boards = list(root)?;
    boards.sort_by_key(|board| {
        let is_kept = kept.contains(&board.found.slug);
        (!is_kept, !has_log(&board.database))
    });
    let mut seen = Vec::new();
    // By the file itself and not by its path: links of either kind lead to one file, which must be opened once.
    boards.retain(|board| match FileIdentity::of(&board.database) {
        Ok(file) if seen.contains(&file) => false,
        Ok(file) => {
            seen.push(file);
            true
        }
        Err(BoardError::Gone(_)) => false,
        Err(_) => true,
    });
    Ok(boards)
}

/// Whether anything stands in the log beside a database: that is the name under which it is in use.
fn has_log(database: &Path) -> bool {
    fs::metadata(database.with_extension("db-wal")).is_ok_and(|log| log.len() > 0)
}

/// Where a board's database is, or would be.
#[must_use]
pub(super) fn database(root: &Path, slug: &BoardSlug) -> PathBuf {
    if slug.as_str() == DEFAULT_BOARD {
        root.join("kanban.db")
    } else {
        board_folder(root, slug).join("kanban.db")
    }
}

/// Where a board's metadata and, except for the default board, its database are.
pub(super) fn board_folder(root: &Path, slug: &BoardSlug) -> PathBuf {
    boards_root(root).join(slug.as_str())
}

fn boards_root(root: &Path) -> PathBuf {
    root.join("kanban").join("boards")
}

/// Directories that hold a board. A name that is not in its normal form is skipped: Hermes would list it under the normal
/// form and then look for its files elsewhere.
fn named_boards(boards_root: &Path) -> Result<Vec<String>, BoardError> {
    let unreadable = |error: std::io::Error| {
        BoardError::Unreadable(format!("{}: {error}", boards_root.display()))
    };
    let entries = match fs::read_dir(boards_root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut slugs = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        // What may not be looked into may well be a board: whoever opens it is told why not.
        let holds = |name| path.join(name).try_exists().unwrap_or(true);
        let has_board = path.is_dir() && (holds("kanban.db") || holds("board.json"));
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(name) = name.filter(|name| has_board && *name != DEFAULT_BOARD) {
            slugs.push(name.to_owned());
        }
    }
    Ok(slugs)
}

/// The entry of a board; `None` if the name is none that a board can have.
fn entry(root: &Path, name: &str) -> Option<BoardEntry> {
    let slug = BoardSlug::parse(name).ok()?;
    let database = database(root, &slug);
    // Where nothing may be looked at that is the cause, the one that visits of the board meet, too.
    let stored = match FileIdentity::of(&database) {
        Ok(_) | Err(BoardError::Gone(_)) => metadata::read(&board_folder(root, &slug)),
        Err(error) => Err(error.to_string()),
    };
    // The default board is listed whatever its metadata says.
    let may_be_archived = name != DEFAULT_BOARD;
    Some(BoardEntry {
        found: Found {
            archived: may_be_archived && stored.as_ref().is_ok_and(metadata::is_archived),
            unclear: stored.as_ref().err().filter(|_| may_be_archived).cloned(),
            slug: slug.clone(),
        },
        database,
        metadata: metadata::with_defaults(&slug, stored.unwrap_or_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, content: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn slugs(boards: &[BoardEntry]) -> Vec<(&str, bool)> {
        boards
            .iter()
            .map(|board| (board.found.slug.as_str(), board.found.archived))
            .collect()
    }

    #[test]
    fn boards_are_listed_as_hermes_lists_them() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let boards = root.join("kanban/boards");
        for (name, content) in [
            ("zoo/kanban.db", ""),
            (
                "meta-only/board.json",
                r#"{"slug": "other", "name": "Meta"}"#,
            ),
            ("old/board.json", r#"{"archived": "false"}"#),
            ("broken/board.json", "{"),
            ("Upper/kanban.db", ""),
            ("_archived/lab-1/kanban.db", ""),
            ("empty/readme", ""),
        ] {
            write(&boards.join(name), content);
        }
        let listed = list(root).unwrap();
        assert_eq!(
            slugs(&listed),
            [
                ("default", false),
                ("broken", false),
                ("meta-only", false),
                ("old", true),
                ("zoo", false)
            ]
        );
        assert_eq!(listed[2].metadata["slug"], "meta-only");
        assert_eq!(listed[2].metadata["name"], "Meta");
        assert_eq!(listed[1].metadata["name"], "Broken");
        let unclear = listed.iter().filter(|board| board.found.unclear.is_some());
        let unclear: Vec<_> = unclear.map(|board| board.found.slug.as_str()).collect();
        assert_eq!(unclear, ["broken"]);
    }

    #[test]
    fn a_board_is_served_if_it_has_a_database_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let boards = root.join("kanban/boards");
        write(&boards.join("lab/kanban.db"), "");
        write(&boards.join("meta/board.json"), "{}");
        std::os::unix::fs::symlink(boards.join("lab"), boards.join("same")).unwrap();
        assert_eq!(
            slugs(&serving(root, &BTreeSet::new()).unwrap()),
            [("lab", false)]
        );
        write(&root.join("kanban.db"), "");
        assert_eq!(
            slugs(&serving(root, &BTreeSet::new()).unwrap()),
            [("default", false), ("lab", false)]
        );
    }
}
