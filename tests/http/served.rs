//! A pool behind its two real servers, on a system of its own; the test stands outside, as a client does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use hermes_pool::actors::{Listener, PassReport, Pool, PoolEvent, RunPass};
use hermes_pool::domain::{BoardSlug, Ordinal, TaskId};
use hermes_pool::http::{OperatorAuth, Servers, ServersOptions, bearer_token, bind_both};
use tokio::sync::oneshot;

use crate::message::{Message, Signed, ordinal_key};
use crate::support::{PATIENCE, Stage};
use crate::wire::{Answer, Wire, post};

/// What the servers are started with where a test does not say otherwise.
pub(crate) fn options() -> ServersOptions {
    ServersOptions {
        max_requests: 300,
        client_timeout: PATIENCE,
        threads: 2,
    }
}

pub(crate) struct Served {
    system: System,
    pub(crate) stage: Stage,
    pub(crate) pool: Pool,
    pub(crate) workers: SocketAddr,
    pub(crate) operators: SocketAddr,
    /// The text of the pool's key file.
    pub(crate) master: String,
    events: Listener,
    runtime: tokio::runtime::Runtime,
}

/// The thread of pool and servers; it is stopped, gracefully, when this is dropped.
struct System {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    /// Starts pool and servers, and waits until the pool's boards are served.
    pub(crate) fn start(stage: Stage) -> Self {
        Self::start_with(stage, options())
    }

    pub(crate) fn start_with(stage: Stage, options: ServersOptions) -> Self {
        Self::start_unready(stage, options).opened()
    }

    /// Starts them with the rules for an operator port on this address; it is bound on loopback all the same.
    pub(crate) fn start_as_if_on(stage: Stage, address: IpAddr) -> Self {
        Self::launch(stage, options(), address).opened()
    }

    fn opened(self) -> Self {
        let opened = async { tokio::time::timeout(PATIENCE, self.pool.opened()).await };
        let opened = self.runtime.block_on(opened);
        opened.expect("the pool opens its store and boards");
        self
    }

    /// Starts pool and servers, whatever may be missing.
    pub(crate) fn start_unready(stage: Stage, options: ServersOptions) -> Self {
        Self::launch(stage, options, Ipv4Addr::LOCALHOST.into())
    }

    fn launch(stage: Stage, options: ServersOptions, operators_on: IpAddr) -> Self {
        let (settings, clock) = (stage.settings.clone(), stage.clock.clone());
        let host = Arc::new(stage.boards.clone());
        let token_file = stage.folder.path().join("operator.token");
        let (started, start) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            actix::System::new().block_on(async move {
                let any = "127.0.0.1:0".parse().unwrap();
                let listeners = bind_both(any, any).unwrap();
                let auth = OperatorAuth::open(&token_file, (operators_on, 0).into()).unwrap();
                let pool = Pool::start(settings, clock, host).unwrap();
                let servers = Servers::start(&pool, listeners, auth, &options).unwrap();
                let addresses = (servers.worker_address, servers.operator_address);
                started.send((pool.listen(), pool, addresses)).unwrap();
                // An error is a test that has failed and is gone.
                let _ = stopped.await;
                servers.stop().await;
            });
        });
        let (events, pool, (workers, operators)) = start.recv().expect("the servers start");
        Self {
            master: std::fs::read_to_string(&stage.settings.key_file)
                .map(|text| text.trim().to_owned())
                .unwrap_or_default(),
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap(),
            stage,
            pool,
            workers,
            operators,
            events,
            system: System {
                stop: Some(stop),
                thread: Some(thread),
            },
        }
    }

    /// Stops gracefully, and leaves what a coordinator leaves behind.
    pub(crate) fn stop(self) -> Stage {
        let Self {
            system,
            stage,
            pool,
            ..
        } = self;
        drop((system, pool));
        // The pool's threads let go of the state directory when they have ended.
        let lock = stage.settings.state_dir.join("coordinator.lock");
        std::fs::File::open(lock).unwrap().lock().unwrap();
        stage
    }

    pub(crate) fn now(&self) -> i64 {
        self.stage.now()
    }

    pub(crate) fn advance(&self, seconds: f64) {
        self.stage.clock.advance(Duration::from_secs_f64(seconds));
    }

    /// Waits for an event.
    #[track_caller]
    pub(crate) fn hear(&mut self, wanted: impl FnMut(&PoolEvent) -> bool) -> PoolEvent {
        // A future with a timer has to be made inside the runtime.
        let events = &mut self.events;
        let waiting = async { events.wait_for(PATIENCE, wanted).await };
        let heard = self.runtime.block_on(waiting);
        heard.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Waits until a slot's poll is parked.
    pub(crate) fn hear_waiting(&mut self, ordinal: u16) {
        self.hear(|event| *event == PoolEvent::Waiting(Ordinal(ordinal)));
    }

    pub(crate) fn pass(&self, board: &BoardSlug) -> PassReport {
        let board = self.pool.board(board).expect("the board is served");
        let pass = board.reconciler.ask(RunPass);
        self.runtime.block_on(pass).unwrap().unwrap()
    }

    /// The rows of the store, as text.
    pub(crate) fn pool_rows(&self) -> String {
        let store = self.store();
        let mut rows = String::new();
        for table in ["assignments", "deliveries"] {
            let mut statement = store
                .prepare(&format!("SELECT * FROM {table} ORDER BY 1,2,3"))
                .unwrap();
            let columns = statement.column_count();
            let mut found = statement.query([]).unwrap();
            while let Some(row) = found.next().unwrap() {
                for column in 0..columns {
                    rows.push_str(&format!("{:?}|", row.get_ref(column).unwrap()));
                }
                rows.push('\n');
            }
        }
        rows
    }

    /// The result that the store holds for a run.
    pub(crate) fn result_of(&self, job: &Signed) -> Option<String> {
        let name = |field: &str| job.envelope[field].as_str().unwrap().to_owned();
        self.store()
            .query_row(
                "SELECT result_json FROM assignments WHERE board=?1 AND task_id=?2 AND run_id=?3",
                [name("board"), name("task_id"), name("run_id")],
                |row| row.get(0),
            )
            .unwrap()
    }

    /// Waits for what nobody announces: looks until it is so.
    #[track_caller]
    pub(crate) fn until(&self, mut condition: impl FnMut(&Self) -> bool) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while !condition(self) {
            assert!(
                std::time::Instant::now() < deadline,
                "it does not come to that"
            );
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// A connection to the pool's own database, for what only a foreign hand does.
    pub(crate) fn store(&self) -> rusqlite::Connection {
        let path = self.stage.settings.state_dir.join("assignments.db");
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.busy_timeout(PATIENCE).unwrap();
        connection
    }

    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) fn worker(&self, ordinal: u16) -> Worker<'_> {
        Worker {
            key: ordinal_key(&self.master, ordinal),
            served: self,
            ordinal,
        }
    }

    /// Adds a task, and has the slot claim and fetch it.
    pub(crate) fn running(
        &mut self,
        board: &BoardSlug,
        title: &str,
        ordinal: u16,
    ) -> (TaskId, Signed) {
        let task = self.stage.task(board, title);
        assert!(self.worker(ordinal).poll().is_none());
        self.hear(|event| matches!(event, PoolEvent::Added(binding) if binding.key.task == task));
        let job = self.worker(ordinal).poll().expect("the run is offered");
        (task, job)
    }

    /// Sends bytes to the worker endpoints and reads one answer.
    #[track_caller]
    pub(crate) fn exchange(&self, bytes: &[u8]) -> Answer {
        let mut wire = Wire::open(self.workers);
        wire.send(bytes);
        let answer = wire.answer().expect("an answer");
        self.assert_discreet(&answer);
        answer
    }

    /// Sends a request without a body to the operator endpoints.
    #[track_caller]
    pub(crate) fn operate(&self, method: &str, target: &str, headers: &str) -> Answer {
        let mut wire = Wire::open(self.operators);
        let request = format!("{method} {target} HTTP/1.1\r\nHost: pool\r\n{headers}\r\n");
        wire.send(request.as_bytes());
        let answer = wire.answer_to(method).expect("an answer");
        let token = self.bearer();
        let token = token.trim_start_matches("Authorization: Bearer ").trim();
        for secret in [token, &self.master] {
            let told = !secret.is_empty() && answer.text().contains(secret);
            assert!(!told, "a secret is told by {target}");
        }
        answer
    }

    pub(crate) fn bearer(&self) -> String {
        let token = bearer_token(&self.stage.folder.path().join("operator.token")).unwrap();
        format!("Authorization: {token}\r\n")
    }

    /// Nothing about this host is told to a worker.
    #[track_caller]
    pub(crate) fn assert_discreet(&self, answer: &Answer) {
        let told = format!("{}{}", answer.head, answer.text());
        let folder = self.stage.folder.path().to_str().unwrap();
        let private = [
            folder,
            "assignments.db",
            "pool.key",
            "coordinator.lock",
            "kanban.db",
            "SQL",
            "sqlite",
            "panicked",
            ".rs",
        ];
        for private in private {
            assert!(!told.contains(private), "{private} is told: {told}");
        }
        assert!(
            self.master.is_empty() || !told.contains(&self.master),
            "the key is told: {told}"
        );
    }

    /// Nothing about what belongs to another slot is told, except what the asker said.
    #[track_caller]
    pub(crate) fn assert_silent(&self, request: &[u8], answer: &Answer) {
        let asked = String::from_utf8_lossy(request);
        for secret in SECRETS {
            let told = !asked.contains(secret) && answer.text().contains(secret);
            assert!(!told, "{secret} is told: {}", answer.text());
        }
    }

    /// Begins a graceful stop, as SIGTERM does.
    pub(crate) fn begin_stop(&mut self) {
        self.system.begin_stop();
    }
}

impl System {
    fn begin_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // An error is a system that has ended by itself; joining its thread tells why.
            let _ = stop.send(());
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        self.begin_stop();
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().unwrap();
        }
    }
}

/// Names that tests give to what belongs to somebody else than the one who asks.
pub(crate) const SECRETS: [&str; 2] = ["zanzibar", "Somebody else's errand"];

/// The worker of one slot, over sockets.
pub(crate) struct Worker<'a> {
    served: &'a Served,
    pub(crate) ordinal: u16,
    pub(crate) key: String,
}

impl Worker<'_> {
    /// A message that is yet to be sealed.
    pub(crate) fn message(&self, kind: &str) -> Message {
        Message::new(kind, self.ordinal, self.served.now())
    }

    /// A poll, ready to be sent.
    pub(crate) fn poll_request(&self, wait_seconds: u32) -> Vec<u8> {
        let message = self
            .message("poll")
            .with("payload", format!("{{\"wait_seconds\":{wait_seconds}}}"));
        post("/v2/poll", &message.sealed(&self.key).body())
    }

    /// Seals a message and sends it to the path of its kind.
    #[track_caller]
    pub(crate) fn say(&self, message: Message) -> (u16, Signed) {
        self.deliver(&message.sealed(&self.key))
    }

    /// Sends a sealed message to the path of its kind; the answer must be authentic and about this very request.
    #[track_caller]
    pub(crate) fn deliver(&self, message: &Message) -> (u16, Signed) {
        let path = format!("/v2/{}", message.field("kind").trim_matches('"'));
        let answer = self.served.exchange(&post(&path, &message.body()));
        let signed = self.open(&answer, message);
        (answer.status, signed)
    }

    /// Opens a signed answer to a message.
    #[track_caller]
    pub(crate) fn open(&self, answer: &Answer, message: &Message) -> Signed {
        self.served.assert_discreet(answer);
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let signed = Signed::open(&self.key, answer.text());
        let repeated: &[&str] = match signed.kind() {
            "ack" => &[
                "delivery_id",
                "worker_ordinal",
                "board",
                "task_id",
                "run_id",
                "attempt",
            ],
            _ => &["delivery_id", "worker_ordinal"],
        };
        for name in repeated {
            assert_eq!(signed.fields[*name], message.field(name), "{name}");
        }
        assert_eq!(signed.envelope["issued_at"], self.served.now());
        signed
    }

    /// Asks for work without waiting.
    #[track_caller]
    pub(crate) fn poll(&self) -> Option<Signed> {
        let (status, signed) = self.say(self.message("poll"));
        assert_eq!(status, 200, "{signed:?}");
        match signed.kind() {
            "assignment" => Some(signed),
            _ => {
                assert_eq!(signed.payload().to_string(), r#"{"status":"idle"}"#);
                None
            }
        }
    }

    #[track_caller]
    pub(crate) fn heartbeat(&self, job: &Signed) -> (u16, Signed) {
        self.say(self.message("heartbeat").of(job))
    }

    #[track_caller]
    pub(crate) fn submit(&self, job: &Signed, payload: &str) -> (u16, Signed) {
        self.say(self.message("result").of(job).with("payload", payload))
    }
}
