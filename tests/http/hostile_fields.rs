//! Hostile messages: well-formed JSON with fields that are none of the protocol's, or not from now.

use crate::rows::Gets;
use crate::rows::{assert_rows, row, table};
use crate::served::Served;
use crate::support::Stage;
use crate::wire::post;

/// One field of a poll, changed before it is sealed with the right key.
const FIELDS: &str = r#"
    another version                  | version        | 1                              | 400 version_mismatch
    the version as text              | version        | "2"                            | 400 version_mismatch
    the version as a truth           | version        | true                           | 400 version_mismatch
    the version as a float           | version        | 2.0                            | 200 idle
    the version with an exponent     | version        | 2e0                            | 200 idle
    a field too many                 | extra          | 1                              | 400 version_mismatch
    no kind                          | kind           | null                           | 400 unexpected_kind
    a kind in capitals               | kind           | "Poll"                         | 400 unexpected_kind
    an assignment                    | kind           | "assignment"                   | 400 unexpected_kind
    an acknowledgement               | kind           | "ack"                          | 400 unexpected_kind
    a heartbeat on the path of polls | kind           | "heartbeat"                    | 400 unexpected_kind
    a path as the board              | board          | "../etc"                       | 400 invalid_identifier
    a number as the board            | board          | 7                              | 400 invalid_identifier
    a task with a line feed behind   | task_id        | "t_1\n"                        | 400 invalid_identifier
    a run with a Kelvin sign         | run_id         | "\u212a"                       | 400 invalid_identifier
    no delivery                      | delivery_id    | ""                             | 400 invalid_identifier
    null as the delivery             | delivery_id    | null                           | 400 invalid_identifier
    SQL as the delivery              | delivery_id    | "x'; DROP TABLE deliveries;--" | 400 invalid_identifier
    a delivery of 129 letters        | delivery_id    | LETTERS129                     | 400 invalid_identifier
    a delivery of 128 letters        | delivery_id    | LETTERS128                     | 200 idle
    a truth as the attempt           | attempt        | true                           | 400 invalid_binding
    a float as the attempt           | attempt        | 1.0                            | 400 invalid_binding
    a text as the attempt            | attempt        | "1"                            | 400 invalid_binding
    null as a time                   | issued_at      | null                           | 400 invalid_binding
    a float as a time                | expires_at     | 1.8e9                          | 400 invalid_binding
    not a number as a time           | issued_at      | NaN                            | 400 invalid_binding
    a negative attempt               | attempt        | -1                             | 400 outside_pool
    minus zero attempts              | attempt        | -0                             | 200 idle
    a huge attempt                   | attempt        | 1000000000000000000000000      | 200 idle
    an ordinal behind the last       | worker_ordinal | 2                              | 400 outside_pool
    a negative ordinal               | worker_ordinal | -1                             | 400 outside_pool
    an ordinal that wraps to 0       | worker_ordinal | 65536                          | 400 outside_pool
    an ordinal that wraps at 64 bits | worker_ordinal | 18446744073709551616           | 400 outside_pool
    a float as the ordinal           | worker_ordinal | 0.0                            | 400 outside_pool
    a truth as the ordinal           | worker_ordinal | false                          | 400 outside_pool
    no ordinal                       | worker_ordinal | null                           | 400 outside_pool
"#;

const MISSING: &str = "
    without a payload   | payload        | 400 version_mismatch
    without a signature | signature      | 400 version_mismatch
    without a delivery  | delivery_id    | 400 version_mismatch
    without an ordinal  | worker_ordinal | 400 outside_pool
";

const KINDS: &str = "
    a poll on the path of heartbeats   | heartbeat | poll      | 400 unexpected_kind
    a result on the path of heartbeats | heartbeat | result    | 400 unexpected_kind
    a poll on the path of results      | result    | poll      | 400 unexpected_kind
    a heartbeat of no run              | heartbeat | heartbeat | 400 invalid_identifier
    a result of no run                 | result    | result    | 400 invalid_identifier
";

#[test]
fn fields_that_are_none_of_the_protocols_are_refused_by_name() {
    let served = Served::start(Stage::new(2));
    let worker = served.worker(0);
    let mut rows = table(FIELDS, |cells| {
        let letters = |count: usize| format!("\"{}\"", "x".repeat(count));
        let value = match cells[1] {
            "LETTERS128" => letters(128),
            "LETTERS129" => letters(129),
            value => value.to_owned(),
        };
        let message = worker.message("poll").with(cells[0], value);
        post("/v2/poll", &message.sealed(&worker.key).body())
    });
    rows.extend(table(MISSING, |cells| {
        let message = worker.message("poll").sealed(&worker.key);
        post("/v2/poll", &message.without(cells[0]).body())
    }));
    rows.extend(table(KINDS, |cells| {
        let message = worker.message(cells[1]).sealed(&worker.key);
        post(&format!("/v2/{}", cells[0]), &message.body())
    }));
    let nothing = Gets::Error(400, "outside_pool");
    rows.push(row("an empty object", post("/v2/poll", b"{}"), nothing));
    assert_rows(&served, &rows);
}

/// Seconds from now at which a message is issued and expires.
const WINDOWS: &str = "
    issued half a minute ahead |  30 |  90 | 200 idle
    issued 31 seconds ahead    |  31 |  90 | 401 outside_window
    expired half a minute ago  | -150 | -30 | 200 idle
    expired 31 seconds ago     | -151 | -31 | 401 outside_window
    issued in an age to come   | 1000000000000000000000000000 | 1000000000000000000000000000 | 401 outside_window
    issued before all time     | -1000000000000000000000000000 | 60 | 401 invalid_lifetime
    in force for ever          | 0   | 1000000000000000000000000000 | 401 invalid_lifetime
    in force for no time       | 0   | 0   | 401 invalid_lifetime
    in force backwards         | 10  | 0   | 401 invalid_lifetime
    in force for 300 seconds   | 0   | 300 | 200 idle
    in force for 301 seconds   | 0   | 301 | 401 invalid_lifetime
";

#[test]
fn messages_outside_their_window_are_told_the_time() {
    let served = Served::start(Stage::new(2));
    let worker = served.worker(0);
    let moment = |text: &str| match text.parse::<i64>() {
        Ok(seconds) => (served.now() + seconds).to_string(),
        Err(_) => text.to_owned(),
    };
    let rows = table(WINDOWS, |cells| {
        let message = worker.message("poll").with("issued_at", moment(cells[0]));
        let message = message.with("expires_at", moment(cells[1]));
        post("/v2/poll", &message.sealed(&worker.key).body())
    });
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
