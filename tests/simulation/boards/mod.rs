//! Boards in memory, behind the port that the pool knows, and an account of everything that ever happened on them.
//!
//! | where | what |
//! |---|---|
//! | this module | the boards' places and the account |
//! | [`contents`] | what one board holds, and what it answers about its runs |
//! | [`meddling`] | what people, Hermes and the file system do to boards |
//! | [`port`] | boards as the pool sees them |
//!
//! The account ([`Deed`]) outlives the boards: what was written on a board that is then replaced by an older copy was
//! written all the same. It is what the invariants are judged by.

mod contents;
mod meddling;
mod port;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermes_pool::board::Ending;
use hermes_pool::clock::{Clock, ManualClock};
use hermes_pool::domain::{Anchor, BoardSlug, ClaimLock, RunRef};

use contents::{Contents, Status};
pub(crate) use meddling::{Meddling, Trouble};

/// One board's place, whether or not there is a board at the moment.
#[derive(Debug)]
struct Place {
    contents: Contents,
    copy: Contents,
    /// Identity of the file; another one is another board.
    file: u64,
    present: bool,
    archived: bool,
    /// Commits by anybody.
    commits: u64,
    unreadable: bool,
    /// Calls until one of them fails.
    fails_in: Option<u8>,
    /// The next claim or ending is written, and its answer lost.
    answer_lost: bool,
}

/// Something that happened on a board.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Claimed,
    Extended,
    Beat,
    /// Ended by the pool.
    Ended(Ending),
    /// Ended or taken over by somebody else, or deleted.
    Foreign,
    /// The board has shown that neither the run nor its task is there any more.
    Vanished,
}

#[derive(Clone, Debug)]
pub(crate) struct Deed {
    pub(crate) at: i64,
    pub(crate) lock: ClaimLock,
    pub(crate) what: What,
    /// When the run began.
    started_at: i64,
    limit_seconds: Option<i64>,
    pub(crate) unfit: bool,
}

impl Deed {
    /// Whether the run had then gone on for longer than its task allows.
    pub(crate) fn is_past_limit(&self) -> bool {
        self.limit_seconds
            .is_some_and(|limit| self.at - self.started_at >= limit)
    }
}

/// When a board became another one or went away.
#[derive(Clone, Debug)]
pub(crate) struct Upheaval {
    /// On the clock that never jumps.
    pub(crate) at: Duration,
    pub(crate) board: BoardSlug,
}

/// A claim as it was made.
#[derive(Clone, Debug)]
pub(crate) struct ClaimMade {
    /// On the clock that never jumps.
    pub(crate) at: Duration,
    anchor: Anchor,
}

#[derive(Debug)]
pub(crate) struct World {
    places: BTreeMap<BoardSlug, Place>,
    clock: Arc<ManualClock>,
    mounted: bool,
    files: u64,
    pub(crate) account: Account,
}

/// Everything that ever happened.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) deeds: Vec<Deed>,
    pub(crate) upheavals: Vec<Upheaval>,
    /// By lock.
    pub(crate) claims: BTreeMap<String, ClaimMade>,
}

impl Account {
    fn did(&mut self, place: &Place, run: i64, what: What, now: i64) {
        self.deeds.extend(place.contents.deed(run, what, now));
    }

    /// Takes down that a board shows that nothing is left of a run, measured by what stood there when it was claimed.
    fn show_lost(&mut self, place: &Place, run: &RunRef, lock: Option<&ClaimLock>, now: i64) {
        let Some(lock) = lock else { return };
        let claim = self.claims.get(lock.as_str());
        if claim.is_some_and(|claim| place.contents.has_lost(run, &claim.anchor)) {
            self.deeds.push(Deed {
                at: now,
                lock: lock.clone(),
                what: What::Vanished,
                started_at: now,
                limit_seconds: None,
                unfit: false,
            });
        }
    }
}

/// All boards; clones are the same ones.
#[derive(Clone)]
pub(crate) struct Boards {
    world: Arc<Mutex<World>>,
}

impl Boards {
    pub(crate) fn new(clock: Arc<ManualClock>, slugs: &[BoardSlug]) -> Self {
        let mut world = World {
            places: BTreeMap::new(),
            clock,
            mounted: true,
            files: 0,
            account: Account::default(),
        };
        for slug in slugs {
            world.create(slug);
        }
        Self {
            world: Arc::new(Mutex::new(world)),
        }
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tasks that should have been worked off, and completions of which only a part was written.
    pub(crate) fn left_over(&self) -> Vec<String> {
        let world = self.world();
        let mut left = Vec::new();
        for (slug, place) in world.places.iter().filter(|(_, place)| place.present) {
            for (id, task) in &place.contents.tasks {
                if matches!(task.status, Status::Ready | Status::Running) || !task.finished {
                    left.push(format!("{slug}/{id}: {task:?}"));
                }
            }
        }
        left
    }
}

impl World {
    fn now(&self) -> i64 {
        self.clock.now().whole_seconds()
    }

    fn create(&mut self, slug: &BoardSlug) {
        self.files += 1;
        let contents = Contents::new(self.files, self.now());
        let place = Place {
            copy: contents.clone(),
            contents,
            file: self.files,
            present: true,
            archived: false,
            commits: 0,
            unreadable: false,
            fails_in: None,
            answer_lost: false,
        };
        self.places.insert(slug.clone(), place);
    }
}
