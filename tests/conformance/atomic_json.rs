//! `atomic_json/1`: documents on disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use hermes_pool::protocol::write_document;
use serde_json::Value;

use super::folder::{mode, set_up};
use super::vectors::{Difference, bytes, expected_error, good, parse_text, same, same_text, text};

pub(crate) fn replay(case: &Value) -> Result<(), Difference> {
    let folder = set_up(case);
    let path = folder.path().join(text(case, "write"));
    let value = parse_text(text(case, "value_json")).map_err(|error| error.to_string())?;
    let outcome = write_document(&path, &value, mode(case));
    if good(outcome, expected_error(case))?.is_none() {
        return Ok(());
    }
    let ok = &case["ok"];
    same_text("content", &fs::read(&path).unwrap(), &bytes(ok, "file_hex"))?;
    let status = path.symlink_metadata().unwrap();
    let file_mode = format!("{:04o}", status.permissions().mode() & 0o7777);
    same("mode", &*file_mode, text(ok, "file_mode"))?;
    let is_symlink = Value::from(status.is_symlink());
    same("being a link", &is_symlink, &ok["is_symlink"])?;
    let entries = entries(path.parent().unwrap());
    same("entries", &entries, &ok["directory_entries"])
}

/// The names in a folder, sorted.
fn entries(folder: &Path) -> Value {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    Value::from(names)
}
