//! `Dispatcher`: claims one board's ready tasks, one for each slot that the Roster grants.
//!
//! Receives [`Look`] (the board may have work) and [`Granted`](super::roster::Granted). Without a slot it claims nothing;
//! with one it goes through the first four durable steps of a run (see [`reconcile`](super::reconcile)): intent, claim,
//! payload, assignment. Whatever fails in between leaves the intent to the Reconciler, and no trace on the board but a
//! claim that is found again.
//!
//! Restart: a new one looks at the board; an intent that the old one carried is no longer held and gets resolved.

use std::sync::Arc;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture,
    WrapFuture,
};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::adopt::{Adopted, Prepared, add, prepare};
use super::board_parts::BoardParts;
use super::directory::WakeReconciler;
use super::events::PoolEvent;
use super::roster::{Forget, Grant, Granted, Want};
use super::scope::Scope;
use super::supervise::{DownGuard, Stop};
use crate::board::{Board, Claimed, Ending, Listing, ReadyTask};
use crate::domain::{Anchor, CLAIM_TTL_SECONDS, ClaimLock, RunRef, TaskId};
use crate::faults::{FaultPoint, Work};
use crate::protocol::BlockKind;
use crate::store::Intent;
use crate::store::operations::{DropIntent, RecordIntent};

/// Tasks that are looked at for one slot.
const LOOK_AHEAD: usize = 64;
/// The claim itself, as the ledger names it; tasks that are left alone stand there as `claim`.
const MAKE_CLAIM: &str = "make the claim";
/// Hints that may wait; each says the same.
const MAILBOX_LIMIT: usize = 64;

/// The board may have work.
#[derive(Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Look;

/// Looks at the board once, and answers with the number of tasks that could be claimed.
#[derive(Clone, Copy, Message)]
#[rtype(result = "Option<usize>")]
pub struct LookNow;

/// Claims tasks of one board.
pub struct Dispatcher {
    parts: BoardParts,
    reconciler: WakeReconciler,
    looking: bool,
    again: bool,
    askers: Vec<oneshot::Sender<usize>>,
    _guard: DownGuard,
}

impl Dispatcher {
    /// A Dispatcher that begins with a look.
    #[must_use]
    pub fn new(parts: BoardParts, reconciler: WakeReconciler, guard: DownGuard) -> Self {
        Self {
            parts,
            reconciler,
            looking: false,
            again: false,
            askers: Vec::new(),
            _guard: guard,
        }
    }

    fn look(&mut self, ctx: &mut Context<Self>) {
        if self.looking {
            self.again = true;
            return;
        }
        let faults = &self.parts.faults;
        faults.begin(Work::Message, "dispatcher", &self.parts.slug);
        (self.looking, self.again) = (true, false);
        let parts = self.parts.clone();
        let askers = std::mem::take(&mut self.askers);
        let look = async move { (list(&parts).await.len(), askers) };
        ctx.spawn(
            look.into_actor(self)
                .map(|(ready, askers), actor, ctx| actor.looked(ready, askers, ctx)),
        );
    }

    fn looked(
        &mut self,
        ready: usize,
        askers: Vec<oneshot::Sender<usize>>,
        ctx: &mut Context<Self>,
    ) {
        self.looking = false;
        if ready == 0 {
            self.parts.nothing_left_of(&[MAKE_CLAIM, "park"]);
        }
        let told = if ready > 0 {
            let dispatcher = ctx.address().recipient();
            self.parts.roster.tell(Want {
                board: self.parts.slug.clone(),
                dispatcher,
            })
        } else {
            self.parts.roster.tell(Forget(self.parts.slug.clone()))
        };
        if let Err(error) = told {
            // The next look, at the latest after the interval, tells it again.
            log::debug!("board={} roster not told: {error}", self.parts.slug);
        }
        // Said last: whoever waits for it may rely on the Roster having heard.
        self.parts.events.emit(PoolEvent::Listed {
            board: self.parts.slug.clone(),
            ready,
        });
        for asker in askers {
            // Whoever asked may have stopped waiting.
            let _ = asker.send(ready);
        }
        if self.again {
            self.look(ctx);
        }
    }
}

impl Actor for Dispatcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX_LIMIT);
        self.look(ctx);
    }
}

impl Handler<Look> for Dispatcher {
    type Result = ();

    fn handle(&mut self, _: Look, ctx: &mut Self::Context) {
        self.look(ctx);
    }
}

impl Handler<LookNow> for Dispatcher {
    type Result = ResponseFuture<Option<usize>>;

    fn handle(&mut self, _: LookNow, ctx: &mut Self::Context) -> Self::Result {
        let (asker, ready) = oneshot::channel();
        self.askers.push(asker);
        self.look(ctx);
        Box::pin(async move { ready.await.ok() })
    }
}

impl Handler<Granted> for Dispatcher {
    type Result = ();

    fn handle(&mut self, Granted(grant): Granted, ctx: &mut Self::Context) {
        let parts = self.parts.clone();
        let work = async move { fill(&parts, grant).await };
        ctx.spawn(work.into_actor(self).map(|went_well, actor, ctx| {
            // Else the next hint or the interval brings the next look: what failed now would fail again.
            if went_well {
                // The new run is due for its first heartbeat, and there may be more to claim.
                actor.reconciler.wake();
                actor.look(ctx);
            }
        }));
    }
}

impl Handler<Stop> for Dispatcher {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}

/// The tasks that can be claimed now, first things first; refusals go to the ledger.
async fn list(parts: &BoardParts) -> Vec<ReadyTask> {
    let tasks = if parts.may_claim() {
        claimable(parts).await
    } else {
        Vec::new()
    };
    parts.status().ready = tasks.len();
    tasks
}

async fn claimable(parts: &BoardParts) -> Vec<ReadyTask> {
    let (slug, now) = (parts.slug.clone(), parts.clock.now());
    let held_back = match parts
        .readers
        .read(move |reader| reader.held_back(&slug, now))
        .await
    {
        // What is no time holds nothing back; the passes tell of it.
        Ok((tasks, _)) => tasks,
        Err(error) => {
            parts
                .ledger
                .defer(&parts.slug, "look for work", error.to_string(), now, None);
            return Vec::new();
        }
    };
    let lanes = Arc::clone(&parts.lanes);
    let limit = LOOK_AHEAD + held_back.len();
    let visit = move |board: &mut dyn Board, now| board.ready(&lanes, limit, now);
    let Ok(Listing { ready, refused }) = parts.visit(&parts.slug, "look for work", visit).await
    else {
        return Vec::new();
    };
    let left_alone: Vec<Scope> = refused
        .iter()
        .map(|refusal| parts.scope(&refusal.task))
        .collect();
    let listed: Vec<Scope> = ready
        .iter()
        .map(|ready| parts.scope(ready.task.as_str()))
        .collect();
    parts.ledger.retain(&parts.slug, "claim", &left_alone);
    parts.ledger.retain(&parts.slug, MAKE_CLAIM, &listed);
    for refusal in refused {
        let next_try = refusal.until.map(crate::domain::Timestamp::from);
        parts.ledger.defer(
            parts.scope(&refusal.task),
            "claim",
            refusal.why,
            now,
            next_try,
        );
    }
    ready
        .into_iter()
        .filter(|ready| !held_back.contains(&ready.task))
        .collect()
}

/// Fills one slot, if there is a task that can be claimed; else the grant goes back by being dropped. Tells whether a task
/// was claimed and is done with: then there may be more to do at once.
async fn fill(parts: &BoardParts, grant: Grant) -> bool {
    for ReadyTask { task, .. } in claimable(parts).await {
        if !parts.may_claim() {
            return false;
        }
        match claim(parts, &task, &grant).await {
            Attempted::Not => {}
            Attempted::Failed => return false,
            Attempted::Claimed(intent, run) => return assign(parts, &intent, &run, grant).await,
        }
    }
    false
}

enum Attempted {
    /// Somebody else has the task, or it cannot be claimed, which is in the ledger; the next one may be had.
    Not,
    /// Something is wrong with the board or the store, and is in the ledger.
    Failed,
    /// It is ours.
    Claimed(Box<Held>, RunRef),
}

/// An intent that this Dispatcher carries out.
struct Held {
    intent: Intent,
    _held: super::board_parts::HeldIntent,
}

/// The first two durable steps: the intent, and the claim under its lock.
async fn claim(parts: &BoardParts, task: &TaskId, grant: &Grant) -> Attempted {
    let scope = parts.scope(task.as_str());
    let Ok(anchor) = parts
        .visit(&parts.slug, "look for work", |board, _| board.anchor())
        .await
    else {
        return Attempted::Failed;
    };
    let held = hold(parts, task, grant, anchor);
    if let Err(error) = parts
        .store
        .call(RecordIntent {
            intent: held.intent.clone(),
        })
        .await
    {
        parts.ledger.defer(
            scope,
            "note the intent",
            error.to_string(),
            parts.clock.now(),
            None,
        );
        return Attempted::Failed;
    }
    parts.ledger.clear(&scope, "note the intent");
    parts.faults.pass(FaultPoint::IntentNoted);
    let (wanted, lock) = (task.clone(), held.intent.lock.clone());
    let visit =
        move |board: &mut dyn Board, now| board.claim(&wanted, &lock, CLAIM_TTL_SECONDS, now);
    match parts.visit(&scope, MAKE_CLAIM, visit).await {
        Ok(Some(Claimed { run, .. })) => Attempted::Claimed(
            Box::new(held),
            RunRef {
                task: task.clone(),
                run,
            },
        ),
        Ok(None) => match parts
            .store
            .call(DropIntent {
                lock: held.intent.lock.clone(),
            })
            .await
        {
            Ok(_) => Attempted::Not,
            // The Reconciler finds that the board has no such claim.
            Err(_) => Attempted::Failed,
        },
        Err(error) if error.is_of_the_board() => Attempted::Failed,
        // The Reconciler finds out whether this one was claimed.
        Err(_) => Attempted::Not,
    }
}

fn hold(parts: &BoardParts, task: &TaskId, grant: &Grant, anchor: Anchor) -> Held {
    let nonce = Uuid::new_v4().simple().to_string();
    let lock = ClaimLock::new(&parts.endings.pool, &parts.endings.fence, &nonce);
    Held {
        _held: parts.held.hold(lock.clone()),
        intent: Intent {
            lock,
            board: parts.slug.clone(),
            task: task.clone(),
            ordinal: grant.ordinal(),
            anchor,
        },
    }
}

/// The third durable step: the assignment. A task that no worker can ever be offered is parked, its exact run only. Tells
/// whether either took place; else the claim is resolved by the next pass.
async fn assign(parts: &BoardParts, held: &Held, run: &RunRef, grant: Grant) -> bool {
    let scope = parts.scope(run.task.as_str());
    parts.faults.pass(FaultPoint::RunClaimed);
    match prepare(parts, run, &scope).await {
        Ok(Prepared::Payload(payload)) => match add(parts, &held.intent, run, payload, grant).await
        {
            Ok(Adopted::Added) => {
                parts.ledger.clear(&scope, "assign");
                true
            }
            // The intent of a run whose name is taken stands; a pass gives the claim back.
            Ok(Adopted::NameTaken) => {
                parts.ledger.clear(&scope, "assign");
                false
            }
            Err(error) => {
                parts
                    .ledger
                    .defer(scope, "assign", error.to_string(), parts.clock.now(), None);
                false
            }
        },
        Ok(Prepared::Unable(why)) => park(parts, held, run, why).await,
        // In the ledger already.
        Err(_) => false,
    }
}

async fn park(parts: &BoardParts, held: &Held, run: &RunRef, why: String) -> bool {
    let scope = parts.scope(run.task.as_str());
    let (exact, lock) = (run.clone(), held.intent.lock.clone());
    let visit = move |board: &mut dyn Board, now| {
        let ending = Ending::Block {
            kind: BlockKind::Capability,
            reason: Some(why),
        };
        board.end(&exact, &lock, &ending, now)
    };
    if parts.visit(&scope, "park", visit).await.is_err() {
        return false;
    }
    // Parked, or no longer ours; if the intent stays, the Reconciler finds out the same.
    let dropped = parts.store.call(DropIntent {
        lock: held.intent.lock.clone(),
    });
    if let Err(error) = dropped.await {
        log::debug!("scope={scope} intent kept: {error}");
    }
    true
}
