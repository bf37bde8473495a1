//! Requests that pass no gate, counted by what they are (B-010).

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use super::{Site, peers, twilio};
use crate::runtime::metrics::Bypass;

/// Counts a request that no gate decides about.
pub(super) async fn counted(State(site): State<Site>, request: Request, next: Next) -> Response {
    if let Some(what) = bypass(request.uri().path()) {
        site.service.metrics.bypassed(what);
    }
    next.run(request).await
}

fn bypass(path: &str) -> Option<Bypass> {
    match path {
        // A call: the call gate decides.
        "/v1/realtime" => None,
        path if twilio::is_call(path) || peers::is_call(path) => None,
        "/healthz" | "/readyz" => Some(Bypass::Health),
        "/metrics" => Some(Bypass::Metrics),
        path if path.starts_with("/v1/") => Some(Bypass::Control),
        _ => Some(Bypass::Page),
    }
}
