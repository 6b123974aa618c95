//! The store's file in a history: how it is made, its commits, and everything that can go wrong with one.

use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;

use hermes_pool::actors::ByHand;
use hermes_pool::actors::store::{StoreHandle, StoreStatus, StoreWriter};
use hermes_pool::domain::Timestamp;
use hermes_pool::protocol::Key;
use hermes_pool::store::{Job, Operation, StoreError, Tx};
use rusqlite::Connection;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::coverage::{Event, saw};
use super::plan::StoreFault;

/// What one page of the log takes.
const FRAME_BYTES: u64 = 4096 + 24;

/// What all histories share: the store as it is made, and the key.
pub(crate) struct Template {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) master: Key,
}

impl Template {
    /// Makes the store and the key once, for all histories: in memory, if there is such a place, since what survives the
    /// loss of power is not what histories are about.
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() {
            tempfile::tempdir_in(memory).unwrap()
        } else {
            tempfile::tempdir().unwrap()
        };
        // Writing more than is allowed is an error then, and not the end of the process.
        let ignored = Arc::new(std::sync::atomic::AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGXFSZ, ignored).unwrap();
        let master = hermes_pool::protocol::generate_key().unwrap();
        hermes_pool::protocol::write_key_file(&folder.path().join("pool.key"), &master).unwrap();
        let store = hermes_pool::store::Store::open(&folder.path().join("assignments.db"), 3);
        drop(store.unwrap());
        Self { folder, master }
    }
}

/// Commits what waits, or tries a store that fails; `false` if there is nothing to do.
pub(crate) fn commit(
    store: &StoreHandle,
    hand: &ByHand,
    file: &Path,
    fault: &mut Option<StoreFault>,
) -> bool {
    let nothing_waits = store.waiting() == 0;
    if nothing_waits && !matches!(store.status(), StoreStatus::Failing(_)) {
        return false;
    }
    let Some(mut writer) = hand.take_store() else {
        return false;
    };
    if nothing_waits {
        writer.probe();
        hand.give_store(writer);
        return true;
    }
    match fault.take() {
        None => writer.flush(|_| {}),
        Some(fault) => {
            if !commit_with(fault, &mut writer, file) {
                return true;
            }
            if let Some(event) = shows(fault, &store.status()) {
                saw(event);
            }
        }
    }
    hand.give_store(writer);
    true
}

/// Commits under a fault; `false` if the writer does not survive it.
fn commit_with(fault: StoreFault, writer: &mut StoreWriter, file: &Path) -> bool {
    match fault {
        StoreFault::GroupLost => writer.flush(Vec::clear),
        StoreFault::MemberLost => writer.flush(|group| drop(group.pop())),
        StoreFault::Unwritable => with_files_up_to(0, || writer.flush(|_| {})),
        StoreFault::Full(frames) => {
            let log = std::fs::metadata(file.with_extension("db-wal"));
            let full = log.map_or(0, |log| log.size()) + u64::from(frames) * FRAME_BYTES + 100;
            with_files_up_to(full, || writer.flush(|_| {}));
        }
        StoreFault::Locked => {
            let other = Connection::open(file).unwrap();
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
            writer.flush(|_| {});
        }
        StoreFault::Unanswered => {
            let committed = catch_unwind(AssertUnwindSafe(|| {
                writer.flush(|group| {
                    group.insert(0, Job::new(Nothing, |_| resume_unwind(Box::new(()))));
                });
            }));
            assert!(committed.is_err(), "nobody was to be answered");
            saw(Event::CommitUnanswered);
            return false;
        }
        StoreFault::Down => {
            saw(Event::WriterDown);
            return false;
        }
    }
    true
}

/// What a fault came to, after the commit that it met.
fn shows(fault: StoreFault, status: &StoreStatus) -> Option<Event> {
    let event = match fault {
        StoreFault::GroupLost => return Some(Event::GroupLost),
        StoreFault::MemberLost => return Some(Event::MemberLost),
        StoreFault::Unwritable => Event::StoreUnwritable,
        StoreFault::Full(_) => Event::StoreFull,
        StoreFault::Locked => Event::StoreLocked,
        StoreFault::Unanswered | StoreFault::Down => return None,
    };
    matches!(status, StoreStatus::Failing(_)).then_some(event)
}

/// A member of a group that does nothing.
struct Nothing;

impl Operation for Nothing {
    type Reply = ();

    fn apply(self, _: &Tx<'_>, _: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Does something while no file of this process may become longer than this.
fn with_files_up_to(bytes: u64, act: impl FnOnce()) {
    let before = getrlimit(Resource::Fsize);
    let limit = Rlimit {
        current: Some(bytes),
        maximum: before.maximum,
    };
    setrlimit(Resource::Fsize, limit).unwrap();
    act();
    setrlimit(Resource::Fsize, before).unwrap();
}
