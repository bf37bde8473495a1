//! Pages of other origins (`auth.origins`): what browsers ask before they let one call us.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::{Site, auth};

/// What a page may read of our answers beside the body.
const EXPOSED: &str = "Location, Retry-After, X-Floorkeeper-Admission-Reason, X-Floorkeeper-Resume";
/// How long a browser may remember what we allow, in seconds.
const REMEMBERED_S: &str = "600";
const METHODS: &str = "POST, OPTIONS";

/// Answers what a browser asks first, and tells it that an allowed page may read the rest.
pub async fn allow(State(site): State<Site>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let Some(origin) = headers.get(header::ORIGIN).cloned() else { return next.run(request).await };
    if let Err(refused) = auth::check_origin(&site, headers) {
        return *refused;
    }
    let is_preflight = request.method() == Method::OPTIONS;
    let wanted = headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    if is_preflight {
        let methods = HeaderValue::from_static(METHODS);
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(REMEMBERED_S));
    }
    // Whatever the page wants to send: no header has a meaning here that it could abuse.
    if let Some(wanted) = wanted.filter(|_| is_preflight) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
    }
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    response
}

/// Which methods there are: the answer to a preflight, which [`allow`] completes.
pub async fn methods() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(METHODS));
    response
}
