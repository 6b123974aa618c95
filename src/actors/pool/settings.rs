//! What a pool is started with, and why it cannot be.

use std::path::PathBuf;
use std::time::Duration;

use crate::actors::state_dir::StateDirError;
use crate::domain::{BoardSlug, Lane, LeasePolicy, PoolId};
use crate::faults::Faults;

/// What a pool is started with.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// Identity on the boards, part of every claim.
    pub id: PoolId,
    /// Worker slots, 1 to 10,000.
    pub slots: u16,
    /// Leases and attempts.
    pub policy: LeasePolicy,
    /// Holds the store; made if it is not there.
    pub state_dir: PathBuf,
    /// The pool's master key.
    pub key_file: PathBuf,
    /// Assignees that this pool serves.
    pub lanes: Vec<Lane>,
    /// Boards to serve; empty for all.
    pub include: Vec<BoardSlug>,
    /// How often a board is looked at for changes.
    pub poll: Duration,
    /// Failures after which a task without its own limit is given up.
    pub failure_limit: i64,
    /// Longest time between two passes, in seconds.
    pub interval_seconds: f64,
    /// How long ended assignments are kept, in seconds.
    pub retention_seconds: u32,
    /// The tests' door; the default one lets everything pass.
    pub faults: Faults,
}

/// Why a pool cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// Its directory cannot be used, or belongs to another coordinator.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
}
