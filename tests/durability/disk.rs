//! A model of a disk: what a sync has made lasting, and what still waits for one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a power failure cannot tear apart.
const SECTOR_BYTES: usize = 512;

/// The files that a power failure leaves, with what is in them.
pub(crate) type Image = BTreeMap<PathBuf, Vec<u8>>;

/// A power failure.
pub(crate) struct Failure {
    pub(crate) image: Image,
    /// How much had been acknowledged before it.
    pub(crate) acknowledged: usize,
}

/// Clones are the same disk.
#[derive(Clone)]
pub(crate) struct Disk {
    state: Arc<Mutex<State>>,
    acknowledged: Arc<AtomicUsize>,
}

struct State {
    seed: u64,
    random: fastrand::Rng,
    /// Files elsewhere are none of this disk's.
    folder: PathBuf,
    failures_one_in: u32,
    files: BTreeMap<PathBuf, File>,
    failures: Vec<Failure>,
}

#[derive(Default)]
struct File {
    lasting: Vec<u8>,
    waiting: Vec<Change>,
}

enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

impl File {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.waiting) {
            change.apply_to(&mut self.lasting);
        }
    }

    /// The lasting part, and any part of the rest.
    fn after_a_failure(&self, random: &mut fastrand::Rng) -> Vec<u8> {
        let mut content = self.lasting.clone();
        // Some failures leave all, some nothing, most a part.
        let odds = random.f64() * 1.4 - 0.2;
        for change in &self.waiting {
            match change {
                Change::Write { offset, bytes } => {
                    for (index, sector) in bytes.chunks(SECTOR_BYTES).enumerate() {
                        if random.f64() < odds {
                            write(&mut content, offset + index * SECTOR_BYTES, sector);
                        }
                    }
                }
                truncate if random.f64() < odds => truncate.apply_to(&mut content),
                Change::Truncate(_) => {}
            }
        }
        content
    }
}

impl Change {
    fn apply_to(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { offset, bytes } => write(content, *offset, bytes),
            Self::Truncate(length) => content.resize(*length, 0),
        }
    }
}

fn write(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

impl Disk {
    pub(crate) fn new() -> Self {
        let seed = fastrand::u64(..);
        Self {
            state: Arc::new(Mutex::new(State {
                seed,
                random: fastrand::Rng::with_seed(seed),
                folder: PathBuf::from("/nowhere"),
                failures_one_in: u32::MAX,
                files: BTreeMap::new(),
                failures: Vec::new(),
            })),
            acknowledged: Arc::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Is the disk of this folder from now on, empty, and fails after one of so many writes and syncs.
    pub(crate) fn watch(&self, folder: &Path, failures_one_in: u32) {
        let mut state = self.state();
        state.folder = folder.to_owned();
        state.failures_one_in = failures_one_in;
        state.files.clear();
        state.failures.clear();
        self.acknowledged.store(0, Ordering::SeqCst);
    }

    pub(crate) fn seed(&self) -> u64 {
        self.state().seed
    }

    /// Something was acknowledged.
    pub(crate) fn acknowledge(&self) {
        self.acknowledged.fetch_add(1, Ordering::SeqCst);
    }

    /// The failures so far.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        std::mem::take(&mut self.state().failures)
    }

    /// What a failure at this moment would leave.
    pub(crate) fn fail(&self) -> Image {
        self.state().image()
    }

    pub(crate) fn wrote(&self, path: &Path, offset: usize, bytes: &[u8]) {
        self.happened(path, |file| {
            file.waiting.push(Change::Write {
                offset,
                bytes: bytes.to_vec(),
            });
        });
    }

    pub(crate) fn truncated(&self, path: &Path, length: usize) {
        self.happened(path, |file| file.waiting.push(Change::Truncate(length)));
    }

    pub(crate) fn synced(&self, path: &Path) {
        self.happened(path, File::sync);
    }

    pub(crate) fn deleted(&self, path: &Path) {
        self.state().files.remove(path);
    }

    /// Something happened to a file. The power may fail right before it, or right after.
    fn happened(&self, path: &Path, change: impl FnOnce(&mut File)) {
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        let mut state = self.state();
        if !path.starts_with(&state.folder) {
            return;
        }
        state.fail_by_chance(acknowledged);
        change(state.files.entry(path.to_owned()).or_default());
        state.fail_by_chance(acknowledged);
    }
}

impl State {
    fn fail_by_chance(&mut self, acknowledged: usize) {
        if self.random.u32(..self.failures_one_in) == 0 {
            let image = self.image();
            self.failures.push(Failure {
                image,
                acknowledged,
            });
        }
    }

    fn image(&mut self) -> Image {
        let Self { files, random, .. } = self;
        files
            .iter()
            .map(|(path, file)| (path.clone(), file.after_a_failure(random)))
            .collect()
    }
}
