//! Health, readiness, metrics, drain, and the records of calls.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::auth::Caller;
use super::{Site, answer};
use crate::admission::Closed;
use crate::admission::limits::CloseMode;
use crate::id::Stage;
use crate::runtime::service::Service;

/// How long a scrape waits for the store.
const STORE_MAX: Duration = Duration::from_secs(1);

/// 200 once bound, also while models load.
pub async fn healthz() -> Response {
    Json(json!({"status": "ok"})).into_response()
}

/// 200 when new calls are served; 503 while loading or draining, with why.
pub async fn readyz(State(site): State<Site>) -> Response {
    let service = &site.service;
    let (status, ready, why) = match (service.backends().is_some(), service.is_draining()) {
        (_, true) => (StatusCode::SERVICE_UNAVAILABLE, false, "draining"),
        (false, false) => (StatusCode::SERVICE_UNAVAILABLE, false, "loading"),
        (true, false) => (StatusCode::OK, true, "ready"),
    };
    let callbacks = service.promises().map_or("none".to_owned(), |promises| promises.health());
    (status, Json(json!({"ready": ready, "why": why, "callbacks": callbacks}))).into_response()
}

/// The Prometheus page.
pub async fn metrics(State(site): State<Site>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let seen = match site.service.promises() {
        // A store that is slow leaves its numbers out; the rest of the page is what says so.
        Some(promises) => tokio::time::timeout(STORE_MAX, promises.seen()).await.ok(),
        None => None,
    };
    let seen = seen.and_then(Result::ok);
    let port = site.port.as_ref().map(|port| port.stats());
    let page = site.service.metrics.page(&site.service, seen.as_ref(), port);
    ([(header::CONTENT_TYPE, kind)], page).into_response()
}

/// Every call, without traces.
pub async fn list(State(site): State<Site>, _: Caller) -> Response {
    Json(json!({
        "incarnation": site.service.incarnation,
        "calls": site.service.registry.list(),
    }))
    .into_response()
}

/// One call with its trace.
pub async fn show(State(site): State<Site>, _: Caller, Path(id): Path<String>) -> Response {
    match site.service.registry.find(&id) {
        Some(record) => Json(record.show()).into_response(),
        None => {
            let message = "There is no record of this call; /v1/calls lists those there are.";
            answer::error(StatusCode::NOT_FOUND, "unknown_call", message, Some("id"))
        }
    }
}

/// Whether new calls are refused, and how many still have a slot or are told goodbye.
pub async fn drain_state(State(site): State<Site>, _: Caller) -> Response {
    Json(draining(&site.service)).into_response()
}

fn draining(service: &Service) -> Value {
    // Read back from the gate itself: a drain that is not happening is never claimed (B-084).
    let closed = service.gates.look(Stage::Call, |gate| gate.closed()).flatten();
    json!({
        "incarnation": service.incarnation,
        "refusing_new": closed == Some(Closed::Draining),
        "in_flight": service.callers.with_slot(),
    })
}

/// Begins or ends a drain: the call gate closes, accepted calls keep their stages. Who waits
/// is told that the server drains, or let through first, as was asked for.
pub async fn drain(State(site): State<Site>, _: Caller, body: Bytes) -> Response {
    let wanted: Option<Value> = serde_json::from_slice(&body).ok();
    let enabled = wanted.as_ref().and_then(|body| body.get("enabled")).and_then(Value::as_bool);
    let Some(enabled) = enabled else {
        let message = "The body must be {\"enabled\": true} or {\"enabled\": false}.";
        return answer::error(StatusCode::BAD_REQUEST, "invalid_body", message, Some("enabled"));
    };
    let mode = match wanted.as_ref().and_then(|body| body.get("queue")) {
        None => CloseMode::EndQueue,
        Some(word) if word == "end_queue" => CloseMode::EndQueue,
        Some(word) if word == "finish_queue" => CloseMode::FinishQueue,
        Some(_) => {
            let message = "queue must be \"end_queue\" or \"finish_queue\".";
            let (code, param) = ("invalid_body", Some("queue"));
            return answer::error(StatusCode::BAD_REQUEST, code, message, param);
        }
    };
    let service = &site.service;
    service.set_draining(enabled);
    if enabled {
        service.gates.close(Stage::Call, Closed::Draining, mode);
    } else if service.backends().is_some() {
        service.gates.open(Stage::Call);
    }
    Json(draining(service)).into_response()
}
