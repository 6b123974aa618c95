//! Whether the store's file and its write-ahead log are still those that were opened.
//!
//! A connection goes on writing to files that were removed or replaced, and would acknowledge what nobody will find again.
//! A log that is gone is put back from the descriptor that is kept here for that, byte for byte, and read by whoever opens
//! the file next, as after a crash. The connection itself could not be trusted to move it into the file: a program that
//! opened another file in the store's place shared its index of the log, and may have marked it as moved already.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::StoreError;
use super::error::FileProblem;

/// Identity of a file: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

/// Where the store stands: its file, and the log beside it.
#[derive(Debug)]
pub(super) struct Place {
    file: Identity,
    log: Identity,
    log_file: File,
    log_path: PathBuf,
}

impl Place {
    /// The place of the file at this path, which is open and has its log therefore.
    pub(super) fn of(path: &Path) -> Result<Self, StoreError> {
        let unseen = |error: io::Error| cannot_open(path, &error);
        // SQLite puts the log beside what a link leads to.
        let mut log_path: OsString = path.canonicalize().map_err(unseen)?.into();
        log_path.push("-wal");
        let file = std::fs::metadata(path).map_err(unseen)?;
        // SQLite locks nothing on the log, so that closing this descriptor gives up no lock of the connection's.
        let log_file = File::open(&log_path).map_err(unseen)?;
        let log = log_file.metadata().map_err(unseen)?;
        Ok(Self {
            file: Identity::from(&file),
            log: Identity::from(&log),
            log_file,
            log_path: log_path.into(),
        })
    }

    /// Whether the path still leads to this file, the file was not emptied, and its log is there.
    ///
    /// # Errors
    /// [`FileProblem::Removed`] where it does not, [`FileProblem::LogGone`] and [`FileProblem::LogReplaced`] where only the
    /// log is not there, [`FileProblem::CannotOpen`] where that cannot be seen.
    pub(super) fn still_at(&self, path: &Path) -> Result<(), StoreError> {
        match std::fs::metadata(path) {
            Ok(found) if Identity::from(&found) == self.file && found.len() > 0 => {}
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(cannot_open(path, &error));
            }
            _ => return Err(StoreError::file(path, FileProblem::Removed)),
        }
        let problem = match std::fs::metadata(&self.log_path) {
            Ok(found) if Identity::from(&found) == self.log => return Ok(()),
            // Whoever reads a file without a log makes an empty one, which says nothing.
            Ok(found) if found.len() > 0 => FileProblem::LogReplaced,
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(cannot_open(path, &error));
            }
            _ => FileProblem::LogGone,
        };
        Err(StoreError::file(path, problem))
    }

    /// Puts the log that is gone back in its place, as a new file of the same content.
    pub(super) fn put_log_back(&self) -> io::Result<()> {
        let mut beside = self.log_path.clone().into_os_string();
        beside.push(".saved");
        let mut copy = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&beside)?;
        let mut log = &self.log_file;
        log.rewind()?;
        io::copy(&mut log, &mut copy)?;
        copy.sync_all()?;
        std::fs::rename(&beside, &self.log_path)?;
        match self.log_path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

fn cannot_open(path: &Path, error: &io::Error) -> StoreError {
    StoreError::file(path, FileProblem::CannotOpen(error.to_string()))
}

impl From<&Metadata> for Identity {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}
