//! One history: the real pool on one thread, moved piece by piece through a plan.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hermes_pool::actors::{ByHand, DeliveryError, Engine, Pool, PoolSettings, Reply};
use hermes_pool::clock::{Clock, ManualClock};
use hermes_pool::domain::{BoardSlug, Lane, LeasePolicy, PoolId, Timestamp};
use hermes_pool::faults::Faults;
use hermes_pool::protocol::{Ack, Kind};

use super::LANE;
use super::boards::Boards;
use super::coverage::{self, Counts, Event, saw};
use super::invariants::{Judge, Violation};
use super::plan::{Plan, Step, StoreFault};
use super::storage::{self, Template};
use super::workers::{Message, Packet, Workers};

/// Attempts that a run gets.
pub(super) const ATTEMPTS: i64 = 3;
const START: Timestamp = Timestamp(1_800_000_000.0);
/// Turns of everything that can run after a piece of work: enough for what follows from it at once.
const TURNS: usize = 6;
/// Turns after which nothing can run any more.
const ALL_TURNS: usize = 24;
/// Pieces of work that may follow from each other without time passing.
const PIECES: usize = 400;
/// The first of them, in which workers are silent: what the pool has to notice by itself, it notices then.
const QUIET_ROUNDS: usize = 3;
/// Rounds in which all work has to end once nothing is broken any more; each lets up to twenty seconds pass.
const ROUNDS: usize = 120;

/// What became of a history.
pub(crate) struct Outcome {
    pub(crate) violation: Option<Violation>,
    /// Everything that happened, as one text: the same for the same plan.
    pub(crate) trace: String,
    /// What it went through.
    pub(crate) counts: Counts,
}

pub(super) struct History<'a> {
    pub(super) plan: &'a Plan,
    folder: PathBuf,
    store: PathBuf,
    key_file: PathBuf,
    pub(super) clock: Arc<ManualClock>,
    pub(super) boards: Boards,
    pub(super) slugs: Vec<BoardSlug>,
    pub(super) workers: Workers,
    judge: Judge,
    next: usize,
    pub(super) store_fault: Option<StoreFault>,
    pub(super) faults: Faults,
    trace: String,
    /// Something may have changed in the store or on a board since the last judgement.
    unjudged: bool,
}

/// A message that was delivered, and what became of it.
type Answer = (Message, Result<Reply, DeliveryError>);

/// A coordinator between its start and its death.
pub(super) struct Life {
    pub(super) pool: Pool,
    pub(super) hand: ByHand,
    pub(super) answers: Rc<RefCell<Vec<Answer>>>,
}

/// Runs a plan from its beginning to its end, or to the first violation.
pub(crate) fn run(plan: &Plan, template: &Template) -> Outcome {
    // What jitters in the coordinator does so by this thread's generator.
    fastrand::seed(plan.seed);
    let folder = template.folder.path().join("history");
    std::fs::create_dir(&folder).unwrap();
    let store = folder.join("assignments.db");
    std::fs::copy(template.folder.path().join("assignments.db"), &store).unwrap();
    let clock = ManualClock::at(START);
    let slugs: Vec<BoardSlug> = (0..plan.boards)
        .map(|number| BoardSlug::parse(&format!("board-{number}")).unwrap())
        .collect();
    let mut history = History {
        plan,
        key_file: template.folder.path().join("pool.key"),
        workers: Workers::new(&template.master, plan.slots, clock.clone()),
        judge: Judge::new(&store),
        folder: folder.clone(),
        store,
        boards: Boards::new(clock.clone(), &slugs),
        clock,
        slugs,
        next: 0,
        store_fault: None,
        faults: Faults::default(),
        trace: String::new(),
        unjudged: true,
    };
    let violation = loop {
        let system = actix::System::new();
        match system.block_on(history.live()) {
            Ok(true) => break None,
            Ok(false) => {}
            Err(violation) => break Some(violation),
        }
    };
    let trace = history.trace;
    std::fs::remove_dir_all(&folder).unwrap();
    let counts = coverage::take();
    Outcome {
        violation,
        trace,
        counts,
    }
}

impl History<'_> {
    /// One life of the coordinator. `true` when the history is over, `false` when the coordinator died.
    async fn live(&mut self) -> Result<bool, Violation> {
        let life = self.start().map_err(|error| error.to_string())?;
        self.settle(&life).await?;
        while let Some(step) = self.plan.steps.get(self.next).copied() {
            self.next += 1;
            self.clock.advance(Duration::from_millis(1));
            if step == Step::Crash {
                self.note("crash");
                saw(Event::Crashed);
                return Ok(false);
            }
            self.step(&life, step).await?;
        }
        self.end_well(&life).await?;
        Ok(true)
    }

    fn start(&self) -> Result<Life, hermes_pool::actors::PoolError> {
        let settings = PoolSettings {
            id: PoolId::parse("simulated").unwrap(),
            slots: self.plan.slots,
            policy: LeasePolicy::clamped(90, ATTEMPTS, 300),
            state_dir: self.folder.clone(),
            key_file: self.key_file.clone(),
            lanes: vec![Lane::parse(LANE).unwrap()],
            include: Vec::new(),
            poll: Duration::from_secs(1),
            failure_limit: 2,
            interval_seconds: 5.0,
            retention_seconds: 604_800,
            faults: self.faults.clone(),
        };
        let (engine, hand) = Engine::by_hand();
        let host = Arc::new(self.boards.clone());
        let pool = Pool::start_on(engine, settings, self.clock.clone(), host)?;
        Ok(Life {
            pool,
            hand,
            answers: Rc::default(),
        })
    }

    /// One piece of waiting work; `false` if there is none.
    pub(super) async fn work(&mut self, life: &Life, nth: usize) -> Result<bool, Violation> {
        let boards = life.hand.boards();
        if self.carry_out(life, &boards, nth) {
            self.settle(life).await?;
            return Ok(true);
        }
        self.turn(ALL_TURNS).await;
        let worked = self.carry_out(life, &boards, nth);
        self.settle(life).await?;
        Ok(worked)
    }

    fn carry_out(&mut self, life: &Life, boards: &[BoardSlug], nth: usize) -> bool {
        let places = boards.len() + 1;
        for place in (0..places).map(|place| (nth + place) % places) {
            let worked = match place.checked_sub(1) {
                None => storage::commit(
                    life.pool.store(),
                    &life.hand,
                    &self.store,
                    &mut self.store_fault,
                ),
                Some(board) => life.hand.visit(&boards[board]),
            };
            if worked {
                self.note(&format!("work {place}"));
                self.unjudged = true;
                return true;
            }
        }
        false
    }

    /// So many pieces; `true` if there was no more to do.
    pub(super) async fn run(&mut self, life: &Life, pieces: usize) -> Result<bool, Violation> {
        for piece in 0..pieces {
            if !self.work(life, piece).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets everything run that can, takes the answers, and judges.
    pub(super) async fn settle(&mut self, life: &Life) -> Result<(), Violation> {
        self.turn(TURNS).await;
        let answers = std::mem::take(&mut *life.answers.borrow_mut());
        for (asked, answer) in answers {
            let Ok(reply) = answer else {
                self.note("unavailable");
                saw(Event::MessageUnserved);
                continue;
            };
            let said = self.workers.open(&asked, &reply.envelope);
            self.note(&format!("{said:?}"));
            if let Some(Ok(ack)) = &said {
                see_ack(ack);
            }
            if asked.kind == Kind::Result && matches!(said, Some(Ok(Ack::Accepted { .. }))) {
                self.judge.acknowledged(&asked);
                self.unjudged = true;
            }
            self.workers.packets.push(Packet::ToWorker {
                asked,
                reply: reply.envelope,
            });
        }
        if std::mem::take(&mut self.unjudged) {
            self.judge
                .judge(&self.boards.world(), self.clock.elapsed())?;
        }
        Ok(())
    }

    async fn turn(&self, turns: usize) {
        for _ in 0..turns {
            yield_now().await;
        }
    }

    /// Nothing is broken any more, and time passes: all work has to end.
    async fn end_well(&mut self, life: &Life) -> Result<(), Violation> {
        self.boards.mend();
        self.store_fault = None;
        self.faults.disarm();
        self.note("mended");
        for round in 0..ROUNDS {
            for slug in self.slugs.clone() {
                life.hand.look(&slug);
            }
            if !self.run(life, PIECES).await? {
                return Err("the coordinator works without end".to_owned());
            }
            for packet in std::mem::take(&mut self.workers.packets) {
                self.deliver(life, packet);
                self.settle(life).await?;
            }
            self.run(life, PIECES).await?;
            if round < QUIET_ROUNDS {
                self.let_pass(6.0);
                self.settle(life).await?;
                continue;
            }
            if round == QUIET_ROUNDS {
                let boards = self.boards.world();
                self.judge.nothing_lost_is_held(&boards)?;
            }
            self.hermes_tidies()?;
            if round > QUIET_ROUNDS && self.left_over().is_empty() {
                return Ok(());
            }
            for ordinal in 0..self.workers.slots() {
                if round % 4 == 0 || self.workers.packets.is_empty() {
                    self.workers.act_in_health(ordinal);
                }
            }
            let seconds = if self.judge.left_over().is_empty() {
                // Others hold what is left, until their claims expire.
                60.0
            } else {
                [0.5, 5.0, 20.0][round % 3]
            };
            self.let_pass(seconds);
            self.settle(life).await?;
        }
        Err(format!("work is left over: {:#?}", self.left_over()))
    }

    fn let_pass(&self, seconds: f64) {
        self.clock.advance(Duration::from_secs_f64(seconds));
    }

    /// Hermes takes back what nobody extends any more: claims of others, and those of this pool that an older copy of a
    /// board shows after their end. From a pool that is whole it takes nothing.
    fn hermes_tidies(&mut self) -> Result<(), Violation> {
        for slug in self.slugs.clone() {
            for lock in self.boards.take_back_expired(&slug) {
                self.note(&format!("Hermes takes back {slug}"));
                self.judge.must_not_hold(&lock)?;
                self.unjudged = true;
            }
        }
        Ok(())
    }

    fn left_over(&mut self) -> Vec<String> {
        let mut left = self.boards.left_over();
        left.extend(self.judge.left_over());
        left
    }

    pub(super) fn note(&mut self, text: &str) {
        use std::fmt::Write;
        let time = self.clock.now() - START;
        writeln!(self.trace, "{time:9.3} {text}").unwrap();
    }
}

/// Lets everything run once that can. Nothing here waits for the operating system, so it is not asked either, as tokio
/// would.
async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn see_ack(ack: &Ack) {
    let event = match ack {
        Ack::Accepted { duplicate: false } => Event::ResultAccepted,
        Ack::Accepted { duplicate: true } => Event::DuplicateResultAccepted,
        Ack::Rejected { code, .. } => match code.as_str() {
            "stale_attempt" => Event::StaleAttemptRefused,
            "lease_expired" => Event::ExpiredLeaseRefused,
            "run_superseded" => Event::SupersededRunRefused,
            _ => return,
        },
        Ack::Idle | Ack::Alive { .. } => return,
    };
    saw(event);
}
