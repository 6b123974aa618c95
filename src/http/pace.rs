//! How fast a flood is answered.
//!
//! No rate is limited, and no request is refused for it. But whoever comes again at once, whatever he is told, would keep
//! the processors busy with telling him so. So the answer waits that tells a client to come again later, and so does that
//! of an error when there were many of them lately; those of clients that make mistakes go out at once. An answer that
//! waits takes no place among the requests in flight.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use actix_web::HttpResponse;
use actix_web::http::header::RETRY_AFTER;

/// How long an answer waits. Differently each time, so that those who were refused together do not come again together.
const PAUSE_MILLIS: RangeInclusive<u64> = 100..=400;

/// How fast one server answers with errors.
#[derive(Debug)]
pub(super) struct Pace {
    since: Instant,
    /// Each one moves this on; how far it is ahead of the time tells how many there were lately. Milliseconds.
    paid_until: AtomicU64,
}

impl Pace {
    /// Errors that may come at once, and the milliseconds for one more.
    const AT_ONCE: u64 = 100;
    const MILLIS_EACH: u64 = 5;

    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            paid_until: AtomicU64::new(0),
        }
    }

    /// Counts one more; whether it may be answered at once.
    fn is_one_of_few(&self) -> bool {
        let now = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let more = |paid_until: u64| {
            let next = paid_until.max(now).saturating_add(Self::MILLIS_EACH);
            (next.saturating_sub(now) <= Self::AT_ONCE * Self::MILLIS_EACH).then_some(next)
        };
        self.paid_until
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    /// How long an answer has to wait; `None` for one that goes out at once.
    pub(super) fn pause_before<B>(&self, answer: &HttpResponse<B>) -> Option<Duration> {
        let comes_again = answer.headers().contains_key(RETRY_AFTER);
        let waits = comes_again || answer.error().is_some() && !self.is_one_of_few();
        waits.then(|| Duration::from_millis(fastrand::u64(PAUSE_MILLIS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_among_many_wait() {
        let pace = Pace::new();
        let at_once = (0..10_000).filter(|_| pace.is_one_of_few()).count() as u64;
        let meanwhile = pace.since.elapsed().as_millis() as u64 / Pace::MILLIS_EACH + 1;
        assert!((Pace::AT_ONCE..=Pace::AT_ONCE + meanwhile).contains(&at_once));
    }
}
