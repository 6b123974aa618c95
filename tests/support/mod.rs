//! A pool on real files with a clock that the test moves, and workers that speak its protocol.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermes_pool::actors::{
    DeliveryError, Listener, OrdinalHandle, Pool, PoolEvent, PoolSettings, PoolSnapshot, Reply,
    ReplyStatus, RunPass,
};
use hermes_pool::board::hermes::{
    BoardDetails, EventLine, HermesBoards, NewTask, RunLine, Settings,
};
use hermes_pool::clock::{Clock, ManualClock};
use hermes_pool::domain::{BoardSlug, Lane, LeasePolicy, Ordinal, PoolId, TaskId, Timestamp};
use hermes_pool::faults::Faults;
use hermes_pool::protocol::{
    Ack, AssignmentPayload, Binding, Json, Key, Kind, derive_ordinal_key, generate_key, parse_json,
    parse_wire, sign_envelope, verify_envelope, write_key_file,
};

/// When every test begins.
pub(crate) const START: Timestamp = Timestamp(1_800_000_000.0);
/// Longest real time that a test waits for something to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The lane that the tests' tasks are in.
pub(crate) const LANE: &str = "codex-cli";

/// Everything that one test needs, in a folder of its own.
pub(crate) struct Stage {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) boards: HermesBoards,
    pub(crate) master: Key,
    pub(crate) faults: Faults,
    pub(crate) settings: PoolSettings,
}

/// Lets the panics that tests ask for pass without a word: their backtraces cost more than all the rest.
fn hush_the_door() {
    static HUSHED: std::sync::Once = std::sync::Once::new();
    HUSHED.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let text = panic.payload().downcast_ref::<String>();
            if !text.is_some_and(|text| text.starts_with("test door at")) {
                usual(panic);
            }
        }));
    });
}

impl Stage {
    pub(crate) fn new(slots: u16) -> Self {
        hush_the_door();
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("hermes");
        std::fs::create_dir(&home).unwrap();
        let master = generate_key().unwrap();
        let key_file = folder.path().join("pool.key");
        write_key_file(&key_file, &master).unwrap();
        let faults = Faults::default();
        let settings = PoolSettings {
            id: PoolId::parse("test").unwrap(),
            slots,
            policy: LeasePolicy::clamped(90, 3, 300),
            state_dir: folder.path().join("state"),
            key_file,
            lanes: vec![Lane::parse(LANE).unwrap()],
            include: Vec::new(),
            poll: Duration::from_millis(10),
            failure_limit: 2,
            interval_seconds: 5.0,
            retention_seconds: 604_800,
            faults: faults.clone(),
        };
        let board_settings = Settings {
            faults: faults.clone(),
            ..Settings::default()
        };
        let boards = HermesBoards::new(home, board_settings);
        Self {
            clock: ManualClock::at(START),
            folder,
            boards,
            master,
            faults,
            settings,
        }
    }

    /// A stage whose busy boards are not waited for: what is locked stays locked, and the test goes on.
    pub(crate) fn impatient(slots: u16) -> Self {
        let mut stage = Self::new(slots);
        let settings = Settings {
            busy_timeout: Duration::from_millis(1),
            faults: stage.faults.clone(),
            ..Settings::default()
        };
        stage.boards = HermesBoards::new(stage.boards.root().to_owned(), settings);
        stage
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.now().whole_seconds()
    }

    /// Makes an empty board.
    pub(crate) fn board(&self, slug: &str) -> BoardSlug {
        let slug = BoardSlug::parse(slug).unwrap();
        self.boards
            .create(&slug, &BoardDetails::default(), self.now())
            .unwrap();
        slug
    }

    /// Adds a task for the pool's lane.
    pub(crate) fn task(&self, board: &BoardSlug, title: &str) -> TaskId {
        self.add(
            board,
            NewTask {
                title: title.to_owned(),
                ..NewTask::default()
            },
        )
    }

    /// Adds a task; without an assignee it is for the pool's lane.
    pub(crate) fn add(&self, board: &BoardSlug, mut task: NewTask) -> TaskId {
        task.assignee.get_or_insert_with(|| LANE.to_owned());
        let id = self
            .boards
            .open(board)
            .unwrap()
            .create_task(&task, self.now())
            .unwrap();
        TaskId::parse(&id).unwrap()
    }

    pub(crate) fn status(&self, board: &BoardSlug, task: &TaskId) -> String {
        let tasks = self.boards.open(board).unwrap().tasks().unwrap();
        tasks
            .into_iter()
            .find(|line| line.id == task.as_str())
            .unwrap()
            .status
    }

    /// Tasks of a board that are not done.
    pub(crate) fn open_tasks(&self, board: &BoardSlug) -> usize {
        let tasks = self.boards.open(board).unwrap().tasks().unwrap();
        tasks.iter().filter(|task| task.status != "done").count()
    }

    pub(crate) fn runs(&self, board: &BoardSlug, task: &TaskId) -> Vec<RunLine> {
        self.boards
            .open(board)
            .unwrap()
            .runs(task.as_str())
            .unwrap()
    }

    pub(crate) fn events(&self, board: &BoardSlug, task: &TaskId) -> Vec<EventLine> {
        self.boards
            .open(board)
            .unwrap()
            .events(task.as_str())
            .unwrap()
    }

    pub(crate) fn event_kinds(&self, board: &BoardSlug, task: &TaskId) -> Vec<String> {
        self.events(board, task)
            .into_iter()
            .map(|event| event.kind)
            .collect()
    }

    /// A connection to the board's own database, for what only a foreign hand does.
    pub(crate) fn sql(&self, board: &BoardSlug) -> rusqlite::Connection {
        let connection = rusqlite::Connection::open(self.database(board)).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection
    }

    pub(crate) fn database(&self, board: &BoardSlug) -> PathBuf {
        self.boards
            .root()
            .join("kanban/boards")
            .join(board.as_str())
            .join("kanban.db")
    }

    /// Starts the pool, whatever becomes of its store and boards.
    pub(crate) fn begin(&self) -> Running<'_> {
        let pool = Pool::start(
            self.settings.clone(),
            self.clock.clone(),
            Arc::new(self.boards.clone()),
        )
        .unwrap();
        Running {
            events: pool.listen(),
            pool,
            stage: self,
        }
    }

    /// Starts the pool and waits until its boards are served.
    pub(crate) async fn start(&self) -> Running<'_> {
        let running = self.begin();
        let mut started = running.pool.listen();
        tokio::time::timeout(PATIENCE, running.pool.opened())
            .await
            .expect("the pool opens its store and boards");
        let mut awaited: Vec<_> = running
            .pool
            .directory()
            .all()
            .into_iter()
            .map(|board| board.parts.slug)
            .collect();
        while !awaited.is_empty() {
            let passed = started
                .wait_for(PATIENCE, |event| {
                    matches!(event, PoolEvent::Reconciled { .. })
                })
                .await
                .unwrap_or_else(|error| panic!("{error}"));
            if let PoolEvent::Reconciled { board, .. } = passed {
                awaited.retain(|slug| *slug != board);
            }
        }
        running
    }
}

/// A running pool.
pub(crate) struct Running<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) pool: Pool,
    pub(crate) events: Listener,
}

impl Running<'_> {
    /// Waits for an event.
    pub(crate) async fn hear(&mut self, wanted: impl FnMut(&PoolEvent) -> bool) -> PoolEvent {
        self.events
            .wait_for(PATIENCE, wanted)
            .await
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Lets time pass.
    pub(crate) fn advance(&self, seconds: f64) {
        self.stage.clock.advance(Duration::from_secs_f64(seconds));
    }

    /// Lets time pass in steps of a second until an event comes: for what backs off before it goes on.
    pub(crate) async fn hear_after_a_while(
        &mut self,
        mut wanted: impl FnMut(&PoolEvent) -> bool,
    ) -> PoolEvent {
        for _ in 0..PATIENCE.as_secs() * 20 {
            self.advance(1.0);
            if let Ok(event) = self
                .events
                .wait_for(Duration::from_millis(50), &mut wanted)
                .await
            {
                return event;
            }
        }
        panic!("the awaited event did not come");
    }

    /// Lets time pass, and what became due then begin: the actors' threads get their turn.
    pub(crate) async fn a_moment(&mut self, seconds: f64) {
        // Only what happens from now on counts: what was not listened to yet would let time run ahead of the pool.
        let mut from_now_on = self.pool.listen();
        self.advance(seconds);
        let anything = |_: &PoolEvent| true;
        let _ = from_now_on
            .wait_for(Duration::from_millis(10), anything)
            .await;
    }

    /// Lets time pass until an actor was built anew.
    pub(crate) async fn until_restarted(&mut self, heard: &mut Listener, actor: &str) {
        for _ in 0..400 {
            let restarted =
                |event: &PoolEvent| matches!(event, PoolEvent::Restarted(name) if name == actor);
            if heard
                .wait_for(Duration::from_millis(50), restarted)
                .await
                .is_ok()
            {
                return;
            }
            self.advance(1.0);
        }
        panic!("{actor} was not restarted");
    }

    /// One look at the whole pool.
    pub(crate) async fn snapshot(&self) -> PoolSnapshot {
        self.pool.snapshot().await.unwrap()
    }

    /// Has the board's Reconciler go through it once, from now.
    pub(crate) async fn pass(&self, board: &BoardSlug) -> hermes_pool::actors::PassReport {
        let board = self.pool.board(board).expect("the board is served");
        board.reconciler.ask(RunPass).await.unwrap().unwrap()
    }

    pub(crate) fn worker(&self, ordinal: u16) -> Worker {
        Worker {
            key: derive_ordinal_key(&self.stage.master, ordinal, self.stage.settings.slots)
                .unwrap(),
            ordinal,
            slots: self.stage.settings.slots,
            slot: self.pool.ordinal(Ordinal(ordinal)).unwrap(),
            clock: self.stage.clock.clone(),
        }
    }

    /// A worker shows itself, and fetches the run that is claimed for it then.
    pub(crate) async fn first_job(&mut self, ordinal: u16) -> (Worker, Job) {
        let worker = self.worker(ordinal);
        worker.poll().await;
        self.hear(|event| matches!(event, PoolEvent::Added(_)))
            .await;
        let job = worker.poll().await.unwrap();
        (worker, job)
    }

    /// A worker's next run, which must come. Like any worker it asks again, also when a part of the pool was restarting;
    /// time passes meanwhile, since what was broken backs off.
    pub(crate) async fn next_job(&mut self, ordinal: u16) -> Job {
        let worker = self.worker(ordinal);
        let patience = std::time::Instant::now() + PATIENCE;
        let mut pause = 0.1;
        while std::time::Instant::now() < patience {
            if let Ok(Some(job)) = worker.try_poll().await {
                return job;
            }
            self.a_moment(pause).await;
            pause = f64::min(2.0 * pause, 1.0);
        }
        panic!("no run came: {:#?}", self.pool.ledger().entries());
    }

    /// Ends the pool as a crash would leave it: whatever is not durable is gone.
    pub(crate) async fn stop(self) {
        self.pool.stop();
        let state_dir = self.stage.settings.state_dir.clone();
        drop(self);
        // The threads let go of the state directory when they have ended.
        let lock = std::fs::File::open(state_dir.join("coordinator.lock")).unwrap();
        tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(move || lock.lock()))
            .await
            .expect("the pool's threads end")
            .unwrap()
            .unwrap();
    }
}

/// A worker of one slot, without a network between.
pub(crate) struct Worker {
    key: Key,
    ordinal: u16,
    slots: u16,
    slot: OrdinalHandle,
    clock: Arc<ManualClock>,
}

/// A run that a worker was handed.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) binding: Binding,
    pub(crate) payload: AssignmentPayload,
    pub(crate) payload_json: String,
}

/// What the pool answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Ack(Ack),
    Refused { status: ReplyStatus, code: String },
}

impl Answer {
    pub(crate) fn code(&self) -> &str {
        match self {
            Self::Refused { code, .. } => code,
            Self::Ack(_) => "ok",
        }
    }
}

impl Worker {
    async fn try_send(
        &self,
        kind: Kind,
        binding: &Binding,
        payload: &Json,
        delivery: &str,
    ) -> Result<Reply, DeliveryError> {
        let now = self.clock.now().whole_seconds();
        let bytes =
            sign_envelope(&self.key, kind, binding, payload, now, 120, Some(delivery)).unwrap();
        let message = parse_wire(&bytes).unwrap();
        self.slot.deliver(message, kind).await
    }

    fn open(&self, reply: &Reply, delivery: &str) -> hermes_pool::protocol::Envelope {
        let now = self.clock.now().whole_seconds();
        let message = parse_wire(&reply.envelope).unwrap();
        let envelope = verify_envelope(&self.key, message, None, now, self.slots).unwrap();
        assert_eq!(
            envelope.delivery_id, delivery,
            "a reply repeats the delivery id of its request"
        );
        envelope
    }

    /// Polls without waiting.
    pub(crate) async fn poll(&self) -> Option<Job> {
        self.poll_as(&uuid::Uuid::new_v4().to_string(), 0).await
    }

    /// Polls under a delivery id, waiting on the server for up to `wait_seconds`.
    pub(crate) async fn poll_as(&self, delivery: &str, wait_seconds: i64) -> Option<Job> {
        self.try_poll_as(delivery, wait_seconds).await.unwrap()
    }

    /// Polls a pool of which a part may be down.
    pub(crate) async fn try_poll(&self) -> Result<Option<Job>, DeliveryError> {
        self.try_poll_as(&uuid::Uuid::new_v4().to_string(), 0).await
    }

    async fn try_poll_as(
        &self,
        delivery: &str,
        wait_seconds: i64,
    ) -> Result<Option<Job>, DeliveryError> {
        let payload = Json::object([("wait_seconds", Json::from(wait_seconds))]);
        let binding = Binding::without_run(i64::from(self.ordinal));
        let reply = self
            .try_send(Kind::Poll, &binding, &payload, delivery)
            .await?;
        assert_eq!(reply.status, ReplyStatus::Done);
        let envelope = self.open(&reply, delivery);
        Ok(match envelope.kind {
            Kind::Ack => {
                assert_eq!(Ack::parse(&envelope.payload).unwrap(), Ack::Idle);
                None
            }
            _ => Some(Job {
                payload: AssignmentPayload::parse(&envelope.payload).unwrap(),
                payload_json: envelope.payload_json().to_owned(),
                binding: envelope.binding,
            }),
        })
    }

    pub(crate) async fn heartbeat(&self, job: &Job) -> Answer {
        self.say(
            Kind::Heartbeat,
            job,
            &Json::object::<&str>([]),
            &uuid::Uuid::new_v4().to_string(),
        )
        .await
    }

    /// A heartbeat to a pool of which a part may be down.
    pub(crate) async fn try_heartbeat(&self, job: &Job) -> Result<Answer, DeliveryError> {
        let delivery = uuid::Uuid::new_v4().to_string();
        let empty = Json::object::<&str>([]);
        self.try_say(Kind::Heartbeat, job, &empty, &delivery).await
    }

    /// A result for a pool of which a part may be down.
    pub(crate) async fn try_submit(
        &self,
        job: &Job,
        result: &str,
    ) -> Result<Answer, DeliveryError> {
        let delivery = uuid::Uuid::new_v4().to_string();
        let payload = parse_json(result.as_bytes()).unwrap();
        self.try_say(Kind::Result, job, &payload, &delivery).await
    }

    pub(crate) async fn submit(&self, job: &Job, result: &str) -> Answer {
        let payload = parse_json(result.as_bytes()).unwrap();
        self.say(
            Kind::Result,
            job,
            &payload,
            &uuid::Uuid::new_v4().to_string(),
        )
        .await
    }

    pub(crate) async fn say(
        &self,
        kind: Kind,
        job: &Job,
        payload: &Json,
        delivery: &str,
    ) -> Answer {
        self.try_say(kind, job, payload, delivery).await.unwrap()
    }

    async fn try_say(
        &self,
        kind: Kind,
        job: &Job,
        payload: &Json,
        delivery: &str,
    ) -> Result<Answer, DeliveryError> {
        let reply = self.try_send(kind, &job.binding, payload, delivery).await?;
        let envelope = self.open(&reply, delivery);
        assert_eq!(
            envelope.binding, job.binding,
            "an answer repeats the binding of its request"
        );
        Ok(match Ack::parse(&envelope.payload).unwrap() {
            Ack::Rejected { code, .. } => Answer::Refused {
                status: reply.status,
                code,
            },
            ack => Answer::Ack(ack),
        })
    }
}
