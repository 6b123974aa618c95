//! The one clock of a worker and its guard.
//!
//! A deadline crosses from one process to the other, so it has to mean the same in both, and it must keep its meaning
//! while either is frozen. It is counted since the host was started: no setting of the wall clock moves it, and where
//! the system offers it (Linux) time spent asleep counts, since leases end during it too.

use std::fmt;
use std::ops::Add;
use std::str::FromStr;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A point in time, in milliseconds since the host was started; the same for all of its processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(pub(super) u64);

impl Moment {
    /// This moment.
    pub(super) fn now() -> Self {
        let time = clock_gettime(CLOCK);
        // Neither part is ever negative.
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
        Self(seconds * 1000 + nanos / 1_000_000)
    }

    /// How long it is from this moment to a later one; zero if that has come already.
    pub(super) fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Moment {
    type Err = std::num::ParseIntError;

    fn from_str(millis: &str) -> Result<Self, Self::Err> {
        millis.parse().map(Self)
    }
}
