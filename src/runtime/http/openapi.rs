//! `/openapi.json`: the shapes of the JSON this server speaks.

use axum::http::header;
use axum::response::{IntoResponse, Response};

/// The description, written by hand beside the handlers and held to them by a test.
pub const OPENAPI: &str = include_str!("openapi.json");

/// The description.
pub async fn show() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}
