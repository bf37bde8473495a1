//! The gates over HTTP: what is declared, in force and live; changes in place; the ledger.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::{Site, answer, auth, shown};
use crate::id::Stage;
use crate::runtime::change::{Change, Wrong};
use crate::runtime::ledgers;
use crate::runtime::service::Service;

/// Every gate.
pub async fn list(State(site): State<Site>, headers: HeaderMap) -> Response {
    if let Err(refused) = auth::check(&site, &headers) {
        return *refused;
    }
    let service = &site.service;
    let gates: Vec<Value> =
        service.gates.stages().filter_map(|stage| shown::gate(&site, stage)).collect();
    no_store(json!({
        "incarnation": service.incarnation,
        "draining": service.is_draining(),
        "bypasses": service.metrics.bypasses(),
        "gates": gates,
    }))
}

/// One gate, with everything that it keeps.
pub async fn one(
    State(site): State<Site>,
    Path(gate): Path<String>,
    headers: HeaderMap,
) -> Response {
    if let Err(refused) = auth::check(&site, &headers) {
        return *refused;
    }
    let stage = match stage_of(&site.service, &gate) {
        Ok(stage) => stage,
        Err(unknown) => return *unknown,
    };
    let Some(mut shown) = shown::gate(&site, stage) else {
        return unknown_gate(&site.service, &gate);
    };
    shown["inventory"] = shown::inventory(&site, stage);
    no_store(shown)
}

fn no_store(body: Value) -> Response {
    let mut response = Json(body).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Changes a gate's limits in place (B-026…B-031).
pub async fn change(
    State(site): State<Site>,
    Path(gate): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if let Err(refused) = auth::check(&site, &headers) {
        return *refused;
    }
    let service = &site.service;
    let (stage, body) = match stage_and_body(service, &gate, &body) {
        Ok(found) => found,
        Err(refused) => return *refused,
    };
    match Change::parse(&body).and_then(|change| service.changes.apply(service, stage, change)) {
        Ok(()) => match shown::gate(&site, stage) {
            Some(shown) => no_store(shown),
            None => unknown_gate(service, &gate),
        },
        Err(wrong) => invalid_limit(&wrong),
    }
}

/// The gate that a path names and the JSON of its body.
pub(super) fn stage_and_body(
    service: &Service,
    gate: &str,
    body: &[u8],
) -> Result<(Stage, Value), Box<Response>> {
    let stage = stage_of(service, gate)?;
    match serde_json::from_slice(body) {
        Ok(body) => Ok((stage, body)),
        Err(problem) => {
            let message = format!("The body is no JSON: {problem}.");
            let refused = answer::error(StatusCode::BAD_REQUEST, "invalid_json", &message, None);
            Err(Box::new(refused))
        }
    }
}

/// The gate that a path names.
pub(super) fn stage_of(service: &Service, gate: &str) -> Result<Stage, Box<Response>> {
    service.stage_named(gate).ok_or_else(|| Box::new(unknown_gate(service, gate)))
}

/// A limit that cannot be.
pub(super) fn invalid_limit(wrong: &Wrong) -> Response {
    let (code, param) = ("invalid_limit", Some(wrong.key.as_str()));
    answer::error(StatusCode::BAD_REQUEST, code, &wrong.to_string(), param)
}

/// No gate has this name.
pub(super) fn unknown_gate(service: &Service, gate: &str) -> Response {
    let names: Vec<String> = service.gates.stages().map(|s| service.gate_name(s)).collect();
    let message = format!("There is no gate \"{gate}\"; there are {}.", names.join(", "));
    answer::error(StatusCode::NOT_FOUND, "unknown_gate", &message, Some("gate"))
}

/// The conservation account of every gate.
pub async fn ledger(State(site): State<Site>, headers: HeaderMap) -> Response {
    if let Err(refused) = auth::check(&site, &headers) {
        return *refused;
    }
    let service = &site.service;
    let gates: Vec<Value> = service
        .gates
        .stages()
        .filter_map(|stage| {
            let name = service.gate_name(stage);
            service.gates.look(stage, |gate| ledgers::show(&name, gate, &service.tenants))
        })
        .collect();
    let balances = gates.iter().all(|gate| gate["balances"] == true);
    Json(json!({
        "incarnation": service.incarnation,
        "balances": balances,
        "gates": gates,
    }))
    .into_response()
}
