//! The gates over HTTP: what is declared, in force and live; changes in place; the ledger.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::auth::Caller;
use super::{Site, answer, shown};
use crate::id::Stage;
use crate::runtime::change::{Change, Wrong};
use crate::runtime::service::Service;
use crate::runtime::{ledgers, promise_json};

/// Every gate.
pub async fn list(State(site): State<Site>, _: Caller) -> Response {
    let service = &site.service;
    let gates: Vec<Value> = service.gates.stages().map(|stage| shown::gate(&site, stage)).collect();
    no_store(json!({
        "incarnation": service.incarnation,
        "draining": service.is_draining(),
        "bypasses": service.metrics.bypasses(),
        "gates": gates,
    }))
}

/// One gate, with everything that it keeps.
pub async fn one(State(site): State<Site>, gate: GatePath) -> Response {
    let mut shown = shown::gate(&site, gate.stage);
    shown["inventory"] = shown::inventory(&site, gate.stage);
    no_store(shown)
}

fn no_store(body: Value) -> Response {
    let mut response = Json(body).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Changes a gate's limits in place (B-026…B-031).
pub async fn change(State(site): State<Site>, gate: GatePath, body: Bytes) -> Response {
    let body = match json_of(&body) {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    let (service, stage) = (&site.service, gate.stage);
    match Change::parse(&body).and_then(|change| service.changes.apply(service, stage, change)) {
        Ok(()) => no_store(shown::gate(&site, stage)),
        Err(wrong) => invalid_limit(&wrong),
    }
}

/// The gate that a path names, for a caller who may ask.
pub struct GatePath {
    /// As it was written.
    pub(super) name: String,
    /// What it means.
    pub(super) stage: Stage,
}

impl FromRequestParts<Site> for GatePath {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, site: &Site) -> Result<GatePath, Response> {
        Caller::from_request_parts(parts, site).await?;
        let Ok(Path(name)) = Path::<String>::from_request_parts(parts, site).await else {
            return Err(answer::not_found().await);
        };
        match site.service.stage_named(&name) {
            Some(stage) => Ok(GatePath { name, stage }),
            None => Err(unknown_gate(&site.service, &name)),
        }
    }
}

/// The JSON of a body.
pub(super) fn json_of(body: &[u8]) -> Result<Value, Box<Response>> {
    serde_json::from_slice(body).map_err(|problem| {
        let message = format!("The body is no JSON: {problem}.");
        Box::new(answer::error(StatusCode::BAD_REQUEST, "invalid_json", &message, None))
    })
}

/// A limit that cannot be.
pub(super) fn invalid_limit(wrong: &Wrong) -> Response {
    let (code, param) = ("invalid_limit", Some(wrong.key.as_str()));
    answer::error(StatusCode::BAD_REQUEST, code, &wrong.to_string(), param)
}

fn unknown_gate(service: &Service, gate: &str) -> Response {
    let names: Vec<String> = service.gates.stages().map(|s| service.gate_name(s)).collect();
    let message = format!("There is no gate \"{gate}\"; there are {}.", names.join(", "));
    answer::error(StatusCode::NOT_FOUND, "unknown_gate", &message, Some("gate"))
}

/// The conservation account of every gate.
pub async fn ledger(State(site): State<Site>, _: Caller) -> Response {
    let service = &site.service;
    let gates: Vec<Value> = service
        .gates
        .stages()
        .filter_map(|stage| {
            let name = service.gate_name(stage);
            let (tenants, classes) = (&service.tenants, &service.config.classes);
            service.gates.look(stage, |gate| ledgers::show(&name, gate, tenants, classes))
        })
        .collect();
    let callbacks = match service.promises() {
        Some(promises) => promise_json::account(&promises.account().await),
        None => Value::Null,
    };
    // What nobody can know here is no fault.
    let fine = |account: &Value| account["balances"] != false;
    let balances = gates.iter().chain([&callbacks]).all(fine);
    Json(json!({
        "incarnation": service.incarnation,
        "balances": balances,
        "gates": gates,
        "callbacks": callbacks,
    }))
    .into_response()
}
