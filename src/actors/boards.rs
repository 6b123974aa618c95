//! `Boards`: which boards have a Reconciler and a Dispatcher.
//!
//! Lists the place that holds the boards every interval, and gives a pair of actors to every board that is served and to
//! every board that a row or an intent refers to, also after it was archived, left out or removed. Claims are made only
//! on boards that are served.
//!
//! Restart: a new one finds the pairs in the [`BoardDirectory`], which outlives it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, Message, ResponseFuture, SpawnHandle,
    WrapFuture,
};
use tokio::sync::oneshot;

use super::board_parts::{BoardParts, HeldIntents};
use super::board_thread::BoardHandle;
use super::directory::{BoardActors, BoardDirectory, WakeReconciler};
use super::dispatcher::{Dispatcher, Look};
use super::engine::Engine;
use super::events::Events;
use super::ledger::Ledger;
use super::ordinals::Ordinals;
use super::readers::Readers;
use super::reconciler::{Reconciler, Wake};
use super::roster::Roster;
use super::scope::Scope;
use super::settle::EndingPolicy;
use super::store::StoreHandle;
use super::supervise::{DownGuard, Keeper, Link};
use crate::board::{BoardError, BoardHost, Found};
use crate::clock::SharedClock;
use crate::domain::{BoardSlug, IllegalRow, Lane, LeasePolicy};
use crate::faults::{Faults, Work};

/// What every board's actors are built from.
#[derive(Clone)]
pub struct BoardTemplate {
    /// The place that holds the boards.
    pub host: Arc<dyn BoardHost>,
    /// What carries the work.
    pub engine: Engine,
    /// How often a board is looked at for changes.
    pub poll: Duration,
    /// The store.
    pub store: StoreHandle,
    /// Reads of the store.
    pub readers: Readers,
    /// Time.
    pub clock: SharedClock,
    /// The Roster.
    pub roster: Link<Roster>,
    /// The slots.
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
    /// Longest time between two passes and between two listings, in seconds.
    pub interval_seconds: f64,
    /// Whether the pool is draining.
    pub draining: Arc<AtomicBool>,
    /// Boards to serve; empty for all.
    pub include: Arc<[BoardSlug]>,
    /// The tests' door.
    pub faults: Faults,
}

/// Lists the boards now, and answers when every one that needs actors has them.
#[derive(Clone, Copy, Message)]
#[rtype(result = "Option<()>")]
pub struct ListBoards;

/// Keeps the directory in step with what is there.
pub struct Boards {
    template: BoardTemplate,
    directory: BoardDirectory,
    keeper: Keeper,
    listing: bool,
    timer: Option<SpawnHandle>,
    askers: Vec<oneshot::Sender<()>>,
    _guard: DownGuard,
}

/// What one listing has found.
struct Seen {
    found: Result<Vec<Found>, BoardError>,
    /// Boards that open work refers to, and rows that name none; `None` if the store could not be read.
    referenced: Option<(BTreeSet<BoardSlug>, Vec<IllegalRow>)>,
    /// Rows that are never collected; `None` if the store could not be read.
    ageless: Option<Vec<IllegalRow>>,
}

impl Boards {
    /// Begins with a listing.
    #[must_use]
    pub fn new(
        template: BoardTemplate,
        directory: BoardDirectory,
        keeper: Keeper,
        guard: DownGuard,
    ) -> Self {
        Self {
            template,
            directory,
            keeper,
            listing: false,
            timer: None,
            askers: Vec::new(),
            _guard: guard,
        }
    }

    fn list(&mut self, ctx: &mut Context<Self>) {
        if self.listing {
            return;
        }
        let faults = &self.template.faults;
        faults.begin(Work::Message, "boards", "");
        self.listing = true;
        if let Some(timer) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        let template = self.template.clone();
        let boards = self.directory.all().into_iter();
        let kept = boards.map(|board| board.parts.slug).collect();
        ctx.spawn(
            async move { look(&template, kept).await }
                .into_actor(self)
                .map(|seen, actor, ctx| {
                    actor.listing = false;
                    actor.apply(seen);
                    for asker in actor.askers.drain(..) {
                        // Whoever asked may have stopped waiting.
                        let _ = asker.send(());
                    }
                    let pause = Duration::from_secs_f64(actor.template.interval_seconds);
                    let wait = actor.template.clock.wait_for(pause);
                    actor.timer = Some(ctx.spawn(wait.into_actor(actor).map(|(), actor, ctx| {
                        actor.timer = None;
                        actor.list(ctx);
                    })));
                }),
        );
    }

    fn apply(&mut self, seen: Seen) {
        let now = self.template.clock.now();
        let found = match seen.found {
            Ok(found) => {
                self.template.ledger.clear(Scope::Boards, "list the boards");
                Some(found)
            }
            Err(error) => {
                self.template.ledger.defer(
                    Scope::Boards,
                    "list the boards",
                    error.to_string(),
                    now,
                    None,
                );
                None
            }
        };
        let served: Option<BTreeMap<BoardSlug, Found>> = found.map(|found| {
            let served = found
                .into_iter()
                .filter(|board| !board.archived && self.is_included(&board.slug));
            served.map(|board| (board.slug.clone(), board)).collect()
        });
        let referenced = seen.referenced.map(|(boards, rows)| {
            self.report("find its board", &rows);
            boards
        });
        if let Some(rows) = seen.ageless {
            self.report("collect the row", &rows);
        }
        let of_boards = served.iter().flat_map(BTreeMap::keys);
        for slug in of_boards.chain(referenced.iter().flatten()) {
            self.ensure(slug);
        }
        // What cannot be listed stays as it was.
        let Some(served) = served else { return };
        for board in self.directory.all() {
            let slug = &board.parts.slug;
            let found = served.get(slug);
            let unclear = found.and_then(|board| board.unclear.clone());
            let was_open = board.parts.open.load(Atomic::Relaxed);
            // A board of which nobody knows whether it is archived stays as it was.
            let is_open = found.is_some() && (unclear.is_none() || was_open);
            board.parts.open.store(is_open, Atomic::Relaxed);
            board.parts.note_unclear(unclear);
            let is_needed =
                found.is_some() || referenced.as_ref().is_none_or(|set| set.contains(slug));
            // One listing later nothing that the board's Dispatcher began can be under way any more.
            if !is_needed && !was_open {
                self.let_go(slug);
            }
        }
    }

    /// Rows that no pass sees (they name no board, or are over) are reported here, and left to people.
    fn report(&self, what: &'static str, rows: &[IllegalRow]) {
        let (ledger, now) = (&self.template.ledger, self.template.clock.now());
        let mut known = Vec::with_capacity(rows.len());
        for row in rows {
            let scope = Scope::store_row(&row.run);
            ledger.defer(&scope, what, row.to_string(), now, None);
            known.push(scope);
        }
        ledger.retain(Scope::Store, what, &known);
    }

    fn is_included(&self, slug: &BoardSlug) -> bool {
        self.template.include.is_empty() || self.template.include.contains(slug)
    }

    fn ensure(&self, slug: &BoardSlug) {
        if self.directory.get(slug).is_some() {
            return;
        }
        match self.pair(slug) {
            Ok(board) => {
                log::info!("event=board_served board={slug}");
                self.template.ledger.clear(slug, "serve the board");
                self.directory.insert(board);
            }
            Err(error) => {
                let why = format!("no thread for the board: {error}");
                self.template.ledger.defer(
                    slug,
                    "serve the board",
                    why,
                    self.template.clock.now(),
                    None,
                );
            }
        }
    }

    fn pair(&self, slug: &BoardSlug) -> std::io::Result<BoardActors> {
        let parts = self.parts(slug)?;
        let wake = WakeReconciler::of(self.directory.clone(), slug.clone());
        let for_dispatcher = parts.clone();
        let dispatcher = self
            .keeper
            .keep(format!("dispatcher-{slug}"), move |guard| {
                Dispatcher::new(for_dispatcher.clone(), wake.clone(), guard)
            });
        let (for_reconciler, link) = (parts.clone(), dispatcher.clone());
        let reconciler = self
            .keeper
            .keep(format!("reconciler-{slug}"), move |guard| {
                Reconciler::new(for_reconciler.clone(), link.clone(), guard)
            });
        Ok(BoardActors {
            reconciler,
            dispatcher,
            parts,
        })
    }

    fn parts(&self, slug: &BoardSlug) -> std::io::Result<BoardParts> {
        let template = &self.template;
        let (directory, changed) = (self.directory.clone(), slug.clone());
        let on_change = move || {
            if let Some(board) = directory.get(&changed) {
                // If nobody hears it, the interval brings the next pass.
                let _ = board.reconciler.tell(Wake {
                    board_changed: true,
                });
                let _ = board.dispatcher.tell(Look);
            }
        };
        let (thread, visits) =
            BoardHandle::new(slug.clone(), Arc::clone(&template.host), on_change);
        template.engine.serve_board(visits, template.poll)?;
        Ok(BoardParts {
            slug: slug.clone(),
            thread,
            host: Arc::clone(&template.host),
            engine: template.engine.clone(),
            store: template.store.clone(),
            readers: template.readers.clone(),
            clock: Arc::clone(&template.clock),
            roster: template.roster.clone(),
            ordinals: template.ordinals.clone(),
            ledger: template.ledger.clone(),
            events: template.events.clone(),
            lanes: Arc::clone(&template.lanes),
            policy: template.policy,
            endings: template.endings.clone(),
            interval_seconds: template.interval_seconds,
            held: HeldIntents::default(),
            // Only a listing opens it: a board that is merely referred to may be archived or left out.
            open: Arc::new(AtomicBool::new(false)),
            draining: Arc::clone(&template.draining),
            status: Arc::default(),
            faults: template.faults.clone(),
        })
    }

    /// Ends the actors of a board that is neither served nor referred to; its connection closes with its thread.
    fn let_go(&self, slug: &BoardSlug) {
        if let Some(board) = self.directory.remove(slug) {
            log::info!("event=board_let_go board={slug}");
            board.reconciler.retire();
            board.dispatcher.retire();
            self.template.ledger.clear_board(slug);
        }
    }
}

async fn look(template: &BoardTemplate, mut kept: BTreeSet<BoardSlug>) -> Seen {
    let rows = template
        .readers
        .read(|reader| Ok((reader.boards()?, reader.ageless()?)))
        .await;
    if let Err(error) = &rows {
        log::debug!("boards with open work not read: {error}");
    }
    let (referenced, ageless) = rows.ok().unzip();
    if let Some((boards, _)) = &referenced {
        kept.extend(boards.iter().cloned());
    }
    let host = Arc::clone(&template.host);
    let found = template.engine.aside(move || host.list(&kept)).await;
    let found = found
        .unwrap_or_else(|panic| Err(BoardError::Unreadable(format!("internal error: {panic}"))));
    Seen {
        found,
        referenced,
        ageless,
    }
}

impl Actor for Boards {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.list(ctx);
    }
}

impl Handler<ListBoards> for Boards {
    type Result = ResponseFuture<Option<()>>;

    fn handle(&mut self, _: ListBoards, ctx: &mut Self::Context) -> Self::Result {
        let (asker, listed) = oneshot::channel();
        self.askers.push(asker);
        self.list(ctx);
        Box::pin(async move { listed.await.ok() })
    }
}
