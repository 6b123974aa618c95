//! Step *intents*: claims that were about to be made when their Dispatcher ended, for whatever reason.
//!
//! An intent that no Dispatcher holds is looked up on its board by its lock. No such claim: the intent is dropped. A run
//! that is current: it is added to any unoccupied slot, or given back. That release is the only write on a board that a
//! fault of the coordinator may cause.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use super::Pass;
use super::settle::{Claim, Seen, end_on_board};
use crate::actors::adopt::{Adopted, Prepared, prepare};
use crate::actors::board_thread::VisitError;
use crate::actors::events::PoolEvent;
use crate::actors::roster::{Grant, TakeAny, Taken};
use crate::board::{Board, BoardError, Ending};
use crate::domain::{Attempt, Binding, Evidence, Expected, RunKey, RunRef, Verdict, judge};
use crate::faults::Work;
use crate::protocol::BlockKind;
use crate::store::Intent;
use crate::store::operations::{DropIntent, IsIntended};

/// Why a run goes back that has the number of an older one.
const NAME_TAKEN: &str = "the execution pool knows another run of this number: the board was restored from an older copy";

/// Work that is put off between the claim and its assignment, as the ledger names it.
const AFTER_THE_CLAIM: [&str; 10] = [
    "note the intent",
    "read the task",
    "assign",
    "park",
    "resolve the claim",
    "give the claim back",
    "find its board",
    "drop the intent",
    "ask for the intent",
    "internal error",
];

/// What a board shows of an intent.
enum Found {
    /// It was never claimed, or the run is over.
    Nothing,
    /// The run is open and ours.
    Run(RunRef),
    /// The board is another one.
    Suspect(String),
}

impl Pass<'_> {
    pub(super) async fn intents(&mut self) {
        let slug = self.parts.slug.clone();
        let intents = match self
            .parts
            .readers
            .read(move |reader| reader.intents(&slug))
            .await
        {
            Ok(intents) => intents,
            Err(error) => {
                let scope = &self.parts.slug;
                return self.put_off(scope, "read the intents", error.to_string());
            }
        };
        self.parts
            .ledger
            .clear(&self.parts.slug, "read the intents");
        let (mut present, mut illegal) = (Vec::new(), Vec::new());
        for intent in intents {
            match intent {
                Ok(intent) => {
                    present.push(intent.lock.as_str().to_owned());
                    self.guarded_intent(&intent).await;
                }
                Err(row) => illegal.push(row),
            }
        }
        self.not_understood("read the intent", &illegal);
        self.memory.intents.retain(|lock, _| present.contains(lock));
    }

    /// One intent, alone: whatever happens in it ends here.
    async fn guarded_intent(&mut self, intent: &Intent) {
        let scope = self.parts.scope(intent.task.as_str());
        let work = async {
            self.parts
                .faults
                .begin(Work::Step, "intents", &self.parts.slug);
            if !self.board_is_down && self.is_left(intent).await {
                self.resolve(intent).await;
            }
        };
        let outcome = AssertUnwindSafe(work).catch_unwind().await;
        self.note_panic(&scope, outcome);
    }

    /// Whether no Dispatcher will carry it out any more. One may have done so since the intents were read; its hold ends
    /// only after the store has its last word, so the store is asked after the hold was seen to have ended.
    async fn is_left(&mut self, intent: &Intent) -> bool {
        if self.parts.held.is_held(&intent.lock) {
            return false;
        }
        let (lock, scope) = (intent.lock.clone(), self.parts.scope(intent.task.as_str()));
        match self.parts.store.call(IsIntended { lock }).await {
            Ok(is_intended) => {
                self.parts.ledger.clear(&scope, "ask for the intent");
                is_intended
            }
            Err(error) => {
                self.put_off(&scope, "ask for the intent", error.to_string());
                false
            }
        }
    }

    async fn resolve(&mut self, intent: &Intent) {
        let scope = self.parts.scope(intent.task.as_str());
        let wanted = intent.clone();
        let visit = move |board: &mut dyn Board, now| look_up(board, &wanted, now);
        match self.parts.visit(&scope, "resolve the claim", visit).await {
            Ok(Found::Nothing) => self.drop_intent(intent).await,
            Ok(Found::Run(run)) => self.take_over(intent, run).await,
            Ok(Found::Suspect(why)) => self.intent_sighted(intent, why).await,
            Err(error @ VisitError::Board(BoardError::Gone(_))) => {
                self.intent_sighted(intent, error.to_string()).await;
            }
            Err(error) => self.visit_failed(&error),
        }
    }

    /// Assigns the run to any slot, or gives it back.
    async fn take_over(&mut self, intent: &Intent, run: RunRef) {
        let scope = self.parts.scope(intent.task.as_str());
        let wait = match self.parts.roster.ask(TakeAny).await {
            Ok(Taken::Slot(grant)) => return self.adopt(intent, run, grant).await,
            Ok(Taken::Full) => {
                let ending = Ending::Release {
                    reason: Some("the execution pool has no free slot".to_owned()),
                };
                return self.give_back(intent, run, ending).await;
            }
            Ok(Taken::NotYet) => {
                "every free slot is just being filled, or not every slot has said yet whether it is free"
            }
            Err(_) => "the roster is restarting",
        };
        self.put_off(&scope, "resolve the claim", wait.to_owned());
    }

    async fn adopt(&mut self, intent: &Intent, run: RunRef, grant: Grant) {
        let scope = self.parts.scope(intent.task.as_str());
        match prepare(self.parts, &run, &scope).await {
            Ok(Prepared::Payload(payload)) => {
                match crate::actors::adopt::add(self.parts, intent, &run, payload, grant).await {
                    Ok(Adopted::Added) => self.resolved(intent),
                    Ok(Adopted::NameTaken) => {
                        let ending = Ending::Release {
                            reason: Some(NAME_TAKEN.to_owned()),
                        };
                        self.give_back(intent, run, ending).await;
                    }
                    Err(error) => self.put_off(&scope, "resolve the claim", error.to_string()),
                }
            }
            Ok(Prepared::Unable(why)) => {
                let ending = Ending::Block {
                    kind: BlockKind::Capability,
                    reason: Some(why),
                };
                self.give_back(intent, run, ending).await;
            }
            Err(error) => self.visit_failed(&error),
        }
    }

    async fn give_back(&mut self, intent: &Intent, run: RunRef, ending: Ending) {
        let scope = self.parts.scope(intent.task.as_str());
        let claim = Claim {
            // The run has no slot; this binding only names it.
            binding: Binding {
                key: RunKey {
                    board: intent.board.clone(),
                    task: run.task.clone(),
                    run: run.run.clone(),
                },
                ordinal: intent.ordinal,
                attempt: Attempt::FIRST,
            },
            run,
            lock: Some(intent.lock.clone()),
            anchor: Some(intent.anchor.clone()),
        };
        let endings = self.parts.endings.clone();
        let visit =
            move |board: &mut dyn Board, now| end_on_board(board, &endings, &claim, &ending, now);
        match self.parts.visit(&scope, "give the claim back", visit).await {
            Ok(Seen::Over { .. }) => self.drop_intent(intent).await,
            Ok(Seen::Suspect(why)) => self.intent_sighted(intent, why).await,
            Err(error) => self.visit_failed(&error),
        }
    }

    async fn intent_sighted(&mut self, intent: &Intent, why: String) {
        let scope = self.parts.scope(intent.task.as_str());
        let Some(second) = self.look_at_root(&scope, None, why).await else {
            return;
        };
        let key = intent.lock.as_str().to_owned();
        let first = self
            .memory
            .intents
            .entry(key.clone())
            .or_insert_with(|| second.clone())
            .clone();
        if Evidence::seen_twice(&first, &second).is_some() {
            self.parts.ledger.clear(&scope, "find its board");
            return self.drop_intent(intent).await;
        }
        self.wait_for_second_look(&scope, &first, &second);
        if first.root != second.root {
            self.memory.intents.insert(key, second);
        }
    }

    async fn drop_intent(&mut self, intent: &Intent) {
        match self
            .parts
            .store
            .call(DropIntent {
                lock: intent.lock.clone(),
            })
            .await
        {
            Ok(_) => self.resolved(intent),
            Err(error) => {
                let scope = self.parts.scope(intent.task.as_str());
                self.put_off(&scope, "drop the intent", error.to_string());
            }
        }
    }

    /// Nothing is left of the claim, nor of what went wrong with it once it was made. What keeps the task from being
    /// claimed at all goes on.
    fn resolved(&mut self, intent: &Intent) {
        self.report.intents += 1;
        let scope = self.parts.scope(intent.task.as_str());
        for what in AFTER_THE_CLAIM {
            self.parts.ledger.clear(&scope, what);
        }
        self.parts
            .events
            .emit(PoolEvent::IntentResolved(self.parts.slug.clone()));
    }
}

fn look_up(board: &mut dyn Board, intent: &Intent, now: i64) -> Result<Found, BoardError> {
    let Some(run) = board.claimed_run(&intent.task, &intent.lock)? else {
        return Ok(Found::Nothing);
    };
    let run = RunRef {
        task: intent.task.clone(),
        run,
    };
    let fate = board.fate(&run, Some(&intent.lock), Some(&intent.anchor), now)?;
    let expected = Expected {
        lock: Some(intent.lock.clone()),
        ending: None,
    };
    Ok(match judge(&expected, &fate) {
        Verdict::Current => Found::Run(run),
        Verdict::Over(_) => Found::Nothing,
        Verdict::Suspect(why) => Found::Suspect(why),
    })
}
