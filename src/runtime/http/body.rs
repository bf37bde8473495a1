//! Bodies of requests: read whole, bounded in bytes and in time, before anybody looks at them.

use std::error::Error;

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::LengthLimitError;

use super::answer;
use super::realtime::HANDSHAKE_MAX;

/// Bytes of a request's body; the largest that means anything is a session's settings.
const BODY_MAX: usize = 64 * 1024;

/// Reads the body, or answers for it.
pub(super) async fn whole(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    match tokio::time::timeout(HANDSHAKE_MAX, to_bytes(body, BODY_MAX)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Ok(Err(problem)) if problem.source().is_some_and(|why| why.is::<LengthLimitError>()) => {
            let message = format!("The body may have {BODY_MAX} bytes at most.");
            answer::error(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", &message, None)
        }
        Ok(Err(problem)) => {
            let message = format!("The body cannot be read: {problem}.");
            answer::error(StatusCode::BAD_REQUEST, "invalid_body", &message, None)
        }
        Err(_) => {
            let message = "The body has to come within five seconds.";
            answer::error(StatusCode::REQUEST_TIMEOUT, "body_too_slow", message, None)
        }
    }
}
