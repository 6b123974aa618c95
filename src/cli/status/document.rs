//! What `status` reads of the document of `GET /api/v1/pool`. It takes states by their names, so that one it does not know
//! yet is shown as it is; fields it does not know are left.
//!
//! Times are seconds since the epoch.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
pub(super) struct PoolDocument {
    pub(super) pool: PoolView,
    pub(super) slots: Vec<SlotView>,
    pub(super) boards: Vec<BoardView>,
    pub(super) deferrals: Vec<DeferralView>,
    /// Assignments by state.
    pub(super) counts: BTreeMap<String, u64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PoolView {
    pub(super) id: String,
    pub(super) version: String,
    pub(super) slots: u16,
    pub(super) ready: bool,
    pub(super) draining: bool,
    pub(super) reasons: Vec<String>,
    pub(super) started_at: f64,
    pub(super) now: f64,
}

#[derive(Debug, Deserialize)]
pub(super) struct SlotView {
    pub(super) ordinal: u16,
    pub(super) state: String,
    pub(super) board: Option<String>,
    pub(super) task: Option<String>,
    pub(super) run: Option<String>,
    pub(super) attempt: Option<i64>,
    pub(super) lease_until: Option<f64>,
    pub(super) last_seen: Option<f64>,
    pub(super) restarts: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct BoardView {
    pub(super) slug: String,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) last_pass: Option<f64>,
    pub(super) ready: u64,
    pub(super) restarts: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct DeferralView {
    pub(super) scope: String,
    pub(super) what: String,
    pub(super) why: String,
    pub(super) since: f64,
    pub(super) times: u64,
    pub(super) next_try: Option<f64>,
}
