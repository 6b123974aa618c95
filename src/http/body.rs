//! Reads a request body, bounded in size and in time. Meanwhile the request takes no place among those in flight.

use std::time::Duration;

use actix_web::http::header::{CONTENT_LENGTH, HeaderMap};
use actix_web::web::{Bytes, BytesMut, Payload};
use actix_web::{HttpMessage, HttpRequest};
use futures_util::StreamExt;

use crate::protocol::MAX_WIRE_BYTES;

use super::error::HttpError;
use super::limit::Place;

/// Reads the whole body, which must arrive within `patience` from now. Only then does the request take its place.
///
/// A body is refused as soon as its length is known to be too long, whether it is announced or arrives in chunks.
///
/// # Errors
/// [`HttpError::EmptyBody`], [`HttpError::OversizedBody`], [`HttpError::IncompleteBody`] or [`HttpError::Timeout`];
/// [`HttpError::Overloaded`] where all places are taken by then.
pub async fn read_body(
    request: &HttpRequest,
    payload: Payload,
    patience: Duration,
) -> Result<Bytes, HttpError> {
    let announced = announced_length(request.headers());
    if announced.is_some_and(|length| length > MAX_WIRE_BYTES) {
        return Err(HttpError::OversizedBody);
    }
    let place = request.extensions().get::<Place>().cloned();
    if let Some(place) = &place {
        place.leave();
    }
    let body = tokio::time::timeout(patience, collect(payload, announced.unwrap_or_default()))
        .await
        .map_err(|_| HttpError::Timeout)??;
    if let Some(place) = &place {
        place.take()?;
    }
    if body.is_empty() {
        return Err(HttpError::EmptyBody);
    }
    Ok(body)
}

async fn collect(mut payload: Payload, announced: usize) -> Result<Bytes, HttpError> {
    let mut body = BytesMut::with_capacity(announced);
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|_| HttpError::IncompleteBody)?;
        if body.len() + chunk.len() > MAX_WIRE_BYTES {
            return Err(HttpError::OversizedBody);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// The server has refused lengths that are no numbers; one beyond a machine word is too long all the same.
pub(super) fn announced_length(headers: &HeaderMap) -> Option<usize> {
    let text = headers.get(CONTENT_LENGTH)?.to_str().ok()?;
    Some(text.trim().parse().unwrap_or(usize::MAX))
}
