//! What Twilio asks and tells about calls that it makes for us.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Extension, Path, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::accept::Place as Connection;
use super::kept::Kept;
use super::twilio::{MESSAGE_MAX, begun, unknown_seat};
use super::upgrade::{Handshake, Wire};
use super::{Site, twilio_auth, twilio_voice};
use crate::runtime::twilio::{Moves, PATH, Said, Twilio};
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
    parts: Parts,
    body: Bytes,
) -> Response {
    let form = match form(&site, &parts, &body) {
        Ok(form) => form,
        Err(refused) => return *refused,
    };
    let call = call(&form).zip(site.service.twilio());
    let inside = call.map(|((call, _), twilio)| twilio.answered(&name, call));
    twilio_voice::told(inside.as_deref().unwrap_or(twiml::HANG_UP))
}

/// Twilio tells how a call stands.
async fn status(
    State(site): State<Site>,
    Path(name): Path<String>,
    parts: Parts,
    body: Bytes,
) -> Response {
    let form = match form(&site, &parts, &body) {
        Ok(form) => form,
        Err(refused) => return *refused,
    };
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
    if let Err(refused) = twilio_auth::not_forged(&site, &parts, &[]) {
        return *refused;
    }
    let handshake = match handshake {
        Ok(handshake) => handshake,
        Err(refused) => return refused,
    };
    let twilio = site.service.twilio().filter(|twilio| twilio.follows(&name)).cloned();
    let Some(twilio) = twilio else { return unknown_seat() };
    handshake.switch(&site.clone(), connection, None, MESSAGE_MAX, move |socket| {
        hand_on(site, twilio, name, socket)
    })
}

async fn hand_on(site: Site, twilio: Arc<Twilio>, name: String, mut socket: Kept<Wire>) {
    let Some(start) = begun(&site, DIALECTS[0], &name, &mut socket).await else { return };
    let sid = start.call.clone();
    let mover = Moves::of(&site.service, String::new(), &start.call);
    let leg = Box::new(StreamLeg::new(socket, DIALECTS[0], start).movable(mover, sid.clone()));
    twilio.tell(&name, Said::Streams(sid, leg));
}

fn form(site: &Site, parts: &Parts, body: &[u8]) -> Result<Vec<(String, String)>, Box<Response>> {
    let form: Vec<(String, String)> = url::form_urlencoded::parse(body).into_owned().collect();
    twilio_auth::signed_rightly(site, parts, &form)?;
    Ok(form)
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
