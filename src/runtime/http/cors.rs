//! Pages of other origins (`auth.origins`): what browsers ask before they let one call us.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;

use super::{Site, auth};

/// What a page may read of our answers beside the body.
const EXPOSED: &str = "Location, Retry-After, X-Floorkeeper-Admission-Reason";
/// How long a browser may remember what we allow, in seconds.
const REMEMBERED_S: &str = "600";

/// Answers what a browser asks first, and tells it that an allowed page may read the rest.
pub async fn allow(State(site): State<Site>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    let Some(origin) = headers.get(header::ORIGIN).cloned() else { return next.run(request).await };
    if let Err(refused) = auth::check_origin(&site, headers) {
        return *refused;
    }
    let asks = headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if request.method() == Method::OPTIONS && asks {
        preflight(headers.get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned())
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
    response
}

/// Whatever header the page wants to send: none has a meaning that a page could abuse.
fn preflight(wanted: Option<HeaderValue>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let methods = HeaderValue::from_static("POST, OPTIONS");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(REMEMBERED_S));
    if let Some(wanted) = wanted {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
    }
    response
}
