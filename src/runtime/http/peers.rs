//! `POST /v1/realtime/calls`: a browser's offer, the call gate, the answer, and the call behind it.

use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use dashmap::DashMap;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::auth::Caller;
use super::realtime::{agent_of, defaults, take_slot, variables};
use super::slot::Slot;
use super::{Site, answer, cors, multipart, resume, secrets};
use crate::id::{CallId, Stage, TenantId};
use crate::leg::Settings;
use crate::runtime::service::Accepted;
use crate::transport::Leg;
use crate::transport::realtime::{Wrong, preview_session};
use crate::transport::webrtc::{BadOffer, Door, NoEntry, Offer, PeerLeg, Port, Restarts, Seated};

type Fields = HashMap<String, String>;

/// What pages ask for: calls, and keys for them.
pub(super) fn routes(site: &Site) -> Router<Site> {
    Router::new()
        .route("/v1/realtime/calls", post(create).options(cors::methods))
        .route("/v1/realtime/calls/{id}", post(restart).options(cors::methods))
        .route("/v1/realtime/calls/{id}/hangup", post(hang_up).options(cors::methods))
        .route("/v1/realtime/client_secrets", post(secrets::mint).options(cors::methods))
        .layer(from_fn_with_state(site.clone(), cors::allow))
}

/// The call gate decides about requests for this path.
pub(super) fn is_call(path: &str) -> bool {
    path == "/v1/realtime/calls"
}

/// Finished calls that are still known to have been.
const OVER_MAX: usize = 1_024;

/// The WebRTC calls that live, by their names, and the last ones that did.
#[derive(Default)]
pub(super) struct Peers {
    living: DashMap<String, Living>,
    over: Mutex<VecDeque<(String, TenantId)>>,
}

struct Living {
    tenant: TenantId,
    hang_up: CancellationToken,
    door: Door,
    restarts: Restarts,
}

/// Why nothing can be done with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoCall {
    /// There is none of this name that the caller may know of.
    Unknown,
    /// It is over.
    Over,
    /// As many as may be are beside it.
    Full,
}

impl NoCall {
    pub(super) fn answer(self, param: &str) -> Response {
        let full = NoEntry::Full.to_string();
        let (status, code, message) = match self {
            NoCall::Unknown => {
                let message = "There is no such WebRTC call.";
                (StatusCode::NOT_FOUND, "unknown_call", message)
            }
            NoCall::Over => {
                let message = "This WebRTC call is over; a new one begins with POST \
                               /v1/realtime/calls.";
                (StatusCode::GONE, "call_is_over", message)
            }
            NoCall::Full => (StatusCode::CONFLICT, "too_many_sidebands", full.as_str()),
        };
        answer::error(status, code, message, Some(param))
    }
}

/// A call's entry, which goes with it however it ends.
struct Listed {
    peers: Arc<Peers>,
    name: String,
}

impl Peers {
    fn list(self: &Arc<Self>, name: String, living: Living) -> Listed {
        self.living.insert(name.clone(), living);
        Listed { peers: self.clone(), name }
    }

    /// The way into a call of this tenant's.
    pub(super) fn door(&self, name: &str, tenant: TenantId) -> Result<Door, NoCall> {
        self.of(name, tenant, |living| living.door.clone())
    }

    /// Something of a call of this tenant's.
    fn of<T>(
        &self,
        name: &str,
        tenant: TenantId,
        what: impl FnOnce(&Living) -> T,
    ) -> Result<T, NoCall> {
        match self.living.get(name) {
            Some(living) if living.tenant == tenant => return Ok(what(&living)),
            Some(_) => return Err(NoCall::Unknown),
            None => {}
        }
        let was = self.over().iter().any(|(known, of)| known == name && *of == tenant);
        Err(if was { NoCall::Over } else { NoCall::Unknown })
    }

    fn over(&self) -> MutexGuard<'_, VecDeque<(String, TenantId)>> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let Some((name, living)) = self.peers.living.remove(&self.name) else { return };
        let mut over = self.peers.over();
        if over.len() == OVER_MAX {
            over.pop_front();
        }
        over.push_back((name, living.tenant));
    }
}

/// Answers an offer, if there is room for a call.
async fn create(
    State(site): State<Site>,
    Query(mut query): Query<Fields>,
    caller: Caller,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let wanted = match wanted(&headers, &body) {
        Ok(wanted) => wanted,
        Err(refused) => return *refused,
    };
    let Some(port) = site.port.clone() else { return unavailable() };
    if let Some(token) = query.get("resume") {
        return take_up(&site, &port, token, &caller, &wanted.offer);
    }
    let session = merged(caller.session.clone(), wanted.session);
    let model = session.as_ref().and_then(|session| session.get("model")?.as_str());
    if let Some(model) = model {
        query.entry("model".to_owned()).or_insert_with(|| model.to_owned());
    }
    let kept_for = resume::asked_for(&site.service, &query);
    let call = site.service.next_call();
    let agent = agent_of(&site, &query).clone();
    let slot = match take_slot(&site, call, &caller, &agent).await {
        Ok(slot) => slot,
        Err(refused) => return *refused,
    };
    let caller = Caller { session, ..caller };
    let seat = || seated(&site, &port, &wanted.offer);
    match begin(&site, call, &caller, query, seat) {
        Ok(begun) => accept(site, call, caller.tenant, slot, begun, kept_for),
        // Nothing of the call is left; its slot goes back unused.
        Err(refused) => *refused,
    }
}

/// A seat for who offers this, and the answer. The library reads a stranger's text: a fault of its
/// own is an answer as well.
fn seated(site: &Site, port: &Arc<Port>, offer: &Offer) -> Result<(Seated, String), Box<Response>> {
    let clock = Arc::new(site.service.clock);
    let heard_max = site.service.config.realtime.message_max;
    match catch_unwind(AssertUnwindSafe(|| Seated::answer(port, clock, offer, heard_max))) {
        Ok(answered) => answered.map_err(|bad| Box::new(bad_offer(&bad))),
        Err(_) => {
            let message = "The offer could not be answered because of a fault of the server's own.";
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Err(Box::new(answer::error(status, "internal_error", message, None)))
        }
    }
}

fn bad_offer(bad: &BadOffer) -> Response {
    answer::error(StatusCode::BAD_REQUEST, bad.code(), &bad.to_string(), Some("sdp"))
}

fn unavailable() -> Response {
    let message = "This server takes no WebRTC calls; webrtc.listen says where it would.";
    answer::error(StatusCode::NOT_IMPLEMENTED, "webrtc_unavailable", message, None)
}

/// What a client sent.
struct Wanted {
    offer: Offer,
    session: Option<Value>,
}

/// The offer as it is, or a form with it and the session to begin with.
fn wanted(headers: &HeaderMap, body: &[u8]) -> Result<Wanted, Box<Response>> {
    let refused = |code: &str, message: &str, param| {
        Box::new(answer::error(StatusCode::BAD_REQUEST, code, message, param))
    };
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default();
    let form = "The body has to be application/sdp, or multipart/form-data with the parts 'sdp' \
                and 'session'.";
    let text = std::str::from_utf8(body).map_err(|_| refused("invalid_body", form, None))?;
    let (sdp, session) = if let Some(boundary) = multipart::boundary(kind) {
        let parts = multipart::texts(text, boundary);
        let parts = parts.ok_or_else(|| refused("invalid_body", form, None))?;
        let sdp = parts.get("sdp").ok_or_else(|| {
            refused("missing_required_parameter", "The form has no part 'sdp'.", Some("sdp"))
        })?;
        (*sdp, parts.get("session").copied())
    } else if kind.split(';').next().unwrap_or_default().trim() == "application/sdp" {
        (text, None)
    } else {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Box::new(answer::error(status, "unsupported_media_type", form, None)));
    };
    let session = session.map(serde_json::from_str::<Value>).transpose().map_err(|fault| {
        refused("invalid_json", &format!("'session' is not valid JSON: {fault}."), Some("session"))
    })?;
    let offer = Offer::parse(sdp).map_err(|bad| Box::new(bad_offer(&bad)))?;
    Ok(Wanted { offer, session })
}

/// The session that a key was minted for, with what the client says over it.
fn merged(base: Option<Value>, over: Option<Value>) -> Option<Value> {
    match (base, over) {
        (Some(Value::Object(mut base)), Some(Value::Object(over))) => {
            for (key, value) in over {
                let value = merged(base.remove(&key), Some(value)).unwrap_or_default();
                base.insert(key, value);
            }
            Some(Value::Object(base))
        }
        (base, over) => over.or(base),
    }
}

/// A call that may begin, and the answer that tells its client so.
struct Begun {
    leg: PeerLeg,
    settings: Settings,
    accepted: Accepted,
    answer: String,
    hang_up: CancellationToken,
    door: Door,
    restarts: Restarts,
}

fn begin(
    site: &Site,
    call: CallId,
    caller: &Caller,
    query: Fields,
    seat: impl FnOnce() -> Result<(Seated, String), Box<Response>>,
) -> Result<Begun, Box<Response>> {
    let service = &site.service;
    let agent = agent_of(site, &query);
    let model = query.get("model").map_or(agent.name.as_str(), String::as_str).to_owned();
    let variables = variables(site, call, caller, "webrtc", query.clone());
    let mut known = defaults(site, &variables, &model, agent, None);
    if let Some(session) = &caller.session {
        preview_session(&known, session).map_err(|wrong: Wrong| {
            let param = wrong.param.as_deref();
            let status = StatusCode::BAD_REQUEST;
            Box::new(answer::error(status, wrong.code, &wrong.message, param))
        })?;
        known.session = Some(session.clone());
    }
    let (seated, answer) = seat()?;
    let hang_up = seated.hang_up();
    let leg = PeerLeg::new(seated, known).map_err(|_| Box::new(unavailable()))?;
    let settings = leg.protocol().settings();
    let (door, restarts) = (leg.door(), leg.restarts());
    let accepted = Accepted::new(service, call, caller.tenant, agent, &variables);
    Ok(Begun { leg, settings, accepted, answer, hang_up, door, restarts })
}

/// The call runs from here on, whatever becomes of the connection that asked for it.
fn accept(
    site: Site,
    call: CallId,
    tenant: TenantId,
    mut slot: Slot,
    begun: Begun,
    kept_for: Option<Duration>,
) -> Response {
    let Begun { leg, settings, accepted, answer, hang_up, door, restarts } = begun;
    let response = answered(&site, call, answer);
    if let Some(lease) = slot.use_it() {
        let (leg, hang_up, kept): (Box<dyn Leg>, _, _) = match kept_for {
            Some(kept_for) => {
                let kept = site.resumptions.keep_peer(&site.service, (call, tenant), kept_for, leg);
                (kept.leg, kept.hang_up, Some(kept.listed))
            }
            None => (Box::new(leg), hang_up, None),
        };
        let living = Living { tenant, hang_up, door, restarts };
        let listed = site.peers.list(call.to_string(), living);
        tokio::spawn(async move {
            site.service.clone().run_call(lease, accepted, settings, leg).await;
            drop((slot, listed, kept));
        });
    }
    response
}

/// The call's answer and its place.
fn answered(site: &Site, call: CallId, answer: String) -> Response {
    let mut response = (StatusCode::CREATED, answer).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/sdp"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/realtime/calls/{call}")) {
        headers.insert(header::LOCATION, location);
    }
    if site.service.config.admission.expose_headers {
        answer::expose(&site.service, Stage::Call, headers);
    }
    response
}

/// Answers the offer of a client that comes back to its call.
fn take_up(site: &Site, port: &Arc<Port>, token: &str, caller: &Caller, offer: &Offer) -> Response {
    let mut answer = String::new();
    let seat = || {
        let (seated, sdp) = seated(site, port, offer)?;
        answer = sdp;
        Ok(seated)
    };
    match site.resumptions.resume_peer(&site.service, (token, caller.tenant), seat) {
        Ok((call, token)) => {
            let mut response = answered(site, call, answer);
            if let Ok(token) = HeaderValue::from_str(&token) {
                response.headers_mut().insert("x-floorkeeper-resume", token);
            }
            response
        }
        Err(refused) => *refused,
    }
}

/// Answers a further offer for a call that lives: its peer has restarted ICE.
async fn restart(
    State(site): State<Site>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let offer = match wanted(&headers, &body) {
        Ok(wanted) => wanted.offer,
        Err(refused) => return *refused,
    };
    let restarts = match site.peers.of(&id, caller.tenant, |living| living.restarts.clone()) {
        Ok(restarts) => restarts,
        Err(none) => return none.answer("id"),
    };
    match restarts.answer(offer).await {
        Some(Ok(answer)) => {
            let kind = [(header::CONTENT_TYPE, "application/sdp")];
            (kind, [(header::CACHE_CONTROL, "no-store")], answer).into_response()
        }
        Some(Err(bad)) => bad_offer(&bad),
        None => NoCall::Over.answer("id"),
    }
}

/// Hangs up a call of the caller's own tenant.
async fn hang_up(State(site): State<Site>, caller: Caller, Path(id): Path<String>) -> Response {
    match site.peers.living.get(&id) {
        Some(living) if living.tenant == caller.tenant => {
            living.hang_up.cancel();
            StatusCode::OK.into_response()
        }
        _ if site.resumptions.hang_up(&id, caller.tenant) => StatusCode::OK.into_response(),
        Some(_) | None => {
            let message = "There is no such WebRTC call, or it is over.";
            answer::error(StatusCode::NOT_FOUND, "unknown_call", message, Some("id"))
        }
    }
}
