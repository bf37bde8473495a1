//! Media streams of telephone providers: the call gate before the upgrade, the call behind it.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Path, Query, State};
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{get, post};
use tokio::time::timeout;

use super::accept::Place as Connection;
use super::auth::Caller;
use super::kept::Kept;
use super::realtime::{HANDSHAKE_MAX, take_slot};
use super::slot::Slot;
use super::upgrade::{Handshake, Wire};
use super::{Site, answer, twilio_auth, twilio_outgoing, twilio_voice};
use crate::config::Agent;
use crate::id::CallId;
use crate::runtime::ari::Dialplan;
use crate::runtime::phone;
use crate::runtime::service::Accepted;
use crate::runtime::twilio::Moves;
use crate::runtime::variables::Variables;
use crate::transport::twilio::{DIALECTS, Dialect, Start, StreamLeg, begin};
use crate::transport::{Leg, websocket};

/// Largest message; a second of sound has some ten thousand bytes.
pub(super) const MESSAGE_MAX: usize = 64 * 1024;

/// A stream that comes to its start too late: the server has ended all calls.
pub(super) const DRAINED: &str = "drained";

type Fields = HashMap<String, String>;

/// A stream for each dialect, and the webhook of one.
pub(super) fn routes() -> Router<Site> {
    let mut router = Router::new()
        .route("/v1/twilio/voice", post(twilio_voice::answer))
        .route("/v1/twilio/seat/{seat}", get(take_seat));
    router = router.merge(twilio_outgoing::routes());
    for dialect in DIALECTS {
        let path = format!("/v1/{}", dialect.name());
        router = router.route(&path, get(upgrade).layer(Extension(*dialect)));
    }
    router
}

/// The call gate decides about requests for this path.
pub(super) fn is_call(path: &str) -> bool {
    let name = path.strip_prefix("/v1/").unwrap_or_default();
    DIALECTS.iter().any(|dialect| dialect.name() == name) || name.starts_with("twilio/")
}

/// A call that has its slot, before its stream.
pub(super) struct Seated {
    pub call: CallId,
    pub caller: Caller,
    /// The agent asked for; the stream's own parameter goes before it.
    pub agent: String,
    pub slot: Slot,
}

/// A stream that nobody announced: its slot is asked for now.
async fn upgrade(
    State(site): State<Site>,
    Extension(dialect): Extension<&'static dyn Dialect>,
    Extension(connection): Extension<Arc<Connection>>,
    Query(query): Query<Fields>,
    handshake: Result<Handshake, Response>,
    parts: Parts,
) -> Response {
    let caller = match twilio_auth::caller(&site, &parts, &[], dialect.name()).await {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    let handshake = match handshake {
        Ok(handshake) => handshake,
        Err(refused) => return refused,
    };
    let agent = agent_of(&site, query.get("agent")).clone();
    let call = site.service.next_call();
    let slot = match take_slot(&site, call, &caller, &agent).await {
        Ok(slot) => slot,
        Err(refused) => return *refused,
    };
    let seated = Seated { call, caller, agent: agent.name, slot };
    switch(site, dialect, seated, handshake, connection)
}

/// The stream of an answered webhook: it has its slot, and its name is its key.
async fn take_seat(
    State(site): State<Site>,
    Path(seat): Path<String>,
    Extension(connection): Extension<Arc<Connection>>,
    handshake: Result<Handshake, Response>,
    parts: Parts,
) -> Response {
    let handshake = match twilio_auth::unforged(&site, &parts, handshake) {
        Ok(handshake) => handshake,
        Err(refused) => return *refused,
    };
    match site.seats.take(&seat) {
        Some(seated) => switch(site, DIALECTS[0], seated, handshake, connection),
        None => unknown_seat(),
    }
}

pub(super) fn unknown_seat() -> Response {
    let message = "No call waits for this stream; twilio.stream_within_ms bounds the wait.";
    answer::error(axum::http::StatusCode::NOT_FOUND, "unknown_seat", message, None)
}

fn switch(
    site: Site,
    dialect: &'static dyn Dialect,
    seated: Seated,
    handshake: Handshake,
    connection: Arc<Connection>,
) -> Response {
    handshake.switch(&site.clone(), connection, None, MESSAGE_MAX, move |socket| {
        run(site, dialect, seated, socket)
    })
}

async fn run(site: Site, dialect: &'static dyn Dialect, seated: Seated, mut socket: Kept<Wire>) {
    let name = seated.call.to_string();
    if let Some(start) = begun(&site, dialect, &name, &mut socket).await {
        talk(site, dialect, seated, socket, start).await;
    }
}

/// The start of a stream; none when there is none, and the peer was told why.
pub(super) async fn begun(
    site: &Site,
    dialect: &'static dyn Dialect,
    name: &str,
    socket: &mut Kept<Wire>,
) -> Option<Start> {
    let mut ending = site.service.ending();
    let begun = tokio::select! {
        begun = timeout(HANDSHAKE_MAX, begin(socket, dialect)) => begun,
        _ = ending.wait_for(|ending| *ending) => Ok(Err(DRAINED)),
    };
    match begun.unwrap_or(Err("timeout")) {
        Ok(start) => Some(start),
        Err(how) => {
            tracing::debug!("{name}: no {} stream: {how}", dialect.name());
            let code = if how == DRAINED { 1012 } else { 1002 };
            websocket::part(socket, None, code, how).await;
            None
        }
    }
}

/// The call of a stream that has begun.
pub(super) async fn talk(
    site: Site,
    dialect: &'static dyn Dialect,
    seated: Seated,
    socket: Kept<Wire>,
    start: Start,
) {
    let Seated { call, caller, agent, mut slot } = seated;
    let service = site.service.clone();
    let agent = agent_of(&site, start.params.get("agent").or(Some(&agent))).clone();
    let variables = variables(&site, call, &caller, dialect, &start);
    let rate_hz = start.encoding.rate_hz();
    let settings = phone::settings(&service, &agent, &variables, rate_hz, true);
    let accepted = Accepted::new(&service, call, caller.tenant, &agent, &variables);
    let mover = match dialect.name() {
        "twilio" => Moves::of(&service, variables.tenant.clone(), &start.call),
        "asterisk" => start.params.get("call").and_then(|name| Dialplan::of(&service, name)),
        _ => None,
    };
    let leg = StreamLeg::new(socket, dialect, start).movable(mover);
    let leg: Box<dyn Leg> = Box::new(leg);
    let Some(lease) = slot.use_it() else { return };
    service.run_call(lease, accepted, settings, leg).await;
    drop(slot);
}

/// The agent of this name; the default one where there is none.
pub(super) fn agent_of<'a>(site: &'a Site, name: Option<&String>) -> &'a Agent {
    let config = &site.service.config;
    name.and_then(|name| config.agent(name)).unwrap_or_else(|| config.default_agent())
}

/// What the stream's start tells of its call.
fn variables(
    site: &Site,
    call: CallId,
    caller: &Caller,
    dialect: &'static dyn Dialect,
    start: &Start,
) -> Variables {
    let mut params = start.params.clone();
    params.entry("CallSid".to_owned()).or_insert_with(|| start.call.clone());
    Variables {
        call: call.to_string(),
        transport: dialect.name(),
        from: ringable(&start.from),
        to: start.to.clone(),
        tenant: site.service.tenants.name(caller.tenant).unwrap_or("").to_owned(),
        params,
    }
}

/// A number that is withheld comes as a word (`anonymous`), and is nowhere to call back.
fn ringable(from: &str) -> String {
    let is_address = from.contains('@') || from.chars().any(|c| c.is_ascii_digit());
    if is_address { from.to_owned() } else { String::new() }
}
