//! Hostile HTTP: lengths that lie, codings that smuggle, methods, paths and heads that nobody should send.

use crate::rows::{Gets, Row, assert_rows, row, table};
use crate::served::{Served, options};
use crate::support::Stage;
use crate::wire::{Wire, post, post_with};
use std::time::Duration;

/// A request with a head of our own and a body that is a good poll. `LENGTH` in the head is the body's length.
fn framed(served: &Served, head: &str) -> Vec<u8> {
    let body = good(served);
    let head = head.replace("LENGTH", &body.len().to_string());
    [format!("{head}\r\n\r\n").as_bytes(), &body].concat()
}

/// The same, with header lines of our own only.
fn with_headers(served: &Served, headers: &str) -> Vec<u8> {
    let lines = headers.replace(", and ", "\r\n");
    framed(
        served,
        &format!("POST /v2/poll HTTP/1.1\r\nHost: pool\r\n{lines}"),
    )
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

/// Header lines before a good body. Two lines are parted by ", and ".
const LENGTHS: &str = r"
    65537 bytes announced     | Content-Length: 65537                                         | 413 too_large
    a length of 64 bits       | Content-Length: 18446744073709551615                          | 413 too_large
    a length of 65 bits       | Content-Length: 18446744073709551616                          | 400
    a negative length         | Content-Length: -5                                            | 400
    a length with a sign      | Content-Length: +LENGTH                                       | 400
    a length that is none     | Content-Length: many                                          | 400
    a hexadecimal length      | Content-Length: 0x10                                          | 400
    an empty length           | Content-Length:                                               | 400
    a list of lengths         | Content-Length: LENGTH, LENGTH                                | 400
    the length twice          | Content-Length: LENGTH, and Content-Length: LENGTH            | 400
    two lengths               | Content-Length: LENGTH, and Content-Length: 5                 | 400
    a length and chunks       | Content-Length: LENGTH, and Transfer-Encoding: chunked        | 400
    chunks and a length       | Transfer-Encoding: chunked, and Content-Length: LENGTH        | 400
    chunked twice             | Transfer-Encoding: chunked, and Transfer-Encoding: chunked    | 400
    chunked by list           | Transfer-Encoding: chunked, chunked                           | 400
    a coding that is none     | Transfer-Encoding: xchunked                                   | 400
    compressed chunks         | Transfer-Encoding: gzip, chunked                              | 400
    identity and a length     | Transfer-Encoding: identity, and Content-Length: LENGTH       | 400
    compression that is none  | Content-Encoding: gzip, and Content-Length: LENGTH            | 200 idle
    a body of another type    | Content-Type: text/plain, and Content-Length: LENGTH          | 200 idle
    an upgrade to HTTP/2      | Connection: upgrade, and Upgrade: h2c, and Content-Length: LENGTH | 200 idle
    an expectation of nothing | Expect: nothing, and Content-Length: LENGTH                   | 200 idle
";

#[test]
fn lengths_that_lie_and_codings_that_smuggle_are_refused() {
    let served = Served::start(Stage::new(2));
    let mut rows = table(LENGTHS, |cells| with_headers(&served, cells[0]));
    let cut_off = with_headers(&served, "Content-Length: 60000");
    let blanks = format!("ffff\r\n{}\r\n0\r\n\r\n", " ".repeat(0xffff));
    let zipped = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\xae\x05\0\x43\xbf\xa6\xa3\x02\0\0\0";
    let no_chunk =
        "POST /v2/poll HTTP/1.1\r\nHost: pool\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let old = "POST /v2/poll HTTP/1.0\r\nTransfer-Encoding: chunked";
    let chunks = |end: &str| chunked(&served, end);
    rows.extend([
        row(
            "no length, yet a body",
            with_headers(&served, "X-A: 1"),
            EMPTY,
        ),
        row("length 0", post("/v2/poll", b""), EMPTY),
        row("no chunk", no_chunk, EMPTY),
        row("65537 bytes", post("/v2/poll", &[b' '; 65_537]), TOO_LARGE),
        row("chunks in HTTP/1.0", framed(&served, old), Gets::Bare(400)),
        row("good chunks", chunks("0\r\n\r\n"), IDLE),
        row("a trailer", chunks("0\r\nX-Trailer: 1\r\n\r\n"), IDLE),
        row("chunks that are cut off", chunks("5\r\n{"), MALFORMED).then_finishes(),
        row("a chunk of no size", chunks("nonsense\r\n"), MALFORMED),
        row("a negative size", chunks("-1\r\n"), MALFORMED),
        row(
            "a size of 65 bits",
            chunks("1ffffffffffffffff\r\n"),
            MALFORMED,
        ),
        row(
            "a size that lies",
            chunks("1\r\nxyz\r\n0\r\n\r\n"),
            MALFORMED,
        ),
        row("chunks of 65537 bytes", chunks(&blanks), TOO_LARGE),
        row("half a body and the end", cut_off, MALFORMED).then_finishes(),
        row("a compressed body", post("/v2/poll", zipped), MALFORMED),
    ]);
    assert_rows(&served, &rows);
}

#[test]
fn heads_that_are_none_end_their_connection() {
    let served = Served::start(Stage::new(2));
    let flood = |headers: usize| {
        let lines = "X-Flood: 1\r\n".repeat(headers);
        post_with("/v2/poll", &lines, &good(&served))
    };
    let headers =
        |headers: &str| with_headers(&served, &format!("{headers}, and Content-Length: LENGTH"));
    let request = |line: &str| {
        framed(
            &served,
            &format!("{line}\r\nHost: pool\r\nContent-Length: LENGTH"),
        )
    };
    let long_value = format!("X-Long: {}\r\n", "x".repeat(200_000));
    let long_target = format!("/v2/poll?{}", "x".repeat(70_000));
    const NONE: Gets = Gets::Bare(400);
    const TOO_MUCH: Gets = Gets::Bare(431);
    let rows = [
        row("no HTTP at all", *b"hello\r\n\r\n", NONE),
        row(
            "a TLS hello",
            *b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
            NONE,
        ),
        row(
            "the preface of HTTP/2",
            *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            NONE,
        ),
        row("HTTP/0.9", *b"POST /v2/poll\r\n\r\n", NONE),
        row("HTTP/3", request("POST /v2/poll HTTP/3.0"), NONE),
        row("no target", request("POST  HTTP/1.1"), NONE),
        row(
            "a blank in the target",
            request("POST /v2/poll /x HTTP/1.1"),
            NONE,
        ),
        row("a blank in a name", headers("X-A : 1"), NONE),
        row("a folded line", headers("X-A: 1\r\n  folded"), NONE),
        row("a NUL in a value", headers("X-A: \0"), NONE),
        row("a line without a colon", headers("nonsense"), NONE),
        row("two hosts", headers("Host: another"), NONE),
        row("94 more headers", flood(94), IDLE),
        row("1000 headers", flood(1000), TOO_MUCH),
        row(
            "a head of 200,000 bytes",
            post_with("/v2/poll", &long_value, b"{}"),
            TOO_MUCH,
        ),
        row("a target of 70,000 bytes", post(&long_target, b"{}"), NONE),
    ];
    assert_rows(&served, &rows);
}

const TARGETS: &str = r"
    GET                        | GET     | /v2/poll                        | 405 method_not_allowed
    PUT                        | PUT     | /v2/poll                        | 405 method_not_allowed
    PATCH                      | PATCH   | /v2/heartbeat                   | 405 method_not_allowed
    DELETE                     | DELETE  | /v2/result                      | 405 method_not_allowed
    OPTIONS                    | OPTIONS | /v2/poll                        | 405 method_not_allowed
    TRACE                      | TRACE   | /v2/poll                        | 405 method_not_allowed
    a method of our own        | BREW    | /v2/poll                        | 405 method_not_allowed
    post in small letters      | post    | /v2/poll                        | 405 method_not_allowed
    the root                   | POST    | /                               | 404 not_found
    a folder                   | POST    | /v2                             | 404 not_found
    another version            | POST    | /v1/poll                        | 404 not_found
    a path behind              | POST    | /v2/poll/0                      | 404 not_found
    a slash behind             | POST    | /v2/poll/                       | 404 not_found
    two slashes                | POST    | //v2/poll                       | 404 not_found
    capitals                   | POST    | /V2/Poll                        | 404 not_found
    dots                       | POST    | /v2/../v2/poll                  | 404 not_found
    an encoded slash           | POST    | /v2%2fpoll                      | 404 not_found
    an encoded NUL             | POST    | /v2/poll%00                     | 404 not_found
    encoded nonsense           | POST    | /v2/poll%zz                     | 404 not_found
    no UTF-8                   | POST    | /v2/%ff%fe                      | 404 not_found
    a parameter                | POST    | /v2/poll;x=1                    | 404 not_found
    a file of the host         | GET     | /../../../../etc/passwd         | 404 not_found
    the operators' health      | GET     | /healthz                        | 404 not_found
    the operators' metrics     | GET     | /metrics                        | 404 not_found
    the operators' API         | GET     | /api/v1/pool                    | 404 not_found
    everything                 | OPTIONS | *                               | 404 not_found
    a proxy's request          | POST    | http://elsewhere.example/other  | 404 not_found
    a tunnel                   | CONNECT | elsewhere.example:443           | 404 not_found
    the absolute form          | POST    | http://pool.example/v2/poll     | 200 idle
    an encoded letter          | POST    | /v2/%70oll                      | 200 idle
    a query                    | POST    | /v2/poll?ordinal=1              | 200 idle
    an empty query             | POST    | /v2/poll?                       | 200 idle
";

#[test]
fn other_methods_and_paths_get_their_own_refusals() {
    let served = Served::start(Stage::new(2));
    let body = good(&served);
    let rows = table(TARGETS, |cells| {
        let request = String::from_utf8(post(cells[1], &body)).unwrap();
        request.replacen("POST", cells[0], 1).into_bytes()
    });
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
    let half = with_headers(&served, "Content-Length: 60000");
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
        requests.extend_from_slice(&post("/nowhere", b""));
    }
    // An answer to a body that nobody reads is the last one of its connection, and says so.
    requests.extend_from_slice(&post("/nowhere", b"ignored"));
    requests.extend_from_slice(&post("/v2/poll", b"{}"));
    wire.send(&requests);
    for message in &messages {
        let answer = wire.answer().unwrap();
        assert_eq!(worker.open(&answer, message).code(), "idle");
        assert_eq!(wire.answer().unwrap().error().1, "outside_pool");
        assert_eq!(wire.answer().unwrap().error().1, "not_found");
    }
    let last = wire.answer().unwrap();
    assert_eq!(last.error().1, "not_found");
    assert_eq!(last.header("connection"), Some("close"));
    assert!(wire.is_closed());
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
        "POST /v2/poll HTTP/1.0\r\nContent-Length: LENGTH",
    ));
    assert_eq!(wire.answer().unwrap().status, 200);
    assert!(wire.is_closed());
}
