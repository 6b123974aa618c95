//! What a board's `board.json` says: names for people, and whether the board is archived.
//!
//! The file is anybody's. Whatever stands in its place is neither waited for nor read beyond [`MAX_BYTES`], so that one
//! board's file never stops the others.
//!
//! One rule is stricter than Hermes', which takes a file that it cannot understand for none, and thereby opens an archived
//! board again: here such a file is an error of this one board, and no reason to begin to claim on it.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde_json::{Map, Value, json};

use crate::domain::BoardSlug;

/// Far more than a name and a description take.
const MAX_BYTES: usize = 64 * 1024;

/// What stands in the file of a board's folder; nothing if there is none.
///
/// # Errors
/// Why it cannot be understood, for people.
pub(super) fn read(folder: &Path) -> Result<Map<String, Value>, String> {
    let path = folder.join("board.json");
    understood(&path).map_err(|why| format!("{}: {why}", path.display()))
}

fn understood(path: &Path) -> Result<Map<String, Value>, String> {
    // Without NONBLOCK a FIFO would keep us waiting, without NOCTTY a terminal would become ours.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Map::new()),
        Err(error) => return Err(error.to_string()),
    };
    if !file
        .metadata()
        .map_err(|error| error.to_string())?
        .is_file()
    {
        return Err("it is not a regular file".to_owned());
    }
    let mut content = Vec::new();
    file.take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut content)
        .map_err(|error| error.to_string())?;
    if content.len() > MAX_BYTES {
        return Err(format!("it is larger than {MAX_BYTES} bytes"));
    }
    match serde_json::from_slice(&content) {
        Ok(Value::Object(stored)) => Ok(stored),
        Ok(_) => Err("it is no JSON object".to_owned()),
        Err(error) => Err(format!("it is no JSON: {error}")),
    }
}

/// What is stored, over the defaults. The directory's name wins over a `slug` in the file.
pub(super) fn with_defaults(slug: &BoardSlug, stored: Map<String, Value>) -> Map<String, Value> {
    let mut metadata = Map::new();
    for (key, value) in [
        ("slug", json!(slug.as_str())),
        ("name", json!(display_name(slug.as_str()))),
        ("description", json!("")),
        ("icon", json!("")),
        ("color", json!("")),
        ("default_workdir", Value::Null),
        ("created_at", Value::Null),
        ("archived", json!(false)),
    ] {
        metadata.insert(key.to_owned(), value);
    }
    metadata.extend(stored.into_iter().filter(|(key, _)| key != "slug"));
    metadata
}

/// Whether what is stored says that the board is archived.
pub(super) fn is_archived(stored: &Map<String, Value>) -> bool {
    stored.get("archived").is_some_and(is_true)
}

/// A name for people, made from the slug.
fn display_name(slug: &str) -> String {
    let words: Vec<String> = slug
        .split(['-', '_'])
        .filter_map(|word| {
            let mut letters = word.chars();
            let first = letters.next()?;
            Some(first.to_uppercase().chain(letters).collect())
        })
        .collect();
    if words.is_empty() {
        slug.to_owned()
    } else {
        words.join(" ")
    }
}

/// What Hermes' language takes for true: the text `"false"` is.
fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
    }
}
