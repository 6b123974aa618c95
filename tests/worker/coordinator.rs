//! A coordinator that a test scripts: it speaks HTTP and signs, and answers each message as it is told to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use hermes_pool::clock::{Clock, SystemClock};
use hermes_pool::protocol::{
    Ack, AssignedTask, AssignmentPayload, Binding, Envelope, Integer, Json, Key, Kind, RunLimits,
    WorkspaceSpec, generate_key, parse_wire, sign_envelope, verify_envelope,
};

/// Long enough for anything that happens at all on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What the coordinator answers.
#[derive(Clone)]
pub(crate) enum Answer {
    /// Signed, as it should be.
    Ack(Ack),
    /// Signed, as it should be.
    Assignment(Binding, Box<AssignmentPayload>),
    /// As it should be, but signed with another key.
    Forged(Box<Answer>),
    /// Signed, but with the delivery identifier of another request.
    Misdirected(Box<Answer>),
    /// As it is: the lines from the status on, and a body.
    Unsigned(&'static str, String),
    /// Nothing, on a connection that stays open.
    Silence,
}

impl Answer {
    pub(crate) fn idle() -> Self {
        Self::Ack(Ack::Idle)
    }

    pub(crate) fn alive() -> Self {
        Self::Ack(Ack::Alive {
            duplicate: false,
            lease_until_seconds: now() + 60,
        })
    }

    pub(crate) fn accepted() -> Self {
        Self::Ack(Ack::Accepted { duplicate: false })
    }

    pub(crate) fn rejected(code: &str) -> Self {
        Self::Ack(Ack::Rejected {
            code: code.to_owned(),
            message: "as the test wants it".to_owned(),
        })
    }

    /// The answer of a coordinator that has nothing against a message.
    pub(crate) fn friendly(message: &Message) -> Self {
        match message.kind {
            Kind::Heartbeat => Self::alive(),
            Kind::Result => Self::accepted(),
            _ => Self::idle(),
        }
    }
}

/// An authentic message of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) binding: Binding,
    pub(crate) payload: Json,
}

impl Message {
    pub(crate) fn text(&self, field: &str) -> String {
        let value = self.payload.get(field).and_then(Json::as_str);
        value.unwrap_or_default().to_owned()
    }
}

type Script = Box<dyn FnMut(&Message) -> Answer + Send>;

pub(crate) struct Coordinator {
    pub(crate) key: Key,
    address: SocketAddr,
    messages: Receiver<Message>,
    closing: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Coordinator {
    /// Starts to answer as the script says.
    pub(crate) fn start(script: impl FnMut(&Message) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Self::serve(listener, generate_key().unwrap(), Box::new(script))
    }

    /// Gives the first poll a run, and answers all else as the script says.
    pub(crate) fn with_run(
        lease_seconds: u64,
        mut script: impl FnMut(&Message) -> Answer + Send + 'static,
    ) -> Self {
        let mut run = Some(assignment(lease_seconds));
        Self::start(move |message| match message.kind {
            Kind::Poll => run.take().unwrap_or_else(|| script(message)),
            _ => script(message),
        })
    }

    /// Closes the port. What this returns starts again on it, with the same key and another script.
    pub(crate) fn stop<S>(self) -> impl FnOnce(S) -> Self
    where
        S: FnMut(&Message) -> Answer + Send + 'static,
    {
        let (address, key) = (self.address, self.key.clone());
        drop(self);
        move |script| Self::serve(TcpListener::bind(address).unwrap(), key, Box::new(script))
    }

    fn serve(listener: TcpListener, key: Key, script: Script) -> Self {
        let address = listener.local_addr().unwrap();
        let (seen, messages) = mpsc::channel();
        let closing = Arc::new(AtomicBool::new(false));
        let server = Arc::new(Server {
            key: key.clone(),
            script: Mutex::new(script),
            seen: Mutex::new(seen),
        });
        let closed = Arc::clone(&closing);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if closed.load(Ordering::SeqCst) {
                    return;
                }
                let server = Arc::clone(&server);
                thread::spawn(move || server.answer(&stream.unwrap()));
            }
        });
        Self {
            key,
            address,
            messages,
            closing,
            accepting: Some(accepting),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The next message of this kind; those before it are passed over.
    pub(crate) fn next(&self, kind: Kind) -> Message {
        self.passing_over(kind, |_| ())
    }

    /// The next message of this kind, with a look at those before it.
    pub(crate) fn passing_over(&self, kind: Kind, mut look: impl FnMut(&Message)) -> Message {
        // Other messages may come for ever; the wait as a whole has an end.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left);
            let message = message.unwrap_or_else(|_| panic!("no {kind} came in time"));
            if message.kind == kind {
                return message;
            }
            look(&message);
        }
    }

    /// What came and was not looked at.
    pub(crate) fn rest(&self) -> Vec<Message> {
        self.messages.try_iter().collect()
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts; the port is closed when it has ended.
        let _ = TcpStream::connect(self.address);
        let _ = self.accepting.take().map(JoinHandle::join);
    }
}

struct Server {
    key: Key,
    script: Mutex<Script>,
    seen: Mutex<Sender<Message>>,
}

impl Server {
    fn answer(&self, stream: &TcpStream) {
        let Some((path, body)) = read_request(stream) else {
            return;
        };
        let request = verify_envelope(&self.key, parse_wire(&body).unwrap(), None, now(), 10_000)
            .expect("a worker signs with its key");
        assert_eq!(path, format!("/v2/{}", request.kind));
        let message = Message {
            kind: request.kind,
            binding: request.binding.clone(),
            payload: request.payload.clone(),
        };
        let answer = (self.script.lock().unwrap())(&message);
        let _ = self.seen.lock().unwrap().send(message);
        self.write(stream, &request, &answer, &self.key, &request.delivery_id);
    }

    fn write(
        &self,
        stream: &TcpStream,
        request: &Envelope,
        answer: &Answer,
        key: &Key,
        delivery_id: &str,
    ) {
        let signed = |kind, binding: &Binding, payload: &Json| {
            let id = Some(delivery_id);
            let body = sign_envelope(key, kind, binding, payload, now(), 120, id).unwrap();
            write_response(stream, "200 OK", &body);
        };
        match answer {
            Answer::Ack(ack) => signed(Kind::Ack, &request.binding, &ack.to_json()),
            Answer::Assignment(binding, payload) => {
                signed(Kind::Assignment, binding, &payload.to_json());
            }
            Answer::Forged(answer) => {
                let forger = generate_key().unwrap();
                self.write(stream, request, answer, &forger, delivery_id);
            }
            Answer::Misdirected(answer) => {
                self.write(stream, request, answer, key, "another-delivery");
            }
            Answer::Unsigned(head, body) => write_response(stream, head, body.as_bytes()),
            // Until the worker has had enough and closes the connection.
            Answer::Silence => drop((&*stream).read(&mut [0])),
        }
    }
}

fn read_request(stream: &TcpStream) -> Option<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let path = head.first()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<String, &str> = head
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value))
        .collect();
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}

fn write_response(mut stream: &TcpStream, head: &str, body: &[u8]) {
    let length = body.len();
    let head = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    // A worker that was killed does not listen.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
}

/// Seconds since the epoch.
pub(crate) fn now() -> i64 {
    SystemClock::new().now().whole_seconds()
}

/// The run that tests give to their worker, which serves ordinal 1.
pub(crate) fn binding() -> Binding {
    Binding {
        board: "lab".to_owned(),
        task_id: "t_1a2b3c4d".to_owned(),
        run_id: "7".to_owned(),
        worker_ordinal: 1,
        attempt: Integer::from(2_i64),
    }
}

pub(crate) fn assignment(lease_seconds: u64) -> Answer {
    let payload = AssignmentPayload {
        lane: "codex-cli".to_owned(),
        task: AssignedTask {
            id: "t_1a2b3c4d".to_owned(),
            title: "Tidy the bench".to_owned(),
            body: None,
            priority: 0,
            tenant: None,
            skills: Vec::new(),
            model_override: None,
        },
        context: "what is to be done\n".to_owned(),
        workspace: WorkspaceSpec {
            kind: "scratch".to_owned(),
            path: None,
            branch: None,
        },
        limits: RunLimits {
            lease_seconds,
            max_runtime_seconds: None,
        },
    };
    Answer::Assignment(binding(), Box::new(payload))
}
