//! `/v1/realtime`: the call gate before the upgrade, the call behind it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;

use super::accept::Place;
use super::auth::{self, Caller};
use super::kept::Kept;
use super::slot::{self, NoSlot, Slot};
use super::upgrade::{Handshake, Wire};
use super::{Site, answer, resume, sideband};
use crate::admission::{Offer, OwnerId};
use crate::config::Agent;
use crate::id::{CallId, Stage, TenantId};
use crate::runtime::clock::Clock;
use crate::runtime::service::{Accepted, Service};
use crate::runtime::variables::Variables;
use crate::transport::Leg;
use crate::transport::realtime::{Defaults, RealtimeLeg};

/// Owners at the call gate are told apart from the calls they become at the other gates.
const CALL_GATE_OWNERS: u64 = 1 << 62;

/// Upgrades a request to a Realtime session, if there is room for a call; or to a place beside one.
pub async fn upgrade(
    State(site): State<Site>,
    Query(query): Query<HashMap<String, String>>,
    Extension(place): Extension<Arc<Place>>,
    caller: Caller,
    headers: HeaderMap,
    handshake: Result<Handshake, Response>,
) -> Response {
    let handshake = match handshake {
        Ok(handshake) => handshake,
        Err(refused) => return refused,
    };
    if let Some(call) = query.get("call_id") {
        return sideband::attach(&site, call, &caller, place, &headers, handshake);
    }
    if let Some(token) = query.get("resume") {
        return resume::upgrade(&site, token, &caller, place, &headers, handshake);
    }
    let agent = agent_of(&site, &query).clone();
    let call = site.service.next_call();
    let slot = match take_slot(&site, call, &caller, &agent).await {
        Ok(slot) => slot,
        Err(refused) => return *refused,
    };
    let message_max = site.service.config.realtime.message_max as usize;
    let subprotocol = auth::subprotocol(&headers);
    handshake.switch(&site.clone(), place, subprotocol, message_max, move |socket| {
        run(site, call, caller, agent, query, slot, socket)
    })
}

/// The agent asked for by `?agent=`, or by a model of its name; otherwise the default one.
pub(super) fn agent_of<'a>(site: &'a Site, query: &HashMap<String, String>) -> &'a Agent {
    let config = &site.service.config;
    let named = |key: &str| query.get(key).and_then(|name| config.agent(name));
    named("agent").or_else(|| named("model")).unwrap_or_else(|| config.default_agent())
}

/// Offers the call to its gate; a call that has to wait is parked here, its connection open.
pub(super) async fn take_slot(
    site: &Site,
    call: CallId,
    caller: &Caller,
    agent: &Agent,
) -> Result<Slot, Box<Response>> {
    let service = &site.service;
    let now = service.clock.now();
    offer_call(service, call, caller.tenant, agent).await.map_err(|none| {
        let queued_ms = service.clock.now().since(now).as_millis() as u64;
        Box::new(answer::no_slot(service, Stage::Call, &none, queued_ms))
    })
}

/// The same, for those who tell the caller themselves why there is none.
pub(in crate::runtime) async fn offer_call(
    service: &Service,
    call: CallId,
    tenant: TenantId,
    agent: &Agent,
) -> Result<Slot, NoSlot> {
    let class = service.config.classes.find(agent.class.as_deref());
    let owner = OwnerId(CALL_GATE_OWNERS | call.0);
    let of_whom = |offer| Offer { tenant, class, ..offer };
    let present = service.callers.arrive();
    Ok(slot::take(&service.gates, owner, of_whom).await?.of_caller(present))
}

async fn run(
    site: Site,
    call: CallId,
    caller: Caller,
    agent: Agent,
    query: HashMap<String, String>,
    mut slot: Slot,
    socket: Kept<Wire>,
) {
    let service = site.service.clone();
    let model = query.get("model").map_or(agent.name.as_str(), String::as_str).to_owned();
    let kept_for = resume::asked_for(&service, &query);
    let variables = variables(&site, call, &caller, "realtime", query);
    let defaults = defaults(&site, &variables, &model, &agent, caller.session);
    let leg = RealtimeLeg::new(socket, defaults);
    let settings = leg.protocol().settings();
    let accepted = Accepted::new(&service, call, caller.tenant, &agent, &variables);
    let Some(lease) = slot.use_it() else { return };
    let (leg, listed): (Box<dyn Leg>, _) = match kept_for {
        Some(kept_for) => {
            let of = (call, caller.tenant);
            let kept = site.resumptions.keep_socket(&service, of, kept_for, leg);
            (kept.leg, Some(kept.listed))
        }
        None => (Box::new(leg), None),
    };
    service.clone().run_call(lease, accepted, settings, leg).await;
    drop((slot, listed));
}

/// What is known of a call of a Realtime client: its parameters are the query's.
pub(super) fn variables(
    site: &Site,
    call: CallId,
    caller: &Caller,
    transport: &'static str,
    query: HashMap<String, String>,
) -> Variables {
    let of = |key: &str| query.get(key).cloned().unwrap_or_default();
    Variables {
        call: call.to_string(),
        transport,
        from: of("from"),
        to: of("to"),
        tenant: site.service.tenants.name(caller.tenant).unwrap_or("").to_owned(),
        params: query.into_iter().collect(),
    }
}

/// What a session of this agent begins with.
pub fn defaults(
    site: &Site,
    variables: &Variables,
    model: &str,
    agent: &Agent,
    session: Option<serde_json::Value>,
) -> Defaults {
    let service = &site.service;
    let tools = service.backends().map(|b| b.specs(&agent.tools)).unwrap_or_default();
    Defaults {
        model: model.to_owned(),
        instructions: variables.instructions(agent),
        voice: agent.voice.clone().unwrap_or_else(|| "default".to_owned()),
        tools,
        turn_detection: service.config.turn_detection(&service.abilities()),
        modality: crate::leg::Modality::Audio,
        max_tokens: agent.limits.max_tokens,
        transcription_model: service.config.asr.provider.clone(),
        now_s: Clock::wall_s(),
        id_seed: format!("{}{}", service.incarnation, variables.call.replace('-', "")),
        strict: service.config.realtime.strict,
        session,
    }
}

/// How long a handshake may take in all, the wait for a slot apart.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
