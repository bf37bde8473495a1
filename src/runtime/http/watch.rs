//! What watches a gate, over HTTP: shadows, the decision log; and units in quarantine that an
//! operator has looked at.

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::admission::{GatePath, invalid_limit, json_of};
use super::{Site, answer, shown};
use crate::admission::watched::SHADOWS_MAX;
use crate::admission::{OfferId, Settled};
use crate::evidence::Evidence;
use crate::runtime::{change, decisions};

/// Begins a shadow: the gate's own limits with some of them changed, fed the same offers.
pub async fn add_shadow(State(site): State<Site>, gate: GatePath, body: Bytes) -> Response {
    let (service, stage) = (&site.service, gate.stage);
    let body = match json_of(&body) {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    let limits = match change::varied(service, stage, &body) {
        Ok(limits) => limits,
        Err(wrong) => return invalid_limit(&wrong),
    };
    if !service.gates.add_shadow(stage, limits.meant()) {
        let message = format!(
            "The gate has {SHADOWS_MAX} shadows, as many as it may have; DELETE this path ends \
             them."
        );
        return answer::error(StatusCode::CONFLICT, "too_many_shadows", &message, None);
    }
    let shadows = shown::gate(&site, stage)["shadows"].clone();
    Json(json!({"gate": gate.name, "limits": change::show(&limits), "shadows": shadows}))
        .into_response()
}

/// Ends a gate's shadows.
pub async fn drop_shadows(State(site): State<Site>, gate: GatePath) -> Response {
    site.service.gates.drop_shadows(gate.stage);
    Json(json!({"gate": gate.name, "shadows": []})).into_response()
}

/// From which decision on.
#[derive(Deserialize)]
pub struct Since {
    #[serde(default)]
    since: u64,
}

/// The decisions that are kept, one JSON object a line. From the first one on they can be
/// replayed.
pub async fn log(
    State(site): State<Site>,
    gate: GatePath,
    since: Result<Query<Since>, QueryRejection>,
) -> Response {
    let Ok(Query(Since { since })) = since else {
        let message = "since must be the number of a decision, from 0.";
        return answer::error(StatusCode::BAD_REQUEST, "invalid_since", message, Some("since"));
    };
    let (service, stage) = (&site.service, gate.stage);
    let lines = service.gates.decisions_since(stage, since);
    let opening = decisions::opening(stage, &service.configured_limits(stage));
    let is_whole = lines.first().is_some_and(|line| line.seq == 0);
    let opening = is_whole.then_some(opening);
    let text: String = opening
        .into_iter()
        .chain(lines.iter().map(decisions::line))
        .map(|line| format!("{line}\n"))
        .collect();
    let kind = [(header::CONTENT_TYPE, "application/jsonl"), (header::CACHE_CONTROL, "no-store")];
    (kind, text).into_response()
}

/// Frees a unit in quarantine of which somebody has made sure that nothing uses it any more.
pub async fn reclaim(State(site): State<Site>, gate: GatePath, body: Bytes) -> Response {
    let (service, stage) = (&site.service, gate.stage);
    let body = match json_of(&body) {
        Ok(body) => body,
        Err(refused) => return *refused,
    };
    let Some(offer) = body.get("offer").and_then(Value::as_u64) else {
        let message = "The body must be {\"offer\": N}; GET /v1/admission/{gate} lists what is in \
                       quarantine.";
        return answer::error(StatusCode::BAD_REQUEST, "invalid_body", message, Some("offer"));
    };
    let evidence = match body.get("evidence").and_then(Value::as_str) {
        None | Some("operator") => Evidence::Operator,
        Some("worker_replaced") => Evidence::WorkerReplaced,
        Some(_) => {
            let message = "evidence must be \"operator\" or \"worker_replaced\".";
            let (code, param) = ("invalid_evidence", Some("evidence"));
            return answer::error(StatusCode::BAD_REQUEST, code, message, param);
        }
    };
    match service.gates.late_evidence(stage, OfferId(offer), evidence) {
        Some(Settled::Released(terminal)) => {
            let ended = terminal.disposition().to_string();
            Json(json!({"gate": gate.name, "offer": offer, "ended": ended})).into_response()
        }
        Some(Settled::AlreadyReleased) => {
            let message = "This unit was released before.";
            answer::error(StatusCode::CONFLICT, "already_released", message, Some("offer"))
        }
        Some(Settled::Quarantined) | None => {
            let message = "No unit in quarantine has this name; GET /v1/admission/{gate} lists \
                           those that are.";
            answer::error(StatusCode::NOT_FOUND, "unknown_offer", message, Some("offer"))
        }
    }
}
