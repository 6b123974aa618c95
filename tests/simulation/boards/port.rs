//! Boards as the pool sees them: the port, with everything that can go wrong with a call.

use std::collections::BTreeSet;
use std::time::Duration;

use hermes_pool::board::{
    Board, BoardError, BoardHost, Brief, Claimed, Ended, Ending, Found, Listing, PoolClaim,
    ReadyTask, mark,
};
use hermes_pool::clock::Clock;
use hermes_pool::domain::{
    Anchor, BoardSlug, ClaimLock, EndedRun, Fate, Landing, Lane, Outcome, PoolId, Receipt, RunId,
    RunRef, TaskId,
};

use super::contents::{Status, ended, number, run_id, task_id};
use super::{Account, Boards, ClaimMade, Place, What, World};
use crate::LANE;
use crate::coverage::{Event, saw};

/// A context that no worker can ever be offered.
const TOO_LARGE: usize = 33 * 1024;

impl BoardHost for Boards {
    fn list(&self, _kept: &BTreeSet<BoardSlug>) -> Result<Vec<Found>, BoardError> {
        let world = self.world();
        if !world.mounted {
            saw(Event::RootMissing);
            return Err(BoardError::Gone("the boards' folder".to_owned()));
        }
        let present = world.places.iter().filter(|(_, place)| place.present);
        let archived = present.clone().filter(|(_, place)| place.archived);
        archived.for_each(|_| saw(Event::BoardArchived));
        Ok(present
            .map(|(slug, place)| Found {
                slug: slug.clone(),
                archived: place.archived,
                unclear: None,
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

    fn root_identity(&self, _: &BoardSlug) -> Option<(u64, u64)> {
        self.world().mounted.then_some((1, 1))
    }

    fn holds_boards(&self, _: &BoardSlug) -> bool {
        self.world().mounted
    }
}

struct OpenBoard {
    boards: Boards,
    slug: BoardSlug,
    file: u64,
    seen: u64,
}

impl OpenBoard {
    fn elapsed(&self) -> Duration {
        self.boards.world().clock.elapsed()
    }

    /// One call, which fails where the board is broken; `act` gets the board and takes down what it did.
    fn call<R>(
        &mut self,
        act: impl FnOnce(&mut Place, &mut Account) -> R,
    ) -> Result<R, BoardError> {
        let boards = self.boards.clone();
        let mut guard = boards.world();
        let World {
            places,
            mounted,
            account,
            ..
        } = &mut *guard;
        let place = places
            .get_mut(&self.slug)
            .filter(|place| place.present && *mounted)
            .ok_or_else(|| {
                saw(Event::BoardGone);
                BoardError::Gone(self.slug.to_string())
            })?;
        if place.file != self.file {
            saw(Event::BoardReplaced);
            return Err(BoardError::Replaced);
        }
        if place.unreadable {
            saw(Event::BoardUnreadable);
            return Err(BoardError::Unreadable("busy".to_owned()));
        }
        match place.fails_in {
            Some(0) => {
                place.fails_in = None;
                saw(Event::CallFailed);
                return Err(BoardError::Unreadable("busy for a moment".to_owned()));
            }
            Some(calls) => place.fails_in = Some(calls - 1),
            None => {}
        }
        Ok(act(place, account))
    }

    /// A write that happens whole, and whose answer may get lost.
    fn write<R>(
        &mut self,
        act: impl FnOnce(&mut Place, &mut Account) -> Option<R>,
    ) -> Result<Option<R>, BoardError> {
        let mut lost = false;
        let mut seen = self.seen;
        let answer = self.call(|place, account| {
            let answer = act(place, account);
            if answer.is_some() {
                lost = std::mem::take(&mut place.answer_lost);
                place.commits += 1;
                seen += 1;
            }
            answer
        })?;
        self.seen = seen;
        if lost {
            saw(Event::BoardAnswerLost);
            return Err(BoardError::Unreadable("the answer was lost".to_owned()));
        }
        Ok(answer)
    }
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
                    task: task_id(id),
                    lane: lane.clone(),
                })
                .collect(),
            refused: Vec::new(),
        })
    }

    fn anchor(&mut self) -> Result<Anchor, BoardError> {
        self.call(|place, _| place.contents.anchor())
    }

    fn claim(
        &mut self,
        task: &TaskId,
        lock: &ClaimLock,
        ttl_seconds: i64,
        now: i64,
    ) -> Result<Option<Claimed>, BoardError> {
        let elapsed = self.elapsed();
        self.write(|place, account| {
            let anchor = place.contents.anchor();
            let expires_at = now + ttl_seconds;
            let run = place.contents.claim(task.as_str(), lock, expires_at, now)?;
            let made = ClaimMade {
                at: elapsed,
                anchor,
            };
            account.claims.insert(lock.as_str().to_owned(), made);
            account.did(place, run, What::Claimed, now);
            Some(Claimed {
                run: run_id(run),
                expires_at,
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
        self.call(|place, account| {
            let Some(row) = place.contents.tasks.get_mut(task.as_str()) else {
                return false;
            };
            let Some(run) = row.run.filter(|_| row.lock.as_ref() == Some(lock)) else {
                return false;
            };
            row.expires_at = now + ttl_seconds;
            account.did(place, run, What::Extended, now);
            true
        })
    }

    fn heartbeat(&mut self, run: &RunRef, _: Option<&str>, now: i64) -> Result<bool, BoardError> {
        self.call(|place, account| {
            let number = number(&run.run);
            let row = place.contents.runs.get(&number);
            let Some(lock) = row.map(|row| row.lock.clone()) else {
                return false;
            };
            let current = place.contents.is_current(number, &lock);
            if current {
                account.did(place, number, What::Beat, now);
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
        self.write(|place, account| {
            let number = number(&run.run);
            if !place.contents.is_current(number, lock) {
                return None;
            }
            account.did(place, number, What::Ended(ending.clone()), now);
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
            place.contents.close(number, row, status);
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
        self.call(|place, account| {
            account.show_lost(place, run, lock, now);
            place.contents.fate(run, lock, anchor, now)
        })
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
