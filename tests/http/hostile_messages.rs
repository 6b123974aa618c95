//! Hostile messages: signed by the wrong one, changed on the way, thrown back, or of a shape that cannot be settled.

use crate::message::Message;
use crate::rows::{Gets, assert_rows, row};
use crate::served::Served;
use crate::support::Stage;
use crate::wire::post;

const IDLE: Gets = Gets::Signed(200, "idle");

const REFLECTED: Gets = Gets::Error(400, "unexpected_kind");

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
    let forged = Gets::Error(401, "not_authentic");
    let mismatch = Gets::Error(401, "digest_mismatch");
    let to_poll = |message: Message| post("/v2/poll", &message.body());
    let rows = [
        row(
            "the key of another slot",
            to_poll(poll().sealed(&other.key)),
            forged,
        ),
        row(
            "the key of the pool",
            to_poll(poll().sealed(&served.master)),
            forged,
        ),
        row("no key", to_poll(poll().sealed("")), forged),
        row(
            "another slot's name under the own key",
            to_poll(other.message("poll").sealed(&worker.key)),
            forged,
        ),
        row(
            "another slot's name put in afterwards",
            to_poll(sealed().with("worker_ordinal", "1")),
            forged,
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
            forged,
        ),
        row(
            "another delivery put in afterwards",
            to_poll(sealed().with("delivery_id", "\"d\"")),
            forged,
        ),
        row(
            "a longer life put in afterwards",
            to_poll(sealed().with("expires_at", served.now() + 299)),
            forged,
        ),
        row(
            "another spelling of the version",
            to_poll(sealed().with("version", "2.0")),
            forged,
        ),
        row(
            "a signature of another message",
            to_poll(with_signature(format!("\"{}\"", signature()))),
            forged,
        ),
        row(
            "a signature in capitals",
            {
                let message = sealed();
                let upper = message.field("signature").to_uppercase();
                to_poll(message.with("signature", upper))
            },
            forged,
        ),
        row(
            "half a signature",
            {
                let message = sealed();
                let half = format!("\"{}\"", &message.field("signature")[1..33]);
                to_poll(message.with("signature", half))
            },
            forged,
        ),
        row(
            "an empty signature",
            to_poll(with_signature("\"\"".into())),
            forged,
        ),
        row(
            "null as the signature",
            to_poll(with_signature("null".into())),
            forged,
        ),
        row(
            "a number as the signature",
            to_poll(with_signature("0".into())),
            forged,
        ),
        row(
            "a list as the signature",
            to_poll(with_signature("[\"\u{e9}\"]".into())),
            forged,
        ),
        row(
            "a signature that is not ASCII",
            to_poll(with_signature(format!("\"{}\u{e9}\"", &signature()[1..]))),
            forged,
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
            REFLECTED,
        ),
        row(
            "the pool's own answer as a poll",
            post("/v2/poll", reflected.as_bytes()),
            forged,
        ),
        row(
            "an assignment as a result",
            post("/v2/result", errand.envelope.to_string().as_bytes()),
            REFLECTED,
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
