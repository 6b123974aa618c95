//! The `StoreActor` behind its handle: many callers, its bound, its rebirth, its collecting.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::{Arbiter, System};
use futures_util::FutureExt;
use hermes_pool::actors::store::{QUEUE_LIMIT, StoreHandle, StoreSettings, StoreStatus};
use hermes_pool::clock::ManualClock;
use hermes_pool::domain::Timestamp;
use hermes_pool::protocol::Kind;
use hermes_pool::store::operations::{Heartbeat, NoteConfirmed, Operation};
use hermes_pool::store::{FileProblem, Store, StoreError, Tx};
use rusqlite::Connection;

use super::fixtures::*;

struct Pool {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    handle: StoreHandle,
    arbiter: Arbiter,
}

impl Pool {
    /// An actor that was launched on an arbiter of its own.
    fn launch(folder: tempfile::TempDir) -> Self {
        let clock = ManualClock::at(START);
        let handle = StoreHandle::new(StoreSettings {
            path: folder.path().join("assignments.db"),
            slots: 3,
            retention_seconds: 3600,
            clock: clock.clone(),
            faults: hermes_pool::faults::Faults::default(),
        });
        let arbiter = Arbiter::new();
        handle.launch(&arbiter.handle());
        Self {
            folder,
            clock,
            handle,
            arbiter,
        }
    }

    async fn reaches(&self, wanted: impl Fn(&StoreStatus) -> bool) -> StoreStatus {
        let mut status = self.handle.watch();
        let reached = tokio::time::timeout(Duration::from_secs(20), status.wait_for(wanted));
        reached.await.unwrap().unwrap().clone()
    }
}

fn new_folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn beat(run: u32, ordinal: u16, id: &str) -> Heartbeat {
    let presented = presented(Kind::Heartbeat, &binding(run, ordinal), id);
    Heartbeat::new(presented, policy())
}

/// Panics inside its transaction.
struct Bug;

impl Operation for Bug {
    type Reply = ();

    fn apply(self, _tx: &Tx<'_>, _now: Timestamp) -> Result<(), StoreError> {
        panic!("a bug");
    }
}

#[test]
fn a_reply_leaves_after_its_commit_and_a_panic_ends_nothing_else() {
    System::new().block_on(async {
        let pool = Pool::launch(new_folder());
        let bound = binding(1, 0);
        pool.handle.call(addition(&bound)).await.unwrap();
        let calls = (0..50).map(|n| {
            let handle = pool.handle.clone();
            async move {
                match n % 5 {
                    0 => assert!(matches!(
                        handle.call(Bug).await,
                        Err(StoreError::Panicked(_))
                    )),
                    _ => assert!(handle.call(beat(1, 0, &format!("b{n}"))).await.is_ok()),
                }
            }
        });
        futures_util::future::join_all(calls).await;
        let raw = Connection::open(pool.folder.path().join("assignments.db")).unwrap();
        let sql = "SELECT count(*) FROM deliveries";
        let durable: i64 = raw.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(durable, 40);
        assert_eq!(pool.handle.waiting(), 0);
        assert_eq!(pool.handle.status(), StoreStatus::Ready);
    });
}

#[test]
fn past_its_limit_a_caller_is_refused_at_once_and_what_waits_is_carried_out() {
    System::new().block_on(async {
        let pool = Pool::launch(new_folder());
        pool.handle.call(addition(&binding(1, 0))).await.unwrap();
        let other = Connection::open(pool.folder.path().join("assignments.db")).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let confirm = || NoteConfirmed {
            key: key(1),
            at: START,
        };
        let mut calls: Vec<_> = (0..QUEUE_LIMIT)
            .map(|_| Box::pin(pool.handle.call(confirm())))
            .collect();
        for call in &mut calls {
            assert_eq!(call.now_or_never(), None);
        }
        assert_eq!(pool.handle.waiting(), QUEUE_LIMIT);
        let refused = pool.handle.call(confirm()).await;
        assert_eq!(refused, Err(StoreError::Overloaded));
        other.execute_batch("ROLLBACK").unwrap();
        for call in calls {
            assert_eq!(call.await, Ok(true));
        }
        assert_eq!(pool.handle.call(confirm()).await, Ok(true));
    });
}

#[test]
fn a_store_that_cannot_be_opened_says_why_and_the_same_handle_serves_after_the_next_launch() {
    System::new().block_on(async {
        let folder = new_folder();
        let path = folder.path().join("assignments.db");
        fs::write(&path, "no database at all ".repeat(50)).unwrap();
        let pool = Pool::launch(folder);
        let is_down = |status: &StoreStatus| matches!(status, StoreStatus::Down(_));
        let status = pool.reaches(is_down).await;
        assert!(
            matches!(
                &status,
                StoreStatus::Down(StoreError::File {
                    problem: FileProblem::Malformed(_),
                    ..
                })
            ),
            "{status:?}"
        );
        let refused = pool.handle.call(addition(&binding(1, 0))).await;
        assert_eq!(refused, Err(StoreError::Down));

        fs::remove_file(&path).unwrap();
        let (go_on, busy) = std::sync::mpsc::channel::<()>();
        pool.arbiter.spawn_fn(move || assert!(busy.recv().is_err()));
        pool.handle.launch(&pool.arbiter.handle());
        let StoreStatus::Down(error) = status else {
            unreachable!()
        };
        let reason_remains = StoreStatus::Opening { after: Some(error) };
        assert_eq!(pool.handle.status(), reason_remains);
        drop(go_on);
        pool.handle.call(addition(&binding(1, 0))).await.unwrap();
        pool.reaches(|status| *status == StoreStatus::Ready).await;
    });
}

/// Whether the store's file was taken away under its actor.
fn is_removed(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::File {
            problem: FileProblem::Removed,
            ..
        }
    )
}

#[test]
fn nothing_is_acknowledged_once_the_file_was_taken_away_and_it_goes_on_when_it_is_back() {
    System::new().block_on(async {
        let pool = Pool::launch(new_folder());
        pool.handle.call(addition(&binding(1, 0))).await.unwrap();
        let path = pool.folder.path().join("assignments.db");
        let away = pool.folder.path().join("away.db");
        let confirm = || NoteConfirmed {
            key: key(1),
            at: START,
        };
        fs::rename(&path, &away).unwrap();
        assert!(is_removed(&pool.handle.call(confirm()).await.unwrap_err()));
        fs::write(&path, "another file").unwrap();
        assert!(is_removed(&pool.handle.call(confirm()).await.unwrap_err()));
        assert!(matches!(pool.handle.status(), StoreStatus::Failing(error) if is_removed(&error)));
        fs::rename(&away, &path).unwrap();
        assert_eq!(pool.handle.call(confirm()).await, Ok(true));
        assert_eq!(pool.handle.status(), StoreStatus::Ready);
    });
}

#[test]
fn a_fault_that_passes_is_noticed_though_nobody_asks_for_anything() {
    System::new().block_on(async {
        let pool = Pool::launch(new_folder());
        pool.handle.call(addition(&binding(1, 0))).await.unwrap();
        let path = pool.folder.path().join("assignments.db");
        let away = pool.folder.path().join("away.db");
        fs::rename(&path, &away).unwrap();
        let confirm = NoteConfirmed {
            key: key(1),
            at: START,
        };
        assert!(is_removed(&pool.handle.call(confirm).await.unwrap_err()));
        fs::rename(&away, &path).unwrap();
        // The actor begins to wait a moment after its reply: one step of the clock could come too early.
        let as_time_passes = async {
            while pool.handle.status() != StoreStatus::Ready {
                pool.clock.advance(Duration::from_secs(2));
                tokio::task::yield_now().await;
            }
        };
        let noticed = tokio::time::timeout(Duration::from_secs(20), as_time_passes).await;
        assert_eq!(noticed, Ok(()), "{:?}", pool.handle.status());
    });
}

#[test]
fn an_actor_that_is_gone_is_replaced_behind_the_same_handle() {
    System::new().block_on(async {
        let pool = Pool::launch(new_folder());
        pool.handle.call(addition(&binding(1, 0))).await.unwrap();
        pool.arbiter.stop();
        let is_down = |status: &StoreStatus| matches!(status, StoreStatus::Down(_));
        pool.reaches(is_down).await;
        let refused = pool.handle.call(beat(1, 0, "b1")).await;
        assert_eq!(refused, Err(StoreError::Down));

        let stopped = pool.arbiter.handle();
        pool.arbiter.join().unwrap();
        pool.handle.launch(&stopped);
        assert_eq!(pool.handle.status(), StoreStatus::Down(StoreError::Down));

        let arbiter = Arbiter::new();
        pool.handle.launch(&arbiter.handle());
        pool.handle.launch(&arbiter.handle());
        assert!(pool.handle.call(beat(1, 0, "b1")).await.is_ok());
    });
}

/// Sends operations at once after one another, and now and then one a little later: each time a microsecond more, until
/// the actor, which awaits the next one for a while, has long gone to sleep. Returns how many were not carried out.
async fn call_sooner_and_later(handle: StoreHandle) -> usize {
    const LONGEST_PAUSE_MICROS: u64 = 150;
    const AT_ONCE: u32 = 12;
    let mut failed = 0;
    for micros in 0..LONGEST_PAUSE_MICROS {
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(micros) {
            std::hint::spin_loop();
        }
        for _ in 0..AT_ONCE {
            let confirm = NoteConfirmed {
                key: key(1),
                at: START,
            };
            failed += usize::from(handle.call(confirm).await != Ok(true));
        }
    }
    failed
}

#[test]
fn no_operation_is_overlooked_however_soon_it_follows_the_last_one() {
    System::new().block_on(async {
        let pool = Pool::launch(new_folder());
        pool.handle.call(addition(&binding(1, 0))).await.unwrap();
        for callers in 1..=2 {
            let threads: Vec<_> = (0..callers).map(|_| Arbiter::new()).collect();
            let (told, mut failed) = tokio::sync::mpsc::unbounded_channel();
            for thread in &threads {
                let (handle, told) = (pool.handle.clone(), told.clone());
                thread.spawn(async move {
                    told.send(call_sooner_and_later(handle).await).unwrap();
                });
            }
            for _ in 0..callers {
                let all_answered = tokio::time::timeout(Duration::from_secs(60), failed.recv());
                assert_eq!(all_answered.await, Ok(Some(0)), "{callers} callers");
            }
            threads.iter().for_each(|thread| assert!(thread.stop()));
        }
    });
}

/// Old deliveries, and a young one.
struct Deliveries(Connection);

impl Deliveries {
    /// Puts so many old ones into a new store.
    fn put_into(folder: &Path, old: u32) -> Self {
        let path = folder.join("assignments.db");
        drop(Store::open(&path, 3).unwrap());
        let raw = Connection::open(&path).unwrap();
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<?1)
                   INSERT INTO deliveries SELECT 'd'||i,'heartbeat','',1 FROM n";
        raw.execute(sql, [old]).unwrap();
        raw.execute_batch("INSERT INTO deliveries VALUES('young','heartbeat','',9e9)")
            .unwrap();
        Self(raw)
    }

    fn count(&self) -> i64 {
        let sql = "SELECT count(*) FROM deliveries";
        self.0.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

#[test]
fn what_is_old_enough_is_collected_as_time_passes() {
    System::new().block_on(async {
        let folder = new_folder();
        let deliveries = Deliveries::put_into(folder.path(), 2500);
        let pool = Pool::launch(folder);
        pool.reaches(|status| *status == StoreStatus::Ready).await;
        while deliveries.count() > 1 {
            pool.clock.advance(Duration::from_secs(61));
            pool.handle.call(beat(9, 0, "none")).await.unwrap_err();
        }
        assert_eq!(deliveries.count(), 1);
    });
}

#[test]
fn it_is_collected_too_while_the_store_is_never_idle() {
    const CALLERS: usize = 64;
    const MOST_CALLS: u32 = 2_000;
    System::new().block_on(async {
        let folder = new_folder();
        let deliveries = Deliveries::put_into(folder.path(), 500);
        let pool = Pool::launch(folder);
        pool.handle.call(addition(&binding(1, 0))).await.unwrap();
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                let handle = pool.handle.clone();
                actix::spawn(async move {
                    let confirm = || NoteConfirmed {
                        key: key(1),
                        at: START,
                    };
                    while handle.call(confirm()).await == Ok(true) {}
                })
            })
            .collect();
        let mut calls = 0;
        while deliveries.count() > 1 {
            pool.clock.advance(Duration::from_secs(61));
            pool.handle.call(beat(9, 0, "none")).await.unwrap_err();
            calls += 1;
            assert!(calls < MOST_CALLS, "nothing is collected");
        }
        callers.iter().for_each(tokio::task::JoinHandle::abort);
    });
}
