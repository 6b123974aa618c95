//! Small JSON documents on disk, replaced as a whole.
//!
//! A reader sees the old document or the new one, also after a crash; what a crash may leave behind
//! is a temporary file beside it. The layout is for people and is *not* the canonical one.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::error::ProtocolError;
use super::files::{create_file, errno, folder_of, sync_folder_of};
use super::json::{Json, Layout, write_json};

/// Replaces the document at `path`; missing folders are made with mode 0700.
///
/// A symbolic link in the place of the document is replaced, not followed. `mode` is set exactly,
/// regardless of the umask.
///
/// # Errors
/// [`ProtocolError::LinkedDirectory`] if the folder is a symbolic link,
/// [`ProtocolError::DocumentUnwritable`] for what the system refuses,
/// [`ProtocolError::Malformed`] for a value that nests too deep.
pub fn write_document(path: &Path, value: &Json, mode: u32) -> Result<(), ProtocolError> {
    let unwritable = |error: io::Error| ProtocolError::DocumentUnwritable {
        path: path.to_owned(),
        error: errno(&error),
    };
    let folder = folder_of(path);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(unwritable)?;
    if folder.is_symlink() {
        return Err(ProtocolError::LinkedDirectory);
    }
    let mut content = String::new();
    write_json(&mut content, value, 0, Layout::Indented)?;
    content.push('\n');
    replace(path, content.as_bytes(), mode).map_err(unwritable)
}

fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let temporary = temporary_beside(path);
    create_file(&temporary, content, mode)?;
    if let Err(error) = std::fs::rename(&temporary, path) {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    sync_folder_of(path)
}

/// A hidden name that nothing else has, in the same folder.
fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", Uuid::new_v4().simple()));
    path.with_file_name(name)
}

/// Encodes a value on one line with a blank behind each comma and colon, keys in the order of their
/// code points, UTF-8.
///
/// # Errors
/// [`ProtocolError::InvalidMessage`] if a lone surrogate is in it, [`ProtocolError::Malformed`] if
/// it nests too deep.
pub fn spaced_json(value: &Json) -> Result<String, ProtocolError> {
    let mut out = String::new();
    write_json(&mut out, value, 0, Layout::Spaced)?;
    Ok(out)
}
