//! `POST /v1/realtime/client_secrets`: keys for browsers.

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use super::auth::Caller;
use super::{Site, answer, realtime};
use crate::runtime::clock::Clock;
use crate::runtime::variables::Variables;
use crate::transport::realtime::preview_session;
use crate::transport::realtime::secrets::SecretRequest;

/// Mints an ephemeral key.
pub async fn mint(State(site): State<Site>, caller: Caller, body: Bytes) -> Response {
    let wrong = |wrong: crate::transport::realtime::Wrong| {
        let param = wrong.param.as_deref();
        answer::error(StatusCode::BAD_REQUEST, wrong.code, &wrong.message, param)
    };
    let request = match SecretRequest::parse(&body) {
        Ok(request) => request,
        Err(found) => return wrong(found),
    };
    let model = request.session.get("model").and_then(|model| model.as_str()).unwrap_or("default");
    let config = &site.service.config;
    let agent = config.agent(model).unwrap_or_else(|| config.default_agent());
    let defaults = realtime::defaults(&site, &Variables::default(), model, agent, None);
    let session = match preview_session(&defaults, &request.session) {
        Ok(session) => session,
        Err(found) => return wrong(found),
    };
    let random: [u8; 32] = rand::random();
    let minted = site.secrets.lock().unwrap_or_else(std::sync::PoisonError::into_inner).mint(
        random,
        Clock::wall_s(),
        caller.tenant,
        request,
    );
    match minted {
        Ok(minted) => Json(minted.body(session)).into_response(),
        Err(full) => {
            let message = full.to_string();
            answer::error(StatusCode::TOO_MANY_REQUESTS, "too_many_client_secrets", &message, None)
        }
    }
}
