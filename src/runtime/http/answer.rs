//! Errors over HTTP: JSON with a stable code, what was wrong, and what would be right.

use axum::Json;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::admission::gate::Counts;
use crate::admission::limits::Mode;
use crate::id::Stage;
use crate::runtime::http::slot::NoSlot;
use crate::runtime::service::Service;

/// An error as clients of this API are told it.
pub fn error(status: StatusCode, code: &str, message: &str, param: Option<&str>) -> Response {
    let kind = if status.is_server_error() { "server_error" } else { "invalid_request_error" };
    let body = json!({"error": {
        "message": message, "type": kind, "param": param, "code": code,
    }});
    no_store((status, Json(body)).into_response())
}

/// There is no such path.
pub async fn not_found() -> Response {
    let message = "There is nothing at this path; /openapi.json lists what there is.";
    error(StatusCode::NOT_FOUND, "not_found", message, None)
}

/// The path is there, but not for this method.
pub async fn wrong_method() -> Response {
    let message = "This path has other methods; /openapi.json lists them, \"Allow\" too.";
    error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message, None)
}

fn no_store(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A gate's refusal before an upgrade, or a wait that ended without a unit (DESIGN section 3, *HTTP
/// mapping*; X-18, B-068…B-075).
pub fn no_slot(service: &Service, stage: Stage, none: &NoSlot, queued_ms: u64) -> Response {
    let (row, retry_after_s) = none.told(&service.gates, stage);
    // Who was refused at once did not wait.
    let queued_ms = matches!(none, NoSlot::Ended(_)).then_some(queued_ms);
    told(service, stage, row, retry_after_s, queued_ms)
}

/// An admitted answer tells the gate's counts as well, this one counted (B-078…B-080).
pub fn expose(service: &Service, stage: Stage, headers: &mut HeaderMap) {
    let now = service.clock.now();
    let counts = service.gates.look(stage, |gate| gate.counts(now));
    if let Some(counts) = counts.filter(|counts| counts.mode != Mode::Off) {
        add_counts(headers, &counts);
    }
}

/// Live counts and the ceiling in force, 0 if there is none (B-069).
fn add_counts(headers: &mut HeaderMap, counts: &Counts) {
    let limit = counts.in_force.map_or(0, u64::from);
    headers.insert("x-floorkeeper-admission-inflight", counts.active.into());
    headers.insert("x-floorkeeper-admission-queued", counts.queued.into());
    headers.insert("x-floorkeeper-admission-limit", limit.into());
}

fn told(
    service: &Service,
    stage: Stage,
    row: &crate::admission::disposition::Disposition,
    retry_after_s: Option<u32>,
    queued_ms: Option<u64>,
) -> Response {
    if stage == Stage::Call {
        service.metrics.call_refused(row.http_code);
    }
    let now = service.clock.now();
    let counts = service.gates.look(stage, |gate| gate.counts(now));
    // A hint spreads retries; its value is no secret and needs no entropy.
    let jitter_ms = now.as_micros() % 1_000;
    let message = format!("The {stage} gate refused: {row}.");
    let body = json!({
        "error": {
            "message": message, "type": "admission_error", "param": null, "code": row.http_code,
        },
        "gate": service.gate_name(stage),
        "disposition": row.label,
        "reason": row.reason,
        "retry_after": retry_after_s,
        "jitter_hint_ms": jitter_ms,
        "queued_ms": queued_ms,
    });
    let status = StatusCode::from_u16(row.http_status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let mut response = no_store((status, Json(body)).into_response());
    let headers = response.headers_mut();
    if let Some(seconds) = retry_after_s {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(counts) = counts {
        add_counts(headers, &counts);
    }
    let reason = if row.reason.is_empty() { row.label } else { row.reason };
    headers.insert("x-floorkeeper-admission-reason", HeaderValue::from_static(reason));
    response
}
