//! How long the worker may believe that a run is its own.
//!
//! The pool extends a lease when it answers, which is never before the request was sent. So the time of *sending* plus
//! the length of the lease is a moment at which the pool still grants it, whatever the network did in between; a margin
//! before it leaves time to stop the command and makes up for clocks that do not run at the same speed.

use std::time::Duration;

use super::moment::Moment;

/// The longest that is taken off for the margin.
const LONGEST_MARGIN: Duration = Duration::from_secs(5);

/// The longest that a heartbeat may wait for its answer.
const LONGEST_REQUEST: Duration = Duration::from_secs(10);

/// A lease that was granted, and until when it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    length: Duration,
    deadline: Moment,
}

impl Lease {
    /// The lease granted in answer to a request that was sent at `sent`.
    pub(super) fn granted(sent: Moment, length_seconds: u64) -> Self {
        let mut lease = Self {
            length: Duration::from_secs(length_seconds),
            deadline: sent,
        };
        lease.extend(sent);
        lease
    }

    /// The lease was extended in answer to a request that was sent at `sent`.
    pub(super) fn extend(&mut self, sent: Moment) {
        let margin = (self.length / 10).min(LONGEST_MARGIN);
        self.deadline = self.deadline.max(sent + (self.length - margin));
    }

    /// When the run has to have stopped, unless the lease is extended before.
    pub(super) fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Whether the run may not go on.
    pub(super) fn has_passed(&self, now: Moment) -> bool {
        now >= self.deadline
    }

    /// Whether there is time enough to start the command and have its first heartbeat answered.
    pub(super) fn is_long_enough_to_start(&self, now: Moment) -> bool {
        now.until(self.deadline) >= self.length / 3
    }

    /// From one heartbeat to the next.
    pub(super) fn beat_interval(&self) -> Duration {
        self.length / 3
    }

    /// From a heartbeat without an answer to the next.
    pub(super) fn retry_interval(&self) -> Duration {
        self.length / 12
    }

    /// How long a heartbeat waits for its answer, so that others still fit into the lease.
    pub(super) fn request_limit(&self) -> Duration {
        (self.length / 6).min(LONGEST_REQUEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Moment = Moment(1_000_000);

    fn after(millis: u64) -> Moment {
        Moment(SENT.0 + millis)
    }

    #[test]
    fn a_lease_ends_a_margin_before_the_pool_can_end_it() {
        for (length_seconds, deadline) in [
            (0, SENT),
            (1, after(900)),
            (2, after(1_800)),
            (60, after(55_000)),
            (90, after(85_000)),
            (600, after(595_000)),
        ] {
            let lease = Lease::granted(SENT, length_seconds);
            assert_eq!(lease.deadline(), deadline, "{length_seconds} s");
        }
        assert!(
            Lease::granted(SENT, u64::MAX).deadline() > after(1),
            "no overflow"
        );
    }

    #[test]
    fn an_extension_counts_from_its_sending_and_never_shortens() {
        let mut lease = Lease::granted(SENT, 90);
        lease.extend(after(30_000));
        assert_eq!(lease.deadline(), after(115_000));
        lease.extend(after(10_000));
        assert_eq!(
            lease.deadline(),
            after(115_000),
            "an answer that was overtaken"
        );
    }

    #[test]
    fn a_lease_has_passed_from_its_deadline_on() {
        let lease = Lease::granted(SENT, 60);
        for (now, passed) in [(0, false), (54_999, false), (55_000, true), (90_000, true)] {
            assert_eq!(lease.has_passed(after(now)), passed, "{now} ms");
        }
    }

    #[test]
    fn a_command_is_started_only_with_a_third_of_its_lease_ahead() {
        let lease = Lease::granted(SENT, 60);
        for (now, enough) in [(0, true), (30_000, true), (35_000, true), (35_001, false)] {
            assert_eq!(
                lease.is_long_enough_to_start(after(now)),
                enough,
                "{now} ms"
            );
        }
    }

    #[test]
    fn a_heartbeat_that_is_lost_leaves_time_for_others() {
        for length_seconds in [2, 60, 90, 600] {
            let lease = Lease::granted(SENT, length_seconds);
            let third_try = SENT
                + (lease.beat_interval() + (lease.request_limit() + lease.retry_interval()) * 2);
            assert!(!lease.has_passed(third_try), "{length_seconds} s");
        }
    }
}
