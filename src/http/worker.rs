//! The endpoints of the workers: `POST /v2/poll`, `/v2/heartbeat`, `/v2/result`.
//!
//! The way of one request: body within its limits → JSON → the ordinal, which selects the key → verification → that slot's
//! actor, which asks the store and signs → the answer, after the commit.
//!
//! What a message asks for takes place in the actors; a client that goes away cancels nothing but its own answer.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::http::header::ContentType;
use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};

use super::body::read_body;
use super::error::{HttpError, only};
use crate::actors::supervise::Unreached;
use crate::actors::{DeliveryError, Pool, Reply, ReplyStatus};
use crate::domain::Ordinal;
use crate::protocol::{Kind, ProtocolError, envelope_ordinal, parse_wire};
use crate::store::StoreError;

/// What the worker endpoints work with.
#[derive(Clone)]
pub struct WorkerDoor {
    /// The pool.
    pub pool: Pool,
    /// Time for a whole request to arrive.
    pub client_timeout: Duration,
}

/// Adds the worker endpoints.
pub fn worker_routes(door: WorkerDoor) -> impl Fn(&mut ServiceConfig) + Clone + Send + 'static {
    move |config| {
        config.app_data(Data::new(door.clone()));
        for (path, kind) in [
            ("/v2/poll", Kind::Poll),
            ("/v2/heartbeat", Kind::Heartbeat),
            ("/v2/result", Kind::Result),
        ] {
            let handler = move |request: HttpRequest, payload: Payload, door: Data<WorkerDoor>| async move {
                door.receive(kind, &request, payload).await
            };
            config.service(
                web::resource(path)
                    .post(handler)
                    .default_service(only("POST")),
            );
        }
    }
}

impl WorkerDoor {
    async fn receive(
        &self,
        kind: Kind,
        request: &HttpRequest,
        payload: Payload,
    ) -> Result<HttpResponse, HttpError> {
        let body = read_body(request, payload, self.client_timeout).await?;
        let message = parse_wire(&body).map_err(|error| self.refused(error))?;
        let slots = self.pool.settings().slots;
        let ordinal =
            Ordinal(envelope_ordinal(&message, slots).map_err(|error| self.refused(error))?);
        // Every slot below `slots` has an actor.
        let slot = self.pool.ordinal(ordinal).ok_or(HttpError::Unavailable)?;
        match slot.deliver(message, kind).await {
            Ok(reply) => Ok(signed(reply)),
            Err(error) => Err(self.undelivered(error)),
        }
    }

    fn refused(&self, error: ProtocolError) -> HttpError {
        HttpError::Protocol {
            error,
            now: self.pool.clock().now(),
        }
    }

    fn undelivered(&self, error: DeliveryError) -> HttpError {
        match error {
            DeliveryError::Protocol(error) => self.refused(error),
            DeliveryError::Unreached(Unreached::Full)
            | DeliveryError::Store(StoreError::Overloaded) => HttpError::Overloaded,
            DeliveryError::Unreached(Unreached::Down) | DeliveryError::NotReady => {
                HttpError::Unavailable
            }
            // The store itself has said what is wrong with it, and the ledger which row; the messages that meet it are too
            // many to be told.
            DeliveryError::Store(
                error @ (StoreError::Down
                | StoreError::Unknown
                | StoreError::File { .. }
                | StoreError::Illegal(_)),
            ) => {
                log::debug!("a worker's message was not carried out: {error}");
                HttpError::Unavailable
            }
            DeliveryError::Store(error) => {
                log::warn!("a worker's message was not carried out: {error}");
                HttpError::Unavailable
            }
        }
    }
}

fn signed(reply: Reply) -> HttpResponse {
    let status = match reply.status {
        ReplyStatus::Done => StatusCode::OK,
        ReplyStatus::Refused => StatusCode::CONFLICT,
        ReplyStatus::Unprocessable => StatusCode::UNPROCESSABLE_ENTITY,
    };
    HttpResponse::build(status)
        .content_type(ContentType::json())
        .body(reply.envelope)
}
