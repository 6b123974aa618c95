//! Signed exchanges with the coordinator over HTTP.
//!
//! Every request has three limits: for the connection, for the first byte of the answer, and for the whole. A
//! connection serves one request: a restarted coordinator, or a network that swallowed the old connection, is met with
//! a new one. There is no proxy and no redirect, and the only errors are those that mean "no answer, ask again".

use std::io::Read;
use std::time::Duration;

use ureq::http::{Response, StatusCode};
use ureq::{Agent, Body};

use crate::clock::SharedClock;
use crate::protocol::{
    Ack, Binding, HeartbeatReport, Json, Key, Kind, MAX_WIRE_BYTES, Object, PollRequest,
    ProtocolError, WorkerResult, parse_wire,
};

use super::exchange::{Assignment, Reply, Request, Untrusted, new_delivery_id};

/// How long a connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long the first byte of an answer may take, beyond what a poll asks for.
const FIRST_BYTE_LIMIT: Duration = Duration::from_secs(10);

/// How long the rest of an answer may take.
const BODY_LIMIT: Duration = Duration::from_secs(5);

/// How long one request may take, beside the limit of its connection.
#[derive(Clone, Copy)]
struct Limits {
    first_byte: Duration,
    whole: Duration,
}

impl Limits {
    /// For a request whose answer may be held back for so long.
    fn patient(held_back: Duration) -> Self {
        let first_byte = FIRST_BYTE_LIMIT + held_back;
        Self {
            first_byte,
            whole: CONNECT_LIMIT + first_byte + BODY_LIMIT,
        }
    }

    /// For a request that has to be over by then.
    fn strict(whole: Duration) -> Self {
        Self {
            first_byte: whole,
            whole,
        }
    }
}

/// The answer to a poll.
#[derive(Debug)]
pub(super) enum Polled {
    /// There is a run to work on.
    Assigned(Box<Assignment>),
    /// There is nothing to do.
    Idle,
    /// The pool refuses the poll.
    Refused(Refusal),
}

/// The answer to a heartbeat or a result.
#[derive(Debug)]
pub(super) enum Answer {
    /// It is durable.
    Accepted,
    /// The pool refuses it, for good.
    Refused(Refusal),
}

/// A signed refusal.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub(super) struct Refusal {
    pub(super) code: String,
    pub(super) message: String,
}

/// There was no answer that can be trusted; whether the request arrived is unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoAnswer {
    /// The request could not be made.
    #[error("the message cannot be signed: {0}")]
    Unsignable(#[source] ProtocolError),
    /// The coordinator was not reached, or not in time.
    #[error("no answer from the coordinator: {0}")]
    Transport(#[source] Box<ureq::Error>),
    /// The clocks differ too much, says an unsigned error.
    #[error(
        "the coordinator finds our message outside its validity window: \
         its clock shows {theirs}, ours {ours}, {} s apart; synchronise the clocks",
        theirs.abs_diff(*ours)
    )]
    ClockSkew { ours: i64, theirs: i64 },
    /// An unsigned error, of the coordinator or of something in between.
    #[error(
        "an unsigned answer, which decides nothing: HTTP {status}{}{hint}",
        Named(code)
    )]
    Unsigned {
        status: StatusCode,
        code: Option<String>,
        hint: &'static str,
        retry_after: Option<Duration>,
    },
    /// A reply that must not be acted upon.
    #[error(transparent)]
    Untrusted(Untrusted),
}

impl NoAnswer {
    /// How long the other end asks to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Unsigned { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

struct Named<'a>(&'a Option<String>);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(code) => write!(f, " {code}"),
            None => Ok(()),
        }
    }
}

/// One worker's line to its coordinator.
pub(super) struct Client {
    agent: Agent,
    coordinator: String,
    key: Key,
    ordinal: u16,
    clock: SharedClock,
}

impl Client {
    /// `coordinator` is an `http://` address without a path.
    pub(super) fn new(coordinator: &str, key: Key, ordinal: u16, clock: SharedClock) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .max_idle_connections(0)
            .timeout_connect(Some(CONNECT_LIMIT))
            .timeout_recv_body(Some(BODY_LIMIT))
            .user_agent(concat!("hermes-pool-worker/", env!("CARGO_PKG_VERSION")))
            .build();
        Self {
            agent: config.into(),
            coordinator: coordinator.trim_end_matches('/').to_owned(),
            key,
            ordinal,
            clock,
        }
    }

    /// Asks for work, and lets the answer be held back while there is none. A poll whose answer was not believed is repeated
    /// under its `delivery_id`, so that the pool does not count one offer for each.
    pub(super) fn poll(&self, wait_seconds: u8, delivery_id: &str) -> Result<Polled, NoAnswer> {
        let payload = PollRequest { wait_seconds }.to_json();
        let binding = Binding::without_run(i64::from(self.ordinal));
        let limits = Limits::patient(Duration::from_secs(u64::from(wait_seconds)));
        match self.exchange(
            Kind::Poll,
            binding,
            &payload,
            limits,
            delivery_id.to_owned(),
        )? {
            Reply::Assignment(assignment) => Ok(Polled::Assigned(assignment)),
            Reply::Ack(Ack::Idle) => Ok(Polled::Idle),
            Reply::Ack(Ack::Rejected { code, message }) => {
                Ok(Polled::Refused(Refusal { code, message }))
            }
            Reply::Ack(_) => Err(NoAnswer::Untrusted(Untrusted::NotOurs("status"))),
        }
    }

    /// Says that the run is alive. `limit` is for the whole of it: a late answer is of no use.
    pub(super) fn heartbeat(
        &self,
        binding: &Binding,
        activity: String,
        limit: Duration,
    ) -> Result<Answer, NoAnswer> {
        let activity = Some(activity).filter(|text| !text.is_empty());
        let payload = HeartbeatReport { activity }.to_json();
        match self.exchange(
            Kind::Heartbeat,
            binding.clone(),
            &payload,
            Limits::strict(limit),
            new_delivery_id(),
        )? {
            Reply::Ack(Ack::Alive { .. }) => Ok(Answer::Accepted),
            reply => refused(reply),
        }
    }

    /// Delivers the result of a run.
    pub(super) fn submit(&self, binding: &Binding, result: &Json) -> Result<Answer, NoAnswer> {
        match self.exchange(
            Kind::Result,
            binding.clone(),
            result,
            Limits::patient(Duration::ZERO),
            new_delivery_id(),
        )? {
            Reply::Ack(Ack::Accepted { .. }) => Ok(Answer::Accepted),
            reply => refused(reply),
        }
    }

    /// Whether a result can be sent in one message.
    pub(super) fn can_submit(&self, binding: &Binding, result: &WorkerResult) -> bool {
        let now = self.clock.now().whole_seconds();
        Request::sign(
            &self.key,
            Kind::Result,
            binding.clone(),
            &result.to_json(),
            now,
            new_delivery_id(),
        )
        .is_ok()
    }

    fn exchange(
        &self,
        kind: Kind,
        binding: Binding,
        payload: &Json,
        limits: Limits,
        delivery_id: String,
    ) -> Result<Reply, NoAnswer> {
        let now = self.clock.now().whole_seconds();
        let request = Request::sign(&self.key, kind, binding, payload, now, delivery_id)
            .map_err(NoAnswer::Unsignable)?;
        let mut response = self
            .send(&request, limits)
            .map_err(|error| NoAnswer::Transport(Box::new(error)))?;
        let body = read_bounded(response.body_mut())
            .map_err(|error| NoAnswer::Transport(Box::new(error.into())))?;
        let now = self.clock.now().whole_seconds();
        request
            .verify(&self.key, &body, now)
            .map_err(|untrusted| explain(untrusted, &response, &body, now))
    }

    fn send(&self, request: &Request, limits: Limits) -> Result<Response<Body>, ureq::Error> {
        self.agent
            .post(format!("{}{}", self.coordinator, request.path()))
            .config()
            .timeout_recv_response(Some(limits.first_byte))
            .timeout_global(Some(limits.whole))
            .build()
            .content_type("application/json")
            .send(request.body())
    }
}

fn refused(reply: Reply) -> Result<Answer, NoAnswer> {
    match reply {
        Reply::Ack(Ack::Rejected { code, message }) => {
            Ok(Answer::Refused(Refusal { code, message }))
        }
        _ => Err(NoAnswer::Untrusted(Untrusted::NotOurs("status"))),
    }
}

/// Reads no more than a message can have; what is longer is none and will not verify.
fn read_bounded(body: &mut Body) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = MAX_WIRE_BYTES as u64 + 1;
    body.as_reader().take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes the most of a reply that is not believed, for the one who reads the log.
fn explain(untrusted: Untrusted, response: &Response<Body>, body: &[u8], ours: i64) -> NoAnswer {
    let status = response.status();
    let error = parse_wire(body).ok();
    let error: Option<&Object> = error
        .as_ref()
        .and_then(|body| body.get("error")?.as_object());
    if status.is_success() && error.is_none() {
        return NoAnswer::Untrusted(untrusted);
    }
    let text = |name: &str| error.and_then(|error| error.get(name)?.as_str());
    let theirs = error.and_then(|error| error.get("server_time")?.as_i64());
    if let (Some("outside_window"), Some(theirs)) = (text("code"), theirs) {
        return NoAnswer::ClockSkew { ours, theirs };
    }
    let code = text("code").filter(|code| is_code(code)).map(str::to_owned);
    let hint = match code.as_deref() {
        Some("not_authentic") => "; check that the key file is the one of this ordinal",
        Some("outside_pool") => "; the pool has fewer slots than this ordinal needs",
        None => "; check that this is the address of a coordinator's worker endpoints",
        Some(_) => "",
    };
    NoAnswer::Unsigned {
        status,
        code,
        hint,
        retry_after: retry_after(response),
    }
}

/// What a stranger sent is logged only if it cannot be mistaken for anything else.
fn is_code(code: &str) -> bool {
    code.len() <= 40
        && code
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let seconds = response.headers().get("retry-after")?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}
