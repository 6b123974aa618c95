//! How long a row that cannot be understood keeps its slot: one lease after it can last have been renewed, also where it
//! is so from the start, and whatever its worker does.

use hermes_pool::actors::SlotState;

use super::values::{cells, put, store};
use crate::support::{Running, Stage};

/// Poisoned columns of the row of slot 0.
const POISON: [&str; 3] = ["lease_until='abc'", "attempt='NaN'", "result_digest=''"];
/// More than one lease of 90 seconds with the time that the pool takes to notice, and less than two.
const LEASE_AND_A_MOMENT_SECONDS: u32 = 150;
/// How much time passes at once.
const STEP_SECONDS: u32 = 5;

/// Time passes until the slot is free of its row.
async fn until_let_go(pool: &mut Running<'_>, asks: bool, set: &str) {
    let sql = store(pool.stage);
    let worker = pool.worker(0);
    for _ in 0..LEASE_AND_A_MOMENT_SECONDS / STEP_SECONDS {
        pool.a_moment(f64::from(STEP_SECONDS)).await;
        if asks {
            let _ = worker.try_poll().await;
        }
        if cells(&sql, "assignments", "state='lease_failed'", set) == ["integer 31"] {
            assert!(worker.try_poll().await.is_ok(), "{set}");
            return;
        }
    }
    panic!("{set} keeps its slot, its worker asked: {asks}");
}

async fn poisoned(set: &str, asks: bool, restart: bool) {
    let mut stage = Stage::new(1);
    stage.settings.interval_seconds = 30.0;
    let board = stage.board("lab");
    stage.task(&board, "t");
    let mut pool = stage.start().await;
    pool.first_job(0).await;
    let (column, value) = set.split_once('=').unwrap();
    let poison = || {
        put(
            &store(&stage),
            "assignments",
            column,
            "state='running'",
            value,
        )
    };
    if restart {
        pool.stop().await;
        assert!(poison(), "{set}");
        pool = stage.start().await;
    } else {
        assert!(poison(), "{set}");
    }
    let slot = &pool.snapshot().await.slots[0];
    assert_eq!(slot.state, SlotState::Unreadable, "{set}");
    until_let_go(&mut pool, asks, set).await;
    let slot = &pool.snapshot().await.slots[0];
    assert_ne!(slot.state, SlotState::Unreadable, "{set}");
}

#[actix::test]
async fn a_row_that_is_poisoned_when_the_pool_starts_keeps_its_slot_for_one_lease() {
    for set in POISON {
        poisoned(set, true, true).await;
        poisoned(set, false, true).await;
    }
}

#[actix::test]
async fn a_row_that_is_poisoned_in_mid_run_keeps_its_slot_for_one_lease() {
    for set in POISON {
        poisoned(set, true, false).await;
        poisoned(set, false, false).await;
    }
}
