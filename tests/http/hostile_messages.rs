//! Hostile messages: well-formed JSON that is not authentic, not for here, not from now, or not for this worker.

use crate::message::Message;
use crate::rows::{Gets, Row, assert_rows, row};
use crate::served::Served;
use crate::support::Stage;
use crate::wire::post;

const IDLE: Gets = Gets::Signed(200, "idle");
const fn refused(code: &'static str) -> Gets {
    Gets::Error(400, code)
}
const fn unauthentic(code: &'static str) -> Gets {
    Gets::Error(401, code)
}

/// A row for each change to a poll that is made before it is sealed with the right key.
fn sealed_rows<const N: usize>(
    served: &Served,
    changes: [(&'static str, &'static str, &'static str, Gets); N],
) -> Vec<Row> {
    let worker = served.worker(0);
    let make = |(name, field, value, gets)| {
        let message = worker
            .message("poll")
            .with(field, value)
            .sealed(&worker.key);
        row(name, post("/v2/poll", &message.body()), gets)
    };
    changes.map(make).into()
}

#[test]
fn fields_that_are_none_of_the_protocols_are_refused_by_name() {
    let served = Served::start(Stage::new(2));
    let worker = served.worker(0);
    let long = format!("\"{}\"", "x".repeat(129)).leak();
    let longest = format!("\"{}\"", "x".repeat(128)).leak();
    let mut rows = sealed_rows(
        &served,
        [
            (
                "another version",
                "version",
                "1",
                refused("version_mismatch"),
            ),
            (
                "the version as text",
                "version",
                "\"2\"",
                refused("version_mismatch"),
            ),
            (
                "the version as a truth",
                "version",
                "true",
                refused("version_mismatch"),
            ),
            ("the version as a float", "version", "2.0", IDLE),
            ("the version with an exponent", "version", "2e0", IDLE),
            (
                "a field too many",
                "extra",
                "1",
                refused("version_mismatch"),
            ),
            ("no kind", "kind", "null", refused("unexpected_kind")),
            (
                "a kind in capitals",
                "kind",
                "\"Poll\"",
                refused("unexpected_kind"),
            ),
            (
                "an assignment",
                "kind",
                "\"assignment\"",
                refused("unexpected_kind"),
            ),
            (
                "an acknowledgement",
                "kind",
                "\"ack\"",
                refused("unexpected_kind"),
            ),
            (
                "a heartbeat on the path of polls",
                "kind",
                "\"heartbeat\"",
                refused("unexpected_kind"),
            ),
            (
                "a path as the board",
                "board",
                "\"../etc\"",
                refused("invalid_identifier"),
            ),
            (
                "a number as the board",
                "board",
                "7",
                refused("invalid_identifier"),
            ),
            (
                "a task with a line feed behind",
                "task_id",
                "\"t_1\\n\"",
                refused("invalid_identifier"),
            ),
            (
                "a run with a Kelvin sign",
                "run_id",
                "\"\\u212a\"",
                refused("invalid_identifier"),
            ),
            (
                "no delivery",
                "delivery_id",
                "\"\"",
                refused("invalid_identifier"),
            ),
            (
                "null as the delivery",
                "delivery_id",
                "null",
                refused("invalid_identifier"),
            ),
            (
                "a delivery of 129 letters",
                "delivery_id",
                long,
                refused("invalid_identifier"),
            ),
            ("a delivery of 128 letters", "delivery_id", longest, IDLE),
            (
                "SQL as the delivery",
                "delivery_id",
                "\"x'; DROP TABLE deliveries;--\"",
                refused("invalid_identifier"),
            ),
            (
                "a truth as the attempt",
                "attempt",
                "true",
                refused("invalid_binding"),
            ),
            (
                "a float as the attempt",
                "attempt",
                "1.0",
                refused("invalid_binding"),
            ),
            (
                "a text as the attempt",
                "attempt",
                "\"1\"",
                refused("invalid_binding"),
            ),
            (
                "null as a time",
                "issued_at",
                "null",
                refused("invalid_binding"),
            ),
            (
                "a float as a time",
                "expires_at",
                "1.8e9",
                refused("invalid_binding"),
            ),
            (
                "not a number as a time",
                "issued_at",
                "NaN",
                refused("invalid_binding"),
            ),
            (
                "a negative attempt",
                "attempt",
                "-1",
                refused("outside_pool"),
            ),
            ("minus zero attempts", "attempt", "-0", IDLE),
            (
                "a huge attempt",
                "attempt",
                "1000000000000000000000000000000",
                IDLE,
            ),
            (
                "an ordinal behind the last",
                "worker_ordinal",
                "2",
                refused("outside_pool"),
            ),
            (
                "a negative ordinal",
                "worker_ordinal",
                "-1",
                refused("outside_pool"),
            ),
            (
                "an ordinal that wraps to 0",
                "worker_ordinal",
                "65536",
                refused("outside_pool"),
            ),
            (
                "an ordinal that wraps at 64 bits",
                "worker_ordinal",
                "18446744073709551616",
                refused("outside_pool"),
            ),
            (
                "a float as the ordinal",
                "worker_ordinal",
                "0.0",
                refused("outside_pool"),
            ),
            (
                "a truth as the ordinal",
                "worker_ordinal",
                "false",
                refused("outside_pool"),
            ),
            (
                "no ordinal",
                "worker_ordinal",
                "null",
                refused("outside_pool"),
            ),
        ],
    );
    let without = |name: &str| worker.message("poll").sealed(&worker.key).without(name);
    for (name, message, gets) in [
        ("an empty object", None, refused("outside_pool")),
        (
            "without a payload",
            Some(without("payload")),
            refused("version_mismatch"),
        ),
        (
            "without a signature",
            Some(without("signature")),
            refused("version_mismatch"),
        ),
        (
            "without a delivery",
            Some(without("delivery_id")),
            refused("version_mismatch"),
        ),
        (
            "without an ordinal",
            Some(without("worker_ordinal")),
            refused("outside_pool"),
        ),
    ] {
        let body = message.map_or(b"{}".to_vec(), |message| message.body());
        rows.push(row(name, post("/v2/poll", &body), gets));
    }
    for (name, path, kind) in [
        ("a poll on the path of heartbeats", "/v2/heartbeat", "poll"),
        (
            "a result on the path of heartbeats",
            "/v2/heartbeat",
            "result",
        ),
        ("a poll on the path of results", "/v2/result", "poll"),
    ] {
        let message = worker.message(kind).sealed(&worker.key);
        rows.push(row(
            name,
            post(path, &message.body()),
            refused("unexpected_kind"),
        ));
    }
    for (name, kind) in [
        ("a heartbeat of no run", "heartbeat"),
        ("a result of no run", "result"),
    ] {
        let message = worker.message(kind).sealed(&worker.key);
        let request = post(&format!("/v2/{kind}"), &message.body());
        rows.push(row(name, request, refused("invalid_identifier")));
    }
    assert_rows(&served, &rows);
}

#[test]
fn messages_outside_their_window_are_told_the_time() {
    let served = Served::start(Stage::new(2));
    let (worker, now) = (served.worker(0), served.now());
    let huge = "1000000000000000000000000000000";
    let rows: Vec<Row> = [
        (
            "issued half a minute ahead",
            (now + 30).to_string(),
            (now + 90).to_string(),
            IDLE,
        ),
        (
            "issued 31 seconds ahead",
            (now + 31).to_string(),
            (now + 90).to_string(),
            unauthentic("outside_window"),
        ),
        (
            "expired half a minute ago",
            (now - 150).to_string(),
            (now - 30).to_string(),
            IDLE,
        ),
        (
            "expired 31 seconds ago",
            (now - 151).to_string(),
            (now - 31).to_string(),
            unauthentic("outside_window"),
        ),
        (
            "issued in an age to come",
            huge.to_owned(),
            huge.to_owned(),
            unauthentic("outside_window"),
        ),
        (
            "issued before all time",
            format!("-{huge}"),
            (now + 60).to_string(),
            unauthentic("invalid_lifetime"),
        ),
        (
            "in force for ever",
            now.to_string(),
            huge.to_owned(),
            unauthentic("invalid_lifetime"),
        ),
        (
            "in force for no time",
            now.to_string(),
            now.to_string(),
            unauthentic("invalid_lifetime"),
        ),
        (
            "in force backwards",
            (now + 10).to_string(),
            now.to_string(),
            unauthentic("invalid_lifetime"),
        ),
        (
            "in force for 300 seconds",
            now.to_string(),
            (now + 300).to_string(),
            IDLE,
        ),
        (
            "in force for 301 seconds",
            now.to_string(),
            (now + 301).to_string(),
            unauthentic("invalid_lifetime"),
        ),
    ]
    .into_iter()
    .map(|(name, issued, expires, gets)| {
        let message = worker
            .message("poll")
            .with("issued_at", issued)
            .with("expires_at", expires);
        row(
            name,
            post("/v2/poll", &message.sealed(&worker.key).body()),
            gets,
        )
    })
    .collect();
    assert_rows(&served, &rows);

    let late = worker.message("poll").sealed(&worker.key);
    assert_eq!(worker.deliver(&late).0, 200);
    assert_eq!(
        worker.deliver(&late).0,
        200,
        "a repeat within its window is served"
    );
    served.advance(151.0);
    let answer = served.exchange(&post("/v2/poll", &late.body()));
    assert_eq!(
        answer.text(),
        format!(
            r#"{{"error":{{"code":"outside_window","message":"pool message is outside its validity window","server_time":{}}}}}"#,
            served.now()
        )
    );
    assert_eq!(answer.status, 401);
}

#[test]
fn messages_that_are_not_authentic_change_nothing_and_learn_nothing() {
    let stage = Stage::new(2);
    let board = stage.board("zanzibar");
    let mut served = Served::start(stage);
    let (_, errand) = served.running(&board, "Somebody else's errand", 1);
    let before = served.pool_rows();

    let (worker, other) = (served.worker(0), served.worker(1));
    let poll = || worker.message("poll");
    let sealed = || poll().sealed(&worker.key);
    let with_signature = |text: String| sealed().with("signature", text);
    let signature = || sealed().field("signature").trim_matches('"').to_owned();
    let beat = worker.message("heartbeat").of(&errand);
    let reply = worker.deliver(&sealed()).1.envelope.to_string();
    let reflected = reply.replace("\"ack\"", "\"poll\"");
    let unauthentic_signature = unauthentic("not_authentic");
    let mismatch = unauthentic("digest_mismatch");
    let to_poll = |message: Message| post("/v2/poll", &message.body());
    let rows = [
        row(
            "the key of another slot",
            to_poll(poll().sealed(&other.key)),
            unauthentic_signature,
        ),
        row(
            "the key of the pool",
            to_poll(poll().sealed(&served.master)),
            unauthentic_signature,
        ),
        row("no key", to_poll(poll().sealed("")), unauthentic_signature),
        row(
            "another slot's name under the own key",
            to_poll(other.message("poll").sealed(&worker.key)),
            unauthentic_signature,
        ),
        row(
            "another slot's name put in afterwards",
            to_poll(sealed().with("worker_ordinal", "1")),
            unauthentic_signature,
        ),
        row(
            "another kind put in afterwards",
            post(
                "/v2/heartbeat",
                &beat
                    .clone()
                    .with("kind", "\"result\"")
                    .sealed(&worker.key)
                    .with("kind", "\"heartbeat\"")
                    .body(),
            ),
            unauthentic_signature,
        ),
        row(
            "another delivery put in afterwards",
            to_poll(sealed().with("delivery_id", "\"d\"")),
            unauthentic_signature,
        ),
        row(
            "a longer life put in afterwards",
            to_poll(sealed().with("expires_at", served.now() + 299)),
            unauthentic_signature,
        ),
        row(
            "another spelling of the version",
            to_poll(sealed().with("version", "2.0")),
            unauthentic_signature,
        ),
        row(
            "a signature of another message",
            to_poll(with_signature(format!("\"{}\"", signature()))),
            unauthentic_signature,
        ),
        row(
            "a signature in capitals",
            {
                let message = sealed();
                let upper = message.field("signature").to_uppercase();
                to_poll(message.with("signature", upper))
            },
            unauthentic_signature,
        ),
        row(
            "half a signature",
            {
                let message = sealed();
                let half = format!("\"{}\"", &message.field("signature")[1..33]);
                to_poll(message.with("signature", half))
            },
            unauthentic_signature,
        ),
        row(
            "an empty signature",
            to_poll(with_signature("\"\"".into())),
            unauthentic_signature,
        ),
        row(
            "null as the signature",
            to_poll(with_signature("null".into())),
            unauthentic_signature,
        ),
        row(
            "a number as the signature",
            to_poll(with_signature("0".into())),
            unauthentic_signature,
        ),
        row(
            "a list as the signature",
            to_poll(with_signature("[\"\u{e9}\"]".into())),
            unauthentic_signature,
        ),
        row(
            "a signature that is not ASCII",
            to_poll(with_signature(format!("\"{}\u{e9}\"", &signature()[1..]))),
            unauthentic_signature,
        ),
        row(
            "another payload put in afterwards",
            to_poll(sealed().with("payload", "{\"wait_seconds\":30}")),
            mismatch,
        ),
        row(
            "another digest",
            to_poll(poll().with("payload_digest", "\"00\"").sealed(&worker.key)),
            mismatch,
        ),
        row(
            "no digest",
            to_poll(poll().with("payload_digest", "null").sealed(&worker.key)),
            mismatch,
        ),
        row(
            "a digest in capitals",
            {
                let digest = sealed().field("payload_digest").to_uppercase();
                to_poll(poll().with("payload_digest", digest).sealed(&worker.key))
            },
            mismatch,
        ),
        row(
            "a payload spelled otherwise",
            to_poll({
                let digest = poll()
                    .with("payload", "{\"a\":1}")
                    .sealed(&worker.key)
                    .field("payload_digest")
                    .to_owned();
                poll()
                    .with("payload", "{\"a\":1.0}")
                    .with("payload_digest", digest)
                    .sealed(&worker.key)
            }),
            mismatch,
        ),
        row(
            "the pool's own answer",
            post("/v2/poll", reply.as_bytes()),
            refused("unexpected_kind"),
        ),
        row(
            "the pool's own answer as a poll",
            post("/v2/poll", reflected.as_bytes()),
            unauthentic_signature,
        ),
        row(
            "an assignment as a result",
            post("/v2/result", errand.envelope.to_string().as_bytes()),
            refused("unexpected_kind"),
        ),
        row(
            "a heartbeat for another's run",
            post("/v2/heartbeat", &beat.sealed(&worker.key).body()),
            Gets::Signed(409, "wrong_ordinal"),
        ),
        row(
            "a result for another's run",
            post(
                "/v2/result",
                &worker
                    .message("result")
                    .of(&errand)
                    .with("payload", r#"{"outcome":"completed"}"#)
                    .sealed(&worker.key)
                    .body(),
            ),
            Gets::Signed(409, "wrong_ordinal"),
        ),
        row(
            "a poll that names another's run",
            to_poll(poll().of(&errand).sealed(&worker.key)),
            IDLE,
        ),
    ];
    assert_rows(&served, &rows);
    assert_eq!(
        served.pool_rows(),
        before,
        "nothing was stored for any of them"
    );
    assert_eq!(served.worker(1).heartbeat(&errand).0, 200);
}

#[test]
fn payloads_of_another_shape_are_refused_under_signature() {
    let stage = Stage::new(2);
    let board = stage.board("lab");
    let mut served = Served::start(stage);
    let (_, job) = served.running(&board, "t", 0);
    let activity = |bytes: usize| format!("{{\"activity\":\"{}\"}}", "x".repeat(bytes));
    let cases = [
        ("poll", "[]".to_owned(), "invalid_poll"),
        ("poll", "null".to_owned(), "invalid_poll"),
        ("poll", r#"{"wait_seconds":31}"#.to_owned(), "invalid_poll"),
        ("poll", r#"{"wait_seconds":-1}"#.to_owned(), "invalid_poll"),
        ("poll", r#"{"wait_seconds":1.0}"#.to_owned(), "invalid_poll"),
        (
            "poll",
            r#"{"wait_seconds":true}"#.to_owned(),
            "invalid_poll",
        ),
        (
            "poll",
            r#"{"wait_seconds":1e400}"#.to_owned(),
            "invalid_poll",
        ),
        ("heartbeat", "\"alive\"".to_owned(), "invalid_heartbeat"),
        (
            "heartbeat",
            r#"{"activity":["x"]}"#.to_owned(),
            "invalid_heartbeat",
        ),
        ("heartbeat", activity(12_289), "invalid_heartbeat"),
        ("result", "{}".to_owned(), "invalid_result"),
        (
            "result",
            "[{\"outcome\":\"completed\"}]".to_owned(),
            "invalid_result",
        ),
        (
            "result",
            r#"{"outcome":"done"}"#.to_owned(),
            "invalid_result",
        ),
        (
            "result",
            r#"{"outcome":"completed","metadata":"x"}"#.to_owned(),
            "invalid_result",
        ),
        (
            "result",
            r#"{"outcome":"completed","summary":NaN}"#.to_owned(),
            "invalid_result",
        ),
        (
            "result",
            r#"{"outcome":"blocked","block_kind":"weather"}"#.to_owned(),
            "invalid_result",
        ),
        (
            "result",
            r#"{"outcome":"rate_limited","retry_after_seconds":-1}"#.to_owned(),
            "invalid_result",
        ),
    ];
    for (kind, payload, code) in cases {
        let worker = served.worker(0);
        // The shape is judged before the row: a run that does not exist makes no difference.
        for message in [
            worker.message(kind).of(&job),
            worker.message(kind).of(&job).with("run_id", "\"999\""),
        ] {
            let (status, signed) = worker.say(message.with("payload", &payload));
            assert_eq!((status, signed.code()), (422, code), "{payload}");
            assert_eq!(signed.payload()["status"], "rejected");
            assert!(signed.payload()["message"].is_string());
        }
        assert_eq!(worker.heartbeat(&job).0, 200);
    }
    let worker = served.worker(0);
    let longest = worker
        .message("heartbeat")
        .of(&job)
        .with("payload", activity(12_288));
    assert_eq!(worker.say(longest).0, 200);
}
