//! Hostile HTTP: lengths that lie, codings that smuggle, methods, paths and heads that nobody should send.

use crate::rows::{Gets, Row, assert_rows, row};
use crate::served::{Served, options};
use crate::support::Stage;
use crate::wire::{Wire, post, post_with};
use std::time::Duration;

/// A request with a head of our own and a body that is a good poll.
fn framed(served: &Served, head: &str) -> Vec<u8> {
    let body = good(served);
    let mut request = head
        .replace("LENGTH", &body.len().to_string())
        .replace('\n', "\r\n")
        .into_bytes();
    request.extend_from_slice(&body);
    request
}

/// The body of a good poll.
fn good(served: &Served) -> Vec<u8> {
    let worker = served.worker(0);
    worker.message("poll").sealed(&worker.key).body()
}

fn chunked(served: &Served, end: &str) -> Vec<u8> {
    let body = String::from_utf8(good(served)).unwrap();
    let (one, two) = body.split_at(100);
    format!(
        "POST /v2/poll HTTP/1.1\r\nHost: pool\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{one}\r\n{:X}\r\n{two}\r\n{end}",
        one.len(),
        two.len()
    )
    .into_bytes()
}

const IDLE: Gets = Gets::Signed(200, "idle");
const MALFORMED: Gets = Gets::Error(400, "malformed");
const EMPTY: Gets = Gets::Error(400, "empty_request");
const TOO_LARGE: Gets = Gets::Error(413, "too_large");
const BAD_HEAD: Gets = Gets::Bare(400);

#[test]
fn lengths_that_lie_and_codings_that_smuggle_are_refused() {
    let served = Served::start(Stage::new(2));
    let framed = |head: &str| framed(&served, head);
    let plain = |head: &str| head.replace('\n', "\r\n");
    let rows = [
        row(
            "no length and no body",
            plain("POST /v2/poll HTTP/1.1\nHost: pool\n\n"),
            EMPTY,
        ),
        row("length 0", post("/v2/poll", b""), EMPTY),
        row(
            "no length, yet a body",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\n\n"),
            EMPTY,
        ),
        row(
            "empty chunked body",
            plain("POST /v2/poll HTTP/1.1\nHost: pool\nTransfer-Encoding: chunked\n\n0\n\n"),
            EMPTY,
        ),
        row(
            "65537 bytes announced, none sent",
            plain("POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length: 65537\n\n"),
            TOO_LARGE,
        ),
        row("65537 bytes", post("/v2/poll", &[b' '; 65_537]), TOO_LARGE),
        row(
            "the largest length of 64 bits",
            plain("POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length: 18446744073709551615\n\n"),
            TOO_LARGE,
        ),
        row(
            "a length of 65 bits",
            plain("POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length: 18446744073709551616\n\n"),
            BAD_HEAD,
        ),
        row(
            "a negative length",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length: -5\n\n"),
            BAD_HEAD,
        ),
        row(
            "a length with a sign",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length: +LENGTH\n\n"),
            BAD_HEAD,
        ),
        row(
            "a length that is no number",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length: many\n\n"),
            BAD_HEAD,
        ),
        row(
            "a hexadecimal length",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length: 0x10\n\n"),
            BAD_HEAD,
        ),
        row(
            "an empty length",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length:\n\n"),
            BAD_HEAD,
        ),
        row(
            "a list of lengths",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length: LENGTH, LENGTH\n\n"),
            BAD_HEAD,
        ),
        row(
            "the length twice",
            framed(
                "POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length: LENGTH\nContent-Length: LENGTH\n\n",
            ),
            BAD_HEAD,
        ),
        row(
            "two lengths",
            framed(
                "POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length: LENGTH\nContent-Length: 5\n\n",
            ),
            BAD_HEAD,
        ),
        row(
            "a length and chunks",
            framed(
                "POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length: LENGTH\nTransfer-Encoding: chunked\n\n",
            ),
            BAD_HEAD,
        ),
        row(
            "chunks and a length",
            framed(
                "POST /v2/poll HTTP/1.1\nHost: pool\nTransfer-Encoding: chunked\nContent-Length: LENGTH\n\n",
            ),
            BAD_HEAD,
        ),
        row(
            "chunked twice",
            framed(
                "POST /v2/poll HTTP/1.1\nHost: pool\nTransfer-Encoding: chunked\nTransfer-Encoding: chunked\n\n",
            ),
            BAD_HEAD,
        ),
        row(
            "chunked by list",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nTransfer-Encoding: chunked, chunked\n\n"),
            BAD_HEAD,
        ),
        row(
            "a coding that is none",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nTransfer-Encoding: xchunked\n\n"),
            BAD_HEAD,
        ),
        row(
            "compressed chunks",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nTransfer-Encoding: gzip, chunked\n\n"),
            BAD_HEAD,
        ),
        row(
            "identity and a length",
            framed(
                "POST /v2/poll HTTP/1.1\nHost: pool\nTransfer-Encoding: identity\nContent-Length: LENGTH\n\n",
            ),
            BAD_HEAD,
        ),
        row(
            "chunks in HTTP/1.0",
            framed("POST /v2/poll HTTP/1.0\nHost: pool\nTransfer-Encoding: chunked\n\n"),
            BAD_HEAD,
        ),
        row("good chunks", chunked(&served, "0\r\n\r\n"), IDLE),
        row(
            "chunks with a trailer",
            chunked(&served, "0\r\nX-Trailer: 1\r\n\r\n"),
            IDLE,
        ),
        row(
            "chunks that are cut off",
            chunked(&served, "5\r\n{"),
            MALFORMED,
        )
        .then_finishes(),
        row(
            "a chunk of no size",
            chunked(&served, "nonsense\r\n"),
            MALFORMED,
        ),
        row(
            "a chunk of a negative size",
            chunked(&served, "-1\r\n"),
            MALFORMED,
        ),
        row(
            "a chunk of a size beyond 64 bits",
            chunked(&served, "1ffffffffffffffff\r\n"),
            MALFORMED,
        ),
        row(
            "a chunk longer than its size",
            chunked(&served, "1\r\nxyz\r\n0\r\n\r\n"),
            MALFORMED,
        ),
        row(
            "chunks of 65537 bytes",
            chunked(
                &served,
                &format!("ffff\r\n{}\r\n0\r\n\r\n", " ".repeat(0xffff)),
            ),
            TOO_LARGE,
        ),
        row(
            "half a body and the end",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length: 60000\n\n"),
            MALFORMED,
        )
        .then_finishes(),
        row(
            "a body with compression",
            post_with(
                "/v2/poll",
                "Content-Encoding: gzip\r\n",
                b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\xae\x05\0\x43\xbf\xa6\xa3\x02\0\0\0",
            ),
            MALFORMED,
        ),
        row(
            "a body that is said to be compressed",
            post_with("/v2/poll", "Content-Encoding: gzip\r\n", &good(&served)),
            IDLE,
        ),
        row(
            "a body that is said to be text",
            post_with("/v2/poll", "Content-Type: text/plain\r\n", &good(&served)),
            IDLE,
        ),
        row(
            "a body to upgrade to HTTP/2",
            post_with(
                "/v2/poll",
                "Connection: upgrade, http2-settings\r\nUpgrade: h2c\r\n",
                &good(&served),
            ),
            IDLE,
        ),
        row(
            "a body in HTTP/1.0",
            framed("POST /v2/poll HTTP/1.0\nContent-Length: LENGTH\n\n"),
            IDLE,
        ),
    ];
    assert_rows(&served, &rows);
}

#[test]
fn heads_that_are_none_end_their_connection() {
    let served = Served::start(Stage::new(2));
    let framed = |head: &str| framed(&served, head);
    let flood = |headers: usize| {
        let lines = "X-Flood: 1\r\n".repeat(headers);
        post_with("/v2/poll", &lines, &good(&served))
    };
    let rows = [
        row("no HTTP at all", b"hello\r\n\r\n".as_slice(), BAD_HEAD),
        row(
            "a TLS hello",
            b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03".as_slice(),
            BAD_HEAD,
        ),
        row(
            "the preface of HTTP/2",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(),
            BAD_HEAD,
        ),
        row("HTTP/0.9", b"POST /v2/poll\r\n\r\n".as_slice(), BAD_HEAD),
        row(
            "HTTP/3",
            framed("POST /v2/poll HTTP/3.0\nContent-Length: LENGTH\n\n"),
            BAD_HEAD,
        ),
        row(
            "no target",
            framed("POST  HTTP/1.1\nHost: pool\nContent-Length: LENGTH\n\n"),
            BAD_HEAD,
        ),
        row(
            "a blank in the target",
            framed("POST /v2/poll /x HTTP/1.1\nHost: pool\nContent-Length: LENGTH\n\n"),
            BAD_HEAD,
        ),
        row(
            "a blank in a name",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nContent-Length : LENGTH\n\n"),
            BAD_HEAD,
        ),
        row(
            "a folded line",
            framed(
                "POST /v2/poll HTTP/1.1\nHost: pool\nX-A: 1\n  folded\nContent-Length: LENGTH\n\n",
            ),
            BAD_HEAD,
        ),
        row(
            "a NUL in a value",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nX-A: \0\nContent-Length: LENGTH\n\n"),
            BAD_HEAD,
        ),
        row(
            "a line without a colon",
            framed("POST /v2/poll HTTP/1.1\nHost: pool\nnonsense\nContent-Length: LENGTH\n\n"),
            BAD_HEAD,
        ),
        row(
            "two hosts",
            framed("POST /v2/poll HTTP/1.1\nHost: a\nHost: b\nContent-Length: LENGTH\n\n"),
            BAD_HEAD,
        ),
        row("94 more headers", flood(94), IDLE),
        row("1000 headers", flood(1000), Gets::Bare(431)),
        row(
            "a head of 200,000 bytes",
            post_with(
                "/v2/poll",
                &format!("X-Long: {}\r\n", "x".repeat(200_000)),
                b"{}",
            ),
            Gets::Bare(431),
        ),
        row(
            "a target of 70,000 bytes",
            post(&format!("/v2/poll?{}", "x".repeat(70_000)), b"{}"),
            BAD_HEAD,
        ),
    ];
    assert_rows(&served, &rows);
}

#[test]
fn other_methods_and_paths_get_their_own_refusals() {
    let served = Served::start(Stage::new(2));
    let body = good(&served);
    let by = |method: &str, target: &str| {
        let request = String::from_utf8(post(target, &body)).unwrap();
        request.replacen("POST", method, 1)
    };
    const NOT_ALLOWED: Gets = Gets::Error(405, "method_not_allowed");
    const NOT_FOUND: Gets = Gets::Error(404, "not_found");
    let rows = [
        row("GET", by("GET", "/v2/poll"), NOT_ALLOWED),
        row("PUT", by("PUT", "/v2/poll"), NOT_ALLOWED),
        row("PATCH", by("PATCH", "/v2/heartbeat"), NOT_ALLOWED),
        row("DELETE", by("DELETE", "/v2/result"), NOT_ALLOWED),
        row("OPTIONS", by("OPTIONS", "/v2/poll"), NOT_ALLOWED),
        row("TRACE", by("TRACE", "/v2/poll"), NOT_ALLOWED),
        row("a method of our own", by("BREW", "/v2/poll"), NOT_ALLOWED),
        row("post in small letters", by("post", "/v2/poll"), NOT_ALLOWED),
        row("the root", by("POST", "/"), NOT_FOUND),
        row("a folder", by("POST", "/v2"), NOT_FOUND),
        row("another version", by("POST", "/v1/poll"), NOT_FOUND),
        row("a path behind", by("POST", "/v2/poll/0"), NOT_FOUND),
        row("a slash behind", by("POST", "/v2/poll/"), NOT_FOUND),
        row("two slashes", by("POST", "//v2/poll"), NOT_FOUND),
        row("capitals", by("POST", "/V2/Poll"), NOT_FOUND),
        row("dots", by("POST", "/v2/../v2/poll"), NOT_FOUND),
        row("an encoded slash", by("POST", "/v2%2fpoll"), NOT_FOUND),
        row("an encoded NUL", by("POST", "/v2/poll%00"), NOT_FOUND),
        row("encoded nonsense", by("POST", "/v2/poll%zz"), NOT_FOUND),
        row(
            "bytes that are no UTF-8",
            by("POST", "/v2/%ff%fe"),
            NOT_FOUND,
        ),
        row("a parameter", by("POST", "/v2/poll;x=1"), NOT_FOUND),
        row(
            "a file of the host",
            by("GET", "/../../../../etc/passwd"),
            NOT_FOUND,
        ),
        row(
            "health, on the workers' port",
            by("GET", "/healthz"),
            NOT_FOUND,
        ),
        row(
            "metrics, on the workers' port",
            by("GET", "/metrics"),
            NOT_FOUND,
        ),
        row(
            "the operators' API, on the workers' port",
            by("GET", "/api/v1/pool"),
            NOT_FOUND,
        ),
        row("everything", by("OPTIONS", "*"), NOT_FOUND),
        row(
            "a proxy's request",
            by("POST", "http://elsewhere.example/other"),
            NOT_FOUND,
        ),
        row(
            "a tunnel",
            by("CONNECT", "elsewhere.example:443"),
            NOT_FOUND,
        ),
        row(
            "the absolute form",
            by("POST", "http://pool.example/v2/poll"),
            IDLE,
        ),
        row("an encoded letter", by("POST", "/v2/%70oll"), IDLE),
        row("a query", by("POST", "/v2/poll?ordinal=1"), IDLE),
        row("an empty query", by("POST", "/v2/poll?"), IDLE),
    ];
    assert_rows(&served, &rows);
    let mut wire = Wire::open(served.workers);
    wire.send(b"HEAD /v2/poll HTTP/1.1\r\nHost: pool\r\n\r\n");
    let answer = wire.answer_to("HEAD").unwrap();
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    wire.send(&post("/v2/poll", &body));
    assert_eq!(wire.answer().unwrap().status, 200, "HEAD got no body");
}

#[test]
fn a_body_that_stops_arriving_is_refused_when_its_time_is_over() {
    let mut options = options();
    options.client_timeout = Duration::from_secs(2);
    let served = Served::start_with(Stage::new(2), options);
    let half = framed(
        &served,
        "POST /v2/result HTTP/1.1\nHost: pool\nContent-Length: 60000\n\n",
    );
    // Its body has no end but that of the connection.
    let socket = post_with(
        "/v2/poll",
        "Connection: upgrade\r\nUpgrade: websocket\r\n",
        &good(&served),
    );
    let rows: [Row; 2] = [
        row("half a body", half, Gets::Error(408, "timeout")),
        row("a web socket", socket, Gets::Error(408, "timeout")),
    ];
    assert_rows(&served, &rows);
}

#[test]
fn requests_in_one_go_are_answered_one_after_the_other() {
    let served = Served::start(Stage::new(2));
    let worker = served.worker(0);
    let mut wire = Wire::open(served.workers);
    let mut requests = Vec::new();
    let messages: Vec<_> = (0..20)
        .map(|_| worker.message("poll").sealed(&worker.key))
        .collect();
    for message in &messages {
        requests.extend_from_slice(&post("/v2/poll", &message.body()));
        requests.extend_from_slice(&post("/v2/poll", b"{}"));
        requests.extend_from_slice(&post("/nowhere", b"ignored"));
    }
    wire.send(&requests);
    for message in &messages {
        let answer = wire.answer().unwrap();
        assert_eq!(worker.open(&answer, message).code(), "idle");
        assert_eq!(wire.answer().unwrap().error().1, "outside_pool");
        assert_eq!(wire.answer().unwrap().error().1, "not_found");
    }
}

#[test]
fn what_follows_a_body_beyond_its_length_is_no_part_of_it() {
    let served = Served::start(Stage::new(2));
    let mut wire = Wire::open(served.workers);
    let mut request = post("/v2/poll", &good(&served));
    request.extend_from_slice(b"{\"kind\":\"poll\"}\r\n\r\n");
    wire.send(&request);
    assert_eq!(wire.answer().unwrap().status, 200);
    assert_eq!(wire.answer().unwrap().status, 400);
    assert!(wire.is_closed());
}

#[test]
fn a_client_that_waits_to_be_asked_for_its_body_is_asked() {
    let served = Served::start(Stage::new(2));
    let request = post_with("/v2/poll", "Expect: 100-continue\r\n", &good(&served));
    let end = request
        .windows(4)
        .position(|bytes| bytes == b"\r\n\r\n")
        .unwrap()
        + 4;
    let mut wire = Wire::open(served.workers);
    wire.send(&request[..end]);
    assert_eq!(wire.answer().unwrap().status, 100);
    wire.send(&request[end..]);
    assert_eq!(wire.answer().unwrap().status, 200);
}

#[test]
fn http_1_0_is_answered_and_closed() {
    let served = Served::start(Stage::new(2));
    let mut wire = Wire::open(served.workers);
    wire.send(&framed(
        &served,
        "POST /v2/poll HTTP/1.0\nContent-Length: LENGTH\n\n",
    ));
    assert_eq!(wire.answer().unwrap().status, 200);
    assert!(wire.is_closed());
}
