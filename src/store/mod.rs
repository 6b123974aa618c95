//! The durable memory of the pool: `assignments.db`.
//!
//! | where | what |
//! |---|---|
//! | [`Store`] | the one connection that writes; many operations, one commit |
//! | [`operations`] | everything it can be asked to do |
//! | [`Reader`] | reads that decide nothing; they never wait for the writer |
//! | [`reference`](mod@reference) | the looser meaning of the reference, for the conformance tests |
//!
//! Invariants: a reply is given out only after its commit. A transition is one compare-and-set, written in one place, and
//! only the domain can make one. A row that cannot be understood is reported and left alone, and hides no other. Nothing
//! is collected but what evidence has ended. The file stays one that the reference can carry on with (version 1).
//!
//! After a crash the file holds exactly the groups whose commit was complete (WAL, `synchronous=FULL`); whoever got no
//! reply asks again, and each operation may be repeated.
//!
//! Deliberately absent: async, actors, and any knowledge of boards.

mod error;
mod group;
mod open;
pub mod operations;
mod place;
mod read;
mod records;
pub mod reference;
mod sql;
mod transition;
mod tx;

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use crate::domain::Fence;

use place::Place;

pub use error::{AddRefusal, FileProblem, Refusal, StoreError};
pub use group::{Answers, Job};
pub use operations::Operation;
pub use read::{Page, PageStart, Reader};
pub use records::{ClaimEntry, Intent, NewClaim, Record, Texts};
pub use tx::Tx;

/// Name of the store's file in the pool's state directory.
pub const STORE_FILE: &str = "assignments.db";

/// The one connection that writes.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    place: Place,
    fence: Fence,
}

impl Store {
    /// Opens the store of a pool of `slots` slots: creates it if there is no file, and brings an older one up to date in
    /// one transaction. More than three slots need a file that the reference cannot check any more (version 2).
    ///
    /// # Errors
    /// [`StoreError::File`] says what is wrong with the file. A newer or a foreign one is left untouched.
    pub fn open(path: &Path, slots: u16) -> Result<Self, StoreError> {
        let (connection, fence) = open::open(path, slots)?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            place: Place::of(path)?,
            fence,
        })
    }

    /// Whether a coordinator could work with the file at this path, as far as that can be seen without a change: a file of
    /// the reference is as good as one of ours. Waits ten seconds for a lock that somebody else holds.
    ///
    /// # Errors
    /// [`StoreError::File`] says what is wrong with the file.
    pub fn inspect(path: &Path) -> Result<(), StoreError> {
        open::inspect(path)
    }

    /// Takes a lock that another process holds for a failure at once, instead of waiting for its end: for whoever moves
    /// the store by hand, since no time passes meanwhile.
    ///
    /// # Errors
    /// [`StoreError::File`]
    pub fn never_wait(&self) -> Result<(), StoreError> {
        self.connection
            .busy_timeout(Duration::ZERO)
            .map_err(|error| StoreError::sqlite(&self.path, &error))
    }

    /// The store's own identity, made with its file.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
