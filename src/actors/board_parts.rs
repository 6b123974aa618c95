//! What the two actors of a board share: the board's thread, the store, and what is known of the board.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::board_thread::{BoardHandle, VisitError};
use super::engine::Engine;
use super::events::Events;
use super::ledger::Ledger;
use super::ordinals::Ordinals;
use super::readers::Readers;
use super::roster::Roster;
use super::scope::Scope;
use super::settle::EndingPolicy;
use super::store::StoreHandle;
use super::supervise::Link;
use super::view::BoardState;
use crate::board::{Board, BoardError, BoardHost};
use crate::clock::SharedClock;
use crate::domain::{BoardSlug, ClaimLock, Lane, LeasePolicy, Timestamp};
use crate::faults::{Faults, Work};

/// How a board is, for operators.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoardStatus {
    /// What is wrong; `None` when nothing is.
    pub problem: Option<BoardProblem>,
    /// Why the listing could not tell whether it is archived.
    pub unclear: Option<String>,
    /// When its last pass ended.
    pub last_pass: Option<Timestamp>,
    /// Tasks that could be claimed, as far as the Dispatcher looked.
    pub ready: usize,
}

/// What is wrong with a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoardProblem {
    /// What the operator API shows.
    pub state: BoardState,
    /// Why, for people.
    pub reason: String,
    /// The work that met it; the same work done is the sign that it is over.
    what: &'static str,
}

impl BoardProblem {
    /// The problem that an error of a visit tells of; `None` where it is one row's or one call's.
    fn of(error: &VisitError, what: &'static str) -> Option<Self> {
        let state = match error {
            VisitError::Board(BoardError::Gone(_)) => BoardState::Gone,
            VisitError::Board(BoardError::ReadOnly(_)) => BoardState::ReadOnly,
            other if other.is_of_the_board() => BoardState::Unreadable,
            _ => return None,
        };
        Some(Self {
            state,
            reason: error.to_string(),
            what,
        })
    }
}

/// Intents that a Dispatcher is just carrying out, so that no pass resolves them under it. A crash loses the set, which
/// is right: nobody carries them out any more then.
#[derive(Clone, Default)]
pub struct HeldIntents {
    locks: Arc<Mutex<HashSet<ClaimLock>>>,
}

impl HeldIntents {
    /// Holds an intent until the value is dropped.
    #[must_use]
    pub fn hold(&self, lock: ClaimLock) -> HeldIntent {
        self.locks().insert(lock.clone());
        HeldIntent {
            held: self.clone(),
            lock,
        }
    }

    /// Whether a Dispatcher holds it.
    #[must_use]
    pub fn is_held(&self, lock: &ClaimLock) -> bool {
        self.locks().contains(lock)
    }

    fn locks(&self) -> MutexGuard<'_, HashSet<ClaimLock>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One intent that is being carried out.
pub struct HeldIntent {
    held: HeldIntents,
    lock: ClaimLock,
}

impl Drop for HeldIntent {
    fn drop(&mut self) {
        self.held.locks().remove(&self.lock);
    }
}

/// What both actors of a board work with. Everything in it is shared.
#[derive(Clone)]
pub struct BoardParts {
    /// The board.
    pub slug: BoardSlug,
    /// Its thread.
    pub thread: BoardHandle,
    /// The place that holds the boards.
    pub host: Arc<dyn BoardHost>,
    /// What carries the work.
    pub engine: Engine,
    /// The store.
    pub store: StoreHandle,
    /// Reads of the store.
    pub readers: Readers,
    /// Time.
    pub clock: SharedClock,
    /// The Roster.
    pub roster: Link<Roster>,
    /// The slots, to tell them that their row changed.
    pub ordinals: Ordinals,
    /// What is put off.
    pub ledger: Ledger,
    /// Where events are said.
    pub events: Events,
    /// Lanes of this pool.
    pub lanes: Arc<[Lane]>,
    /// Leases.
    pub policy: LeasePolicy,
    /// How runs are ended.
    pub endings: EndingPolicy,
    /// Longest time between two passes, in seconds.
    pub interval_seconds: f64,
    /// Intents under way.
    pub held: HeldIntents,
    /// Whether new runs may be claimed here (not archived, not left out).
    pub open: Arc<AtomicBool>,
    /// Whether the pool is draining.
    pub draining: Arc<AtomicBool>,
    /// How the board is.
    pub status: Arc<Mutex<BoardStatus>>,
    /// The tests' door.
    pub faults: Faults,
}

impl BoardParts {
    /// Whether new runs may be claimed now.
    #[must_use]
    pub fn may_claim(&self) -> bool {
        self.open.load(Atomic::Relaxed) && !self.is_draining()
    }

    /// Whether the pool is draining.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Atomic::Relaxed)
    }

    /// How the board is.
    pub fn status(&self) -> MutexGuard<'_, BoardStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a listing has said of whether the board is archived: why it cannot be told, or that it can.
    pub fn note_unclear(&self, unclear: Option<String>) {
        const WHAT: &str = "tell whether it is archived";
        match &unclear {
            Some(why) => self
                .ledger
                .defer(&self.slug, WHAT, why, self.clock.now(), None),
            None => self.ledger.clear(&self.slug, WHAT),
        }
        self.status().unclear = unclear;
    }

    /// Scope of a ledger entry of one task.
    #[must_use]
    pub fn scope(&self, task: &str) -> Scope {
        Scope::below(&self.slug, task)
    }

    /// Visits the board, and keeps the ledger and the board's status in step with how it went.
    ///
    /// # Errors
    /// [`VisitError`], which is in the ledger already.
    pub async fn visit<R: Send + 'static>(
        &self,
        scope: impl Into<Scope>,
        what: &'static str,
        visit: impl FnOnce(&mut dyn Board, i64) -> Result<R, BoardError> + Send + 'static,
    ) -> Result<R, VisitError> {
        let (clock, faults, slug) = (
            Arc::clone(&self.clock),
            self.faults.clone(),
            self.slug.clone(),
        );
        // The time is taken on the board's thread: the visit may have waited for others.
        let answer = self
            .thread
            .visit(move |board| {
                faults.begin(Work::Visit, what, &slug);
                visit(board, clock.now().whole_seconds())
            })
            .await;
        match &answer {
            Ok(_) => self.visit_succeeded(scope.into(), what),
            Err(error) => self.visit_failed(scope.into(), what, error),
        }
        answer
    }

    fn visit_succeeded(&self, scope: Scope, what: &'static str) {
        self.ledger.clear(scope, what);
        self.ledger.clear(&self.slug, what);
        // A board that can be read may still take no writes, so only the same work shows that it can be done again.
        let mut status = self.status();
        status.problem = status.problem.take().filter(|problem| problem.what != what);
    }

    /// Nothing of this work is left to do on the board, so none of it is put off any more.
    pub fn nothing_left_of(&self, work: &[&'static str]) {
        for what in work {
            self.ledger.clear(&self.slug, what);
        }
        let mut status = self.status();
        status.problem = status
            .problem
            .take()
            .filter(|problem| !work.contains(&problem.what));
    }

    fn visit_failed(&self, scope: Scope, what: &'static str, error: &VisitError) {
        let problem = BoardProblem::of(error, what);
        // A fault of the board is one entry, however many rows meet it.
        let scope = if problem.is_some() {
            Scope::from(&self.slug)
        } else {
            scope
        };
        self.ledger
            .defer(scope, what, error.to_string(), self.clock.now(), None);
        if problem.is_some() {
            self.status().problem = problem;
        }
    }
}
