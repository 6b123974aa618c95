//! Boards of Hermes Kanban: SQLite files that Hermes owns and this pool shares.
//!
//! | part | does |
//! |---|---|
//! | [`HomeValues`] | finds Hermes' root |
//! | [`HermesBoards`] | lists and opens the boards below it, and makes new ones |
//! | [`HermesBoard`] | one opened board, behind the port [`Board`] |
//!
//! Everything that knows Hermes' schema is in here; the rest of the crate sees tasks, runs and fates. Each write is exactly
//! what Hermes would write, row by row: its own people and processes read it. The pool's policies are elsewhere.
//!
//! Invariants: no file is created but where somebody asks for a new board; nothing is written to a file that the board's
//! path no longer names; nothing is written without the exact run or the exact lock; rows that cannot be understood hide
//! no others. What survives a crash is what was committed; [`Observation`] tells afterwards whose it was.
//!
//! Deliberately absent: promotion, expiry and stale checks on a schedule (a dispatcher's work), workspaces, artifacts,
//! notifications, plugin hooks (they fire inside Hermes' own process only).

mod block;
mod card;
mod cell;
mod claim;
mod comment;
mod complete;
mod connection;
mod context;
mod create;
mod created_cards;
mod discovery;
mod ending;
mod events;
mod evidence;
mod fail;
mod features;
mod keep;
mod metadata;
mod operations;
#[cfg(test)]
mod plan_tests;
mod promote;
mod ready;
mod recent;
mod release;
mod root;
mod row;
mod run;
mod show;
mod text;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;

use self::connection::BoardFile;
use self::recent::RecentWork;
use super::{
    Board, BoardError, BoardHost, Brief, Claimed, Ended, Ending, Found, Listing, PoolClaim,
};
use crate::domain::{Anchor, BoardSlug, ClaimLock, Fate, Lane, PoolId, RunId, RunRef, TaskId};
use crate::faults::Faults;

pub use self::cell::Cell;
pub use self::claim::NewClaim;
pub use self::complete::Completion;
pub use self::create::{BoardDetails, NewTask, Workspace};
pub use self::discovery::BoardEntry;
pub use self::evidence::{Observation, RunRow, TaskRow};
pub use self::ready::{Guard, GuardRule, Waiting};
pub use self::root::{HomeValues, NoHome};
pub use self::show::{EventLine, RunLine, TaskLine};

/// What may differ between installations.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether tasks are claimed on boards whose schema is of an unreleased Hermes.
    pub claims_on_unreleased_schema: bool,
    /// The zone of the times that workers are told.
    pub time_zone: TimeZone,
    /// How long one statement waits for a busy board. BEGIN and COMMIT are tried a few times.
    pub busy_timeout: Duration,
    /// The tests' door.
    pub faults: Faults,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            claims_on_unreleased_schema: false,
            time_zone: TimeZone::system(),
            busy_timeout: Duration::from_millis(1500),
            faults: Faults::default(),
        }
    }
}

/// The boards below one root.
#[derive(Clone, Debug)]
pub struct HermesBoards {
    root: PathBuf,
    settings: Settings,
}

impl HermesBoards {
    /// The boards below this root.
    #[must_use]
    pub fn new(root: PathBuf, settings: Settings) -> Self {
        Self { root, settings }
    }

    /// The folder that holds them.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All boards that Hermes lists, `default` always among them.
    ///
    /// # Errors
    /// [`BoardError::Unreadable`] if they cannot be listed.
    pub fn list(&self) -> Result<Vec<BoardEntry>, BoardError> {
        discovery::list(&self.root)
    }

    /// The boards that can be served: those with a database, each database once.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub fn serving(&self) -> Result<Vec<BoardEntry>, BoardError> {
        discovery::serving(&self.root, &BTreeSet::new())
    }

    /// Opens a board. Each board must be opened once in a process, by the thread that uses it.
    ///
    /// # Errors
    /// [`BoardError`]; a board that is damaged is [`BoardError::Unreadable`].
    pub fn open(&self, slug: &BoardSlug) -> Result<HermesBoard, BoardError> {
        let database = discovery::database(&self.root, slug);
        Ok(HermesBoard {
            file: BoardFile::open(&database, self.settings.busy_timeout)?,
            recent: RecentWork::default(),
            profiles: self.root.join("profiles"),
            settings: self.settings.clone(),
        })
    }

    /// Opens a board that has to be written to. Reading alone is enough to show one, and never to serve it.
    ///
    /// # Errors
    /// As [`Self::open`]; [`BoardError::ReadOnly`] if this user may only read its file.
    pub fn open_to_write(&self, slug: &BoardSlug) -> Result<HermesBoard, BoardError> {
        let board = self.open(slug)?;
        if board.file.is_read_only()? {
            return Err(BoardError::ReadOnly(format!(
                "{} is read-only for this user; check its owner, its permissions and how its disk is mounted",
                discovery::database(&self.root, slug).display()
            )));
        }
        Ok(board)
    }

    /// Makes an empty board and returns where its database is.
    ///
    /// # Errors
    /// [`BoardError::Refused`] if there is one already, [`BoardError::Unreadable`] for what the system refuses.
    pub fn create(
        &self,
        slug: &BoardSlug,
        details: &BoardDetails,
        now: i64,
    ) -> Result<PathBuf, BoardError> {
        create::create_board(&self.root, slug, details, now)
    }

    /// Whether Hermes itself runs the tasks of a lane, because a profile has its name.
    #[must_use]
    pub fn is_profile(&self, lane: &str) -> bool {
        is_profile(&self.root.join("profiles"), lane)
    }
}

/// Whether a lane is the name of one of these profiles; `default` always is.
fn is_profile(profiles: &Path, lane: &str) -> bool {
    lane == "default" || (!lane.contains('/') && profiles.join(lane).is_dir())
}

impl BoardHost for HermesBoards {
    fn list(&self, kept: &BTreeSet<BoardSlug>) -> Result<Vec<Found>, BoardError> {
        Ok(discovery::serving(&self.root, kept)?
            .into_iter()
            .map(|entry| entry.found)
            .collect())
    }

    fn open(&self, slug: &BoardSlug) -> Result<Box<dyn Board>, BoardError> {
        Ok(Box::new(self.open_to_write(slug)?))
    }

    fn root_identity(&self, slug: &BoardSlug) -> Option<(u64, u64)> {
        discovery::root_identity(&self.root, slug)
    }

    fn holds_boards(&self, slug: &BoardSlug) -> bool {
        discovery::holds_boards(&self.root, slug)
    }
}

/// One opened board.
pub struct HermesBoard {
    file: BoardFile,
    recent: RecentWork,
    profiles: PathBuf,
    settings: Settings,
}

impl HermesBoard {
    /// Whether the tables of a board are there. Hermes makes the file first, and them at its first look.
    #[must_use]
    pub fn has_tables(&self) -> bool {
        self.file.has_tables()
    }
}

impl Board for HermesBoard {
    fn changed(&mut self) -> Result<bool, BoardError> {
        self.file.changed()
    }

    fn ready(&mut self, lanes: &[Lane], limit: usize, now: i64) -> Result<Listing, BoardError> {
        let Self {
            file,
            profiles,
            settings,
            ..
        } = self;
        file.read(now, |visit| {
            if visit.features.initialised {
                visit.features.writable()?;
            }
            let unreleased = unreleased(visit, settings);
            ready::list(visit, lanes, limit, unreleased, |lane| {
                is_profile(profiles, lane)
            })
        })
    }

    fn anchor(&mut self) -> Result<Anchor, BoardError> {
        self.file.read(0, evidence::anchor)
    }

    fn claim(
        &mut self,
        task: &TaskId,
        lock: &ClaimLock,
        ttl_seconds: i64,
        now: i64,
    ) -> Result<Option<Claimed>, BoardError> {
        let Self {
            file,
            profiles,
            settings,
            ..
        } = self;
        let claim = file.write(now, |visit| {
            // Profiles appear and cards change at any time: what was listed a moment ago is judged again.
            let Some(waiting) = ready::one(visit, task.as_str())? else {
                return Ok(None);
            };
            let unreleased = unreleased(visit, settings);
            if ready::judge(&waiting, unreleased, |lane| is_profile(profiles, lane)).is_err() {
                return Ok(None);
            }
            claim::claim(visit, task.as_str(), lock.as_str(), ttl_seconds)
        })?;
        claim
            .map(|claim| {
                Ok(Claimed {
                    run: run_id(claim.run)?,
                    expires_at: claim.expires_at,
                })
            })
            .transpose()
    }

    fn claimed_run(
        &mut self,
        task: &TaskId,
        lock: &ClaimLock,
    ) -> Result<Option<RunId>, BoardError> {
        let run = self.file.read(0, |visit| {
            evidence::claimed_run(visit, task.as_str(), lock.as_str())
        })?;
        run.map(run_id).transpose()
    }

    fn lock_of(&mut self, run: &RunRef) -> Result<Option<ClaimLock>, BoardError> {
        let Some(row) = run.run.row_id() else {
            return Ok(None);
        };
        let locks = self
            .file
            .read(0, |visit| evidence::claimed_locks(visit, row))?;
        Ok(locks.first().map(|lock| ClaimLock::recorded(lock)))
    }

    fn pool_claims(&mut self, pool: &PoolId) -> Result<Vec<PoolClaim>, BoardError> {
        let prefix = ClaimLock::prefix_of(pool);
        self.file
            .read(0, |visit| evidence::claims_with(visit, &prefix))
    }

    fn brief(&mut self, task: &TaskId, now: i64) -> Result<Brief, BoardError> {
        self.brief_of(task.as_str(), now)
    }

    fn extend(
        &mut self,
        task: &TaskId,
        lock: &ClaimLock,
        ttl_seconds: i64,
        now: i64,
    ) -> Result<bool, BoardError> {
        self.extend_claim(task.as_str(), lock.as_str(), ttl_seconds, now)
    }

    fn heartbeat(
        &mut self,
        run: &RunRef,
        note: Option<&str>,
        now: i64,
    ) -> Result<bool, BoardError> {
        match run.run.row_id() {
            Some(row) => self.record_heartbeat(run.task.as_str(), Some(row), note, now),
            None => Ok(false),
        }
    }

    fn end(
        &mut self,
        run: &RunRef,
        lock: &ClaimLock,
        ending: &Ending,
        now: i64,
    ) -> Result<Option<Ended>, BoardError> {
        let Some(row) = run.run.row_id() else {
            return Ok(None);
        };
        self.end_run(run.task.as_str(), row, lock.as_str(), ending, now)
    }

    fn finish_completion(&mut self, task: &TaskId, now: i64) -> Result<(), BoardError> {
        self.after_completion(task.as_str(), now)
    }

    fn has_open_parent(&mut self, task: &TaskId) -> Result<bool, BoardError> {
        self.file
            .read(0, |visit| claim::has_open_parent(visit, task.as_str()))
    }

    fn fate(
        &mut self,
        run: &RunRef,
        lock: Option<&ClaimLock>,
        anchor: Option<&Anchor>,
        now: i64,
    ) -> Result<Fate, BoardError> {
        let Some(row) = run.run.row_id() else {
            return Ok(Fate::BoardReplaced {
                why: format!("{} is no run of a Hermes board", run.run),
            });
        };
        let task = run.task.as_str();
        let seen = self.observe(task, row, anchor)?;
        seen.fate(task, row, lock, anchor, now)
    }
}

fn unreleased<'a>(visit: &connection::Visit<'a>, settings: &Settings) -> Option<&'a str> {
    visit
        .features
        .unreleased
        .as_deref()
        .filter(|_| !settings.claims_on_unreleased_schema)
}

/// The port's name of a run's row.
fn run_id(row: i64) -> Result<RunId, BoardError> {
    RunId::try_from(row).map_err(|error| BoardError::Unreadable(error.to_string()))
}
