//! Valid envelopes in the wrong place: at another time, path, ordinal or pool, or thrown back at whoever signed them.
//!
//! All that was said between a pool and one of its workers during a run is recorded, requests and replies. An attacker who
//! read all of it (nothing is encrypted) can say it again, and it has no effect.

use hermes_pool::actors::PoolEvent;
use hermes_pool::domain::BoardSlug;

use crate::message::{Message, Signed};
use crate::served::Served;
use crate::support::Stage;
use crate::wire::{Answer, Wire, post};

const PATHS: [&str; 3] = ["/v2/poll", "/v2/heartbeat", "/v2/result"];
const DONE: &str = r#"{"outcome":"completed","summary":"all of it"}"#;

/// A pool of two slots with one board.
fn stage() -> Stage {
    let stage = Stage::new(2);
    stage.board("lab");
    stage
}

/// What was said: the path of a request, or none for a reply, and the body.
type Said = (Option<String>, Vec<u8>);

/// Sends a message as ordinal 0 and records it with its answer.
fn say(served: &Served, message: Message, record: &mut Vec<Said>) -> Signed {
    let worker = served.worker(0);
    let message = message.sealed(&worker.key);
    let path = format!("/v2/{}", message.field("kind").trim_matches('"'));
    let answer = served.exchange(&post(&path, &message.body()));
    record.push((Some(path), message.body()));
    record.push((None, answer.body.clone()));
    worker.open(&answer, &message)
}

/// A whole run of ordinal 0: idle, offered, beaten, completed. Ordinal 1 holds another run meanwhile.
fn record_a_run(served: &mut Served) -> Vec<Said> {
    let board = BoardSlug::parse("lab").unwrap();
    served.running(&board, "somebody else's", 1);
    let mut record = Vec::new();
    let worker = |served: &Served, kind: &str| served.worker(0).message(kind);
    assert_eq!(
        say(served, worker(served, "poll"), &mut record).kind(),
        "ack"
    );
    served.stage.task(&board, "recorded");
    served.hear(|event| matches!(event, PoolEvent::Added(_)));
    let job = say(served, worker(served, "poll"), &mut record);
    assert_eq!(job.kind(), "assignment");
    say(served, worker(served, "heartbeat").of(&job), &mut record);
    let result = worker(served, "result").of(&job).with("payload", DONE);
    say(served, result, &mut record);
    served.hear(|event| matches!(event, PoolEvent::Ended { .. }));
    record
}

fn ask(served: &Served, path: &str, body: &[u8]) -> Answer {
    let mut wire = Wire::open(served.workers);
    wire.send(&post(path, body));
    let answer = wire.answer().unwrap();
    served.assert_discreet(&answer);
    answer
}

fn code(answer: &Answer) -> String {
    let document = answer.json();
    let unsigned = document["error"]["code"].as_str();
    let signed = document["payload"]["code"].as_str();
    let status = document["payload"]["status"].as_str();
    unsigned
        .or(signed)
        .or(status)
        .unwrap_or_default()
        .to_owned()
}

/// Everything on the board and in the store, but for what only says when a row was last looked at.
fn state(served: &Served) -> String {
    let board = BoardSlug::parse("lab").unwrap();
    let mut text = served.pool_rows();
    let sql = served.stage.sql(&board);
    let mut events = sql
        .prepare("SELECT id,task_id,kind,coalesce(payload,'') FROM task_events ORDER BY id")
        .unwrap();
    let mut rows = events.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        for column in 0..4 {
            text.push_str(&format!("{:?}|", row.get_ref(column).unwrap()));
        }
    }
    text
}

#[test]
fn what_was_said_in_a_run_has_no_effect_when_it_is_said_again_anywhere() {
    let mut served = Served::start(stage());
    let record = record_a_run(&mut served);
    let before = state(&served);
    for (own_path, body) in &record {
        for path in PATHS {
            let answer = ask(&served, path, body);
            let kind = Signed::open(&served.worker(0).key, std::str::from_utf8(body).unwrap());
            let wanted = match (own_path.as_deref() == Some(path), kind.kind()) {
                (false, _) => (400, "unexpected_kind"),
                (true, "poll") => (200, "idle"),
                // A repeated result is acknowledged as what it is, and so is the heartbeat that is remembered.
                (true, "result") => (200, "accepted"),
                (true, _) => (409, "not_running"),
            };
            assert_eq!(
                (answer.status, code(&answer).as_str()),
                wanted,
                "{path}: {kind:?}"
            );
        }
    }
    assert_eq!(state(&served), before);
}

#[test]
fn what_was_said_is_worth_nothing_later_or_to_another_pool() {
    let mut served = Served::start(stage());
    let record = record_a_run(&mut served);
    let requests = || {
        record
            .iter()
            .filter_map(|(path, body)| Some((path.as_deref()?, body)))
    };

    let other = Served::start(stage());
    let before = state(&other);
    for (path, body) in requests() {
        let answer = ask(&other, path, body);
        assert_eq!(
            (answer.status, code(&answer).as_str()),
            (401, "not_authentic")
        );
    }
    assert_eq!(state(&other), before);

    // The same pool after a restart, as long as a message lives, and afterwards.
    let served = Served::start(served.stop());
    let before = state(&served);
    let still = requests().map(|(path, body)| code(&ask(&served, path, body)));
    assert_eq!(
        still.collect::<Vec<_>>(),
        ["idle", "idle", "not_running", "accepted"]
    );
    served.advance(151.0);
    for (path, body) in requests() {
        let answer = ask(&served, path, body);
        assert_eq!(
            (answer.status, code(&answer).as_str()),
            (401, "outside_window")
        );
    }
    let rows = |text: &str| text.lines().count();
    assert_eq!(rows(&state(&served)), rows(&before));
}

#[test]
fn a_heartbeat_of_an_earlier_attempt_keeps_no_later_one_alive() {
    let stage = Stage::new(1);
    let board = stage.board("lab");
    let mut served = Served::start(stage);
    let (_, job) = served.running(&board, "t", 0);
    served.advance(60.0);
    let worker = served.worker(0);
    let beat = worker.message("heartbeat").of(&job).sealed(&worker.key);
    assert_eq!(worker.deliver(&beat).0, 200);
    served.advance(90.5);
    served.hear(|event| matches!(event, PoolEvent::Fenced(_)));
    let worker = served.worker(0);
    let next = worker.poll().expect("the next attempt");
    assert_eq!(next.envelope["attempt"], 2);
    let before = served.pool_rows();
    let (status, answer) = {
        let answer = ask(&served, "/v2/heartbeat", &beat.body());
        (answer.status, code(&answer))
    };
    assert_eq!((status, answer.as_str()), (409, "stale_attempt"));
    assert_eq!(served.pool_rows(), before);
}
