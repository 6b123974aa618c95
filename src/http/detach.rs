//! Work that outlives the client who asked for it.
//!
//! The HTTP library drops a handler when its client resets the connection. A mutation that has begun must not be cut off in
//! the middle: it runs as a task of its own, and the handler only waits for its answer.

use actix_web::{HttpMessage, HttpRequest};

use super::error::HttpError;
use super::limit::Permit;

/// Runs `work` to its end, whatever becomes of the client, and answers what it answers.
///
/// The request counts as one in flight until the work is done, so that clients who leave cannot pile up work.
///
/// # Errors
/// [`HttpError::Internal`] when the work panicked; the panic is logged.
pub async fn detach<T: 'static>(
    request: &HttpRequest,
    work: impl Future<Output = T> + 'static,
) -> Result<T, HttpError> {
    let permit = request.extensions().get::<Permit>().cloned();
    let task = actix_web::rt::spawn(async move {
        let _permit = permit;
        work.await
    });
    task.await.map_err(|error| {
        log::error!(
            "the work for a request to {} failed: {error}",
            request.path()
        );
        HttpError::Internal
    })
}
