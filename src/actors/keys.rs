//! The pool's master key, read from its file when it can be, and the keys derived from it.
//!
//! The file may appear after the pool was started (a mounted secret, a key that is still to be generated); until then the
//! pool is not ready and says why. Keys are never logged.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use crate::domain::Ordinal;
use crate::protocol::{Key, ProtocolError, derive_ordinal_key, read_key};

/// The master key; clones share it.
#[derive(Clone)]
pub struct KeyRing {
    path: Arc<PathBuf>,
    slots: u16,
    master: Arc<RwLock<Result<Key, String>>>,
}

impl KeyRing {
    /// Reads the key file; a file that cannot be read is tried again by [`KeyRing::reload`].
    #[must_use]
    pub fn open(path: PathBuf, slots: u16) -> Self {
        let ring = Self {
            path: Arc::new(path),
            slots,
            master: Arc::new(RwLock::new(Err("the pool key was not read yet".to_owned()))),
        };
        ring.reload();
        ring
    }

    /// Reads the file unless the key is known already.
    pub fn reload(&self) {
        if self.problem().is_none() {
            return;
        }
        let read = read_key(&self.path)
            .map_err(|error| format!("{error} (key_file {})", self.path.display()));
        *self.master.write().unwrap_or_else(PoisonError::into_inner) = read;
    }

    /// Why there is no key; `None` when there is one.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.master
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .err()
            .cloned()
    }

    /// The key of one slot.
    ///
    /// # Errors
    /// [`ProtocolError`] where the master key has no permissible length or the slot is none of this pool; `None` while
    /// there is no master key.
    pub fn of(&self, ordinal: Ordinal) -> Option<Result<Key, ProtocolError>> {
        let master = self.master.read().unwrap_or_else(PoisonError::into_inner);
        master
            .as_ref()
            .ok()
            .map(|master| derive_ordinal_key(master, ordinal.0, self.slots))
    }
}
