//! The state × command table: what every command does in every state, written out.

use super::*;
use crate::domain::{Attempt, Evidence};

const NOW: Timestamp = Timestamp(1000.0);

fn policy() -> LeasePolicy {
    LeasePolicy::clamped(90, 3, 300)
}

fn row(state: &str, attempt: i64) -> Row {
    Row {
        board: "lab".into(),
        task_id: "t_1".into(),
        run_id: "7".into(),
        worker_ordinal: 1,
        attempt,
        state: state.into(),
        lease_until: if state == "running" { 1050.0 } else { 0.0 },
        last_heartbeat: 0.0,
        result_digest: (state == "result").then(|| "d".into()),
        has_result: state == "result",
        created_at: 900.0,
        updated_at: 960.0,
        offers: 1,
        cause: None,
    }
}

/// What a command leaves: the new state with its attempt, or why nothing changes.
fn outcome(change: &Change) -> String {
    let columns = change.columns();
    let cause = columns
        .cause
        .map_or(String::new(), |cause| format!(" {}", cause.as_str()));
    format!("{}#{}{cause}", columns.state.as_str(), columns.attempt)
}

fn fenced(fenced: Fenced) -> String {
    match fenced {
        Fenced::NotDue(_) => "not due".into(),
        Fenced::Due(change) => outcome(&change),
    }
}

fn submission() -> Submission {
    Submission {
        digest: "d".into(),
        payload_json: "{}".into(),
    }
}

fn finalized() -> Evidence {
    Evidence::written(&crate::domain::Receipt::of_commit("completed"))
}

/// Applies `command` to a row; "-" where the type of its state has no such method.
fn play(row: Row, command: &str, now: Timestamp) -> String {
    let p = policy();
    match (Assignment::rehydrate(row).unwrap(), command) {
        (Assignment::Assigned(s), "offer") => outcome(&s.offer(now, &p, false)),
        (Assignment::Running(s), "offer") => outcome(&s.offer(now, &p, false)),
        (Assignment::Assigned(s), "heartbeat") => outcome(&s.heartbeat(now, &p)),
        (Assignment::Running(s), "heartbeat") => s
            .heartbeat(now, &p)
            .map_or_else(|_| "lapsed".into(), |c| outcome(&c)),
        (Assignment::Assigned(s), "submit") => outcome(&s.submit(submission(), now)),
        (Assignment::Running(s), "submit") => s
            .submit(submission(), now)
            .map_or_else(|_| "lapsed".into(), |c| outcome(&c)),
        (Assignment::Assigned(s), "expire") => fenced(s.expire(now, &p)),
        (Assignment::Running(s), "expire") => fenced(s.expire(now, &p)),
        (Assignment::Assigned(s), "unconfirmed") => outcome(&s.unconfirmed(now)),
        (Assignment::Running(s), "unconfirmed") => outcome(&s.unconfirmed(now)),
        (Assignment::Assigned(s), "past_limit") => outcome(&s.past_limit(now)),
        (Assignment::Running(s), "past_limit") => outcome(&s.past_limit(now)),
        (Assignment::Submitted(s), "defer") => fenced(s.defer(now)),
        (Assignment::Assigned(s), "end") => {
            outcome(&s.end(&finalized(), FailCause::LimitPassed, now))
        }
        (Assignment::Running(s), "end") => {
            outcome(&s.end(&finalized(), FailCause::LimitPassed, now))
        }
        (Assignment::Submitted(s), "end") => outcome(&s.end(&finalized(), now)),
        (Assignment::LeaseFailed(s), "end") => outcome(&s.end(&finalized(), now)),
        _ => "-".into(),
    }
}

#[test]
fn every_command_in_every_state() {
    let commands = [
        "offer",
        "heartbeat",
        "submit",
        "expire",
        "unconfirmed",
        "past_limit",
        "defer",
        "end",
    ];
    let table: [(&str, [&str; 8]); 6] = [
        (
            "assigned",
            [
                "running#1",
                "running#1",
                "result#1",
                "not due",
                "lease_failed#1 unconfirmed",
                "lease_failed#1 limit_passed",
                "-",
                "finalized#1 limit_passed",
            ],
        ),
        (
            "running",
            [
                "running#1",
                "running#1",
                "result#1",
                "not due",
                "lease_failed#1 unconfirmed",
                "lease_failed#1 limit_passed",
                "-",
                "finalized#1 limit_passed",
            ],
        ),
        (
            "result",
            [
                "-",
                "-",
                "-",
                "-",
                "-",
                "-",
                "lease_failed#1 unsettled",
                "finalized#1",
            ],
        ),
        (
            "lease_failed",
            ["-", "-", "-", "-", "-", "-", "-", "finalized#1"],
        ),
        ("finalized", ["-"; 8]),
        ("stale", ["-"; 8]),
    ];
    assert_eq!(table.len(), StateName::ALL.len(), "a new state needs a row");
    for (state, wanted) in table {
        for (command, wanted) in commands.iter().zip(wanted) {
            assert_eq!(
                play(row(state, 1), command, NOW),
                wanted,
                "{command} in {state}"
            );
        }
    }
}

#[test]
fn time_fences_an_attempt_and_the_last_one_is_given_up() {
    for (state, attempt, at, wanted) in [
        ("running", 1, 1050.0, "not due"),
        ("running", 1, 1050.5, "assigned#2"),
        ("running", 3, 1050.5, "lease_failed#3 exhausted"),
        ("assigned", 1, 1260.0, "not due"),
        ("assigned", 1, 1260.5, "lease_failed#1 never_fetched"),
        ("assigned", 2, 1260.5, "assigned#3"),
        ("assigned", 3, 1260.5, "lease_failed#3 exhausted"),
    ] {
        assert_eq!(
            play(row(state, attempt), "expire", Timestamp(at)),
            wanted,
            "{state}#{attempt} at {at}"
        );
    }
    for command in ["heartbeat", "submit"] {
        assert_ne!(
            play(row("running", 1), command, Timestamp(1050.0)),
            "lapsed"
        );
        assert_eq!(
            play(row("running", 1), command, Timestamp(1050.5)),
            "lapsed"
        );
    }
}

#[test]
fn the_offer_after_the_last_one_fences_unless_it_is_a_repeat() {
    let spent = |attempt| Row {
        offers: 5,
        ..row("running", attempt)
    };
    assert_eq!(play(spent(1), "offer", NOW), "assigned#2");
    assert_eq!(play(spent(3), "offer", NOW), "lease_failed#3 exhausted");
    let Assignment::Running(running) = Assignment::rehydrate(spent(1)).unwrap() else {
        panic!()
    };
    let repeat = running.offer(NOW, &policy(), true);
    assert_eq!(
        (repeat.columns().offers, outcome(&repeat).as_str()),
        (5, "running#1")
    );
}

#[test]
fn a_fenced_attempt_starts_without_lease_and_offers() {
    let Assignment::Running(running) = Assignment::rehydrate(row("running", 1)).unwrap() else {
        panic!()
    };
    let Fenced::Due(change) = running.expire(Timestamp(2000.0), &policy()) else {
        panic!()
    };
    let columns = change.columns();
    assert_eq!(
        (
            columns.lease_until.0,
            columns.last_heartbeat.0,
            columns.offers
        ),
        (0.0, 0.0, 0)
    );
    assert_eq!(
        (change.expect().attempt, change.binding().attempt),
        (Attempt(1), Attempt(2))
    );
}

#[test]
fn a_row_that_fits_no_state_is_named_with_its_column() {
    let cases: Vec<(&str, Row)> = vec![
        (
            "state",
            Row {
                state: "done".into(),
                ..row("running", 1)
            },
        ),
        (
            "board",
            Row {
                board: "No Board".into(),
                ..row("running", 1)
            },
        ),
        (
            "task_id",
            Row {
                task_id: "".into(),
                ..row("running", 1)
            },
        ),
        (
            "run_id",
            Row {
                run_id: "a b".into(),
                ..row("running", 1)
            },
        ),
        (
            "worker_ordinal",
            Row {
                worker_ordinal: -1,
                ..row("running", 1)
            },
        ),
        (
            "attempt",
            Row {
                attempt: -1,
                ..row("running", 1)
            },
        ),
        (
            "lease_until",
            Row {
                lease_until: f64::INFINITY,
                ..row("running", 1)
            },
        ),
        (
            "lease_until",
            Row {
                lease_until: 1_800_000_000_000.0,
                ..row("running", 1)
            },
        ),
        (
            "updated_at",
            Row {
                updated_at: -1e12,
                ..row("assigned", 1)
            },
        ),
        (
            "result_json",
            Row {
                result_digest: None,
                ..row("result", 1)
            },
        ),
        (
            "result_json",
            Row {
                has_result: true,
                ..row("lease_failed", 1)
            },
        ),
        (
            "result_json",
            Row {
                result_digest: Some("d".into()),
                ..row("lease_failed", 1)
            },
        ),
        (
            "result_digest",
            Row {
                result_digest: Some("d".into()),
                ..row("running", 1)
            },
        ),
        (
            "cause",
            Row {
                cause: Some("?".into()),
                ..row("lease_failed", 1)
            },
        ),
    ];
    for (column, row) in cases {
        assert_eq!(Assignment::rehydrate(row).unwrap_err().column, column);
    }
}
