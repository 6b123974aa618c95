//! What happens in a slot: offers, heartbeats, results, expiry.

use hermes_pool::domain::{FailCause, StateName};
use hermes_pool::store::operations::{
    Added, Expire, Expiry, IsIntended, LiveOf, OfferReply, Offered, RecordIntent,
};
use hermes_pool::store::{AddRefusal, Refusal, StoreError};

use super::fixtures::*;

fn offered(reply: OfferReply) -> Offered {
    match reply {
        OfferReply::Offered(offered) => offered,
        other => panic!("{other:?}"),
    }
}

fn expire(fixture: &mut Fixture, ordinal: u16) -> Expiry {
    let ordinal = hermes_pool::domain::Ordinal(ordinal);
    fixture
        .run(Expire {
            ordinal,
            policy: policy(),
        })
        .unwrap()
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, StoreError>) -> Refusal {
    match outcome {
        Err(StoreError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_is_offered_with_its_payload_as_it_was_added() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.offer(0, "p1"), OfferReply::Nothing);
    let bound = fixture.add(7, 0);
    let first = offered(fixture.offer(0, "p1"));
    assert_eq!(first.binding, bound);
    assert_eq!(first.payload_json, r#"{"title":"work"}"#);
    assert_eq!(
        first.assignment_digest,
        addition(&binding(1, 0)).assignment_digest
    );
    assert_eq!(first.lease_until, START + 60.0);
    let again = offered(fixture.after(5.0).offer(0, "p2"));
    let expected = Offered {
        lease_until: START + 65.0,
        ..first
    };
    assert_eq!(again, expected);
}

#[test]
fn the_sixth_offer_fences_the_attempt_and_a_repeated_poll_counts_none() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(7, 0);
    for attempt in 1..=3 {
        for poll in 1..=5 {
            for _repeated in 0..3 {
                let poll = format!("p{attempt}-{poll}");
                let offered = offered(fixture.after(1.0).offer(0, &poll));
                assert_eq!(offered.binding, with_attempt(&bound, attempt), "{poll}");
            }
        }
        // A restart forgets nothing of it.
        fixture.store = hermes_pool::store::Store::open(&fixture.path(), 3).unwrap();
        // The next round's first poll is the offer too many.
    }
    let given_up = OfferReply::GivenUp {
        binding: with_attempt(&bound, 3),
        cause: FailCause::Exhausted,
    };
    assert_eq!(fixture.offer(0, "last"), given_up);
    assert_eq!(fixture.offer(0, "last"), OfferReply::Nothing);
    fixture.add(8, 0);
}

#[test]
fn a_lease_that_is_over_is_fenced_and_after_the_last_attempt_the_slot_is_free() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(7, 0);
    for attempt in 1..=3 {
        let current = with_attempt(&bound, attempt);
        assert_eq!(offered(fixture.offer(0, "p")).binding, current);
        let next = Some(fixture.now + 60.0);
        let waiting = expire(fixture.after(60.0), 0);
        assert_eq!(waiting, Expiry::NotDue { next });
        assert_eq!(fixture.beat(&current, &format!("b{attempt}")), Ok(false));
        let fenced = expire(fixture.after(60.5), 0);
        let expected = if attempt < 3 {
            Expiry::Reoffered {
                binding: with_attempt(&bound, attempt + 1),
                next: fixture.now + 300.0,
            }
        } else {
            Expiry::GivenUp {
                binding: current.clone(),
                cause: FailCause::Exhausted,
            }
        };
        assert_eq!(fenced, expected);
        let late = refused(fixture.beat(&current, "late"));
        let expected = if attempt < 3 {
            Refusal::StaleAttempt
        } else {
            Refusal::NotRunning
        };
        assert_eq!(late, expected);
    }
    assert_eq!(expire(&mut fixture, 0), Expiry::Idle);
    fixture.add(8, 0);
}

#[test]
fn a_first_attempt_that_nobody_fetches_is_given_up_as_such() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(7, 0);
    let next = Some(START + 300.0);
    assert_eq!(expire(fixture.after(300.0), 0), Expiry::NotDue { next });
    let given_up = Expiry::GivenUp {
        binding: bound,
        cause: FailCause::NeverFetched,
    };
    assert_eq!(expire(fixture.after(0.5), 0), given_up);
}

#[test]
fn a_repeated_heartbeat_renews_the_lease_and_a_reused_identifier_is_refused() {
    let mut fixture = Fixture::new();
    let (first, second) = (fixture.add(7, 0), fixture.add(8, 1));
    assert_eq!(fixture.beat(&first, "b1"), Ok(false));
    assert_eq!(fixture.after(30.0).beat(&first, "b1"), Ok(true));
    let lease_until: f64 =
        fixture.value("SELECT lease_until FROM assignments WHERE worker_ordinal=0");
    assert_eq!(lease_until, START.0 + 90.0);
    assert_eq!(
        refused(fixture.beat(&second, "b1")),
        Refusal::DeliveryReused
    );
    assert_eq!(fixture.beat(&second, "b2"), Ok(false));
}

#[test]
fn what_a_worker_may_not_do_has_its_code_and_the_text_of_the_reference() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(7, 0);
    fixture.offer(0, "p");
    let mut other_slot = bound.clone();
    other_slot.ordinal.0 = 1;
    let cases = [
        (
            binding(99, 0),
            "unknown_assignment",
            "assignment is unknown or stale",
        ),
        (
            other_slot,
            "wrong_ordinal",
            "worker ordinal does not own this assignment",
        ),
        (
            with_attempt(&bound, 2),
            "stale_attempt",
            "assignment attempt is stale",
        ),
    ];
    for (presented, code, message) in cases {
        let refusal = refused(fixture.beat(&presented, "b"));
        assert_eq!((refusal.code(), &*refusal.to_string()), (code, message));
        assert_eq!(refused(fixture.submit(&presented, "r")).code(), code);
    }
    fixture.after(60.5);
    assert_eq!(refused(fixture.beat(&bound, "b")), Refusal::LeaseExpired);
    assert_eq!(refused(fixture.submit(&bound, "r")), Refusal::LeaseExpired);
    fixture.offer(0, "p2");
    assert_eq!(fixture.submit(&bound, "r"), Ok(false));
    assert_eq!(fixture.submit(&bound, "r"), Ok(true));
    assert_eq!(
        refused(fixture.submit(&bound, "q")),
        Refusal::ConflictingResult
    );
    assert_eq!(refused(fixture.beat(&bound, "b")), Refusal::NotRunning);
}

#[test]
fn a_slot_takes_one_run_and_a_run_one_binding() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(7, 0);
    let occupied = fixture.run(addition(&binding(8, 0)));
    assert_eq!(occupied, Err(AddRefusal::Occupied.into()));
    let elsewhere = fixture.run(addition(&binding(7, 1)));
    assert_eq!(elsewhere, Err(AddRefusal::Conflicting.into()));
    let mut other_payload = addition(&bound);
    other_payload.assignment_digest = "e".repeat(64);
    assert_eq!(
        fixture.run(other_payload),
        Err(AddRefusal::Conflicting.into())
    );
}

#[test]
fn a_number_that_a_restored_board_gives_out_again_is_no_known_run() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(7, 0);
    assert_eq!(fixture.run(addition(&bound)), Ok(Added::AlreadyThere));
    let mut again = addition(&bound);
    again.claim.lock = lock(8);
    fixture
        .run(RecordIntent {
            intent: intent(8, 0),
        })
        .unwrap();
    assert_eq!(fixture.run(again), Err(AddRefusal::Conflicting.into()));
    // Its claim still has to be given back.
    let is_intended = fixture.run(IsIntended { lock: lock(8) });
    assert_eq!(is_intended, Ok(true));
}

#[test]
fn a_timer_is_armed_from_what_the_slot_holds() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(7, 1);
    let live = |fixture: &mut Fixture| {
        let (ordinal, policy) = (bound.ordinal, policy());
        fixture.run(LiveOf { ordinal, policy }).unwrap().unwrap()
    };
    let waiting = live(&mut fixture);
    assert_eq!(waiting.binding, bound);
    assert_eq!(waiting.due, Some(START + 300.0));
    fixture.offer(1, "p");
    assert_eq!(live(&mut fixture).due, Some(START + 60.0));
    fixture.submit(&bound, "r").unwrap();
    let submitted = live(&mut fixture);
    let due = Some(START + 10.0);
    assert_eq!((submitted.state, submitted.due), (StateName::Result, due));
}
