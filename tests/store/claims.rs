//! Intents, entries, and the reads of a pass.

use hermes_pool::domain::{StateName, Timestamp};
use hermes_pool::store::operations::{
    Added, DropIntent, IsIntended, NoteBoardHeartbeat, NoteConfirmed, RecordIntent, SetNotBefore,
};
use hermes_pool::store::{AddRefusal, ClaimEntry, PageStart};

use super::fixtures::*;

#[test]
fn an_intent_becomes_an_assignment_as_a_whole_or_stays() {
    let mut fixture = Fixture::new();
    for run in [1, 2] {
        let intent = intent(run, 0);
        fixture.run(RecordIntent { intent }).unwrap();
    }
    let bound = binding(1, 0);
    assert_eq!(fixture.run(addition(&bound)), Ok(Added::New));
    let left = fixture.reader().intents(&board()).unwrap();
    assert_eq!(left, [Ok(intent(2, 0))]);

    for (run, is_intended) in [(1, false), (2, true)] {
        let asked = IsIntended { lock: lock(run) };
        assert_eq!(fixture.run(asked), Ok(is_intended));
    }

    let occupied = fixture.run(addition(&binding(2, 0)));
    assert_eq!(occupied, Err(AddRefusal::Occupied.into()));
    assert_eq!(fixture.reader().intents(&board()).unwrap(), left);

    // After a crash the same addition is made again, its intent written anew.
    let intent = intent(1, 0);
    fixture.run(RecordIntent { intent }).unwrap();
    assert_eq!(fixture.run(addition(&bound)), Ok(Added::AlreadyThere));
    assert_eq!(fixture.run(DropIntent { lock: lock(1) }), Ok(false));
    assert_eq!(fixture.run(DropIntent { lock: lock(2) }), Ok(true));
    assert!(fixture.reader().intents(&board()).unwrap().is_empty());
}

#[test]
fn the_same_run_under_another_lock_is_another_run() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(1, 0);
    let mut again = addition(&bound);
    again.claim.lock = lock(2);
    assert_eq!(
        fixture.run(again),
        Err(AddRefusal::Conflicting.into()),
        "a restored board gives its numbers out again"
    );
}

#[test]
fn what_is_noted_beside_a_run_is_read_with_it() {
    let mut fixture = Fixture::new();
    let bound = fixture.add(1, 0);
    fixture.offer(0, "p1");
    let (key, at) = (bound.key.clone(), START + 5.0);
    let notes = [
        fixture.run(NoteConfirmed {
            key: key.clone(),
            at,
        }),
        fixture.run(NoteBoardHeartbeat {
            key: key.clone(),
            at: at + 1.0,
        }),
        fixture.run(SetNotBefore {
            key: key.clone(),
            not_before: Some(at + 2.0),
        }),
    ];
    assert_eq!(notes, [Ok(true), Ok(true), Ok(true)]);
    let unknown = NoteConfirmed {
        key: super::fixtures::key(99),
        at,
    };
    assert_eq!(fixture.run(unknown), Ok(false));
    let record = fixture.reader().record(&key).unwrap().unwrap();
    let expected = ClaimEntry {
        lock: Some(lock(1)),
        anchor: Some(anchor()),
        cause: None,
        offers: 1,
        last_poll: Some("p1".to_owned()),
        not_before: Some(at + 2.0),
        confirmed_at: Some(at),
        board_heartbeat_at: Some(at + 1.0),
    };
    assert_eq!(record.claim, expected);
    assert_eq!(fixture.value::<i64>("SELECT count(*) FROM claims"), 1);
}

#[test]
fn a_reader_sees_each_commit_and_pages_through_everything() {
    let mut fixture = Fixture::new();
    let reader = fixture.reader();
    assert!(reader.boards().unwrap().0.is_empty());
    for (run, ordinal) in [(1, 0), (2, 1), (3, 2)] {
        fixture.add(run, ordinal);
    }
    fixture.offer(1, "p");
    assert_eq!(reader.boards().unwrap().0, [board()].into());
    let first = reader.page(&PageStart::First, 2).unwrap();
    assert_eq!(first.rows.len(), 2);
    let next = first.next.unwrap();
    assert_eq!(next, PageStart::Run(key(2)));
    let second = reader.page(&next, 2).unwrap();
    assert_eq!((second.rows.len(), second.next), (1, None));
    let mut counts = reader.counts().unwrap();
    counts.sort();
    let (assigned, running) = (StateName::Assigned.as_str(), StateName::Running.as_str());
    assert_eq!(counts, [(assigned.to_owned(), 2), (running.to_owned(), 1)]);
    let record = reader.record(&key(2)).unwrap().unwrap();
    assert_eq!(record.lease_until, START + 60.0);
    assert_eq!(record.created_at, START);
    assert_eq!(record.claim.confirmed_at, Some(Timestamp(START.0)));
}

#[test]
fn a_reader_does_not_wait_for_the_writer() {
    let mut fixture = Fixture::new();
    fixture.add(1, 0);
    let writer = fixture.raw();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    assert_eq!(fixture.reader().live().unwrap().len(), 1);
}
