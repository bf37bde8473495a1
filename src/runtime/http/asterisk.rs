//! `/v1/asterisk`: Asterisk's WebSocket channel dials us. The call gate before the upgrade, the
//! call behind it.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Query, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use tokio::time::timeout;

use super::kept::Kept;
use super::realtime::{HANDSHAKE_MAX, take_slot};
use super::twilio::{DRAINED, MESSAGE_MAX, Seated, talk};
use super::upgrade::{Handshake, Wire};
use super::{Site, twilio_auth};
use crate::config::Agent;
use crate::transport::asterisk::{NoCall, begin};
use crate::transport::realtime::handshake::offered;
use crate::transport::{places::Place, websocket};

/// Where Asterisk dials.
pub(super) const PATH: &str = "/v1/asterisk";
/// What its WebSocket is to be, in its words.
const SUBPROTOCOL: &str = "media";
/// A call that cannot be spoken: RFC 6455's "a type of data it cannot accept".
const CANNOT_ACCEPT: u16 = 1003;

type Fields = HashMap<String, String>;

pub(super) fn routes() -> Router<Site> {
    Router::new().route(PATH, get(upgrade))
}

async fn upgrade(
    State(site): State<Site>,
    Extension(connection): Extension<Arc<Place>>,
    Query(mut query): Query<Fields>,
    handshake: Result<Handshake, Response>,
    mut parts: Parts,
) -> Response {
    understand_basic(&mut parts);
    let caller = match twilio_auth::caller(&site, &parts, &[], "asterisk").await {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    let handshake = match handshake {
        Ok(handshake) => handshake,
        Err(refused) => return refused,
    };
    query.remove("key");
    let agent = agent_of(&site, &query).clone();
    let call = site.service.next_call();
    let slot = match take_slot(&site, call, &caller, &agent).await {
        Ok(slot) => slot,
        Err(refused) => return *refused,
    };
    let seated = Seated { call, caller, agent: agent.name, slot };
    let names = parts.headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let names = offered(names.iter().filter_map(|name| name.to_str().ok()));
    let subprotocol = names.contains(&SUBPROTOCOL).then_some(SUBPROTOCOL);
    handshake.switch(&site.clone(), connection, subprotocol, MESSAGE_MAX, move |socket| {
        run(site, seated, query, socket)
    })
}

/// Asterisk shows a name and a password; the password is the key.
fn understand_basic(parts: &mut Parts) {
    let shown = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((scheme, coded)) = shown.and_then(|value| value.split_once(' ')) else { return };
    if !scheme.eq_ignore_ascii_case("basic") {
        return;
    }
    let password = BASE64.decode(coded.trim()).ok();
    let password = password.and_then(|bytes| String::from_utf8(bytes).ok());
    let password = password.as_deref().and_then(|pair| pair.split_once(':')).map(|(_, word)| word);
    let bearer = HeaderValue::from_str(&format!("Bearer {}", password.unwrap_or_default()));
    // What no header can hold is nobody's key.
    let bearer = bearer.unwrap_or(HeaderValue::from_static("Bearer"));
    parts.headers.insert(header::AUTHORIZATION, bearer);
}

/// The agent that the address names, or the number that was dialled.
fn agent_of<'a>(site: &'a Site, query: &Fields) -> &'a Agent {
    let config = &site.service.config;
    let named = |key: &str| query.get(key).and_then(|name| config.agent(name));
    let dialled = || query.get("to").and_then(|to| config.agent_at(to));
    named("agent").or_else(dialled).unwrap_or_else(|| config.default_agent())
}

async fn run(site: Site, seated: Seated, query: Fields, mut socket: Kept<Wire>) {
    let mut ending = site.service.ending();
    let begun = tokio::select! {
        begun = timeout(HANDSHAKE_MAX, begin(&mut socket)) => begun,
        _ = ending.wait_for(|ending| *ending) => Ok(Err(NoCall::Lost(DRAINED))),
    };
    let call = seated.call;
    let (dialect, mut start) = match begun.unwrap_or(Err(NoCall::Lost("timeout"))) {
        Ok(begun) => begun,
        Err(NoCall::Lost(how)) => {
            tracing::debug!("{call}: no call from asterisk: {how}");
            let code = if how == DRAINED { 1012 } else { 1002 };
            return websocket::part(&mut socket, None, code, how).await;
        }
        Err(NoCall::Refused { hang_up, why }) => {
            tracing::warn!("{call}: asterisk is hung up on: {why}");
            let hang_up = Some(hang_up);
            return websocket::part(&mut socket, hang_up, CANNOT_ACCEPT, "format").await;
        }
    };
    // What the dialplan wrote into the address goes before what the channel inherited.
    start.params.extend(query);
    let known = |key: &str| start.params.get(key).cloned().unwrap_or_default();
    (start.from, start.to) = (known("from"), known("to"));
    let config = &site.service.config;
    let named = config.agent(&known("agent"));
    if let Some(agent) = named.or_else(|| config.agent_at(&start.to)) {
        start.params.insert("agent".to_owned(), agent.name.clone());
    }
    talk(site, dialect, seated, socket, start).await;
}
