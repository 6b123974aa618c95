//! The pool's own directory: made private, and held by one coordinator at a time.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Name of the lock file. Its content is the holder's pid, for people.
const LOCK_FILE: &str = "coordinator.lock";

/// Why the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// It cannot be made or written to.
    #[error("state_dir {}: {source}; make it writable for this user, or set pool.state_dir", path.display())]
    Unusable {
        /// The directory or the lock file.
        path: PathBuf,
        /// The operating system's word.
        source: std::io::Error,
    },
    /// Another coordinator holds it.
    #[error(
        "another coordinator (pid {pid}) already runs on {}; stop it first, or give this one its own pool.state_dir",
        path.display()
    )]
    Held {
        /// The directory.
        path: PathBuf,
        /// The pid that the holder has left, or "unknown".
        pid: String,
    },
}

/// The directory, held until this is dropped or the process ends.
#[derive(Debug)]
pub struct StateDir {
    _lock: File,
}

impl StateDir {
    /// Makes the directory (0700) if it is not there, and holds it.
    ///
    /// # Errors
    /// [`StateDirError`]
    pub fn hold(path: &Path) -> Result<Self, StateDirError> {
        let unusable = |at: &Path| {
            let path = at.to_owned();
            move |source| StateDirError::Unusable { path, source }
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(unusable(path))?;
        let lock_path = path.join(LOCK_FILE);
        let mut lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&lock_path)
            .map_err(unusable(&lock_path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StateDirError::Held {
                    path: path.to_owned(),
                    pid: holder(&mut lock),
                });
            }
            Err(TryLockError::Error(source)) => return Err(unusable(&lock_path)(source)),
        }
        if let Err(error) = note_pid(&mut lock) {
            // It is for people only. A disk without room must not keep the pool from waiting for room.
            log::warn!("{}: the pid was not noted: {error}", lock_path.display());
        }
        Ok(Self { _lock: lock })
    }
}

fn note_pid(lock: &mut File) -> std::io::Result<()> {
    lock.set_len(0)?;
    lock.seek(SeekFrom::Start(0))?;
    writeln!(lock, "{}", std::process::id())
}

fn holder(lock: &mut File) -> String {
    let mut text = String::new();
    match lock.take(32).read_to_string(&mut text) {
        Ok(_) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_holder_is_told_the_first_ones_pid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let first = StateDir::hold(&path).unwrap();
        let refused = StateDir::hold(&path).unwrap_err().to_string();
        assert!(
            refused.contains(&format!("pid {}", std::process::id())),
            "{refused}"
        );
        drop(first);
        StateDir::hold(&path).unwrap();
    }
}
