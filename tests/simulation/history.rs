//! One history: the real pool on one thread, moved piece by piece through a plan.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hermes_pool::actors::store::StoreStatus;
use hermes_pool::actors::{ByHand, DeliveryError, Engine, Pool, PoolSettings, Reply};
use hermes_pool::clock::{Clock, ManualClock};
use hermes_pool::domain::{BoardSlug, Lane, LeasePolicy, Ordinal, PoolId, Timestamp};
use hermes_pool::faults::{Fault, FaultPoint, Faults};
use hermes_pool::protocol::{Ack, Key, Kind, parse_wire};
use hermes_pool::store::{Job, Operation, StoreError, Tx};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::LANE;
use super::boards::Boards;
use super::invariants::{Judge, Violation};
use super::plan::{Plan, Step, StoreFault};
use super::workers::{Message, Packet, Workers};

const START: Timestamp = Timestamp(1_800_000_000.0);
/// Turns of everything that can run after a piece of work: enough for what follows from it at once.
const TURNS: usize = 6;
/// Turns after which nothing can run any more.
const ALL_TURNS: usize = 24;
/// Pieces of work that may follow from each other without time passing.
const PIECES: usize = 400;
/// Rounds in which all work has to end once nothing is broken any more; each lets up to twenty seconds pass.
const ROUNDS: usize = 120;

/// What all histories share: the store as it is made, and the key.
pub(crate) struct Template {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) master: Key,
}

/// What became of a history.
pub(crate) struct Outcome {
    pub(crate) violation: Option<Violation>,
    /// Everything that happened, as one text: the same for the same plan.
    pub(crate) trace: String,
}

struct History<'a> {
    plan: &'a Plan,
    folder: PathBuf,
    key_file: PathBuf,
    clock: Arc<ManualClock>,
    boards: Boards,
    slugs: Vec<BoardSlug>,
    workers: Workers,
    judge: Judge,
    next: usize,
    store_fault: Option<StoreFault>,
    faults: Faults,
    trace: String,
    /// Something may have changed in the store or on a board since the last judgement.
    unjudged: bool,
}

/// A message that was delivered, and what became of it.
type Answer = (Message, Result<Reply, DeliveryError>);

/// A coordinator between its start and its death.
struct Life {
    pool: Pool,
    hand: ByHand,
    answers: Rc<RefCell<Vec<Answer>>>,
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
    let boards = Boards::new();
    let slugs: Vec<BoardSlug> = (0..plan.boards)
        .map(|number| BoardSlug::parse(&format!("board-{number}")).unwrap())
        .collect();
    for slug in &slugs {
        boards.create(slug, START.whole_seconds());
    }
    let mut history = History {
        plan,
        key_file: template.folder.path().join("pool.key"),
        workers: Workers::new(&template.master, plan.slots, clock.clone()),
        judge: Judge::new(&store),
        folder: folder.clone(),
        clock,
        boards,
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
    Outcome { violation, trace }
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
            policy: LeasePolicy::clamped(90, 3, 300),
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

    async fn step(&mut self, life: &Life, step: Step) -> Result<(), Violation> {
        let now = self.clock.now().whole_seconds();
        match step {
            Step::Work(nth) => return self.work(life, usize::from(nth)).await.map(drop),
            Step::Run(pieces) => return self.run(life, usize::from(pieces)).await.map(drop),
            Step::Deliver(nth) => {
                if let Some(packet) = self.pick(nth).map(|nth| self.workers.packets.remove(nth)) {
                    self.deliver(life, packet);
                }
            }
            Step::Duplicate(nth) => {
                if let Some(packet) = self.pick(nth).map(|nth| self.workers.packets[nth].clone()) {
                    self.workers.packets.push(packet);
                }
            }
            Step::Lose(nth) => {
                let lost = self.pick(nth).map(|nth| self.workers.packets.remove(nth));
                drop(lost);
            }
            Step::Worker(nth, act) => self.workers.act(nth, act),
            Step::Pass(seconds) => self.clock.advance(Duration::from_secs_f64(seconds)),
            Step::Crash => {}
            Step::Panic(nth) => {
                let point = FaultPoint::ALL[usize::from(nth) % FaultPoint::ALL.len()];
                self.faults.arm(point, Fault::PanicOnce);
            }
            Step::Store(fault) => self.store_fault = Some(fault),
            Step::Board(nth, trouble) => self.boards.trouble(self.slug(nth), trouble),
            Step::Meddle(nth, meddling) => self.boards.meddle(self.slug(nth), meddling, now),
            Step::Hermes(nth) => self.boards.take_back_expired(self.slug(nth), now),
            Step::Look(nth) => life.hand.look(self.slug(nth)),
        }
        self.note(&format!("{step:?}"));
        self.settle(life).await
    }

    fn slug(&self, nth: u8) -> &BoardSlug {
        &self.slugs[usize::from(nth) % self.slugs.len()]
    }

    fn pick(&self, nth: u8) -> Option<usize> {
        let packets = self.workers.packets.len();
        (packets > 0).then(|| usize::from(nth) % packets)
    }

    fn deliver(&mut self, life: &Life, packet: Packet) {
        match packet {
            Packet::ToWorker { asked, reply } => self.workers.hear(&asked, &reply),
            Packet::ToPool(message) => {
                let slot = life.pool.ordinal(Ordinal(message.ordinal));
                let slot = slot.expect("every configured slot has its actor");
                let wire = parse_wire(&message.bytes).unwrap();
                let answers = Rc::clone(&life.answers);
                actix::spawn(async move {
                    let answer = slot.deliver(wire, message.kind).await;
                    answers.borrow_mut().push((message, answer));
                });
            }
        }
    }

    /// One piece of waiting work; `false` if there is none.
    async fn work(&mut self, life: &Life, nth: usize) -> Result<bool, Violation> {
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
                None => self.commit(life),
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
    async fn run(&mut self, life: &Life, pieces: usize) -> Result<bool, Violation> {
        for piece in 0..pieces {
            if !self.work(life, piece).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn commit(&mut self, life: &Life) -> bool {
        let store = life.pool.store();
        let nothing_waits = store.waiting() == 0;
        if nothing_waits && !matches!(store.status(), StoreStatus::Failing(_)) {
            return false;
        }
        let Some(mut writer) = life.hand.take_store() else {
            return false;
        };
        if nothing_waits {
            writer.probe();
            life.hand.give_store(writer);
            return true;
        }
        match self.store_fault.take() {
            None => writer.flush(|_| {}),
            Some(StoreFault::GroupLost) => writer.flush(Vec::clear),
            Some(StoreFault::MemberLost) => writer.flush(|group| drop(group.pop())),
            Some(StoreFault::DiskFull) => on_a_full_disk(|| writer.flush(|_| {})),
            Some(StoreFault::Unanswered) => {
                let committed = catch_unwind(AssertUnwindSafe(|| {
                    writer.flush(|group| {
                        group.insert(0, Job::new(Nothing, |_| resume_unwind(Box::new(()))));
                    });
                }));
                assert!(committed.is_err(), "nobody was to be answered");
                return true;
            }
            Some(StoreFault::Down) => return true,
        }
        life.hand.give_store(writer);
        true
    }

    /// Lets everything run that can, takes the answers, and judges.
    async fn settle(&mut self, life: &Life) -> Result<(), Violation> {
        self.turn(TURNS).await;
        let answers = std::mem::take(&mut *life.answers.borrow_mut());
        for (asked, answer) in answers {
            let Ok(reply) = answer else {
                self.note("unavailable");
                continue;
            };
            let said = self.workers.open(&asked, &reply.envelope);
            self.note(&format!("{said:?}"));
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
            self.judge.judge(&self.boards.world(), self.clock.now().0)?;
        }
        Ok(())
    }

    async fn turn(&self, turns: usize) {
        for _ in 0..turns {
            tokio::task::yield_now().await;
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
            if round > 2 && self.left_over().is_empty() {
                return Ok(());
            }
            for ordinal in 0..self.workers.slots() {
                if round % 4 == 0 || self.workers.packets.is_empty() {
                    self.workers.act_in_health(ordinal);
                }
            }
            self.clock
                .advance(Duration::from_secs_f64([0.5, 5.0, 20.0][round % 3]));
            self.settle(life).await?;
        }
        Err(format!("work is left over: {:#?}", self.left_over()))
    }

    fn left_over(&mut self) -> Vec<String> {
        let mut left = self.boards.left_over();
        left.extend(self.judge.left_over());
        left
    }

    fn note(&mut self, text: &str) {
        use std::fmt::Write;
        let time = self.clock.now() - START;
        writeln!(self.trace, "{time:9.3} {text}").unwrap();
    }
}

/// A member of a group that does nothing.
struct Nothing;

impl Operation for Nothing {
    type Reply = ();

    fn apply(self, _: &Tx<'_>, _: Timestamp) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Does something while no file takes a single byte.
fn on_a_full_disk(act: impl FnOnce()) {
    let before = getrlimit(Resource::Fsize);
    let none = Rlimit {
        current: Some(0),
        maximum: before.maximum,
    };
    setrlimit(Resource::Fsize, none).unwrap();
    act();
    setrlimit(Resource::Fsize, before).unwrap();
}

/// Makes the store and the key once, for all histories.
pub(crate) fn template() -> Template {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    // Writing on a full disk is an error then, and not the end of the process.
    let ignored = Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, ignored).unwrap();
    // Panics that a plan asks for are no news.
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload_as_str().unwrap_or_default();
        if !text.starts_with("test door") {
            others(panic);
        }
    }));
    let master = hermes_pool::protocol::generate_key().unwrap();
    hermes_pool::protocol::write_key_file(&folder.path().join("pool.key"), &master).unwrap();
    let store = hermes_pool::store::Store::open(&folder.path().join("assignments.db"), 3);
    drop(store.unwrap());
    Template { folder, master }
}
