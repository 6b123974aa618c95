//! A test that drives the pool from code. It stands in the README too, to the letter.

use std::sync::Arc;
use std::time::Duration;

use hermes_pool::actors::{Pool, PoolEvent, PoolSettings};
use hermes_pool::board::hermes::{BoardDetails, HermesBoards, NewTask, Settings};
use hermes_pool::clock::ManualClock;
use hermes_pool::domain::{BoardSlug, Lane, LeasePolicy, Ordinal, PoolId, Timestamp};
use hermes_pool::faults::Faults;
use hermes_pool::protocol::{
    Binding, Json, Kind, derive_ordinal_key, generate_key, parse_wire, sign_envelope,
    verify_envelope, write_key_file,
};

const START: i64 = 1_800_000_000;
const PATIENCE: Duration = Duration::from_secs(20);

#[actix::test]
async fn an_attempt_that_falls_silent_is_fenced_at_its_deadline() {
    // A board with one task, as Hermes would make them.
    let folder = tempfile::tempdir().unwrap();
    let boards = HermesBoards::new(folder.path().join("hermes"), Settings::default());
    let slug = BoardSlug::parse("lab").unwrap();
    boards
        .create(&slug, &BoardDetails::default(), START)
        .unwrap();
    let task = NewTask {
        title: "t".into(),
        assignee: Some("codex-cli".into()),
        ..NewTask::default()
    };
    boards
        .open(&slug)
        .unwrap()
        .create_task(&task, START)
        .unwrap();

    // A pool of one slot, with a clock that stands still until it is moved.
    let master = generate_key().unwrap();
    let key_file = folder.path().join("pool.key");
    write_key_file(&key_file, &master).unwrap();
    let clock = ManualClock::at(Timestamp::from(START));
    let settings = PoolSettings {
        id: PoolId::parse("example").unwrap(),
        slots: 1,
        policy: LeasePolicy::clamped(90, 3, 300),
        state_dir: folder.path().join("state"),
        key_file,
        lanes: vec![Lane::parse("codex-cli").unwrap()],
        include: Vec::new(),
        poll: Duration::from_millis(10),
        failure_limit: 2,
        interval_seconds: 5.0,
        retention_seconds: 604_800,
        faults: Faults::default(),
    };
    let pool = Pool::start(settings, clock.clone(), Arc::new(boards)).unwrap();
    let mut events = pool.listen();
    pool.opened().await;

    // The slot's worker asks for work, and waits for it.
    let key = derive_ordinal_key(&master, 0, 1).unwrap();
    let wait = Json::object([("wait_seconds", Json::from(30_i64))]);
    let poll = sign_envelope(
        &key,
        Kind::Poll,
        &Binding::without_run(0),
        &wait,
        START,
        120,
        None,
    )
    .unwrap();
    let slot = pool.ordinal(Ordinal(0)).unwrap();
    let reply = slot
        .deliver(parse_wire(&poll).unwrap(), Kind::Poll)
        .await
        .unwrap();
    let offer =
        verify_envelope(&key, parse_wire(&reply.envelope).unwrap(), None, START, 1).unwrap();
    assert_eq!(offer.kind, Kind::Assignment);

    // It says nothing more. One lease later its attempt is fenced, and the run waits under the next one.
    clock.advance(Duration::from_millis(90_500));
    let fenced = events
        .wait_for(PATIENCE, |event| matches!(event, PoolEvent::Fenced(_)))
        .await
        .unwrap();
    let PoolEvent::Fenced(binding) = fenced else {
        unreachable!("only this event was waited for")
    };
    assert_eq!(binding.attempt.0, 2);
}

#[test]
fn the_readme_shows_this_very_test() {
    let example = include_str!("readme.rs");
    let test = example.split("\n#[test]").next().unwrap_or_default();
    let shown = test
        .split_once("\n\n")
        .map_or(test, |(_, code)| code)
        .trim_end();
    assert!(
        include_str!("../README.md").contains(shown),
        "README.md shows another test than tests/readme.rs"
    );
}
