//! Counts the requests that a server works on, over all its threads, and refuses the next one.
//!
//! A request counts from the end of its head to the end of its response's body, or until its connection breaks. It does
//! not count while its body is still arriving, so that slow senders, who need no key, take no place from anybody: what they
//! cost is bounded by the number of connections and by the time that a body may take. Nor does one that is refused.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::ConnectionType;
use actix_web::http::header::TRANSFER_ENCODING;
use actix_web::middleware::Next;
use actix_web::{HttpMessage, ResponseError};

use super::body::announced_length;
use super::error::HttpError;
use super::pace::Pace;
use super::turns::{Serving, Turns};
use super::unread::{ClosingBody, Held, keep_unread};

/// How many requests may be in flight, and how many are.
#[derive(Clone, Debug)]
pub struct RequestLimit(Arc<Count>);

#[derive(Debug)]
struct Count {
    limit: usize,
    in_flight: AtomicUsize,
    pace: Pace,
}

impl RequestLimit {
    /// At most `limit` at once.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Count {
            limit,
            in_flight: AtomicUsize::new(0),
            pace: Pace::new(),
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

fn has_chunks(request: &ServiceRequest) -> bool {
    request.headers().contains_key(TRANSFER_ENCODING)
}

fn begin_turn(request: &ServiceRequest) -> Option<Serving> {
    let length = announced_length(request.headers()).unwrap_or_default();
    let body = (!has_chunks(request)).then_some(length);
    let turns = request.conn_data::<Rc<Turns>>()?;
    Some(turns.begin(body))
}

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
        _serving: begin_turn(&request),
    };
    let has_chunks = has_chunks(&request);
    let mut response = match admitted {
        Ok(()) => next.call(request).await?.map_into_boxed_body(),
        Err(error) => request.into_response(error.error_response()),
    };
    if let Some(pause) = limit.0.pace.pause_before(response.response()) {
        place.leave();
        tokio::time::sleep(pause).await;
    }
    if has_chunks {
        let head = response.response_mut().head_mut();
        head.set_connection_type(ConnectionType::Close);
    }
    Ok(response.map_body(|_, body| ClosingBody::new(body, held)))
}
