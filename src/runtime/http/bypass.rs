//! Requests that pass no gate, counted by what they are (B-010).

use axum::extract::{Request, State};
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::Response;

use super::{Site, asterisk, peers, twilio};
use crate::runtime::metrics::Bypass;

/// Counts a request that no gate decides about.
pub(super) async fn counted(State(site): State<Site>, request: Request, next: Next) -> Response {
    if let Some(what) = bypass(request.method(), request.uri()) {
        site.service.metrics.bypassed(what);
    }
    next.run(request).await
}

fn bypass(method: &Method, uri: &Uri) -> Option<Bypass> {
    match uri.path() {
        // Beside a call that has its slot.
        "/v1/realtime" if names_call(uri.query()) => Some(Bypass::Control),
        // A call: the call gate decides.
        "/v1/realtime" | asterisk::PATH => None,
        // A promise: the callback gate decides.
        path if method == Method::POST && is_promise(path) => None,
        path if twilio::is_call(path) || peers::is_call(path) => None,
        "/healthz" | "/readyz" => Some(Bypass::Health),
        "/metrics" => Some(Bypass::Metrics),
        path if path.starts_with("/v1/") => Some(Bypass::Control),
        _ => Some(Bypass::Page),
    }
}

fn names_call(query: Option<&str>) -> bool {
    query.is_some_and(|query| query.split('&').any(|field| field.starts_with("call_id=")))
}

/// A callback is asked for, or a dead letter once more.
fn is_promise(path: &str) -> bool {
    let below = path.strip_prefix("/v1/callbacks");
    below.is_some_and(|below| below.is_empty() || below.ends_with("/replay"))
}
