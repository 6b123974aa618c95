//! Counts the requests that a server works on, over all its threads, and refuses the next one at once.
//!
//! A request counts from the end of its head to the end of its response's body, or until its connection breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use actix_web::ResponseError;
use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::middleware::Next;

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
}

impl RequestLimit {
    /// At most `limit` at once.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Count {
            limit,
            in_flight: AtomicUsize::new(0),
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

    /// Counts one more; `None` where the limit is reached.
    fn enter(&self) -> Option<Permit> {
        self.0
            .in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < self.0.limit).then_some(count + 1)
            })
            .ok()?;
        Some(Permit(self.clone()))
    }
}

/// One request in flight.
#[derive(Debug)]
pub(super) struct Permit(RequestLimit);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The gate that every request passes first.
pub(super) async fn admit<B: MessageBody + 'static>(
    limit: RequestLimit,
    mut request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<ClosingBody>, actix_web::Error> {
    let permit = limit.enter();
    let is_admitted = permit.is_some();
    let held = Held {
        _unread: keep_unread(&mut request),
        _permit: permit,
        _serving: request.conn_data::<Arc<Connection>>().map(Serving::on),
    };
    let response = if is_admitted {
        next.call(request).await?.map_into_boxed_body()
    } else {
        request.into_response(HttpError::Overloaded.error_response())
    };
    Ok(response.map_body(|_, body| ClosingBody::new(body, held)))
}
