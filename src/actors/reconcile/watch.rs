//! Step *watch*: limits are enforced, claims are extended, and runs that are no longer ours are noticed.

use std::sync::Arc;

use super::Pass;
use super::settle::Claim;
use crate::actors::board_thread::VisitError;
use crate::actors::events::PoolEvent;
use crate::actors::scope::Scope;
use crate::actors::settle::{is_unconfirmed, passed_limit};
use crate::board::{Board, BoardError};
use crate::domain::{
    Assignment, BOARD_HEARTBEAT_SECONDS, Binding, CLAIM_TTL_SECONDS, EXTEND_SECONDS, Evidence,
    Expected, ExpectedEnding, FailCause, Fate, RunKey, Terminal, Timestamp, Verdict, judge,
};
use crate::faults::FaultPoint;
use crate::store::Record;
use crate::store::operations::{
    Expire, Expiry, NoteBoardHeartbeat, NoteConfirmed, PastLimit, Unconfirmed,
};

/// What is to be done for one run.
#[derive(Clone, Copy)]
struct Chores {
    /// A worker may be working on it: its limit counts, and it is told when the run is no longer current.
    held: bool,
    extend: bool,
    beat: bool,
}

/// What a visit for a run that goes on has shown.
enum Watched {
    Over(Evidence, FailCause),
    Suspect(String),
    /// Still ours, for longer than its task allows.
    PastLimit,
    Ours {
        limit_at: Option<Timestamp>,
    },
}

impl Pass<'_> {
    pub(super) async fn watch(&mut self, record: &Record) {
        self.expire_unserved(record).await;
        let Some(chores) = self.chores(record) else {
            return;
        };
        if self.board_is_down {
            return self.not_confirmed(record).await;
        }
        let claim = Claim::of(record);
        let scope = Scope::from(&claim.binding.key);
        let (host, slug) = (Arc::clone(&self.parts.host), self.parts.slug.clone());
        let visit = move |board: &mut dyn Board, now| {
            let before = host.root_identity(&slug);
            let watched = look_after(board, &claim, chores, now)?;
            // One that was exchanged meanwhile is not known to be the one in which the run was seen.
            let root = before.filter(|root| host.root_identity(&slug) == Some(*root));
            Ok((watched, root))
        };
        match self.parts.visit(&scope, "watch", visit).await {
            Ok((Watched::Over(evidence, cause), _)) => {
                // How a run that waits for its ending has ended is judged where that ending is known: it may have been
                // written in this very pass, and not recorded.
                if chores.held || self.memory.of(record).left_to_people {
                    self.end(record, evidence, Some(cause)).await;
                }
            }
            Ok((Watched::Suspect(why), _)) => self.missed(record, why).await,
            Ok((Watched::PastLimit, _)) => self.past_limit(record).await,
            Ok((Watched::Ours { limit_at }, root)) => {
                let row = self.memory.of(record);
                row.root = root.or(row.root);
                self.confirmed(record, chores, limit_at).await;
            }
            Err(error @ VisitError::Board(BoardError::Gone(_))) => {
                self.missed(record, error.to_string()).await;
            }
            Err(error @ VisitError::Board(BoardError::BadRow { .. })) => {
                self.visit_failed(&error);
                self.keep(record, chores).await;
            }
            Err(error) => {
                self.visit_failed(&error);
                self.not_confirmed(record).await;
            }
        }
    }

    /// A slot without an actor has no timer. A row that came to name it under the running pool expires here.
    async fn expire_unserved(&mut self, record: &Record) {
        const WHAT: &str = "expire the lease";
        let Binding { key, ordinal, .. } = record.assignment.binding();
        let ordinal = *ordinal;
        let occupies = !matches!(
            record.assignment,
            Assignment::LeaseFailed(_) | Assignment::Ended(_)
        );
        if !occupies || self.parts.ordinals.get(ordinal).is_some() {
            return;
        }
        let policy = self.parts.policy;
        match self.parts.store.call(Expire { ordinal, policy }).await {
            Ok(Expiry::Reoffered { binding, .. }) => {
                self.parts.events.emit(PoolEvent::Fenced(binding));
            }
            Ok(Expiry::GivenUp { binding, cause }) => {
                self.parts
                    .events
                    .emit(PoolEvent::LeaseFailed(binding, cause));
            }
            Ok(Expiry::Idle | Expiry::NotDue { .. }) => {}
            Err(error) => return self.put_off(key, WHAT, error.to_string()),
        }
        self.parts.ledger.clear(key, WHAT);
    }

    /// What is due for a run; `None` when that is nothing.
    fn chores(&mut self, record: &Record) -> Option<Chores> {
        let (now, elapsed) = (self.parts.clock.now(), self.parts.clock.elapsed());
        let held = matches!(
            record.assignment,
            Assignment::Assigned(_) | Assignment::Running(_)
        );
        let confirmed_at = record.claim.confirmed_at.unwrap_or_default();
        let row = self.memory.of(record);
        let extend = row
            .confirmed
            .is_none_or(|then| (elapsed - then).as_secs_f64() >= EXTEND_SECONDS)
            || now - confirmed_at >= EXTEND_SECONDS;
        let beat = record
            .claim
            .board_heartbeat_at
            .is_none_or(|then| now - then >= BOARD_HEARTBEAT_SECONDS);
        let past_limit = held && row.limit_at.is_some_and(|at| now.0 >= at.0);
        let look = held && !row.looked_at;
        let limit_at = row.limit_at.filter(|_| held);
        if extend || beat || past_limit || look {
            return Some(Chores { held, extend, beat });
        }
        self.due(confirmed_at + EXTEND_SECONDS);
        if let Some(at) = limit_at {
            self.due(at);
        }
        None
    }

    /// The board has confirmed the claim.
    async fn confirmed(&mut self, record: &Record, chores: Chores, limit_at: Option<Timestamp>) {
        let (now, elapsed) = (self.parts.clock.now(), self.parts.clock.elapsed());
        let key = record.assignment.binding().key.clone();
        let row = self.memory.of(record);
        (row.limit_at, row.looked_at, row.sighting) = (limit_at, true, None);
        if chores.extend {
            row.confirmed = Some(elapsed);
        }
        self.parts.ledger.clear(&key, "find its board");
        self.due(now + EXTEND_SECONDS);
        if let Some(at) = limit_at {
            self.due(at);
        }
        self.parts.faults.pass(FaultPoint::ClaimExtended);
        self.note(&key, chores, now).await;
    }

    /// Notes in the store what the board was told.
    async fn note(&mut self, key: &RunKey, told: Chores, at: Timestamp) {
        const WHAT: &str = "note the extension";
        let (store, key) = (self.parts.store.clone(), key.clone());
        let scope = Scope::from(&key);
        let mut noted = Ok(true);
        if told.extend {
            let key = key.clone();
            noted = store.call(NoteConfirmed { key, at }).await;
        }
        if told.beat && noted.is_ok() {
            noted = store.call(NoteBoardHeartbeat { key, at }).await;
        }
        match noted {
            Ok(_) => self.parts.ledger.clear(&scope, WHAT),
            Err(error) => self.put_off(&scope, WHAT, error.to_string()),
        }
    }

    /// The run is stopped in the store first, so that a result either came before and counts, or is refused.
    async fn past_limit(&mut self, record: &Record) {
        let binding = record.assignment.binding().clone();
        match self
            .parts
            .store
            .call(PastLimit {
                binding: binding.clone(),
            })
            .await
        {
            Ok(true) => {
                self.parts.ordinals.refresh(binding.ordinal);
                self.parts
                    .events
                    .emit(PoolEvent::LeaseFailed(binding, FailCause::LimitPassed));
                self.time_out(record).await;
            }
            // Its result was taken, or its attempt was fenced: the next pass sees it so.
            Ok(false) => self.due(self.parts.clock.now()),
            Err(error) => self.put_off(&binding.key, "enforce the limit", error.to_string()),
        }
    }

    /// The board is gone, or another one. As long as that is not believed its worker works on, though not for longer than
    /// the claim is sure to stand.
    async fn missed(&mut self, record: &Record, why: String) {
        self.sighted(record, why).await;
        if !self.memory.of(record).ended {
            self.not_confirmed(record).await;
        }
    }

    /// What the board shows of the run cannot be understood. It may be ours all the same: its claim is extended as long as
    /// the board takes that. The ledger has the cause, so that the extension needs no entry of its own.
    async fn keep(&mut self, record: &Record, chores: Chores) {
        if !chores.extend {
            return;
        }
        let (claim, now) = (Claim::of(record), self.parts.clock.now());
        let extend = move |board: &mut dyn Board| {
            let Some(lock) = claim.lock(board)? else {
                return Ok(false);
            };
            let task = &claim.run.task;
            board.extend(task, &lock, CLAIM_TTL_SECONDS, now.whole_seconds())
        };
        if !matches!(self.parts.thread.visit(extend).await, Ok(true)) {
            return self.not_confirmed(record).await;
        }
        self.memory.of(record).confirmed = Some(self.parts.clock.elapsed());
        let told = Chores {
            beat: false,
            ..chores
        };
        let key = &record.assignment.binding().key;
        self.note(key, told, now).await;
    }

    /// The board could not be told. After too long its worker is stopped: Hermes is about to hand the card on.
    pub(super) async fn not_confirmed(&mut self, record: &Record) {
        if !matches!(
            record.assignment,
            Assignment::Assigned(_) | Assignment::Running(_)
        ) {
            return;
        }
        let (now, elapsed) = (self.parts.clock.now(), self.parts.clock.elapsed());
        let confirmed_at = record.claim.confirmed_at.unwrap_or(record.created_at);
        let monotonic = self
            .memory
            .of(record)
            .confirmed
            .map_or(0.0, |then| (elapsed - then).as_secs_f64());
        if !is_unconfirmed(now - confirmed_at, monotonic) {
            return;
        }
        let binding = record.assignment.binding().clone();
        match self
            .parts
            .store
            .call(Unconfirmed {
                binding: binding.clone(),
            })
            .await
        {
            Ok(true) => {
                self.parts.ordinals.refresh(binding.ordinal);
                self.parts
                    .events
                    .emit(PoolEvent::LeaseFailed(binding, FailCause::Unconfirmed));
            }
            Ok(false) => {}
            Err(error) => self.put_off(&binding.key, "stop the worker", error.to_string()),
        }
    }
}

fn look_after(
    board: &mut dyn Board,
    claim: &Claim,
    chores: Chores,
    now: i64,
) -> Result<Watched, BoardError> {
    let lock = claim.lock(board)?;
    let mut limit_at = None;
    if chores.held {
        let fate = board.fate(&claim.run, lock.as_ref(), claim.anchor.as_ref(), now)?;
        if let Some(over) = no_longer_ours(lock.clone(), &fate) {
            return Ok(over);
        }
        if let Fate::Current {
            started_at,
            max_runtime_seconds,
            ..
        } = fate
        {
            if passed_limit(started_at, max_runtime_seconds, Timestamp::from(now)).is_some() {
                return Ok(Watched::PastLimit);
            }
            limit_at = max_runtime_seconds
                .filter(|limit| *limit > 0)
                .map(|limit| Timestamp::from(started_at.saturating_add(limit)));
        }
    }
    let Some(lock) = lock else {
        return Err(BoardError::Refused(
            "the run has no record of the lock it was claimed with".to_owned(),
        ));
    };
    if chores.extend && !board.extend(&claim.run.task, &lock, CLAIM_TTL_SECONDS, now)? {
        let fate = board.fate(&claim.run, Some(&lock), claim.anchor.as_ref(), now)?;
        return no_longer_ours(Some(lock), &fate).ok_or_else(|| {
            BoardError::Refused("the run is current, yet its claim was not extended".to_owned())
        });
    }
    if chores.beat {
        // A run that has just ceased to be current is noticed by the next look.
        board.heartbeat(&claim.run, None, now)?;
    }
    Ok(Watched::Ours { limit_at })
}

/// What a fate means for a run that the pool holds; `None` while it is current.
fn no_longer_ours(lock: Option<crate::domain::ClaimLock>, fate: &Fate) -> Option<Watched> {
    let expected = Expected {
        lock,
        ending: Some(ExpectedEnding::TimedOut),
    };
    match judge(&expected, fate) {
        Verdict::Current => None,
        Verdict::Suspect(why) => Some(Watched::Suspect(why)),
        Verdict::Over(evidence) => {
            let cause = match evidence.terminal() {
                Terminal::Finalized => FailCause::LimitPassed,
                Terminal::Stale => FailCause::Superseded,
            };
            Some(Watched::Over(evidence, cause))
        }
    }
}
