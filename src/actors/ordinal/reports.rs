//! Heartbeats and results: durable first, then acknowledged.

use actix::{ActorFutureExt, AsyncContext, Context};

use super::OrdinalActor;
use crate::actors::events::PoolEvent;
use crate::actors::reply::Replier;
use crate::domain::{BoardSlug, IllegalRow, RunId, RunKey, SETTLE_PATIENCE_SECONDS, TaskId};
use crate::faults::FaultPoint;
use crate::protocol::{Ack, Envelope};
use crate::store::StoreError;
use crate::store::operations::{Heartbeat, Presented, SubmitResult};

impl OrdinalActor {
    pub(super) fn heartbeat(
        &mut self,
        envelope: Envelope,
        replier: Replier,
        ctx: &mut Context<Self>,
    ) {
        let run = run_of(&envelope);
        let asked = self.call(Heartbeat::new(Presented::from(envelope), self.parts.policy));
        ctx.spawn(asked.map(move |reply, actor, ctx| {
            actor.count("heartbeat", reply.as_ref().err());
            match reply {
                Ok(accepted) => {
                    actor.parts.faults.pass(FaultPoint::HeartbeatCommitted);
                    actor.arm(Some(accepted.lease_until), ctx);
                    actor.recalled(run, accepted.unreadable.as_ref());
                    replier.ack(&Ack::Alive {
                        duplicate: accepted.duplicate,
                        lease_until_seconds: accepted.lease_until.whole_seconds(),
                    });
                }
                Err(error) => {
                    actor.meets(&error, ctx);
                    replier.fail(error);
                }
            }
        }));
    }

    /// Keeps the ledger in step with whether what is remembered of a heartbeat can be understood.
    fn recalled(&self, run: Option<RunKey>, unreadable: Option<&IllegalRow>) {
        const WHAT: &str = "recall the delivery";
        // A heartbeat is only accepted for a run, and every run has such a key.
        let Some(run) = run else { return };
        match unreadable {
            Some(row) => {
                let now = self.parts.clock.now();
                let ledger = &self.parts.ledger;
                ledger.defer(&run, WHAT, row.to_string(), now, None);
            }
            None => self.parts.ledger.clear(&run, WHAT),
        }
    }

    pub(super) fn submit(&mut self, envelope: Envelope, replier: Replier, ctx: &mut Context<Self>) {
        let asked = self.call(SubmitResult {
            payload_json: envelope.payload_json().to_owned(),
            presented: Presented::from(envelope),
        });
        ctx.spawn(asked.map(move |reply, actor, ctx| {
            actor.count("result", reply.as_ref().err());
            match reply {
                Ok(accepted) => {
                    actor.parts.faults.pass(FaultPoint::ResultCommitted);
                    if !accepted.duplicate {
                        // What is due is decided by the store; this only makes it look.
                        let due = actor.parts.clock.now() + SETTLE_PATIENCE_SECONDS;
                        actor.arm(Some(due), ctx);
                        actor.parts.boards.wake(&accepted.binding.key.board);
                        actor
                            .parts
                            .events
                            .emit(PoolEvent::Submitted(accepted.binding));
                    }
                    replier.ack(&Ack::Accepted {
                        duplicate: accepted.duplicate,
                    });
                }
                Err(error) => {
                    actor.meets(&error, ctx);
                    replier.fail(error);
                }
            }
        }));
    }

    pub(super) fn count(&self, kind: &'static str, error: Option<&StoreError>) {
        let outcome = match error {
            None => "accepted",
            Some(StoreError::Refused(refusal)) => refusal.code(),
            Some(_) => "unavailable",
        };
        self.parts.metrics.count_message(kind, outcome);
    }
}

/// The run that a message names.
fn run_of(envelope: &Envelope) -> Option<RunKey> {
    Some(RunKey {
        board: BoardSlug::parse(&envelope.binding.board).ok()?,
        task: TaskId::parse(&envelope.binding.task_id).ok()?,
        run: RunId::parse(&envelope.binding.run_id).ok()?,
    })
}
