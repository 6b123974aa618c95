//! Time, handed in. Nothing else in the crate reads the wall clock.
//!
//! [`SystemClock`] is the real one. [`ManualClock`] stands still until it is moved, and wakes whoever waits for a time
//! that was reached; tests use it in place of sleeping, across any number of threads.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::Notify;

use crate::domain::Timestamp;

/// A future that a clock completes.
pub type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where time comes from.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock.
    fn now(&self) -> Timestamp;

    /// Time since the clock was made; it never jumps.
    fn elapsed(&self) -> Duration;

    /// Completes about when the wall clock shows `deadline`, never much later; it may complete early, so whoever waits
    /// looks at the time again.
    fn wait_until(&self, deadline: Timestamp) -> Wait;

    /// Completes once this much time has passed, whatever the wall clock does.
    fn wait_for(&self, duration: Duration) -> Wait;
}

/// A clock shared by everything in one pool.
pub type SharedClock = Arc<dyn Clock>;

/// The real time.
#[derive(Debug)]
pub struct SystemClock {
    started: std::time::Instant,
}

impl SystemClock {
    /// A clock that counts from now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            started: std::time::Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

/// The longest single sleep: a wall clock that is set forward is noticed within it.
const SLEEP_SLICE: Duration = Duration::from_secs(30);

impl Clock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one place that reads the wall clock"
    )]
    fn now(&self) -> Timestamp {
        // A wall clock before 1970 is shown as 1970 rather than ending the process.
        Timestamp(
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs_f64(),
        )
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn wait_until(&self, deadline: Timestamp) -> Wait {
        let seconds = (deadline - self.now()).max(0.0);
        let slice = Duration::try_from_secs_f64(seconds)
            .unwrap_or(SLEEP_SLICE)
            .min(SLEEP_SLICE);
        Box::pin(tokio::time::sleep(slice))
    }

    fn wait_for(&self, duration: Duration) -> Wait {
        Box::pin(tokio::time::sleep(duration))
    }
}

/// A clock that moves when it is told to.
#[derive(Debug)]
pub struct ManualClock {
    state: Arc<Mutex<ManualState>>,
    moved: Arc<Notify>,
}

#[derive(Debug)]
struct ManualState {
    now: Timestamp,
    elapsed: Duration,
}

impl ManualClock {
    /// A clock that stands at `start`.
    #[must_use]
    pub fn at(start: Timestamp) -> Arc<Self> {
        Arc::new(Self {
            state: Arc::new(Mutex::new(ManualState {
                now: start,
                elapsed: Duration::ZERO,
            })),
            moved: Arc::new(Notify::new()),
        })
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        {
            let mut state = self.lock();
            state.now = state.now + by.as_secs_f64();
            state.elapsed += by;
        }
        self.moved.notify_waiters();
    }

    /// Sets the time of day by so many seconds, as people and time servers do: no time passes.
    pub fn set_by(&self, seconds: f64) {
        {
            let mut state = self.lock();
            state.now = state.now + seconds;
        }
        self.moved.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, ManualState> {
        locked(&self.state)
    }
}

fn locked(state: &Mutex<ManualState>) -> MutexGuard<'_, ManualState> {
    // The state is two plain numbers: a panic elsewhere cannot have left it half changed.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        self.lock().now
    }

    fn elapsed(&self) -> Duration {
        self.lock().elapsed
    }

    fn wait_until(&self, deadline: Timestamp) -> Wait {
        let (moved, state) = (Arc::clone(&self.moved), Arc::clone(&self.state));
        Box::pin(async move {
            loop {
                // Registered before the time is read, so that no move in between is missed.
                let moving = moved.notified();
                tokio::pin!(moving);
                moving.as_mut().enable();
                if locked(&state).now.0 >= deadline.0 {
                    return;
                }
                moving.await;
            }
        })
    }

    fn wait_for(&self, duration: Duration) -> Wait {
        let (moved, state) = (Arc::clone(&self.moved), Arc::clone(&self.state));
        let deadline = self.elapsed() + duration;
        Box::pin(async move {
            loop {
                let moving = moved.notified();
                tokio::pin!(moving);
                moving.as_mut().enable();
                if locked(&state).elapsed >= deadline {
                    return;
                }
                moving.await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_those_who_wait_when_it_moves() {
        let clock = ManualClock::at(Timestamp(100.0));
        let wait = clock.wait_until(Timestamp(160.0));
        clock.advance(Duration::from_secs(60));
        wait.await;
        assert_eq!(clock.now(), Timestamp(160.0));
        clock.wait_until(Timestamp(160.0)).await;
    }
}
