//! How a run ends: on evidence, deferred, unconfirmed; and what is collected afterwards.

use hermes_pool::domain::{Assignment, FailCause, StateName};
use hermes_pool::store::operations::{
    CollectDeliveries, CollectEnded, End, Expire, Expiry, OfferReply, Unconfirmed,
};
use hermes_pool::store::{Refusal, StoreError};

use super::fixtures::*;

fn end(fixture: &mut Fixture, binding: &hermes_pool::domain::Binding) -> bool {
    let end = End {
        binding: binding.clone(),
        evidence: written(),
        cause: None,
    };
    fixture.run(end).unwrap()
}

#[test]
fn evidence_ends_the_exact_run_once_from_every_state() {
    let mut fixture = Fixture::new();
    let assigned = fixture.add(1, 0);
    let running = fixture.add(2, 1);
    fixture.offer(1, "p");
    let submitted = fixture.add(3, 2);
    fixture.submit(&submitted, "r").unwrap();
    for (name, bound) in [
        ("assigned", &assigned),
        ("running", &running),
        ("result", &submitted),
    ] {
        assert!(
            !end(&mut fixture, &with_attempt(bound, 2)),
            "{name}: another attempt"
        );
        assert!(end(&mut fixture, bound), "{name}");
        assert!(!end(&mut fixture, bound), "{name}: again");
        let record = fixture.reader().record(&bound.key).unwrap().unwrap();
        assert_eq!(record.assignment.state(), StateName::Finalized);
    }
    assert!(fixture.reader().unsettled(&board()).unwrap().is_empty());
    // The worker may not have seen its acknowledgement.
    assert_eq!(fixture.submit(&submitted, "r"), Ok(true));
    let conflicting = fixture.submit(&submitted, "q");
    assert_eq!(conflicting, Err(Refusal::ConflictingResult.into()));
}

#[test]
fn a_worker_whose_run_the_board_ended_is_told_to_stop() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(1, 0);
    fixture.offer(0, "p");
    let end = End {
        binding: bound.clone(),
        evidence: written(),
        cause: Some(FailCause::LimitPassed),
    };
    assert_eq!(fixture.run(end), Ok(true));
    let superseded: StoreError = Refusal::RunSuperseded.into();
    assert_eq!(fixture.beat(&bound, "b"), Err(superseded.clone()));
    assert_eq!(fixture.submit(&bound, "r"), Err(superseded));
    let other_attempt = fixture.beat(&with_attempt(&bound, 2), "b");
    assert_eq!(other_attempt, Err(Refusal::StaleAttempt.into()));
}

#[test]
fn a_run_whose_claim_is_unconfirmed_frees_its_slot_and_stays_to_be_drained() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(1, 0);
    fixture.offer(0, "p");
    let unconfirmed = Unconfirmed {
        binding: bound.clone(),
    };
    assert_eq!(fixture.run(unconfirmed.clone()), Ok(true));
    assert_eq!(fixture.run(unconfirmed), Ok(false));
    assert_eq!(
        fixture.beat(&bound, "b"),
        Err(Refusal::RunSuperseded.into())
    );
    fixture.add(2, 0);
    let unsettled = fixture.reader().unsettled(&board()).unwrap();
    let causes: Vec<_> = unsettled
        .iter()
        .map(|record| match &record.as_ref().unwrap().assignment {
            Assignment::LeaseFailed(state) => Some(state.cause()),
            _ => None,
        })
        .collect();
    assert!(causes.contains(&Some(FailCause::Unconfirmed)), "{causes:?}");
}

#[test]
fn a_result_that_its_board_does_not_take_frees_its_slot_after_ten_seconds() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(1, 0);
    fixture.submit(&bound, "r").unwrap();
    let expire = Expire {
        ordinal: bound.ordinal,
        policy: policy(),
    };
    let next = Some(START + 10.0);
    assert_eq!(fixture.after(9.0).run(expire), Ok(Expiry::NotDue { next }));
    let given_up = Expiry::GivenUp {
        binding: bound.clone(),
        cause: FailCause::Unsettled,
    };
    assert_eq!(fixture.after(1.0).run(expire), Ok(given_up));
    assert_eq!(fixture.run(expire), Ok(Expiry::Idle));
    fixture.add(2, 0);
    assert_eq!(fixture.submit(&bound, "r"), Ok(true));
    let texts = fixture.reader().texts(&bound.key).unwrap().unwrap();
    assert_eq!(texts.result_json.as_deref(), Some("{}"));
    assert!(end(&mut fixture, &bound));
    assert!(matches!(fixture.offer(0, "p"), OfferReply::Offered(_)));
}

#[test]
fn only_what_ended_long_ago_is_collected_a_slice_at_a_time() {
    let mut fixture = Fixture::new();
    for run in 1..=5 {
        let bound = fixture.add(run, 0);
        fixture.beat(&bound, &format!("b{run}")).unwrap();
        assert!(end(&mut fixture, &bound));
    }
    let given_up = fixture.add(6, 1);
    fixture.run(Unconfirmed { binding: given_up }).unwrap();
    fixture.add(7, 2);
    let slice = |retention_seconds| CollectEnded {
        retention_seconds,
        limit: 3,
    };
    // An hour is kept whatever is asked for, and what ends exactly at the edge stays.
    assert_eq!(fixture.after(3600.0).run(slice(0.0)), Ok(0));
    assert_eq!(fixture.after(0.5).run(slice(7200.0)), Ok(0));
    let collected: Vec<_> = (0..3).map(|_| fixture.run(slice(0.0)).unwrap()).collect();
    assert_eq!(collected, [3, 2, 0]);
    assert_eq!(fixture.value::<i64>("SELECT count(*) FROM assignments"), 2);
    assert_eq!(fixture.value::<i64>("SELECT count(*) FROM claims"), 2);
    let slice = CollectDeliveries {
        kept_seconds: 3600.0,
        limit: 3,
    };
    let collected: Vec<_> = (0..3).map(|_| fixture.run(slice).unwrap()).collect();
    assert_eq!(collected, [3, 2, 0]);
}
