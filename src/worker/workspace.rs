//! The folders of a worker.
//!
//! ```text
//! <workspace>/<board>/<task>/                    where a task's command runs; kept from one attempt to the next
//! <workspace>/.hermes-pool/outbox-<ordinal>.json a result that is not acknowledged yet
//! <workspace>/.hermes-pool/worker-<ordinal>.lock held by the worker of this ordinal
//! <workspace>/.hermes-pool/group-<ordinal>.lock  held by the guard of its command
//! ```
//!
//! Boards and tasks have names that no envelope can carry otherwise: ASCII, beginning with a letter or digit, without a
//! slash. None of them leads out of the workspace, none is `.hermes-pool`. Commands may leave symbolic links behind; a
//! link in the place of a folder is refused.
//!
//! Deliberately absent: cleaning up. What a command made is its operator's to keep or to remove.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::protocol::Binding;

use super::WorkerError;
use super::outbox::Outbox;

/// The folder of the worker itself, below the workspace.
const OWN_FOLDER: &str = ".hermes-pool";

/// The folders of the worker of one ordinal, which nobody else serves from this workspace meanwhile.
#[derive(Debug)]
pub(super) struct Workspace {
    root: PathBuf,
    ordinal: u16,
    _lock: File,
}

impl Workspace {
    /// Opens the workspace, and makes it if it is missing.
    ///
    /// # Errors
    /// [`WorkerError::Workspace`] for what the system refuses, [`WorkerError::AlreadyServed`] if another worker of this
    /// ordinal runs in it.
    pub(super) fn open(root: &Path, ordinal: u16) -> Result<Self, WorkerError> {
        let unusable = |error| WorkerError::Workspace {
            path: root.to_owned(),
            error,
        };
        let root = std::path::absolute(root).map_err(unusable)?;
        let own = root.join(OWN_FOLDER);
        private_folders()
            .recursive(true)
            .create(&own)
            .map_err(unusable)?;
        let lock = own.join(format!("worker-{ordinal}.lock"));
        let mut lock = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(lock)
            .map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => sign(&lock).map_err(unusable)?,
            Err(fs::TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _ = lock.read_to_string(&mut pid);
                return Err(WorkerError::AlreadyServed {
                    ordinal,
                    pid: pid.trim().to_owned(),
                    path: root,
                });
            }
            Err(fs::TryLockError::Error(error)) => return Err(unusable(error)),
        }
        Ok(Self {
            root,
            ordinal,
            _lock: lock,
        })
    }

    /// The outbox of this ordinal.
    pub(super) fn outbox(&self) -> Outbox {
        Outbox::at(self.own_file("outbox", "json"))
    }

    /// The file that the guard of this ordinal locks.
    pub(super) fn group_lock(&self) -> PathBuf {
        self.own_file("group", "lock")
    }

    /// The folder of a task, made if it is missing.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::NotADirectory`] if something else is in its place.
    pub(super) fn folder_of(&self, binding: &Binding) -> io::Result<PathBuf> {
        let mut folder = self.root.clone();
        for name in [&binding.board, &binding.task_id] {
            folder.push(name);
            match private_folders().create(&folder) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            if !folder.symlink_metadata()?.is_dir() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
        }
        Ok(folder)
    }

    fn own_file(&self, what: &str, extension: &str) -> PathBuf {
        let name = format!("{what}-{}.{extension}", self.ordinal);
        self.root.join(OWN_FOLDER).join(name)
    }
}

/// Leaves the pid for the message of whoever finds the lock taken.
fn sign(mut lock: &File) -> io::Result<()> {
    lock.set_len(0)?;
    lock.write_all(format!("{}\n", std::process::id()).as_bytes())
}

fn private_folders() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Integer;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn binding(task_id: &str) -> Binding {
        Binding {
            board: "lab".to_owned(),
            task_id: task_id.to_owned(),
            run_id: "7".to_owned(),
            worker_ordinal: 0,
            attempt: Integer::from(1_i64),
        }
    }

    #[test]
    fn a_task_has_a_private_folder_that_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(&root.path().join("new"), 0).unwrap();
        let folder = workspace.folder_of(&binding("t_1")).unwrap();
        assert_eq!(folder, root.path().join("new/lab/t_1"));
        assert_eq!(
            folder.metadata().unwrap().permissions().mode() & 0o777,
            0o700
        );
        fs::write(folder.join("kept"), "").unwrap();
        assert_eq!(workspace.folder_of(&binding("t_1")).unwrap(), folder);
        assert!(folder.join("kept").exists());
    }

    #[test]
    fn a_link_in_the_place_of_a_folder_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(root.path(), 0).unwrap();
        workspace.folder_of(&binding("t_1")).unwrap();
        symlink(elsewhere.path(), root.path().join("lab/t_2")).unwrap();
        let error = workspace.folder_of(&binding("t_2")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn an_ordinal_is_served_by_one_worker_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let first = Workspace::open(root.path(), 0).unwrap();
        let Err(WorkerError::AlreadyServed { pid, .. }) = Workspace::open(root.path(), 0) else {
            panic!("the same ordinal was opened twice");
        };
        assert_eq!(pid, std::process::id().to_string());
        Workspace::open(root.path(), 1).unwrap();
        drop(first);
        Workspace::open(root.path(), 0).unwrap();
    }
}
