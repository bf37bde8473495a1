//! What Twilio asks and tells about calls that it makes for us.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Extension, FromRequest, Path, Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::accept::Place as Connection;
use super::twilio::{MESSAGE_MAX, begun, unknown_seat};
use super::upgrade::Handshake;
use super::{Site, twilio_auth, twilio_voice};
use crate::runtime::twilio::{Moves, PATH, Said};
use crate::transport::twilio::rest::{Call, Status, is_machine};
use crate::transport::twilio::{DIALECTS, StreamLeg, twiml};

pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route(&format!("{PATH}/{{call}}/answered"), post(answered))
        .route(&format!("{PATH}/{{call}}/status"), post(status))
        .route(&format!("{PATH}/{{call}}/stream"), get(stream))
}

/// Somebody has answered, and Twilio asks what to do.
async fn answered(
    State(site): State<Site>,
    Path(name): Path<String>,
    Signed(form): Signed,
) -> Response {
    let call = call(&form).zip(site.service.twilio());
    let inside = call.map(|((call, _), twilio)| twilio.answered(&name, call));
    twilio_voice::told(inside.as_deref().unwrap_or(twiml::HANG_UP))
}

/// Twilio tells how a call stands.
async fn status(
    State(site): State<Site>,
    Path(name): Path<String>,
    Signed(form): Signed,
) -> Response {
    let said = joined(&form).or_else(|| call(&form).map(|(call, sip)| Said::Stands(call, sip)));
    if let (Some(said), Some(twilio)) = (said, site.service.twilio()) {
        twilio.tell(&name, said);
    }
    StatusCode::NO_CONTENT.into_response()
}

/// The sound of a call that was answered.
async fn stream(
    State(site): State<Site>,
    Path(name): Path<String>,
    Extension(connection): Extension<Arc<Connection>>,
    handshake: Result<Handshake, Response>,
    parts: Parts,
) -> Response {
    let handshake = match twilio_auth::unforged(&site, &parts, handshake) {
        Ok(handshake) => handshake,
        Err(refused) => return *refused,
    };
    let Some(twilio) = site.service.twilio().cloned() else { return unknown_seat() };
    let Some(tenant) = twilio.tenant_of(&name) else { return unknown_seat() };
    handshake.switch(&site.clone(), connection, None, MESSAGE_MAX, move |mut socket| async move {
        let Some(start) = begun(&site, DIALECTS[0], &name, &mut socket).await else { return };
        let sid = start.call.clone();
        let mover = Moves::of(&site.service, tenant, &sid);
        let leg = Box::new(StreamLeg::new(socket, DIALECTS[0], start).movable(mover));
        twilio.tell(&name, Said::Streams(sid, leg));
    })
}

/// The fields of a form that Twilio has signed.
struct Signed(Vec<(String, String)>);

impl FromRequest<Site> for Signed {
    type Rejection = Response;

    async fn from_request(request: Request, site: &Site) -> Result<Signed, Response> {
        let (parts, body) = request.into_parts();
        let again = Request::from_parts(parts.clone(), body);
        let body = Bytes::from_request(again, site).await.map_err(IntoResponse::into_response)?;
        let form: Vec<_> = url::form_urlencoded::parse(&body).into_owned().collect();
        twilio_auth::signed_rightly(site, &parts, &form).map_err(|refused| *refused)?;
        Ok(Signed(form))
    }
}

/// Who has come into a room.
fn joined(form: &[(String, String)]) -> Option<Said> {
    let field = |key: &str| form.iter().find(|(name, _)| name == key).map(|(_, value)| &**value);
    let is_join = field("StatusCallbackEvent") == Some("participant-join");
    field("CallSid").filter(|_| is_join).map(|sid| Said::Joined(sid.to_owned()))
}

/// How the call stands, and the SIP status that it came to.
fn call(form: &[(String, String)]) -> Option<(Call, Option<u16>)> {
    let field = |key: &str| form.iter().find(|(name, _)| name == key).map(|(_, value)| &**value);
    let call = Call {
        sid: field("CallSid")?.to_owned(),
        status: Status::named(field("CallStatus")?)?,
        machine: field("AnsweredBy").is_some_and(is_machine),
        made_s: None,
    };
    Some((call, field("SipResponseCode").and_then(|code| code.parse().ok())))
}
