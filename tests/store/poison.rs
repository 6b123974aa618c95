//! Rows that cannot be understood: each is reported by itself and hides no other.

use hermes_pool::store::operations::{Expire, Offer, OfferReply};
use hermes_pool::store::{PageStart, StoreError};

use super::fixtures::*;

/// What is broken: the statement for the row of slot 0, and the column that is blamed.
const FAULTS: [(&str, &str); 10] = [
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
        let offer = Offer {
            ordinal: hermes_pool::domain::Ordinal(0),
            delivery_id: "p1".to_owned(),
            policy: policy(),
        };
        let expire = Expire {
            ordinal: offer.ordinal,
            policy: policy(),
        };
        // A row of an unknown state occupies no slot.
        if column != "state" {
            let illegal = StoreError::Illegal(fault);
            assert_eq!(fixture.run(offer), Err(illegal.clone()), "{statement}");
            assert_eq!(fixture.run(expire), Err(illegal), "{statement}");
        }
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
    // What the transitions need is not poisoned.
    assert!(matches!(fixture.offer(0, "p"), OfferReply::Offered(_)));
}
