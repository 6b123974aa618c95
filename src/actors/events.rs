//! What happened, said once: for tests that wait, for metrics, and for the log.
//!
//! An event is emitted after the commit that it tells of, never before. It is a hint: whoever misses one reads the store.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;

use super::metrics::Metrics;
use crate::domain::{Binding, BoardSlug, FailCause, Landing, Ordinal, Terminal};

/// Events that a slow listener may fall behind before it misses some.
const BACKLOG: usize = 4096;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum PoolEvent {
    /// A claimed run was bound to a slot.
    Added(Binding),
    /// A worker was handed its run.
    Offered(Binding),
    /// A worker's result is durable.
    Submitted(Binding),
    /// An attempt was fenced by time or by too many offers; the binding is the new one.
    Fenced(Binding),
    /// A slot was released although the outcome on the board is not confirmed.
    LeaseFailed(Binding, FailCause),
    /// A run is over, on evidence.
    Ended {
        /// Who held it.
        binding: Binding,
        /// How it ended.
        terminal: Terminal,
        /// What was seen on the board.
        reason: String,
    },
    /// A block went where the board's rules put it; in triage nobody is notified.
    Landed(Binding, Landing),
    /// A claim whose assignment never came to be was given back, or was found not to exist.
    IntentResolved(BoardSlug),
    /// A Reconciler went through its board once.
    Reconciled {
        /// The board.
        board: BoardSlug,
        /// Pieces of work that were put off.
        deferred: usize,
    },
    /// A Dispatcher looked at its board once.
    Listed {
        /// The board.
        board: BoardSlug,
        /// Tasks that could be claimed, as far as it looked.
        ready: usize,
    },
    /// An actor went down and was built anew.
    Restarted(String),
    /// A slot's worker waits in a long poll.
    Waiting(Ordinal),
}

/// Where events are said and heard.
#[derive(Clone)]
pub struct Events {
    sender: broadcast::Sender<PoolEvent>,
    metrics: Arc<Metrics>,
}

impl Events {
    /// A place for events that counts them in `metrics`.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            sender: broadcast::Sender::new(BACKLOG),
            metrics,
        }
    }

    /// Says that something happened.
    pub fn emit(&self, event: PoolEvent) {
        self.metrics.count(&event);
        log_event(&event);
        // No listener is the ordinary case.
        let _ = self.sender.send(event);
    }

    /// Hears everything from now on.
    #[must_use]
    pub fn listen(&self) -> Listener {
        Listener {
            receiver: self.sender.subscribe(),
        }
    }
}

/// One line for each transition, after its commit.
fn log_event(event: &PoolEvent) {
    match event {
        PoolEvent::Added(binding) => log::info!("event=added {binding}"),
        PoolEvent::Offered(binding) => log::info!("event=offered {binding}"),
        PoolEvent::Submitted(binding) => log::info!("event=submitted {binding}"),
        PoolEvent::Fenced(binding) => log::warn!("event=fenced {binding}"),
        PoolEvent::LeaseFailed(binding, cause) => {
            log::warn!("event=lease_failed {binding} cause={}", cause.as_str());
        }
        PoolEvent::Ended {
            binding,
            terminal,
            reason,
        } => {
            log::info!("event=ended {binding} terminal={terminal:?} reason={reason:?}");
        }
        PoolEvent::Landed(binding, Landing::Triage) => {
            log::warn!(
                "event=landed {binding} landing=triage: nobody is notified; switch auto_decompose off on boards with lanes"
            );
        }
        PoolEvent::Landed(binding, landing) => {
            log::info!("event=landed {binding} landing={}", landing.as_str())
        }
        PoolEvent::IntentResolved(board) => log::info!("event=intent_resolved board={board}"),
        PoolEvent::Restarted(actor) => log::error!("event=restarted actor={actor}"),
        PoolEvent::Reconciled { .. } | PoolEvent::Listed { .. } | PoolEvent::Waiting(_) => {
            log::debug!("event={event:?}");
        }
    }
}

/// Hears events.
pub struct Listener {
    receiver: broadcast::Receiver<PoolEvent>,
}

/// The awaited event did not come.
#[derive(Debug, thiserror::Error)]
#[error("the awaited event did not come within {waited:?}; heard: {heard:#?}")]
pub struct NotHeard {
    /// Real time that was waited.
    pub waited: Duration,
    /// What came instead, the last 50.
    pub heard: Vec<PoolEvent>,
}

impl Listener {
    /// Waits for the first event that `wanted` accepts, at most `limit` of real time.
    ///
    /// # Errors
    /// [`NotHeard`] lists what was heard instead.
    pub async fn wait_for(
        &mut self,
        limit: Duration,
        mut wanted: impl FnMut(&PoolEvent) -> bool,
    ) -> Result<PoolEvent, NotHeard> {
        let mut heard = Vec::new();
        let search = async {
            loop {
                match self.receiver.recv().await {
                    Ok(event) if wanted(&event) => return Some(event),
                    Ok(event) => {
                        if heard.len() == 50 {
                            heard.remove(0);
                        }
                        heard.push(event);
                    }
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        };
        match tokio::time::timeout(limit, search).await {
            Ok(Some(event)) => Ok(event),
            Ok(None) | Err(_) => Err(NotHeard {
                waited: limit,
                heard,
            }),
        }
    }
}
