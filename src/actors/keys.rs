//! The pool's master key, read from its file when it can be, and the keys derived from it.
//!
//! The file may appear after the pool was started (a mounted secret, a key that is still to be generated); until then the
//! pool is not ready and says why. The first key that was read stays the one in use; a file that is later gone or holds
//! another key makes the pool not ready, since its next start would fail or refuse every worker. Keys are never logged.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::domain::Ordinal;
use crate::protocol::{Key, ProtocolError, derive_ordinal_key, read_key};

/// The master key; clones share it.
#[derive(Clone)]
pub struct KeyRing {
    path: Arc<PathBuf>,
    slots: u16,
    state: Arc<RwLock<State>>,
}

#[derive(Default)]
struct State {
    master: Option<Key>,
    problem: Option<String>,
}

impl KeyRing {
    /// Reads the key file.
    #[must_use]
    pub fn open(path: PathBuf, slots: u16) -> Self {
        let ring = Self {
            path: Arc::new(path),
            slots,
            state: Arc::default(),
        };
        ring.look();
        ring
    }

    /// Looks at the file: takes its key if there is none yet, and notes what is wrong with it.
    pub fn look(&self) {
        let read = read_key(&self.path);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.problem = match read {
            Ok(key) => match &state.master {
                Some(master) if master.bytes() != key.bytes() => Some(format!(
                    "the key file {} holds another key than the one in use; put the old one back, or restart",
                    self.path.display()
                )),
                Some(_) => None,
                None => {
                    state.master = Some(key);
                    None
                }
            },
            Err(error) => Some(format!("{error} (key_file {})", self.path.display())),
        };
    }

    /// What is wrong with the key file; `None` when nothing is.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.problem.clone()
    }

    /// The key of one slot, derived when it is first asked for.
    #[must_use]
    pub fn of(&self, ordinal: Ordinal) -> SlotKey {
        SlotKey {
            ring: self.clone(),
            ordinal,
            derived: Arc::default(),
        }
    }

    fn derive(&self, ordinal: Ordinal) -> Option<Result<Key, ProtocolError>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let master = state.master.as_ref()?;
        Some(derive_ordinal_key(master, ordinal.0, self.slots))
    }
}

/// The key of one slot; clones share it.
#[derive(Clone)]
pub struct SlotKey {
    ring: KeyRing,
    ordinal: Ordinal,
    derived: Arc<OnceLock<Key>>,
}

impl SlotKey {
    /// The key; `None` while there is no master key.
    ///
    /// # Errors
    /// [`ProtocolError`] where the master key has no permissible length or the slot is none of this pool.
    pub fn get(&self) -> Option<Result<Key, ProtocolError>> {
        if let Some(key) = self.derived.get() {
            return Some(Ok(key.clone()));
        }
        let derived = self.ring.derive(self.ordinal)?;
        Some(derived.inspect(|key| {
            // Whoever was first derived the same one.
            let _ = self.derived.set(key.clone());
        }))
    }

    /// Slots of the pool.
    #[must_use]
    pub fn slots(&self) -> u16 {
        self.ring.slots
    }
}
