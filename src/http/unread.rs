//! Answers to requests whose body was not read to its end.
//!
//! The HTTP library goes on reading a chunked body that its handler dropped, for as long as the client sends, and only then
//! closes the connection. While the response body still holds the request's, it closes instead: the answer is written, what
//! still arrives is thrown away for a second at most (so that the client gets to read the answer), and that was it.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::HttpMessage;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::{Payload, ServiceRequest};
use actix_web::error::PayloadError;
use actix_web::web::Bytes;
use futures_util::Stream;

use super::limit::Place;
use super::turns::Serving;

/// The body of a request, shared by its handler and the response.
#[derive(Clone)]
pub(super) struct Unread(Rc<RefCell<Payload>>);

impl Stream for Unread {
    type Item = Result<Bytes, PayloadError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_next(context)
    }
}

/// Lets the handler read the body as before, and hands out what keeps it.
pub(super) fn keep_unread(request: &mut ServiceRequest) -> Unread {
    let unread = Unread(Rc::new(RefCell::new(request.take_payload())));
    request.set_payload(Payload::Stream {
        payload: Box::pin(unread.clone()),
    });
    unread
}

/// A response body that holds what lasts until it is sent.
pub(super) struct ClosingBody {
    body: BoxBody,
    _held: Held,
}

/// What belongs to a request until its response is sent.
pub(super) struct Held {
    /// Its body.
    pub(super) _unread: Unread,
    /// Its place among the requests in flight.
    pub(super) _place: Place,
    /// Its turn on its connection.
    pub(super) _serving: Option<Serving>,
}

impl ClosingBody {
    pub(super) fn new(body: BoxBody, held: Held) -> Self {
        Self { body, _held: held }
    }
}

impl MessageBody for ClosingBody {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }
}
