//! How long to wait before asking again.
//!
//! Workers that lost the same coordinator must not return in step, so the wait is random up to a bound that doubles.

use std::time::Duration;

/// The bound of the first wait.
const FIRST: Duration = Duration::from_millis(200);

/// The bound that is never passed.
const LONGEST: Duration = Duration::from_secs(10);

/// The longest `Retry-After` that is taken at its word.
const LONGEST_ASKED_FOR: Duration = Duration::from_secs(60);

/// The state of a row of attempts that failed.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after one more failure. `chance` is a random number in `0.0..1.0`; a wait that the other end asked for
    /// is the least.
    pub(super) fn next(&mut self, asked_for: Option<Duration>, chance: f64) -> Duration {
        let bound = FIRST
            .saturating_mul(2_u32.saturating_pow(self.failures))
            .min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        // At least half of the bound: a wait of almost nothing would be no wait.
        let jittered = bound.mul_f64(0.5 + chance / 2.0);
        let asked_for = asked_for.unwrap_or_default().min(LONGEST_ASKED_FOR);
        if asked_for > jittered {
            asked_for + FIRST.mul_f64(chance)
        } else {
            jittered
        }
    }

    /// An attempt succeeded.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..8)
            .map(|_| backoff.next(None, 0.0).as_millis())
            .collect();
        assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        backoff.reset();
        assert_eq!(backoff.next(None, 0.5), Duration::from_millis(150));
    }

    #[test]
    fn a_wait_that_is_asked_for_is_kept_within_reason() {
        for (asked_for, wait) in [(0, 100), (5, 5_000), (60, 60_000), (86_400, 60_000)] {
            let asked_for = Some(Duration::from_secs(asked_for));
            let millis = Backoff::default().next(asked_for, 0.0).as_millis();
            assert_eq!(millis, wait, "{asked_for:?}");
        }
        let late = Backoff::default().next(Some(Duration::from_secs(1)), 0.5);
        assert_eq!(late, Duration::from_millis(1_100), "jitter on top");
    }

    #[test]
    fn no_number_of_failures_overflows() {
        let mut backoff = Backoff { failures: u32::MAX };
        assert_eq!(backoff.next(None, 0.0), Duration::from_secs(5));
    }
}
