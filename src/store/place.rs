//! Whether the store's file is still the one that was opened.
//!
//! A connection goes on writing to a file that was removed or replaced, and would acknowledge what nobody will find again.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::StoreError;
use super::error::FileProblem;

/// Identity of a file: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    /// The place of the file at this path.
    pub(super) fn of(path: &Path) -> Result<Self, StoreError> {
        let metadata = std::fs::metadata(path)
            .map_err(|error| StoreError::file(path, FileProblem::CannotOpen(error.to_string())))?;
        Ok(Self::from(&metadata))
    }

    /// Whether the path still leads to this file, and the file was not emptied.
    ///
    /// # Errors
    /// [`FileProblem::Removed`] where it does not, [`FileProblem::CannotOpen`] where that cannot be seen.
    pub(super) fn still_at(self, path: &Path) -> Result<(), StoreError> {
        let problem = match std::fs::metadata(path) {
            Ok(metadata) if Self::from(&metadata) == self && metadata.len() > 0 => return Ok(()),
            Err(error) if error.kind() != ErrorKind::NotFound => {
                FileProblem::CannotOpen(error.to_string())
            }
            _ => FileProblem::Removed,
        };
        Err(StoreError::file(path, problem))
    }
}

impl From<&Metadata> for Place {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }
}
