//! Folders as the cases about files want them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use hermes_pool::protocol::{Key, write_key_file};
use serde_json::Value;
use tempfile::TempDir;

use super::vectors::{from_hex, text};

/// A new folder in which the steps of a case's `setup` have been taken.
pub(crate) fn set_up(case: &Value) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for step in case["setup"].as_array().unwrap() {
        take(folder.path(), step);
    }
    folder
}

fn take(folder: &Path, step: &Value) {
    let path = folder.join(text(step, "path"));
    match text(step, "step") {
        "file" => fs::write(&path, content(step)).unwrap(),
        "directory" => fs::create_dir(&path).unwrap(),
        "symlink" => symlink(text(step, "target"), &path).unwrap(),
        "hardlink" => fs::hard_link(folder.join(text(step, "target")), &path).unwrap(),
        // The socket stays in the folder when its listener is gone.
        "socket" => drop(UnixListener::bind(&path).unwrap()),
        other => panic!("unknown step {other}"),
    }
    if step.get("mode").is_some() {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode(step))).unwrap();
    }
}

fn content(step: &Value) -> Vec<u8> {
    let mut content = Vec::new();
    for part in step["content_parts"].as_array().unwrap() {
        let count = usize::try_from(part[1].as_u64().unwrap()).unwrap();
        content.extend(from_hex(part[0].as_str().unwrap()).repeat(count));
    }
    content
}

/// The `mode` of a step or case, which is octal text.
pub(crate) fn mode(step: &Value) -> u32 {
    u32::from_str_radix(text(step, "mode"), 8).unwrap()
}

/// The content of a key, which nothing but its file shows.
pub(crate) fn key_bytes(key: &Key) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    write_key_file(&path, key).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.pop(), Some(b'\n'));
    bytes
}
