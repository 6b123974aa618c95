//! Isolation inside a group, on real files.

use std::sync::mpsc::{Receiver, channel};

use super::*;

const NOW: Timestamp = Timestamp(1_700_000_000.0);

/// Adds a delivery, and then goes on as told.
struct Deliver(&'static str, fn() -> Result<(), StoreError>);

impl Operation for Deliver {
    type Reply = &'static str;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<&'static str, StoreError> {
        add_delivery(tx, self.0, now)?;
        (self.1)()?;
        Ok(self.0)
    }
}

/// Adds a delivery that is larger than the file may grow.
struct Burst;

impl Operation for Burst {
    type Reply = &'static str;

    fn apply(self, tx: &Tx<'_>, now: Timestamp) -> Result<&'static str, StoreError> {
        add_delivery(tx, &"x".repeat(1 << 20), now)?;
        Ok("burst")
    }
}

fn add_delivery(tx: &Tx<'_>, id: &str, now: Timestamp) -> Result<usize, StoreError> {
    let sql = "INSERT INTO deliveries VALUES(?1,'heartbeat','',?2)";
    tx.execute(sql, rusqlite::params![id, now.0])
}

type Answer = Result<&'static str, StoreError>;

fn job<O: Operation<Reply = &'static str>>(operation: O) -> (Job, Receiver<Answer>) {
    let (sender, receiver) = channel();
    (
        Job::new(operation, move |answer| sender.send(answer).unwrap()),
        receiver,
    )
}

/// Commits a group; returns its verdict and the answers in order.
fn commit(
    store: &mut Store,
    members: Vec<(Job, Receiver<Answer>)>,
) -> (Result<(), StoreError>, Vec<Answer>) {
    let (jobs, receivers): (Vec<_>, Vec<_>) = members.into_iter().unzip();
    let (verdict, answers) = store.commit_group(jobs, NOW);
    answers.leave();
    let answers = receivers.iter().map(|answer| answer.recv().unwrap());
    (verdict, answers.collect())
}

/// What another connection sees.
fn delivered(store: &Store) -> Vec<String> {
    let connection = Connection::open(store.path()).unwrap();
    let mut query = connection
        .prepare("SELECT delivery_id FROM deliveries ORDER BY 1")
        .unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

fn new_store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("assignments.db"), 3).unwrap();
    (folder, store)
}

#[test]
fn an_operation_that_fails_or_panics_takes_back_what_it_wrote_and_nothing_else() {
    let (_folder, mut store) = new_store();
    let (verdict, answers) = commit(
        &mut store,
        vec![
            job(Deliver("a", || Ok(()))),
            job(Deliver("b", || Err(StoreError::Overloaded))),
            job(Deliver("c", || panic!("a bug"))),
            job(Deliver("d", || Ok(()))),
        ],
    );
    assert_eq!(verdict, Ok(()));
    let expected = [
        Ok("a"),
        Err(StoreError::Overloaded),
        Err(StoreError::Panicked("a bug".to_owned())),
        Ok("d"),
    ];
    assert_eq!(answers, expected);
    // Alone, too.
    for failing in [
        Deliver("e", || Err(StoreError::Overloaded)),
        Deliver("f", || panic!("a bug")),
    ] {
        let (verdict, answers) = commit(&mut store, vec![job(failing)]);
        assert_eq!(verdict, Ok(()));
        assert!(answers[0].is_err(), "{answers:?}");
    }
    assert_eq!(delivered(&store), ["a", "d"]);
}

#[test]
fn a_full_disk_in_the_middle_leaves_nothing_of_the_group_and_answers_all_of_it_unknown() {
    let (_folder, mut store) = new_store();
    let pages: i64 = store
        .connection
        .query_row("PRAGMA page_count", [], |row| row.get(0))
        .unwrap();
    let limit = |store: &Store, pages: i64| {
        let sql = format!("PRAGMA max_page_count={pages}");
        store
            .connection
            .query_row(&sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    limit(&store, pages + 10);
    let (verdict, answers) = commit(
        &mut store,
        vec![
            job(Deliver("before", || Ok(()))),
            job(Burst),
            job(Deliver("after", || Ok(()))),
        ],
    );
    assert!(verdict.is_err(), "{verdict:?}");
    assert_eq!(answers, vec![Err(StoreError::Unknown); 3]);
    let (verdict, answers) = commit(&mut store, vec![job(Burst)]);
    assert!(verdict.is_err(), "{verdict:?}");
    assert_eq!(answers, [Err(StoreError::Unknown)]);
    assert_eq!(delivered(&store), [""; 0]);

    limit(&store, 1 << 20);
    let (verdict, answers) = commit(&mut store, vec![job(Deliver("again", || Ok(())))]);
    assert_eq!((verdict, answers), (Ok(()), vec![Ok("again")]));
    assert_eq!(delivered(&store), ["again"]);
}

#[test]
fn a_commit_that_fails_leaves_nothing_and_answers_unknown() {
    let (_folder, mut store) = new_store();
    store.connection.commit_hook(Some(|| true)).unwrap();
    let (verdict, answers) = commit(&mut store, vec![job(Deliver("a", || Ok(())))]);
    assert!(verdict.is_err());
    assert_eq!(answers, [Err(StoreError::Unknown)]);

    store.connection.commit_hook(None::<fn() -> bool>).unwrap();
    let (verdict, answers) = commit(&mut store, vec![job(Deliver("b", || Ok(())))]);
    assert_eq!((verdict, answers), (Ok(()), vec![Ok("b")]));
    assert_eq!(delivered(&store), ["b"]);
}

#[test]
fn a_group_that_cannot_begin_is_answered_with_the_reason() {
    let (_folder, mut store) = new_store();
    store
        .connection
        .busy_timeout(std::time::Duration::ZERO)
        .unwrap();
    let other = Connection::open(store.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (verdict, answers) = commit(&mut store, vec![job(Deliver("a", || Ok(())))]);
    let locked = StoreError::file(store.path(), super::super::FileProblem::Locked);
    assert_eq!(verdict, Err(locked.clone()));
    assert_eq!(answers, [Err(locked)]);
}
