//! Boards in memory, behind the port that the pool knows, and an account of everything that ever happened on them.
//!
//! The account ([`Deed`]) outlives the boards: what was written on a board that is then replaced by an older copy was
//! written all the same. It is what the invariants are judged by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hermes_pool::board::{
    Board, BoardError, BoardHost, Brief, Claimed, Ended, Ending, Found, Listing, PoolClaim,
    ReadyTask, mark,
};
use hermes_pool::domain::{
    Anchor, BoardSlug, ClaimLock, EndedRun, Fate, Landing, Lane, Outcome, PoolId, Receipt, RunId,
    RunRef, TaskId,
};

use super::LANE;

/// A context that no worker can ever be offered.
const TOO_LARGE: usize = 33 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ready,
    Running,
    Done,
    Blocked,
}

#[derive(Clone, Debug)]
struct Task {
    status: Status,
    lock: Option<ClaimLock>,
    run: Option<i64>,
    expires_at: i64,
    limit_seconds: Option<i64>,
    /// It can never be offered.
    unfit: bool,
    failures: i64,
    /// What follows a completion was done too.
    finished: bool,
}

#[derive(Clone, Debug)]
struct Run {
    task: String,
    lock: ClaimLock,
    started_at: i64,
    ended: Option<EndedRun>,
}

/// What a board holds.
#[derive(Clone, Debug, Default)]
struct Contents {
    tasks: BTreeMap<String, Task>,
    runs: BTreeMap<i64, Run>,
    run_sequence: i64,
    event_sequence: i64,
    oldest: (String, i64),
}

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
    /// Ended by somebody else, or deleted.
    Foreign,
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
    pub(crate) at: i64,
    pub(crate) board: BoardSlug,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    places: BTreeMap<BoardSlug, Place>,
    mounted: bool,
    files: u64,
    pub(crate) deeds: Vec<Deed>,
    pub(crate) upheavals: Vec<Upheaval>,
}

/// All boards; clones are the same ones.
#[derive(Clone)]
pub(crate) struct Boards {
    world: Arc<Mutex<World>>,
}

/// How a board is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Unreadable,
    FailsIn(u8),
    AnswerLost,
    Mended,
}

/// What people do to boards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meddling {
    AddTask { unfit: bool, limited: bool },
    TakeAway(u8),
    Finish(u8),
    Delete(u8),
    Archive,
    Unarchive,
    Remove,
    Replace,
    Copy,
    Restore,
    Unmount,
    Mount,
}

impl Boards {
    pub(crate) fn new() -> Self {
        let world = World {
            mounted: true,
            ..World::default()
        };
        Self {
            world: Arc::new(Mutex::new(world)),
        }
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn create(&self, slug: &BoardSlug, now: i64) {
        let mut world = self.world();
        world.files += 1;
        let contents = Contents::new(world.files, now);
        let place = Place {
            copy: contents.clone(),
            contents,
            file: world.files,
            present: true,
            archived: false,
            commits: 0,
            unreadable: false,
            fails_in: None,
            answer_lost: false,
        };
        world.places.insert(slug.clone(), place);
    }

    pub(crate) fn trouble(&self, slug: &BoardSlug, trouble: Trouble) {
        let mut world = self.world();
        let Some(place) = world.places.get_mut(slug) else {
            return;
        };
        match trouble {
            Trouble::Unreadable => place.unreadable = true,
            Trouble::FailsIn(calls) => place.fails_in = Some(calls),
            Trouble::AnswerLost => place.answer_lost = true,
            Trouble::Mended => {
                place.unreadable = false;
                place.fails_in = None;
                place.answer_lost = false;
            }
        }
    }

    /// What is out of order is put in order, as far as people can.
    pub(crate) fn mend(&self) {
        let slugs: Vec<_> = self.world().places.keys().cloned().collect();
        for slug in slugs {
            self.trouble(&slug, Trouble::Mended);
            self.meddle(&slug, Meddling::Unarchive, 0);
        }
        self.world().mounted = true;
    }

    /// Hermes takes back what nobody extends.
    pub(crate) fn take_back_expired(&self, slug: &BoardSlug, now: i64) {
        let mut world = self.world();
        let Some(place) = world.places.get_mut(slug) else {
            return;
        };
        let expired: Vec<i64> = place
            .contents
            .tasks
            .values()
            .filter(|task| task.status == Status::Running && task.expires_at < now)
            .filter_map(|task| task.run)
            .collect();
        let ends = expired
            .into_iter()
            .filter_map(|run| place.end_by_others(run, Outcome::Reclaimed, Status::Ready, now));
        let ends: Vec<Deed> = ends.collect();
        world.deeds.extend(ends);
    }

    pub(crate) fn meddle(&self, slug: &BoardSlug, meddling: Meddling, now: i64) {
        let mut guard = self.world();
        let world = &mut *guard;
        match meddling {
            Meddling::Unmount => return world.mounted = false,
            Meddling::Mount => return world.mounted = true,
            _ => {}
        }
        let Some(place) = world.places.get_mut(slug) else {
            return;
        };
        let held = |place: &Place, nth: u8| {
            let runs: Vec<i64> = place
                .contents
                .tasks
                .values()
                .filter_map(|task| task.run)
                .collect();
            (!runs.is_empty()).then(|| runs[usize::from(nth) % runs.len()])
        };
        let mut upheaval = false;
        match meddling {
            Meddling::AddTask { unfit, limited } => place.add_task(unfit, limited),
            Meddling::TakeAway(nth) | Meddling::Finish(nth) => {
                if let Some(run) = held(place, nth) {
                    let (outcome, status) = match meddling {
                        Meddling::Finish(_) => (Outcome::Completed, Status::Done),
                        _ => (Outcome::Reclaimed, Status::Ready),
                    };
                    world
                        .deeds
                        .extend(place.end_by_others(run, outcome, status, now));
                }
            }
            Meddling::Delete(nth) => {
                if let Some(run) = held(place, nth) {
                    world.deeds.extend(place.end_by_others(
                        run,
                        Outcome::Reclaimed,
                        Status::Ready,
                        now,
                    ));
                    if let Some(run) = place.contents.runs.remove(&run) {
                        place.contents.tasks.remove(&run.task);
                        place
                            .contents
                            .runs
                            .retain(|_, other| other.task != run.task);
                    }
                }
            }
            Meddling::Archive => place.archived = true,
            Meddling::Unarchive => place.archived = false,
            Meddling::Copy => place.copy = place.contents.clone(),
            Meddling::Remove => (place.present, upheaval) = (false, true),
            Meddling::Restore | Meddling::Replace => {
                world.files += 1;
                place.contents = match meddling {
                    Meddling::Restore => place.copy.clone(),
                    _ => Contents::new(world.files, now),
                };
                (place.file, place.present, upheaval) = (world.files, true, true);
            }
            Meddling::Unmount | Meddling::Mount => {}
        }
        place.commits += 1;
        if upheaval {
            world.upheavals.push(Upheaval {
                at: now,
                board: slug.clone(),
            });
        }
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

impl Contents {
    fn new(file: u64, now: i64) -> Self {
        Self {
            oldest: (format!("t_first_{file}"), now),
            ..Self::default()
        }
    }

    /// Whether this is the board that was recorded, later.
    fn continues(&self, anchor: &Anchor) -> bool {
        self.run_sequence >= anchor.run_sequence
            && self.event_sequence >= anchor.event_sequence
            && anchor.oldest_task.as_ref() == Some(&self.oldest)
    }
}

impl Place {
    fn add_task(&mut self, unfit: bool, limited: bool) {
        self.contents.event_sequence += 1;
        let id = format!("t_{:04}", self.commits);
        let task = Task {
            status: Status::Ready,
            lock: None,
            run: None,
            expires_at: 0,
            limit_seconds: limited.then_some(120),
            unfit,
            failures: 0,
            finished: true,
        };
        self.contents.tasks.insert(id, task);
    }

    fn end_by_others(
        &mut self,
        run: i64,
        outcome: Outcome,
        status: Status,
        now: i64,
    ) -> Option<Deed> {
        let deed = self.deed(run, What::Foreign, now)?;
        self.close(run, ended(outcome), status);
        self.commits += 1;
        Some(deed)
    }

    fn close(&mut self, run: i64, ended: EndedRun, status: Status) {
        self.contents.event_sequence += 1;
        let Some(row) = self.contents.runs.get_mut(&run) else {
            return;
        };
        row.ended = Some(ended);
        if let Some(task) = self.contents.tasks.get_mut(&row.task) {
            (task.status, task.lock, task.run) = (status, None, None);
        }
    }

    fn deed(&self, run: i64, what: What, now: i64) -> Option<Deed> {
        let run = self.contents.runs.get(&run)?;
        let task = self.contents.tasks.get(&run.task)?;
        Some(Deed {
            at: now,
            lock: run.lock.clone(),
            what,
            started_at: run.started_at,
            limit_seconds: task.limit_seconds,
            unfit: task.unfit,
        })
    }

    fn is_current(&self, run: i64, lock: &ClaimLock) -> bool {
        let Some(row) = self.contents.runs.get(&run) else {
            return false;
        };
        let Some(task) = self.contents.tasks.get(&row.task) else {
            return false;
        };
        row.ended.is_none() && task.run == Some(run) && task.lock.as_ref() == Some(lock)
    }
}

fn ended(outcome: Outcome) -> EndedRun {
    EndedRun {
        outcome,
        summary: None,
        error: None,
        mark: None,
        by_lock: None,
        claimed_by_us: Some(true),
        landing: None,
        task_status: None,
    }
}

impl BoardHost for Boards {
    fn list(&self, _kept: &BTreeSet<BoardSlug>) -> Result<Vec<Found>, BoardError> {
        let world = self.world();
        if !world.mounted {
            return Err(BoardError::Gone("the boards' folder".to_owned()));
        }
        let present = world.places.iter().filter(|(_, place)| place.present);
        Ok(present
            .map(|(slug, place)| Found {
                slug: slug.clone(),
                archived: place.archived,
            })
            .collect())
    }

    fn open(&self, slug: &BoardSlug) -> Result<Box<dyn Board>, BoardError> {
        let world = self.world();
        let place = world
            .places
            .get(slug)
            .filter(|place| place.present && world.mounted);
        let place = place.ok_or_else(|| BoardError::Gone(slug.to_string()))?;
        Ok(Box::new(OpenBoard {
            boards: self.clone(),
            slug: slug.clone(),
            file: place.file,
            seen: place.commits,
        }))
    }

    fn root_identity(&self) -> Option<(u64, u64)> {
        self.world().mounted.then_some((1, 1))
    }
}

struct OpenBoard {
    boards: Boards,
    slug: BoardSlug,
    file: u64,
    seen: u64,
}

impl OpenBoard {
    /// One call, which fails where the board is broken; `act` gets the board and takes down what it did.
    fn call<R>(
        &mut self,
        act: impl FnOnce(&mut Place, &mut Vec<Deed>) -> R,
    ) -> Result<R, BoardError> {
        let boards = self.boards.clone();
        let mut guard = boards.world();
        let World {
            places,
            mounted,
            deeds,
            ..
        } = &mut *guard;
        let place = places
            .get_mut(&self.slug)
            .filter(|place| place.present && *mounted)
            .ok_or_else(|| BoardError::Gone(self.slug.to_string()))?;
        if place.file != self.file {
            return Err(BoardError::Replaced);
        }
        if place.unreadable {
            return Err(BoardError::Unreadable("busy".to_owned()));
        }
        match place.fails_in {
            Some(0) => {
                place.fails_in = None;
                return Err(BoardError::Unreadable("busy for a moment".to_owned()));
            }
            Some(calls) => place.fails_in = Some(calls - 1),
            None => {}
        }
        Ok(act(place, deeds))
    }

    /// A write that happens whole, and whose answer may get lost.
    fn write<R>(
        &mut self,
        act: impl FnOnce(&mut Place, &mut Vec<Deed>) -> Option<R>,
    ) -> Result<Option<R>, BoardError> {
        let mut lost = false;
        let mut seen = self.seen;
        let answer = self.call(|place, deeds| {
            let answer = act(place, deeds);
            if answer.is_some() {
                lost = std::mem::take(&mut place.answer_lost);
                place.commits += 1;
                seen += 1;
            }
            answer
        })?;
        self.seen = seen;
        if lost {
            return Err(BoardError::Unreadable("the answer was lost".to_owned()));
        }
        Ok(answer)
    }
}

fn run_id(number: i64) -> RunId {
    RunId::parse(&number.to_string()).unwrap()
}

fn number(run: &RunId) -> i64 {
    run.row_id().unwrap_or(-1)
}

impl Board for OpenBoard {
    fn changed(&mut self) -> Result<bool, BoardError> {
        let seen = self.seen;
        let commits = self.call(|place, _| place.commits)?;
        self.seen = commits;
        Ok(commits != seen)
    }

    fn ready(&mut self, _: &[Lane], limit: usize, _: i64) -> Result<Listing, BoardError> {
        let lane = Lane::parse(LANE).unwrap();
        self.call(|place, _| Listing {
            ready: place
                .contents
                .tasks
                .iter()
                .filter(|(_, task)| task.status == Status::Ready)
                .take(limit)
                .map(|(id, _)| ReadyTask {
                    task: TaskId::parse(id).unwrap(),
                    lane: lane.clone(),
                })
                .collect(),
            refused: Vec::new(),
        })
    }

    fn anchor(&mut self) -> Result<Anchor, BoardError> {
        self.call(|place, _| Anchor {
            run_sequence: place.contents.run_sequence,
            event_sequence: place.contents.event_sequence,
            oldest_task: Some(place.contents.oldest.clone()),
        })
    }

    fn claim(
        &mut self,
        task: &TaskId,
        lock: &ClaimLock,
        ttl_seconds: i64,
        now: i64,
    ) -> Result<Option<Claimed>, BoardError> {
        self.write(|place, deeds| {
            let contents = &mut place.contents;
            let row = contents.tasks.get_mut(task.as_str())?;
            if row.status != Status::Ready {
                return None;
            }
            contents.run_sequence += 1;
            contents.event_sequence += 1;
            let run = contents.run_sequence;
            (row.status, row.run, row.lock) = (Status::Running, Some(run), Some(lock.clone()));
            row.expires_at = now + ttl_seconds;
            let made = Run {
                task: task.as_str().to_owned(),
                lock: lock.clone(),
                started_at: now,
                ended: None,
            };
            contents.runs.insert(run, made);
            deeds.extend(place.deed(run, What::Claimed, now));
            Some(Claimed {
                run: run_id(run),
                expires_at: now + ttl_seconds,
            })
        })
    }

    fn claimed_run(
        &mut self,
        task: &TaskId,
        lock: &ClaimLock,
    ) -> Result<Option<RunId>, BoardError> {
        self.call(|place, _| {
            let mut runs = place.contents.runs.iter();
            let found = runs.find(|(_, run)| run.task == task.as_str() && run.lock == *lock);
            found.map(|(number, _)| run_id(*number))
        })
    }

    fn lock_of(&mut self, run: &RunRef) -> Result<Option<ClaimLock>, BoardError> {
        self.call(|place, _| {
            let row = place.contents.runs.get(&number(&run.run));
            row.map(|row| row.lock.clone())
        })
    }

    fn pool_claims(&mut self, pool: &PoolId) -> Result<Vec<PoolClaim>, BoardError> {
        let prefix = ClaimLock::prefix_of(pool);
        self.call(|place, _| {
            let tasks = place.contents.tasks.iter();
            let running = tasks.filter(|(_, task)| task.status == Status::Running);
            let claimed = running.filter_map(|(id, task)| Some((id, task.lock.clone()?)));
            claimed
                .filter(|(_, lock)| lock.as_str().starts_with(&prefix))
                .map(|(id, lock)| PoolClaim {
                    task: id.clone(),
                    lock,
                })
                .collect()
        })
    }

    fn brief(&mut self, task: &TaskId, _: i64) -> Result<Brief, BoardError> {
        let found = self.call(|place, _| place.contents.tasks.get(task.as_str()).cloned())?;
        let row = found.ok_or_else(|| BoardError::BadRow {
            task: task.as_str().to_owned(),
            why: "it was deleted".to_owned(),
        })?;
        Ok(Brief {
            lane: LANE.to_owned(),
            title: task.as_str().to_owned(),
            body: None,
            priority: 0,
            tenant: None,
            skills: Vec::new(),
            model_override: None,
            context: "c".repeat(if row.unfit { TOO_LARGE } else { 8 }),
            workspace_kind: "scratch".to_owned(),
            workspace_path: None,
            branch: None,
            max_runtime_seconds: row.limit_seconds,
        })
    }

    fn extend(
        &mut self,
        task: &TaskId,
        lock: &ClaimLock,
        ttl_seconds: i64,
        now: i64,
    ) -> Result<bool, BoardError> {
        self.call(|place, deeds| {
            let Some(row) = place.contents.tasks.get_mut(task.as_str()) else {
                return false;
            };
            let Some(run) = row.run.filter(|_| row.lock.as_ref() == Some(lock)) else {
                return false;
            };
            row.expires_at = now + ttl_seconds;
            deeds.extend(place.deed(run, What::Extended, now));
            true
        })
    }

    fn heartbeat(&mut self, run: &RunRef, _: Option<&str>, now: i64) -> Result<bool, BoardError> {
        self.call(|place, deeds| {
            let number = number(&run.run);
            let row = place.contents.runs.get(&number);
            let Some(lock) = row.map(|row| row.lock.clone()) else {
                return false;
            };
            let current = place.is_current(number, &lock);
            if current {
                deeds.extend(place.deed(number, What::Beat, now));
            }
            current
        })
    }

    fn end(
        &mut self,
        run: &RunRef,
        lock: &ClaimLock,
        ending: &Ending,
        now: i64,
    ) -> Result<Option<Ended>, BoardError> {
        self.write(|place, deeds| {
            let number = number(&run.run);
            if !place.is_current(number, lock) {
                return None;
            }
            deeds.extend(place.deed(number, What::Ended(ending.clone()), now));
            let (row, mut status) = shown(ending, lock);
            let finished = !place.answer_lost || !matches!(ending, Ending::Complete { .. });
            let task = place.contents.tasks.get_mut(run.task.as_str())?;
            if let Ending::Fail { failure_limit, .. } | Ending::TimeOut { failure_limit, .. } =
                ending
            {
                task.failures += 1;
                if task.failures >= *failure_limit {
                    status = Status::Blocked;
                }
            }
            task.finished = finished;
            let landing = row.landing;
            place.close(number, row, status);
            Some(Ended {
                receipt: Receipt::of_commit("simulated"),
                landing,
            })
        })
    }

    fn finish_completion(&mut self, task: &TaskId, _: i64) -> Result<(), BoardError> {
        self.call(|place, _| {
            if let Some(row) = place.contents.tasks.get_mut(task.as_str()) {
                row.finished = true;
            }
        })
    }

    fn has_open_parent(&mut self, _: &TaskId) -> Result<bool, BoardError> {
        self.call(|_, _| false)
    }

    fn fate(
        &mut self,
        run: &RunRef,
        lock: Option<&ClaimLock>,
        anchor: Option<&Anchor>,
        now: i64,
    ) -> Result<Fate, BoardError> {
        self.call(|place, _| place.fate(run, lock, anchor, now))
    }
}

/// What a run shows after an ending, and where its task goes.
fn shown(ending: &Ending, lock: &ClaimLock) -> (EndedRun, Status) {
    let by = Some(lock.clone());
    match ending {
        Ending::Complete {
            summary, metadata, ..
        } => (
            EndedRun {
                summary: summary.clone(),
                mark: mark::find(metadata),
                ..ended(Outcome::Completed)
            },
            Status::Done,
        ),
        Ending::Block { reason, .. } => (
            EndedRun {
                summary: reason.clone(),
                landing: Some(Landing::Blocked),
                ..ended(Outcome::Blocked)
            },
            Status::Blocked,
        ),
        Ending::TimeOut { .. } => (ended(Outcome::TimedOut), Status::Ready),
        Ending::Fail { .. } | Ending::RateLimit { .. } | Ending::Release { .. } => {
            let outcome = match ending {
                Ending::Fail { .. } => Outcome::Crashed,
                Ending::RateLimit { .. } => Outcome::RateLimited,
                _ => Outcome::Reclaimed,
            };
            (
                EndedRun {
                    by_lock: by,
                    ..ended(outcome)
                },
                Status::Ready,
            )
        }
    }
}

impl Place {
    fn fate(
        &self,
        run: &RunRef,
        lock: Option<&ClaimLock>,
        anchor: Option<&Anchor>,
        now: i64,
    ) -> Fate {
        let contents = &self.contents;
        let replaced = |why: &str| Fate::BoardReplaced {
            why: why.to_owned(),
        };
        let number = number(&run.run);
        if contents.run_sequence < number {
            return replaced("it never issued this run");
        }
        let task = contents.tasks.get(run.task.as_str());
        let Some(row) = contents.runs.get(&number) else {
            return match task {
                Some(_) => Fate::RunGone,
                None if anchor.is_some_and(|anchor| contents.continues(anchor)) => Fate::TaskGone,
                None => replaced("neither task nor run is there"),
            };
        };
        if row.task != run.task.as_str() {
            return replaced("the run belongs to another task");
        }
        if lock.is_some_and(|lock| row.lock != *lock) {
            return replaced("the run was claimed under another lock");
        }
        if let Some(ended) = &row.ended {
            return Fate::Ended(ended.clone());
        }
        match task.filter(|_| self.is_current(number, &row.lock)) {
            Some(task) => Fate::Current {
                expired: task.expires_at < now,
                started_at: row.started_at,
                max_runtime_seconds: task.limit_seconds,
            },
            None => Fate::Superseded {
                why: "not current".to_owned(),
            },
        }
    }
}
