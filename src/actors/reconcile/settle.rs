//! Steps *settle* and *drain*: the outcome of a run is written to its board, and only then recorded.
//!
//! Deliberately absent: freeing the slot of a result that its board does not take. That is the slot's own timer's, so that
//! it happens whatever becomes of the board's passes.

use super::Pass;
use crate::actors::board_thread::VisitError;
use crate::actors::events::PoolEvent;
use crate::actors::scope::Scope;
use crate::actors::settle::{
    EndingPolicy, asks_for_parents, not_before, passed_limit, read_result,
};
use crate::board::{Board, BoardError, Ending};
use crate::domain::{
    Anchor, Assignment, Binding, ClaimLock, Evidence, Expected, FailCause, Fate, Landing, RunRef,
    Terminal, Timestamp, Verdict, judge,
};
use crate::protocol::WorkerResult;
use crate::store::Record;
use crate::store::operations::SetNotBefore;

/// Why a run ends.
enum Plan {
    Result(WorkerResult),
    Cause(FailCause),
}

/// What a visit for the end of a run has shown.
pub(super) enum Seen {
    /// The run is over.
    Over {
        evidence: Evidence,
        landing: Option<Landing>,
    },
    /// The board is another one than the run was claimed on.
    Suspect(String),
}

/// Everything a visit needs to know about a run.
#[derive(Clone)]
pub(super) struct Claim {
    pub(super) binding: Binding,
    pub(super) run: RunRef,
    pub(super) lock: Option<ClaimLock>,
    pub(super) anchor: Option<Anchor>,
}

impl Claim {
    pub(super) fn of(record: &Record) -> Self {
        let binding = record.assignment.binding().clone();
        Self {
            run: RunRef::from(&binding.key),
            lock: record.claim.lock.clone(),
            anchor: record.claim.anchor.clone(),
            binding,
        }
    }

    /// The lock of the claim; a row that the Python coordinator wrote takes it from the run's own record.
    pub(super) fn lock(&self, board: &mut dyn Board) -> Result<Option<ClaimLock>, BoardError> {
        match &self.lock {
            Some(lock) => Ok(Some(lock.clone())),
            None => board.lock_of(&self.run),
        }
    }
}

impl Pass<'_> {
    /// Writes the outcome of a run whose worker is done, or whose slot was released before that was confirmed.
    pub(super) async fn settle(&mut self, record: &Record) {
        if self.board_is_down {
            self.report.deferred += 1;
            return;
        }
        let Some(plan) = self.plan(record).await else {
            return;
        };
        if let Plan::Result(result) = &plan
            && !self.hold_back(record, result).await
        {
            return;
        }
        self.carry_out(record, plan).await;
    }

    /// A run that was given up because its limit of time has passed.
    pub(super) async fn time_out(&mut self, record: &Record) {
        self.carry_out(record, Plan::Cause(FailCause::LimitPassed))
            .await;
    }

    async fn carry_out(&mut self, record: &Record, plan: Plan) {
        let claim = Claim::of(record);
        let endings = self.parts.endings.clone();
        let scope = Scope::from(&claim.binding.key);
        let visit = move |board: &mut dyn Board, now| {
            let ending = ending(board, &endings, &claim, plan, now)?;
            end_on_board(board, &endings, &claim, &ending, now)
        };
        match self.parts.visit(&scope, "settle", visit).await {
            Ok(Seen::Over { evidence, landing }) => {
                if let Some(landing) = landing {
                    self.parts.events.emit(PoolEvent::Landed(
                        record.assignment.binding().clone(),
                        landing,
                    ));
                }
                self.end(record, evidence, None).await;
            }
            Ok(Seen::Suspect(why)) => self.sighted(record, why).await,
            Err(error @ VisitError::Board(BoardError::Gone(_))) => {
                self.sighted(record, error.to_string()).await;
            }
            Err(error) => self.visit_failed(&error),
        }
    }

    /// Why the run ends; a stored result that is none is left to people.
    async fn plan(&mut self, record: &Record) -> Option<Plan> {
        let key = record.assignment.binding().key.clone();
        let scope = Scope::from(&key);
        if let Assignment::LeaseFailed(state) = &record.assignment
            && state.result_digest().is_none()
        {
            return Some(Plan::Cause(state.cause()));
        }
        let texts = match self
            .parts
            .readers
            .read(move |reader| reader.texts(&key))
            .await
        {
            Ok(texts) => texts,
            Err(error) => {
                self.put_off(&scope, "read the result", error.to_string());
                return None;
            }
        };
        let stored = texts
            .and_then(|texts| texts.result_json)
            .unwrap_or_default();
        match read_result(&stored) {
            Ok(result) => Some(Plan::Result(result)),
            Err(error) => {
                self.memory.of(record).left_to_people = true;
                self.put_off(&scope, "settle", error.to_string());
                None
            }
        }
    }

    /// Notes, before the board is told, how long the task is not to be claimed again. `false` if that failed.
    async fn hold_back(&mut self, record: &Record, result: &WorkerResult) -> bool {
        let Some(time) = not_before(result, record.updated_at) else {
            return true;
        };
        let key = record.assignment.binding().key.clone();
        let scope = Scope::from(&key);
        match self
            .parts
            .store
            .call(SetNotBefore {
                key,
                not_before: Some(time),
            })
            .await
        {
            Ok(_) => true,
            Err(error) => {
                self.put_off(&scope, "settle", error.to_string());
                false
            }
        }
    }
}

fn ending(
    board: &mut dyn Board,
    endings: &EndingPolicy,
    claim: &Claim,
    plan: Plan,
    now: i64,
) -> Result<Ending, BoardError> {
    Ok(match plan {
        Plan::Cause(FailCause::LimitPassed) => time_out(board, endings, claim, now)?,
        Plan::Cause(cause) => endings.of_cause(cause, &claim.binding),
        Plan::Result(result) => {
            let open_parent =
                asks_for_parents(&result) && board.has_open_parent(&claim.run.task)?;
            endings.of_result(&claim.binding, result, open_parent)
        }
    })
}

/// How a run ends that has passed its limit. One that has ended meanwhile is only compared with this.
fn time_out(
    board: &mut dyn Board,
    endings: &EndingPolicy,
    claim: &Claim,
    now: i64,
) -> Result<Ending, BoardError> {
    let lock = claim.lock(board)?;
    let passed = match board.fate(&claim.run, lock.as_ref(), claim.anchor.as_ref(), now)? {
        Fate::Current {
            started_at,
            max_runtime_seconds,
            ..
        } => passed_limit(started_at, max_runtime_seconds, Timestamp::from(now)),
        _ => Some((0, 0)),
    };
    Ok(match passed {
        Some((elapsed_seconds, limit_seconds)) => Ending::TimeOut {
            elapsed_seconds,
            limit_seconds,
            failure_limit: endings.failure_limit,
        },
        // The limit was raised after the worker had been stopped.
        None => endings.of_cause(FailCause::LimitPassed, &claim.binding),
    })
}

/// Ends the exact run if it is still ours and open; else tells what the board shows.
pub(super) fn end_on_board(
    board: &mut dyn Board,
    endings: &EndingPolicy,
    claim: &Claim,
    ending: &Ending,
    now: i64,
) -> Result<Seen, BoardError> {
    let lock = claim.lock(board)?;
    let expected = Expected {
        lock: lock.clone(),
        ending: Some(endings.expected(&claim.binding, ending)),
    };
    // A write that changes no row is only a reason to look once more.
    for _ in 0..2 {
        let fate = board.fate(&claim.run, lock.as_ref(), claim.anchor.as_ref(), now)?;
        match judge(&expected, &fate) {
            Verdict::Suspect(why) => return Ok(Seen::Suspect(why)),
            Verdict::Over(evidence) => {
                if evidence.terminal() == Terminal::Finalized
                    && matches!(ending, Ending::Complete { .. })
                {
                    // The process may have ended between the completion and what follows it.
                    board.finish_completion(&claim.run.task, now)?;
                }
                return Ok(Seen::Over {
                    evidence,
                    landing: None,
                });
            }
            Verdict::Current => {}
        }
        let Some(lock) = &lock else {
            return Err(BoardError::Refused(
                "the run has no record of the lock it was claimed with".to_owned(),
            ));
        };
        if let Some(ended) = board.end(&claim.run, lock, ending, now)? {
            return Ok(Seen::Over {
                evidence: Evidence::written(&ended.receipt),
                landing: ended.landing,
            });
        }
    }
    Err(BoardError::Refused(
        "the run is current, yet its ending changed nothing".to_owned(),
    ))
}
