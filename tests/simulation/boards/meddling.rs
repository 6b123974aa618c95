//! What people, Hermes and the file system do to boards.

use hermes_pool::clock::Clock;
use hermes_pool::domain::{BoardSlug, ClaimLock, Outcome};

use super::contents::{Contents, Status, ended};
use super::{Boards, Deed, Place, Upheaval, What, World};
use crate::coverage::{Event, saw};

/// How long others hold a claim.
const FOREIGN_TTL_SECONDS: i64 = 900;
/// The limit of tasks that have one.
const LIMIT_SECONDS: i64 = 120;

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
    AddTask {
        unfit: bool,
        limited: bool,
    },
    /// A run is taken back.
    TakeAway(u8),
    /// A run is completed by hand.
    Finish(u8),
    /// A run's task is held by another claim, and the run itself is left open.
    Steal(u8),
    /// A task gets a limit, or loses the one it had.
    Edit(u8),
    /// A task is deleted, whatever its state.
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
            self.meddle(&slug, Meddling::Unarchive);
        }
        self.world().mounted = true;
    }

    /// Hermes takes back what nobody extends; returns whose claims that were.
    pub(crate) fn take_back_expired(&self, slug: &BoardSlug) -> Vec<ClaimLock> {
        let mut world = self.world();
        let now = world.now();
        let place = world.places.get_mut(slug);
        let Some(place) = place.filter(|place| place.present && !place.archived) else {
            return Vec::new();
        };
        let tasks = place.contents.tasks.values();
        let expired: Vec<i64> = tasks
            .filter(|task| task.status == Status::Running && task.expires_at < now)
            .filter_map(|task| task.run)
            .collect();
        let ends: Vec<Deed> = expired
            .into_iter()
            .filter_map(|run| place.end_by_others(run, Outcome::Reclaimed, Status::Ready, now))
            .collect();
        let locks = ends.iter().map(|deed| deed.lock.clone()).collect();
        ends.iter().for_each(|_| saw(Event::TakenBackByHermes));
        world.account.deeds.extend(ends);
        locks
    }

    pub(crate) fn meddle(&self, slug: &BoardSlug, meddling: Meddling) {
        self.world().meddle(slug, meddling);
    }
}

impl World {
    fn meddle(&mut self, slug: &BoardSlug, meddling: Meddling) {
        match meddling {
            Meddling::Unmount => return self.mounted = false,
            Meddling::Mount => return self.mounted = true,
            Meddling::Remove | Meddling::Replace | Meddling::Restore => {
                return self.uproot(slug, meddling);
            }
            _ => {}
        }
        let now = self.now();
        let place = self.places.get_mut(slug);
        let Some(place) = place.filter(|place| place.present) else {
            return;
        };
        let deed = match meddling {
            Meddling::AddTask { unfit, limited } => {
                let id = format!("t_{:04}", place.commits);
                let limit = limited.then_some(LIMIT_SECONDS);
                place.contents.add_task(id, unfit, limit);
                None
            }
            Meddling::TakeAway(nth) => place.held(nth).and_then(|run| {
                saw(Event::TakenAway);
                place.end_by_others(run, Outcome::Reclaimed, Status::Ready, now)
            }),
            Meddling::Finish(nth) => place.held(nth).and_then(|run| {
                saw(Event::FinishedByHand);
                place.end_by_others(run, Outcome::Completed, Status::Done, now)
            }),
            Meddling::Steal(nth) => place.held(nth).and_then(|run| place.steal(run, now)),
            Meddling::Delete(nth) => place.delete(nth, now),
            Meddling::Edit(nth) => {
                place.edit(nth);
                None
            }
            Meddling::Archive | Meddling::Unarchive => {
                place.archived = meddling == Meddling::Archive;
                None
            }
            Meddling::Copy => {
                place.copy = place.contents.clone();
                None
            }
            Meddling::Unmount
            | Meddling::Mount
            | Meddling::Remove
            | Meddling::Replace
            | Meddling::Restore => None,
        };
        place.commits += 1;
        self.account.deeds.extend(deed);
    }

    /// The board goes away, or another file takes its place.
    fn uproot(&mut self, slug: &BoardSlug, meddling: Meddling) {
        let (now, elapsed) = (self.now(), self.clock.elapsed());
        self.files += 1;
        let file = self.files;
        let Some(place) = self.places.get_mut(slug) else {
            return;
        };
        match meddling {
            Meddling::Restore => {
                place.contents = place.copy.clone();
                saw(Event::BoardRestored);
            }
            Meddling::Replace => place.contents = Contents::new(file, now),
            _ => {}
        }
        (place.file, place.present) = (file, meddling != Meddling::Remove);
        place.commits += 1;
        self.account.upheavals.push(Upheaval {
            at: elapsed,
            board: slug.clone(),
        });
    }
}

impl Place {
    /// The run of one of the tasks that are held.
    fn held(&self, nth: u8) -> Option<i64> {
        let runs = self.contents.held();
        (!runs.is_empty()).then(|| runs[usize::from(nth) % runs.len()])
    }

    /// The id of one of all tasks.
    fn task(&self, nth: u8) -> Option<String> {
        let tasks = &self.contents.tasks;
        let chosen = usize::from(nth).checked_rem(tasks.len())?;
        tasks.keys().nth(chosen).cloned()
    }

    fn end_by_others(
        &mut self,
        run: i64,
        outcome: Outcome,
        status: Status,
        now: i64,
    ) -> Option<Deed> {
        let deed = self.contents.deed(run, What::Foreign, now)?;
        self.contents.close(run, ended(outcome), status);
        self.commits += 1;
        Some(deed)
    }

    fn steal(&mut self, run: i64, now: i64) -> Option<Deed> {
        let deed = self.contents.deed(run, What::Foreign, now)?;
        let task = self.contents.runs.get(&run)?.task.clone();
        let thief = ClaimLock::recorded(&format!("elsewhere:{}", self.commits));
        self.contents.tasks.get_mut(&task)?.status = Status::Ready;
        self.contents
            .claim(&task, &thief, now + FOREIGN_TTL_SECONDS, now)?;
        saw(Event::Stolen);
        Some(deed)
    }

    fn delete(&mut self, nth: u8, now: i64) -> Option<Deed> {
        let task = self.task(nth)?;
        let run = self.contents.tasks.get(&task)?.run;
        let deed = run.and_then(|run| self.contents.deed(run, What::Foreign, now));
        self.contents.event_sequence += 1;
        self.contents.delete(&task);
        saw(match run {
            Some(_) => Event::DeletedWhileHeld,
            None => Event::DeletedWhileFree,
        });
        deed
    }

    fn edit(&mut self, nth: u8) {
        let task = self
            .task(nth)
            .and_then(|id| self.contents.tasks.get_mut(&id));
        if let Some(task) = task {
            self.contents.event_sequence += 1;
            task.limit_seconds = match task.limit_seconds {
                Some(_) => None,
                None => Some(LIMIT_SECONDS),
            };
            saw(match task.run {
                Some(_) => Event::EditedWhileHeld,
                None => Event::EditedWhileFree,
            });
        }
    }
}
