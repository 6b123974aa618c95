//! The numbers that rule leases and claims. Those an operator sets are in [`LeasePolicy`]; the rest follow from Hermes.

/// How long a claim on a board lives without an extension: Hermes' own default.
pub const CLAIM_TTL_SECONDS: i64 = 900;
/// How often a claim is extended: two failures in a row must be survivable.
pub const EXTEND_SECONDS: f64 = 60.0;
/// How often a board is told that the worker lives. Hermes takes a run away after 3600 s without; each beat adds an event row.
pub const BOARD_HEARTBEAT_SECONDS: f64 = 900.0;
/// Without an extension for this long the worker is stopped: Hermes is about to hand the card to the next claimer.
pub const SELF_FENCE_SECONDS: f64 = CLAIM_TTL_SECONDS as f64 - 120.0;
/// How long a result may wait for its board before its slot is freed. Settling goes on after that.
pub const SETTLE_PATIENCE_SECONDS: f64 = 10.0;
/// A board that seems gone or replaced is believed only after two looks at least this far apart.
pub const GONE_LOOKS_APART_SECONDS: f64 = 60.0;
/// Offers of one attempt. The next one fences it, so that a task which kills its worker cannot loop for ever.
pub const OFFERS_PER_ATTEMPT: u32 = 5;

/// The operator's numbers, within the limits of the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeasePolicy {
    lease_seconds: f64,
    max_attempts: i64,
    offer_timeout_seconds: f64,
}

impl LeasePolicy {
    /// Takes the configured numbers: the lease is clamped to 60..=600 s, the attempts to 1..=10.
    #[must_use]
    pub fn clamped(lease_seconds: i64, max_attempts: i64, offer_timeout_seconds: u32) -> Self {
        Self {
            lease_seconds: lease_seconds.clamp(60, 600) as f64,
            max_attempts: max_attempts.clamp(1, 10),
            offer_timeout_seconds: f64::from(offer_timeout_seconds),
        }
    }

    /// Length of a lease.
    #[must_use]
    pub fn lease_seconds(&self) -> f64 {
        self.lease_seconds
    }

    /// Attempts before an assignment is given up.
    #[must_use]
    pub fn max_attempts(&self) -> i64 {
        self.max_attempts
    }

    /// How long an assignment waits to be fetched by its worker.
    #[must_use]
    pub fn offer_timeout_seconds(&self) -> f64 {
        self.offer_timeout_seconds
    }
}
