//! Counts the requests that a server works on, over all its threads, and refuses the next one at once.
//!
//! A request counts from the end of its head to the end of its response's body, or until its connection breaks. It does
//! not count while its body is still arriving, so that slow senders, who need no key, take no place from anybody: what they
//! cost is bounded by the number of connections and by the time that a body may take. Nor does one that is refused.
//!
//! No rate is limited. But a flood is not answered as fast as it comes: the answer to a request beyond the limit waits a
//! little, and so does that to an error when there are many of them.

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::header::RETRY_AFTER;
use actix_web::middleware::Next;
use actix_web::{HttpMessage, ResponseError};

use super::connections::{Connection, Serving};
use super::error::HttpError;
use super::unread::{ClosingBody, Held, keep_unread};

/// How many requests may be in flight, and how many are.
#[derive(Clone, Debug)]
pub struct RequestLimit(Arc<Count>);

#[derive(Debug)]
struct Count {
    limit: usize,
    in_flight: AtomicUsize,
    errors: Errors,
}

/// Errors that were answered at once. Those of clients that make mistakes are; those of a flood wait.
#[derive(Debug)]
struct Errors {
    since: Instant,
    /// Each one moves this on; how far it is ahead of the time tells how many there were lately. Milliseconds.
    paid_until: AtomicU64,
}

impl Errors {
    /// Errors that may come at once, and the milliseconds for one more.
    const AT_ONCE: u64 = 100;
    const MILLIS_EACH: u64 = 5;

    fn new() -> Self {
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
}

impl RequestLimit {
    /// At most `limit` at once.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Count {
            limit,
            in_flight: AtomicUsize::new(0),
            errors: Errors::new(),
        }))
    }

    /// How many may be in flight.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// How many are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.in_flight.load(Ordering::Relaxed)
    }

    /// Counts one more; false where the limit is reached.
    fn enter(&self) -> bool {
        let more = |count| (count < self.0.limit).then_some(count + 1);
        self.0
            .in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    fn leave(&self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The place of one request among those in flight, which it may leave and take again; gone with its last clone.
#[derive(Clone, Debug)]
pub(super) struct Place(Rc<PlaceOf>);

#[derive(Debug)]
struct PlaceOf {
    limit: RequestLimit,
    is_taken: Cell<bool>,
}

impl Place {
    fn of(limit: RequestLimit) -> Self {
        Self(Rc::new(PlaceOf {
            limit,
            is_taken: Cell::new(false),
        }))
    }

    /// Takes the place, unless it is taken already.
    ///
    /// # Errors
    /// [`HttpError::Overloaded`] where the limit is reached.
    pub(super) fn take(&self) -> Result<(), HttpError> {
        if !self.0.is_taken.get() {
            if !self.0.limit.enter() {
                return Err(HttpError::Overloaded);
            }
            self.0.is_taken.set(true);
        }
        Ok(())
    }

    /// Leaves the place to others.
    pub(super) fn leave(&self) {
        if self.0.is_taken.replace(false) {
            self.0.limit.leave();
        }
    }
}

impl Drop for PlaceOf {
    fn drop(&mut self) {
        if self.is_taken.get() {
            self.limit.leave();
        }
    }
}

/// How long the answer waits that tells a client to come again later, and that of an error among many. Whoever comes again
/// at once, whatever it is told, is slowed by it, and costs the others little. Of different length each time, so that those
/// who were refused together do not come again together.
const REFUSAL_PAUSE_MILLIS: RangeInclusive<u64> = 100..=400;

/// The gate that every request passes first.
pub(super) async fn admit<B: MessageBody + 'static>(
    limit: RequestLimit,
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<ClosingBody>, actix_web::Error> {
    let place = Place::of(limit.clone());
    let admitted = place.take();
    request.extensions_mut().insert(place.clone());
    let held = Held {
        _unread: keep_unread(&mut request),
        _place: place.clone(),
        _serving: request.conn_data::<Arc<Connection>>().map(Serving::on),
    };
    let response = match admitted {
        Ok(()) => next.call(request).await?.map_into_boxed_body(),
        Err(error) => request.into_response(error.error_response()),
    };
    let is_error = response.response().error().is_some();
    let comes_again = response.headers().contains_key(RETRY_AFTER);
    if comes_again || is_error && !limit.0.errors.is_one_of_few() {
        place.leave();
        let millis = fastrand::u64(REFUSAL_PAUSE_MILLIS);
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
    Ok(response.map_body(|_, body| ClosingBody::new(body, held)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_among_many_wait() {
        let errors = Errors::new();
        let at_once = (0..10_000).filter(|_| errors.is_one_of_few()).count() as u64;
        let meanwhile = errors.since.elapsed().as_millis() as u64 / Errors::MILLIS_EACH + 1;
        assert!((Errors::AT_ONCE..=Errors::AT_ONCE + meanwhile).contains(&at_once));
    }
}
