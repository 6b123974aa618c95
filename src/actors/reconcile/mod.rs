//! One pass over a board: settle results, drain released slots, enforce limits, extend claims, resolve intents.
//!
//! A pass takes no input: it reads what is not settled from the store and goes through it in that order. Every step is
//! idempotent, so a pass that was cut off anywhere is simply followed by the next one. Each row and each intent stands
//! alone: an error or a panic puts it off, and the next one is served. A board that does not answer is asked once in a pass; the rows
//! behind that get only what needs no board.
//!
//! The life of a run, with the durable steps between which a crash may fall:
//!
//! | # | durable step | found again after a crash by |
//! |---|---|---|
//! | 1 | store: intent | step `intents`: no such claim on the board, so the intent is dropped |
//! | 2 | board: claim | step `intents`: the claim is found by its lock and assigned, or given back |
//! | 3 | store: assignment, in the place of the intent | the slot's timer, the worker's poll |
//! | 4 | store: offer | the same attempt is offered again |
//! | 5 | store: heartbeats; board: extensions | step `watch` |
//! | 6 | store: result, or that the limit passed | step `settle` |
//! | 7 | board: ending | step `settle`: the board shows the ending as ours |
//! | 8 | store: terminal, with that evidence | nothing is left to do |

mod intents;
mod memory;
mod record;
mod settle;
mod strangers;
mod watch;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

pub(super) use memory::PassMemory;

use super::board_parts::BoardParts;
use super::board_thread::{VisitError, panic_text};
use super::events::PoolEvent;
use super::scope::Scope;
use crate::domain::{IllegalRow, StateName, Timestamp};
use crate::faults::Work;
use crate::store::Record;

/// What a pass did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassReport {
    /// Runs that became terminal.
    pub ended: usize,
    /// Intents that were resolved.
    pub intents: usize,
    /// Pieces of work that were put off.
    pub deferred: usize,
    /// When something is due next, if that is known.
    pub next_due: Option<Timestamp>,
}

/// One pass under way.
pub(super) struct Pass<'a> {
    parts: &'a BoardParts,
    memory: &'a mut PassMemory,
    report: PassReport,
    /// The board did not answer: the rest of the pass does without it.
    board_is_down: bool,
    /// The board was not found, or another one in its place.
    board_is_missing: bool,
}

/// What a pass visits its board for, as the ledger names it.
const VISITS: &[&str] = &[
    "settle",
    "watch",
    "resolve the claim",
    "give the claim back",
    "read the task",
];

#[derive(Clone, Copy)]
enum Step {
    Settle,
    Drain,
    Watch,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Settle => "settle",
            Self::Drain => "drain",
            Self::Watch => "watch",
        }
    }
}

/// Goes through a board once.
pub(super) async fn run(parts: &BoardParts, memory: &mut PassMemory) -> PassReport {
    let mut pass = Pass {
        parts,
        memory,
        report: PassReport::default(),
        board_is_down: false,
        board_is_missing: false,
    };
    pass.rows().await;
    pass.intents().await;
    pass.guarded_strangers().await;
    if !pass.board_is_down && !pass.board_is_missing {
        parts.nothing_left_of(VISITS);
    }
    let report = pass.report;
    parts.status().last_pass = Some(parts.clock.now());
    parts.events.emit(PoolEvent::Reconciled {
        board: parts.slug.clone(),
        deferred: report.deferred,
    });
    report
}

impl Pass<'_> {
    async fn rows(&mut self) {
        self.memory.opened(self.parts.thread.openings());
        let (slug, now) = (self.parts.slug.clone(), self.parts.clock.now());
        let (rows, holds) = match self
            .parts
            .readers
            .read(move |reader| Ok((reader.unsettled(&slug)?, reader.held_back(&slug, now)?.1)))
            .await
        {
            Ok(rows) => rows,
            Err(error) => {
                let scope = &self.parts.slug;
                return self.put_off(scope, "read the store", error.to_string());
            }
        };
        self.parts.ledger.clear(&self.parts.slug, "read the store");
        let mut records = Vec::with_capacity(rows.len());
        let mut illegal = Vec::new();
        for row in rows {
            match row {
                Ok(record) => records.push(record),
                Err(row) => illegal.push(row),
            }
        }
        // The entry of a row that is over may still hold its task back.
        illegal.extend(holds);
        illegal.sort_by(|one, other| one.run.cmp(&other.run));
        illegal.dedup_by(|one, other| one.run == other.run);
        self.not_understood("read the row", &illegal);
        self.memory.keep_only(&records);
        for (step, state) in [
            (Step::Settle, StateName::Result),
            (Step::Drain, StateName::LeaseFailed),
        ] {
            for record in records
                .iter()
                .filter(|record| record.assignment.state() == state)
            {
                self.guarded(step, record).await;
            }
        }
        for record in &records {
            if !self.memory.of(record).ended {
                self.guarded(Step::Watch, record).await;
            }
        }
        self.memory.looked_at_all(self.board_is_down);
    }

    /// Rows that cannot be understood are left to people; those that somebody mended are no longer put off.
    fn not_understood(&mut self, what: &'static str, rows: &[IllegalRow]) {
        let slug = &self.parts.slug;
        let scopes: Vec<Scope> = rows.iter().map(|row| Scope::illegal(slug, row)).collect();
        for (row, scope) in rows.iter().zip(&scopes) {
            self.put_off(scope, what, row.to_string());
        }
        self.parts.ledger.retain(slug, what, &scopes);
    }

    /// One row, alone: whatever happens in it ends here.
    async fn guarded(&mut self, step: Step, record: &Record) {
        let scope = Scope::from(&record.assignment.binding().key);
        let faults = self.parts.faults.clone();
        let (slug, name) = (self.parts.slug.clone(), step.name());
        let work = async {
            faults.begin(Work::Step, name, &slug);
            match step {
                Step::Settle | Step::Drain => self.settle(record).await,
                Step::Watch => self.watch(record).await,
            }
        };
        let outcome = AssertUnwindSafe(work).catch_unwind().await;
        let is_unwatched = matches!(step, Step::Watch) && outcome.is_err();
        self.note_panic(&scope, outcome);
        if is_unwatched {
            // Whatever keeps a run from being watched, its claim is not extended, and its worker has to stop in time.
            self.not_confirmed(record).await;
        }
    }

    /// Keeps the ledger in step with whether a piece of work panicked.
    fn note_panic(&mut self, scope: &Scope, outcome: std::thread::Result<()>) {
        match outcome {
            Ok(()) => self.parts.ledger.clear(scope, "internal error"),
            Err(panic) => self.put_off(scope, "internal error", panic_text(panic.as_ref())),
        }
    }

    /// A piece of work goes to the ledger; the next pass tries it again.
    fn put_off(&mut self, scope: impl Into<Scope>, what: &'static str, why: String) {
        self.report.deferred += 1;
        self.parts
            .ledger
            .defer(scope, what, why, self.parts.clock.now(), None);
    }

    /// A visit failed, and is in the ledger already.
    fn visit_failed(&mut self, error: &VisitError) {
        self.report.deferred += 1;
        self.board_is_down |= error.is_of_the_board();
    }

    fn due(&mut self, at: Timestamp) {
        self.report.next_due = Some(self.report.next_due.map_or(at, |known| known.min(at)));
    }
}
