//! What both HTTP servers do before any handler decides: real sockets, a small handler behind the real gate.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use actix_web::dev::ServerHandle;
use actix_web::web::{self, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use hermes_pool::http::{
    HttpError, RequestLimit, ServerOptions, bind_both, only, read_body, start,
};
use tokio::sync::{Notify, Semaphore};

/// Far more than any step takes; reached only where a test fails.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a request may take to arrive where a test waits for the end of it: short, but not so short that a busy machine
/// needs as long for a whole one.
const SHORT: Duration = Duration::from_secs(2);
const LIMIT: usize = 2;
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// What the handlers share with a test.
struct Stage {
    /// A request to `/wait` ends when it gets one of these.
    gate: Semaphore,
    /// Requests that have entered `/wait`.
    entered: AtomicUsize,
    changed: Notify,
}

/// A running server, stopped when it is dropped.
struct Running {
    address: SocketAddr,
    stage: Arc<Stage>,
    limit: RequestLimit,
    handle: ServerHandle,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(client_timeout: Duration) -> Self {
        let any = "127.0.0.1:0".parse().unwrap();
        let (listener, _) = bind_both(any, any).unwrap();
        let address = listener.local_addr().unwrap();
        let limit = RequestLimit::new(LIMIT);
        let stage = Arc::new(Stage {
            gate: Semaphore::new(0),
            entered: AtomicUsize::new(0),
            changed: Notify::new(),
        });
        let options = ServerOptions {
            threads: 2,
            client_timeout,
            keep_alive: KEEP_ALIVE,
            limit: limit.clone(),
        };
        let (stage_of_handlers, (sender, receiver)) = (stage.clone(), std::sync::mpsc::channel());
        let thread = std::thread::spawn(move || {
            actix_web::rt::System::new().block_on(async move {
                let routes = routes(stage_of_handlers, client_timeout);
                let server = start(listener, &options, routes).unwrap();
                sender.send(server.handle()).unwrap();
                server.await.unwrap();
            });
        });
        let handle = receiver.recv().unwrap();
        Self {
            address,
            stage,
            limit,
            handle,
            thread: Some(thread),
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    fn send(&self, request: &str) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Sends a request and reads the answer to its end.
    fn ask(&self, request: &str) -> Answer {
        read_answer(&mut self.send(request)).unwrap()
    }

    /// Waits until the shared counts fulfil a condition.
    fn until(&self, condition: impl Fn(&Self) -> bool) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let changed = self.stage.changed.notified();
                if condition(self) {
                    return;
                }
                assert!(
                    Instant::now() < deadline,
                    "the server did not get there in time"
                );
                // Permits are dropped without a notice, so look again soon as well.
                let _ = tokio::time::timeout(Duration::from_millis(5), changed).await;
            }
        });
    }

    fn until_entered(&self, count: usize) {
        self.until(|running| running.stage.entered.load(Ordering::SeqCst) == count);
    }

    fn until_idle(&self) {
        self.until(|running| running.limit.in_flight() == 0);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stage.gate.close();
        drop(self.handle.stop(false));
        if let Some(thread) = self.thread.take()
            && !std::thread::panicking()
        {
            thread.join().unwrap();
        }
    }
}

fn routes(
    stage: Arc<Stage>,
    client_timeout: Duration,
) -> impl Fn(&mut ServiceConfig) + Clone + Send {
    move |config| {
        let echo = move |request: HttpRequest, payload: Payload| async move {
            let body = read_body(&request, payload, client_timeout).await?;
            Ok::<_, HttpError>(HttpResponse::Ok().body(body))
        };
        let stage = stage.clone();
        let wait = move || {
            let stage = stage.clone();
            async move {
                stage.entered.fetch_add(1, Ordering::SeqCst);
                stage.changed.notify_waiters();
                if let Ok(permit) = stage.gate.acquire().await {
                    permit.forget();
                }
                HttpResponse::Ok().body("waited")
            }
        };
        let fail = || async { panic!("a bug") as HttpResponse };
        config
            .service(
                web::resource("/echo")
                    .route(web::post().to(echo))
                    .default_service(only("POST")),
            )
            .service(web::resource("/wait").route(web::get().to(wait)))
            .service(web::resource("/fail").route(web::get().to(fail)));
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    #[track_caller]
    fn assert_error(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(
            self.header("content-type"),
            Some("application/json"),
            "{self:?}"
        );
        let document: serde_json::Value = serde_json::from_str(&self.body).unwrap();
        assert_eq!(document["error"]["code"], code, "{self:?}");
        assert!(document["error"]["message"].is_string(), "{self:?}");
    }
}

/// Reads one answer and leaves the connection as it is.
fn read_answer(stream: &mut TcpStream) -> io::Result<Answer> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let mut answer = Answer {
                status: head[9..12].parse().unwrap(),
                head: head.to_owned(),
                body: body.to_owned(),
            };
            let length: usize = answer
                .header("content-length")
                .unwrap_or("0")
                .parse()
                .unwrap();
            if body.len() >= length {
                answer.body.truncate(length);
                return Ok(answer);
            }
        }
        let mut buffer = [0; 4096];
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Reads until the server has closed the connection.
fn assert_closed(mut stream: TcpStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => assert_eq!(String::from_utf8_lossy(&rest), ""),
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset),
    }
}

fn post(body: &str) -> String {
    format!(
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

const WAIT: &str = "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n";

#[test]
fn a_request_beyond_the_limit_is_refused_at_once_and_served_later() {
    let server = Running::start(PATIENCE);
    let mut waiting: Vec<TcpStream> = (0..LIMIT).map(|_| server.send(WAIT)).collect();
    server.until_entered(LIMIT);

    let refused = server.ask(&post("{}"));
    refused.assert_error(503, "overloaded");
    assert_eq!(refused.header("retry-after"), Some("1"));

    server.stage.gate.add_permits(LIMIT);
    for stream in &mut waiting {
        assert_eq!(read_answer(stream).unwrap().body, "waited");
    }
    server.until_idle();
    assert_eq!(server.ask(&post("{}")).body, "{}");
}

#[test]
fn a_client_that_resets_the_connection_gives_its_place_back() {
    let server = Running::start(PATIENCE);
    let leaving: Vec<TcpStream> = (0..LIMIT).map(|_| server.send(WAIT)).collect();
    server.until_entered(LIMIT);
    assert_eq!(server.limit.in_flight(), LIMIT);
    for stream in leaving {
        // Without lingering, closing is a reset.
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
    }
    server.until_idle();
    assert_eq!(server.ask(&post("{}")).body, "{}");
}

#[test]
fn a_graceful_stop_lets_requests_in_flight_end_and_takes_no_new_ones() {
    let server = Running::start(PATIENCE);
    let mut waiting = server.send(WAIT);
    server.until_entered(1);
    let stopping = server.handle.stop(true);
    server.until(|running| TcpStream::connect(running.address).is_err());

    server.stage.gate.add_permits(1);
    let answer = read_answer(&mut waiting).unwrap();
    assert_eq!(answer.body, "waited");
    assert_eq!(answer.header("connection"), Some("close"));
    drop(stopping);
}

#[test]
fn a_handler_that_panics_ends_its_connection_and_nothing_else() {
    let server = Running::start(PATIENCE);
    let mut stream = server.send("GET /fail HTTP/1.1\r\nHost: x\r\n\r\n");
    let error = read_answer(&mut stream).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    server.until_idle();
    for _ in 0..4 {
        assert_eq!(server.ask(&post("{}")).status, 200);
    }
}

#[test]
fn a_body_that_does_not_arrive_in_time_is_refused_and_the_connection_closed() {
    let server = Running::start(SHORT);
    for half in [
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{\"a\"",
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n",
    ] {
        let mut stream = server.send(half);
        let answer = read_answer(&mut stream).unwrap();
        answer.assert_error(408, "timeout");
        assert_eq!(answer.header("connection"), Some("close"));
        assert_closed(stream);
    }
    server.until_idle();
}

#[test]
fn a_body_that_trickles_is_refused_after_its_whole_time() {
    let server = Running::start(SHORT);
    let mut stream = server.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n");
    let mut writer = stream.try_clone().unwrap();
    let trickle = std::thread::spawn(move || {
        while writer.write_all(b" ").is_ok() {
            std::thread::park_timeout(Duration::from_millis(10));
        }
    });
    read_answer(&mut stream)
        .unwrap()
        .assert_error(408, "timeout");
    assert_closed(stream);
    trickle.join().unwrap();
}

#[test]
fn a_head_that_does_not_arrive_in_time_ends_the_connection() {
    let server = Running::start(SHORT);
    for half in ["", "POST /echo HTTP/1.1\r\nHost"] {
        let mut rest = String::new();
        server.send(half).read_to_string(&mut rest).unwrap();
        assert!(rest.starts_with("HTTP/1.1 408 "), "{rest:?}");
    }
}

#[test]
fn a_connection_without_a_request_is_closed_whether_it_is_silent_or_stalls_in_a_head() {
    let server = Running::start(SHORT);
    for next in ["", "P", "POST /echo HTTP/1.1\r\nHost"] {
        let mut stream = server.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        read_answer(&mut stream)
            .unwrap()
            .assert_error(404, "not_found");
        stream.write_all(next.as_bytes()).unwrap();
        assert_closed(stream);
    }
}

#[test]
fn a_request_that_waits_longer_than_connections_may_idle_is_answered() {
    let server = Running::start(SHORT);
    let mut stream = server.send(WAIT);
    server.until_entered(1);
    // A connection that came later is closed for idling before this one is touched.
    let mut idle = server.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    read_answer(&mut idle).unwrap();
    idle.write_all(b"P").unwrap();
    assert_closed(idle);
    server.stage.gate.add_permits(1);
    assert_eq!(read_answer(&mut stream).unwrap().body, "waited");
}

#[test]
fn a_body_that_ends_early_is_malformed() {
    let server = Running::start(PATIENCE);
    let mut stream =
        server.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{\"a\"");
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    read_answer(&mut stream)
        .unwrap()
        .assert_error(400, "malformed");
    server.until_idle();

    let mut stream = server
        .send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n");
    read_answer(&mut stream)
        .unwrap()
        .assert_error(400, "malformed");
    server.until_idle();
}

#[test]
fn an_empty_body_is_refused() {
    let server = Running::start(PATIENCE);
    server.ask(&post("")).assert_error(400, "empty_request");
    server
        .ask("POST /echo HTTP/1.1\r\nHost: x\r\n\r\n")
        .assert_error(400, "empty_request");
    server
        .ask("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        .assert_error(400, "empty_request");
}

#[test]
fn a_body_of_65536_bytes_is_taken_and_one_more_is_too_large() {
    let server = Running::start(PATIENCE);
    let largest = "x".repeat(65_536);
    assert_eq!(server.ask(&post(&largest)).body, largest);
    server
        .ask(&post(&format!("{largest}x")))
        .assert_error(413, "too_large");
}

#[test]
fn a_length_that_is_announced_too_large_is_refused_before_the_body_comes() {
    let server = Running::start(PATIENCE);
    for length in ["65537", "99999999999999999"] {
        let mut stream = server.send(&format!(
            "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
        ));
        read_answer(&mut stream)
            .unwrap()
            .assert_error(413, "too_large");
        assert_closed(stream);
    }
}

#[test]
fn chunks_without_end_are_refused_and_the_connection_closed() {
    let server = Running::start(PATIENCE);
    let mut stream =
        server.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut writer = stream.try_clone().unwrap();
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    // Ends only when the server has closed the connection, however much it swallowed before.
    let sending = std::thread::spawn(move || while writer.write_all(chunk.as_bytes()).is_ok() {});
    let answer = read_answer(&mut stream).unwrap();
    answer.assert_error(413, "too_large");
    assert_eq!(answer.header("connection"), Some("close"));
    sending.join().unwrap();
    server.until_idle();
}

#[test]
fn every_other_path_and_method_gets_its_json_error() {
    let server = Running::start(PATIENCE);
    for request in [
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /echo/ HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
        "BREW /%2e%2e/etc HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        server.ask(request).assert_error(404, "not_found");
    }
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "BREW"] {
        let answer = server.ask(&format!("{method} /echo HTTP/1.1\r\nHost: x\r\n\r\n"));
        answer.assert_error(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), Some("POST"));
    }
    server.until_idle();
}

#[test]
fn a_connection_serves_one_request_after_the_other() {
    let server = Running::start(PATIENCE);
    let mut stream = server.connect();
    for body in ["{}", "{\"a\":1}"] {
        stream.write_all(post(body).as_bytes()).unwrap();
        assert_eq!(read_answer(&mut stream).unwrap().body, body);
    }
    stream
        .write_all(b"PUT /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
        .unwrap();
    assert_eq!(read_answer(&mut stream).unwrap().status, 405);
}
