//! Hermes beside us: the program's own process and Hermes itself at work on the same board, with freezes, deaths, locks and
//! storms between them.
//!
//! Where each scenario is shown:
//!
//! | scenario | where |
//! |---|---|
//! | D01 order of work | `tests/scenarios/d01_order_of_work.json` |
//! | D02 claim | `tests/scenarios/d02_claim.json` |
//! | D03 claimers that race | `rivals.rs` (two pools and Hermes); `tests/hermes/race.rs`; `tests/scenarios/d03_second_claimer.json` |
//! | D04 parent gate | `tests/scenarios/d04_parent_gate.json` |
//! | D05 completion of the exact run | `tests/scenarios/d05_complete.json` |
//! | D06 stale worker | `frozen.rs`; `tests/scenarios/d06_stale_worker.json` |
//! | D07 where a block lands | `tests/scenarios/d07_block_routing.json`; `tests/pool/results.rs` (the alarm) |
//! | D08 five hours | `tests/scenarios/d08_keep_alive.json`; `tests/pool/ownership.rs` |
//! | D09 dead coordinator, dispatcher present | `dead.rs` |
//! | D10 dead coordinator, no dispatcher | `dead.rs`; `tests/whole_run/kill_worker.rs` |
//! | D11 crash around a commit | `tests/whole_run/kill_points.rs` |
//! | D12 board archived | `board.rs`; `tests/hermes/identity.rs`; `tests/scenarios/d12_board_removed.json` |
//! | D13 busy board | `board.rs`; `tests/hermes/identity.rs` |
//! | D14 names that collide | `board.rs`; `tests/scenarios/d14_lane_becomes_profile.json`; `src/config/tests.rs` (`default`) |
//! | D15 older boards | `tests/hermes/versions.rs` with `tests/scenarios/versions` |
//!
//! Fifteen minutes, the life of a claim, pass at once: its end on the board, and the time of the pool's last extension in
//! its store, are set back by another process while the coordinator does not look. Where there is no Python with Hermes the
//! tests say so and pass, except under `CI=true`.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

mod board;
mod dead;
mod frozen;
#[path = "../http/message.rs"]
#[expect(dead_code, reason = "hostile messages are written in tests/http")]
mod message;
#[path = "../support/oracle.rs"]
#[expect(dead_code, reason = "other tests ask for more")]
mod oracle;
#[path = "../attack/peer.rs"]
#[expect(dead_code, reason = "tests/attack does more to its target")]
mod peer;
#[path = "../serve/process.rs"]
#[expect(dead_code, reason = "tests/serve does more with a process")]
mod process;
#[path = "../support/python.rs"]
mod python;
mod rivals;
mod stage;
mod storm;
mod whole_run;
#[path = "../http/wire.rs"]
#[expect(dead_code, reason = "tests/http does more with a connection")]
mod wire;

/// What the borrowed connection takes from `tests/support`.
mod support {
    pub(crate) use super::process::PATIENCE;
}
