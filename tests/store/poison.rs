//! Rows that cannot be understood: each is reported by itself and hides no other.

use hermes_pool::domain::Ordinal;
use hermes_pool::store::operations::{Expire, Expiry, LetGo, LiveOf, Offer, OfferReply};
use hermes_pool::store::{PageStart, StoreError};

use super::fixtures::*;

/// What is broken: the statement for the row of slot 0, and the column that is blamed.
const FAULTS: [(&str, &str); 16] = [
    (
        "UPDATE assignments SET state='paused' WHERE run_id='1'",
        "state",
    ),
    (
        "UPDATE assignments SET state=x'00ff' WHERE run_id='1'",
        "state",
    ),
    (
        "UPDATE assignments SET lease_until='soon' WHERE run_id='1'",
        "lease_until",
    ),
    (
        "UPDATE assignments SET updated_at=9e999 WHERE run_id='1'",
        "updated_at",
    ),
    (
        "UPDATE assignments SET attempt='many' WHERE run_id='1'",
        "attempt",
    ),
    (
        "UPDATE assignments SET attempt=-1 WHERE run_id='1'",
        "attempt",
    ),
    (
        "UPDATE assignments SET result_digest='r' WHERE run_id='1'",
        "result_digest",
    ),
    (
        "UPDATE assignments SET task_id='no good' WHERE run_id='1'",
        "task_id",
    ),
    (
        "UPDATE claims SET offers='several' WHERE run_id='1'",
        "offers",
    ),
    ("UPDATE claims SET cause='whim' WHERE run_id='1'", "cause"),
    (
        "UPDATE assignments SET lease_until=1800000000000 WHERE run_id='1'",
        "lease_until",
    ),
    (
        "UPDATE assignments SET result_json='{}' WHERE run_id='1'",
        "result_json",
    ),
    (
        "UPDATE claims SET last_poll=x'ff' WHERE run_id='1'",
        "last_poll",
    ),
    (
        "UPDATE claims SET claim_lock='mine' WHERE run_id='1'",
        "claim_lock",
    ),
    (
        "UPDATE claims SET confirmed_at=9e999 WHERE run_id='1'",
        "confirmed_at",
    ),
    (
        "UPDATE claims SET event_sequence=NULL WHERE run_id='1'",
        "event_sequence",
    ),
];

#[test]
fn a_poisoned_row_is_reported_and_the_others_go_on() {
    for (statement, column) in FAULTS {
        let mut fixture = Fixture::new();
        fixture.add(1, 0);
        let healthy = fixture.add(2, 1);
        let raw = fixture.raw();
        assert_eq!(raw.execute(statement, []).unwrap(), 1, "{statement}");

        let unsettled = fixture.reader().unsettled(&board()).unwrap();
        let (good, bad): (Vec<_>, Vec<_>) = unsettled.into_iter().partition(Result::is_ok);
        assert_eq!((good.len(), bad.len()), (1, 1), "{statement}");
        let fault = bad.into_iter().next().unwrap().unwrap_err();
        assert_eq!(fault.column, column, "{statement}");
        assert!(fault.run.starts_with("lab/"), "{fault}");

        let page = fixture.reader().page(&PageStart::First, 10).unwrap().rows;
        assert_eq!(page.len(), 2, "{statement}");
        let ordinal = Ordinal(0);
        let offer = Offer {
            ordinal,
            delivery_id: "p1".to_owned(),
            policy: policy(),
        };
        let expire = Expire {
            ordinal,
            policy: policy(),
        };
        // A row of an unknown state occupies no slot.
        if column != "state" {
            let illegal = StoreError::Illegal(fault);
            assert_eq!(fixture.run(offer), Err(illegal.clone()), "{statement}");
            assert_eq!(fixture.run(expire), Err(illegal.clone()), "{statement}");
            let fault = fixture.run(LetGo { ordinal }).unwrap();
            assert_eq!(fault.map(StoreError::Illegal), Some(illegal), "{statement}");
            assert_eq!(fixture.run(expire), Ok(Expiry::Idle), "{statement}");
            let unsettled = fixture.reader().unsettled(&board()).unwrap();
            assert_eq!(unsettled.into_iter().filter(Result::is_err).count(), 1);
        }
        assert_eq!(
            fixture.run(LetGo { ordinal }),
            Ok(None),
            "nothing is left to let go"
        );
        let offered = fixture.offer(1, "p2");
        assert!(matches!(offered, OfferReply::Offered(_)), "{statement}");
        assert_eq!(fixture.beat(&healthy, "b"), Ok(false), "{statement}");
    }
}

#[test]
fn a_poisoned_entry_or_intent_hides_no_other() {
    let mut fixture = Fixture::new();
    fixture.add(1, 0);
    fixture.add(2, 1);
    for run in [3, 4] {
        let intent = intent(run, 2);
        fixture
            .run(hermes_pool::store::operations::RecordIntent { intent })
            .unwrap();
    }
    let raw = fixture.raw();
    raw.execute_batch(
        "UPDATE claims SET not_before='later' WHERE run_id='1';
         UPDATE intents SET worker_ordinal=-1 WHERE claim_lock LIKE '%:3';
         INSERT INTO intents VALUES('pool/p:ffffffff:x','No Board','t',0,0,0,NULL,NULL,0);",
    )
    .unwrap();
    let reader = fixture.reader();
    let faults: Vec<_> = reader
        .unsettled(&board())
        .unwrap()
        .into_iter()
        .filter_map(Result::err)
        .collect();
    assert_eq!(faults.len(), 1);
    assert_eq!(faults[0].column, "not_before");
    let intents = reader.intents(&board()).unwrap();
    assert_eq!(intents.iter().filter(|intent| intent.is_ok()).count(), 1);
    let (boards, lost) = reader.boards().unwrap();
    assert_eq!(boards.len(), 1);
    assert_eq!(lost.len(), 1);
    assert_eq!(
        (lost[0].column, lost[0].run.as_str()),
        ("board", "No Board/t/pool/p:ffffffff:x")
    );
    // What keeps the passes from a row keeps its worker from it too.
    let ordinal = Ordinal(0);
    let live = fixture.run(LiveOf {
        ordinal,
        policy: policy(),
    });
    assert_eq!(live, Err(StoreError::Illegal(faults[0].clone())));
    assert!(matches!(fixture.offer(1, "p"), OfferReply::Offered(_)));
}

#[test]
fn a_time_that_is_none_holds_no_task_back_and_is_told() {
    for value in [
        "'2026-11-29T12:00:00Z'",
        "''",
        "x'ff'",
        "9e999",
        "9223372036854775807",
    ] {
        let mut fixture = Fixture::new();
        fixture.add(1, 0);
        let raw = fixture.raw();
        let set = format!("UPDATE claims SET not_before={value}");
        raw.execute(&set, []).unwrap();
        // What is over still holds its task back.
        raw.execute("UPDATE assignments SET state='finalized'", [])
            .unwrap();
        let (tasks, illegal) = fixture.reader().held_back(&board(), START).unwrap();
        assert!(tasks.is_empty(), "{value}");
        assert_eq!(illegal.len(), 1, "{value}");
        assert_eq!(
            (illegal[0].column, illegal[0].run.as_str()),
            ("not_before", "lab/t_1/1")
        );
    }
}

#[test]
fn what_was_let_go_keeps_the_cause_that_it_had() {
    let mut fixture = Fixture::new();
    fixture.add(1, 0);
    let raw = fixture.raw();
    raw.execute_batch("UPDATE claims SET cause='whim'; UPDATE assignments SET attempt='many'")
        .unwrap();
    let ordinal = Ordinal(0);
    assert!(fixture.run(LetGo { ordinal }).unwrap().is_some());
    assert_eq!(fixture.value::<String>("SELECT cause FROM claims"), "whim");
    assert_eq!(
        fixture.value::<String>("SELECT attempt FROM assignments"),
        "many"
    );
    raw.execute_batch("UPDATE claims SET cause=NULL; UPDATE assignments SET state='assigned'")
        .unwrap();
    assert!(fixture.run(LetGo { ordinal }).unwrap().is_some());
    assert_eq!(
        fixture.value::<String>("SELECT cause FROM claims"),
        "unreadable"
    );
}
