//! `Reconciler`: one board's passes, one at a time.
//!
//! Receives [`Wake`] (a hint that carries nothing but whether the board may have changed) and [`RunPass`]; a hint during a
//! pass causes one more. It re-arms itself at the end of each pass for the earliest time that something is due, and for
//! `interval_seconds` at the latest. After each pass it wakes the board's Dispatcher.
//!
//! While the pool drains no pass begins: nothing is written on the board any more, and what is durable in the store is
//! settled by the coordinator that follows.
//!
//! Restart: a new one begins with a pass over everything.

use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture,
    SpawnHandle, WrapFuture,
};
use tokio::sync::oneshot;

use super::board_parts::BoardParts;
use super::dispatcher::{Dispatcher, Look};
use super::reconcile::{self, PassMemory, PassReport};
use super::supervise::{DownGuard, Link, Stop};
use crate::faults::Work;

/// Hints that may wait; each says the same.
const MAILBOX_LIMIT: usize = 64;
/// No two passes follow each other faster than this, however early something is due.
const SHORTEST_PAUSE_SECONDS: f64 = 0.01;

/// Something may have to be done.
#[derive(Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Wake {
    /// Somebody else may have written on the board.
    pub board_changed: bool,
}

/// Runs a pass that begins after this message, and answers when it has ended; there is no answer while the pool drains.
#[derive(Clone, Copy, Message)]
#[rtype(result = "Option<PassReport>")]
pub struct RunPass;

/// Reconciles one board with the store.
pub struct Reconciler {
    parts: BoardParts,
    dispatcher: Link<Dispatcher>,
    memory: PassMemory,
    running: bool,
    /// A hint came during the pass.
    again: bool,
    /// Every run has to be looked at, since somebody else may have written on the board.
    board_changed: bool,
    askers: Vec<oneshot::Sender<PassReport>>,
    timer: Option<SpawnHandle>,
    _guard: DownGuard,
}

impl Reconciler {
    /// A Reconciler that begins with a pass.
    #[must_use]
    pub fn new(parts: BoardParts, dispatcher: Link<Dispatcher>, guard: DownGuard) -> Self {
        Self {
            parts,
            dispatcher,
            memory: PassMemory::default(),
            running: false,
            again: false,
            board_changed: false,
            askers: Vec::new(),
            timer: None,
            _guard: guard,
        }
    }

    fn begin(&mut self, ctx: &mut Context<Self>) {
        if self.running {
            self.again = true;
            return;
        }
        if self.parts.is_draining() {
            // Nothing is written on a board while the process ends. Whoever starts next begins with a pass; whoever
            // asked for one gets no report.
            self.askers.clear();
            return;
        }
        let faults = &self.parts.faults;
        faults.begin(Work::Message, "reconciler", &self.parts.slug);
        if let Some(timer) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        (self.running, self.again) = (true, false);
        let parts = self.parts.clone();
        let mut memory = std::mem::take(&mut self.memory);
        if std::mem::take(&mut self.board_changed) {
            memory.board_changed();
        }
        let askers = std::mem::take(&mut self.askers);
        let pass = async move {
            let report = reconcile::run(&parts, &mut memory).await;
            (memory, report, askers)
        };
        ctx.spawn(
            pass.into_actor(self)
                .map(|(memory, report, askers), actor, ctx| {
                    actor.memory = memory;
                    actor.ended(report, askers, ctx);
                }),
        );
    }

    fn ended(
        &mut self,
        report: PassReport,
        askers: Vec<oneshot::Sender<PassReport>>,
        ctx: &mut Context<Self>,
    ) {
        self.running = false;
        // A Dispatcher that is down looks by itself once it is built anew.
        let _ = self.dispatcher.tell(Look);
        for asker in askers {
            // Whoever asked may have stopped waiting.
            let _ = asker.send(report.clone());
        }
        if self.again {
            return self.begin(ctx);
        }
        let until_due = report
            .next_due
            .map_or(f64::INFINITY, |due| due - self.parts.clock.now());
        let pause = until_due.clamp(SHORTEST_PAUSE_SECONDS, self.parts.interval_seconds);
        let wait = self.parts.clock.wait_for(Duration::from_secs_f64(pause));
        self.timer = Some(ctx.spawn(wait.into_actor(self).map(|(), actor, ctx| {
            actor.timer = None;
            actor.begin(ctx);
        })));
    }
}

impl Actor for Reconciler {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX_LIMIT);
        self.begin(ctx);
    }
}

impl Handler<Wake> for Reconciler {
    type Result = ();

    fn handle(&mut self, wake: Wake, ctx: &mut Self::Context) {
        self.board_changed |= wake.board_changed;
        self.begin(ctx);
    }
}

impl Handler<RunPass> for Reconciler {
    type Result = ResponseFuture<Option<PassReport>>;

    fn handle(&mut self, _: RunPass, ctx: &mut Self::Context) -> Self::Result {
        let (asker, report) = oneshot::channel();
        self.askers.push(asker);
        self.begin(ctx);
        Box::pin(async move { report.await.ok() })
    }
}

impl Handler<Stop> for Reconciler {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
