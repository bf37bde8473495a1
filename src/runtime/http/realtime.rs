//! `/v1/realtime`: the call gate before the upgrade, the call behind it.

use std::collections::HashMap;
use std::time::Duration;

use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use tokio::sync::mpsc;

use super::auth::{self, Caller};
use super::{Site, answer};
use crate::admission::{Admit, Answer, Cancelled, Lease, Offer, OwnerId, Ticket, Wake};
use crate::config::Agent;
use crate::id::{CallId, ClassId, Generation, Stage};
use crate::runtime::clock::Clock;
use crate::runtime::gates::{Gates, OwnerGates};
use crate::runtime::service::Accepted;
use crate::transport::Leg;
use crate::transport::realtime::{Defaults, RealtimeLeg};

/// Owners at the call gate are told apart from the calls they become at the other gates.
const CALL_GATE_OWNERS: u64 = 1 << 62;
/// Bytes tungstenite may buffer towards one peer beyond the largest event.
const WRITE_BUFFER_MAX: usize = 256 * 1024;

/// Upgrades a request to a Realtime session, if there is room for a call.
pub async fn upgrade(
    State(site): State<Site>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, axum::extract::ws::rejection::WebSocketUpgradeRejection>,
) -> Response {
    let caller = match auth::check(&site, &headers) {
        Ok(caller) => caller,
        Err(refused) => return *refused,
    };
    let Ok(upgrade) = upgrade else {
        let message = "This is a WebSocket: GET with Upgrade: websocket, version 13.";
        return answer::error(StatusCode::UPGRADE_REQUIRED, "upgrade_required", message, None);
    };
    let agent = agent_of(&site, &query).clone();
    let call = site.service.next_call();
    let slot = match take_slot(&site, call, &caller).await {
        Ok(slot) => slot,
        Err(refused) => return *refused,
    };
    let message_max = site.service.config.realtime.message_max as usize;
    let mut upgrade = upgrade
        .read_buffer_size(8 * 1024)
        .write_buffer_size(0)
        .max_write_buffer_size(message_max + WRITE_BUFFER_MAX)
        .max_message_size(message_max)
        .max_frame_size(message_max);
    if let Some(protocol) = auth::subprotocol(&headers) {
        upgrade = upgrade.protocols([protocol]);
    }
    let slot = Slot::of(site.service.gates.clone(), slot);
    upgrade.on_upgrade(move |socket| run(site, call, caller, agent, query, slot, socket))
}

/// The agent asked for by `?agent=`, or by a model of its name; otherwise the default one.
fn agent_of<'a>(site: &'a Site, query: &HashMap<String, String>) -> &'a Agent {
    let config = &site.service.config;
    let named = |key: &str| query.get(key).and_then(|name| config.agent(name));
    named("agent").or_else(|| named("model")).unwrap_or_else(|| config.default_agent())
}

/// Offers the call to its gate; a call that has to wait is parked here, its connection open.
async fn take_slot(site: &Site, call: CallId, caller: &Caller) -> Result<Lease, Box<Response>> {
    let service = &site.service;
    let owner = OwnerId(CALL_GATE_OWNERS | call.0);
    let (control, mut wakes) = mpsc::channel(2);
    let mut gates = service.gates.for_owner(control);
    let now = service.clock.now();
    gates.rotate(now, owner, Generation(0), Cancelled::Superseded);
    let offer = Offer {
        id: gates.name_offer(),
        owner,
        generation: Generation(0),
        born: now,
        deadline: now + gates.max_wait(Stage::Call),
        tenant: caller.tenant,
        class: ClassId(0),
        cost: 1,
        bytes: 0,
        retry_of: None,
        supersedes: None,
    };
    let answer = gates.ask(now, Stage::Call, offer);
    let mut parked = match answer {
        Answer::Admitted(lease) => return Ok(lease),
        Answer::Refused(refusal) => {
            service.gates.forget(owner);
            return Err(Box::new(answer::refused(service, refusal)));
        }
        Answer::Queued(ticket) => {
            Parked { gates, ticket: Some(ticket), owner, shared: service.gates.clone() }
        }
    };
    let woken = wakes.recv().await;
    parked.ticket = None;
    match woken {
        Some(Wake::Granted { lease, .. }) => Ok(lease),
        Some(Wake::Ended { terminal, .. }) => {
            let queued_ms = service.clock.now().since(now).as_millis() as u64;
            Err(Box::new(answer::wait_ended(service, Stage::Call, terminal, queued_ms)))
        }
        // The gates outlive every handler.
        None => Err(Box::new(answer::not_found().await)),
    }
}

/// A parked handshake. When its client goes away the wait is withdrawn; a waiter holds no unit.
struct Parked {
    gates: OwnerGates,
    ticket: Option<Ticket>,
    owner: OwnerId,
    shared: Gates,
}

impl Drop for Parked {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let now = self.shared.now();
            self.gates.withdraw(now, ticket, Cancelled::HangUp);
            self.shared.forget(self.owner);
        }
    }
}

/// A call slot between its grant and the call. When the upgrade fails nothing was started on it.
struct Slot {
    gates: Gates,
    lease: Option<Lease>,
}

impl Slot {
    fn of(gates: Gates, lease: Lease) -> Slot {
        Slot { gates, lease: Some(lease) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            // Proof, not a guess: the call's task takes the lease out before it does anything.
            self.gates.settle_unused(lease);
        }
    }
}

async fn run(
    site: Site,
    call: CallId,
    caller: Caller,
    agent: Agent,
    query: HashMap<String, String>,
    mut slot: Slot,
    socket: WebSocket,
) {
    let service = site.service.clone();
    let model = query.get("model").map_or(agent.name.as_str(), String::as_str);
    let defaults = defaults(&site, call, model, &agent, caller.session);
    let leg = RealtimeLeg::new(socket, defaults);
    let settings = leg.protocol().settings();
    let accepted = Accepted::new(&service, call, caller.tenant, &agent);
    let Some(lease) = slot.lease.take() else { return };
    let leg: Box<dyn Leg> = Box::new(leg);
    let owner = OwnerId(CALL_GATE_OWNERS | call.0);
    service.clone().run_call(lease, accepted, settings, leg).await;
    service.gates.forget(owner);
}

/// What a session of this agent begins with.
pub fn defaults(
    site: &Site,
    call: CallId,
    model: &str,
    agent: &Agent,
    session: Option<serde_json::Value>,
) -> Defaults {
    let service = &site.service;
    let call_id = call.to_string();
    let fill = |variable: &str| match variable {
        "call.id" => Some(call_id.clone()),
        "call.transport" => Some("realtime".to_owned()),
        _ => None,
    };
    let tools = service.backends().map(|b| b.specs(&agent.tools)).unwrap_or_default();
    Defaults {
        model: model.to_owned(),
        instructions: agent.instructions.fill(fill),
        voice: agent.voice.clone().unwrap_or_else(|| "default".to_owned()),
        tools,
        turn_detection: service.config.turn_detection(agent, &service.abilities()),
        modality: crate::leg::Modality::Audio,
        max_tokens: agent.limits.max_tokens,
        transcription_model: service.config.asr.provider.clone(),
        now_s: Clock::wall_s(),
        id_seed: format!("{}{:x}", service.incarnation, call.0),
        strict: service.config.realtime.strict,
        session,
    }
}

/// How long a handshake may take in all, the wait for a slot apart.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
