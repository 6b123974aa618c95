//! SIGTERM: what waits is answered, what hangs is cut off, and boards are left as they are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hermes_pool::protocol::{
    Ack, Binding, Json, Kind, derive_ordinal_key, parse_wire, sign_envelope, verify_envelope,
};
use rustix::process::Signal;

use super::process::{Coordinator, Home, PATIENCE, now, until};

/// The longest that a coordinator may take to end.
const LIMIT: Duration = Duration::from_secs(10);

/// Sends a signed poll that waits for half a minute, and returns what was answered.
fn poll(home: &Home, address: &str, ordinal: u16) -> impl FnOnce() -> Ack + Send + 'static {
    let key = derive_ordinal_key(&home.master, ordinal, 3).unwrap();
    let address = address.to_owned();
    move || {
        let payload = Json::object([("wait_seconds", Json::from(30_i64))]);
        let binding = Binding::without_run(i64::from(ordinal));
        let request = sign_envelope(
            &key,
            Kind::Poll,
            &binding,
            &payload,
            now(),
            120,
            Some("poll"),
        )
        .unwrap();
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .build()
            .into();
        let url = format!("http://{address}/v2/poll");
        let mut response = agent.post(url).send(&request[..]).unwrap();
        let answer = response.body_mut().read_to_vec().unwrap();
        let message = parse_wire(&answer).unwrap();
        let envelope = verify_envelope(&key, message, None, now(), 3).unwrap();
        assert_eq!(envelope.delivery_id, "poll");
        Ack::parse(&envelope.payload).unwrap()
    }
}

#[test]
fn a_waiting_poll_is_answered_idle_and_the_process_ends_with_0() {
    let home = Home::new();
    let mut coordinator = home.serve();
    coordinator.wait_until_ready();
    let answer = std::thread::spawn(poll(&home, &coordinator.workers, 2));
    until("the poll waits", || {
        let (_, snapshot) = coordinator.get("/api/v1/pool");
        (snapshot["slots"][2]["state"] == "waiting").then_some(())
    });
    let began = Instant::now();
    coordinator.process.signal(Signal::TERM);
    assert_eq!(answer.join().unwrap(), Ack::Idle);
    assert_eq!(coordinator.process.wait().code(), Some(0));
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
}

#[test]
fn a_request_that_never_ends_does_not_keep_the_process() {
    let home = Home::new();
    let mut coordinator = home.serve();
    coordinator.wait_until_ready();
    let mut stream = TcpStream::connect(&coordinator.workers).unwrap();
    let head = "POST /v2/poll HTTP/1.1\r\nHost: pool\r\nContent-Length: 1000\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    // The operators' server answers on another connection meanwhile, so the first one was accepted before.
    assert_eq!(coordinator.get("/healthz").0, 200);
    let began = Instant::now();
    coordinator.process.signal(Signal::INT);
    assert_eq!(coordinator.process.wait().code(), Some(0));
    assert!(began.elapsed() < LIMIT, "{:?}", began.elapsed());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Whatever it is told, its connection ends.
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn claims_and_workers_live_on_and_are_found_again() {
    let home = Home::new();
    let task = home.task("t", &[]);
    let gate = home.path("gate");
    let line = format!(
        "until [ -e '{}' ]; do sleep 0.05; done; echo done",
        gate.display()
    );
    let mut coordinator = home.serve();
    coordinator.wait_until_ready();
    let address = coordinator.workers.clone();
    let mut worker = home.worker(0, &coordinator, &line);
    until("the run is offered", || {
        (coordinator.count("running") == 1).then_some(())
    });
    let before = home.content();
    coordinator.process.signal(Signal::TERM);
    assert_eq!(coordinator.process.wait().code(), Some(0));
    assert_eq!(
        home.content(),
        before,
        "nothing is written on a board at the end"
    );

    // The result finds nobody, and is delivered when there is somebody again.
    std::fs::write(gate, "").unwrap();
    worker.hear("result: ");
    let mut command = home.command(&["serve", "--config", "pool.toml"]);
    command.env("HERMES_POOL_HTTP_BIND", address);
    let _second = Coordinator::start(&mut command);
    home.wait_for_status(&task, "done");
    assert_eq!(home.runs(&task).len(), 1);
}
