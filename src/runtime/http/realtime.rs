//! `/v1/realtime`: the call gate before the upgrade, the call behind it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use super::accept::Place;
use super::auth::{self, Caller};
use super::budget::Budgeted;
use super::kept::Kept;
use super::upgrade::{Handshake, Wire};
use super::{Site, answer};
use crate::admission::{Admit, Answer, Cancelled, Lease, Offer, OwnerId, Ticket, Wake};
use crate::config::Agent;
use crate::id::{CallId, Generation, Stage};
use crate::runtime::clock::Clock;
use crate::runtime::gates::{Gates, OwnerGates};
use crate::runtime::service::Accepted;
use crate::runtime::variables::Variables;
use crate::transport::Leg;
use crate::transport::realtime::{Defaults, RealtimeLeg};

/// Owners at the call gate are told apart from the calls they become at the other gates.
const CALL_GATE_OWNERS: u64 = 1 << 62;
/// Bytes tungstenite may buffer towards one peer beyond the largest event. It is handed one event
/// at a time; what waits behind that one is bounded by the leg.
const WRITE_BUFFER_MAX: usize = 256 * 1024;

/// Upgrades a request to a Realtime session, if there is room for a call.
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
    let agent = agent_of(&site, &query).clone();
    let call = site.service.next_call();
    let slot = match take_slot(&site, call, &caller, &agent).await {
        Ok(slot) => slot,
        Err(refused) => return *refused,
    };
    let (mut response, upgrade) = handshake.take(auth::subprotocol(&headers));
    if site.service.config.admission.expose_headers {
        answer::expose(&site.service, Stage::Call, response.headers_mut());
    }
    tokio::spawn(async move {
        // A client that left before it was upgraded never had a call; its slot goes back unused.
        if let Ok(upgraded) = upgrade.await {
            let message_max = site.service.config.realtime.message_max;
            let stream = Budgeted::new(TokioIo::new(upgraded), site.large.clone(), message_max);
            let socket = Wire::new(stream, bounds(message_max as usize)).await;
            run(site, call, caller, agent, query, slot, socket).await;
        }
        drop(place);
    });
    response
}

/// The library's defaults bound next to nothing.
fn bounds(message_max: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(8 * 1024)
        .write_buffer_size(0)
        .max_write_buffer_size(message_max + WRITE_BUFFER_MAX)
        .max_message_size(Some(message_max))
        .max_frame_size(Some(message_max))
}

/// The agent asked for by `?agent=`, or by a model of its name; otherwise the default one.
fn agent_of<'a>(site: &'a Site, query: &HashMap<String, String>) -> &'a Agent {
    let config = &site.service.config;
    let named = |key: &str| query.get(key).and_then(|name| config.agent(name));
    named("agent").or_else(|| named("model")).unwrap_or_else(|| config.default_agent())
}

/// Offers the call to its gate; a call that has to wait is parked here, its connection open.
async fn take_slot(
    site: &Site,
    call: CallId,
    caller: &Caller,
    agent: &Agent,
) -> Result<Slot, Box<Response>> {
    let service = &site.service;
    let owner = OwnerId(CALL_GATE_OWNERS | call.0);
    let (control, wakes) = mpsc::channel(2);
    let mut gates = service.gates.for_owner(control);
    let now = service.clock.now();
    gates.rotate(now, owner, Generation(0), Cancelled::Superseded);
    let offer = Offer {
        tenant: caller.tenant,
        class: service.config.classes.find(agent.class.as_deref()),
        ..Offer::plain(gates.name_offer(), owner, now, now + gates.max_wait(Stage::Call))
    };
    let answer = gates.ask(now, Stage::Call, offer);
    let mut parked = match answer {
        Answer::Admitted(lease) => return Ok(Slot::of(service.gates.clone(), lease, owner)),
        Answer::Refused(refusal) => {
            service.gates.forget(owner);
            return Err(Box::new(answer::refused(service, refusal)));
        }
        Answer::Queued(ticket) => {
            let ticket = Some(ticket);
            let (gates, wakes) = (Some(gates), Some(wakes));
            Parked { gates, ticket, wakes, owner, shared: service.gates.clone() }
        }
    };
    match parked.wait().await {
        Some(Wake::Granted { lease, .. }) => Ok(Slot::of(service.gates.clone(), lease, owner)),
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
    gates: Option<OwnerGates>,
    ticket: Option<Ticket>,
    wakes: Option<mpsc::Receiver<Wake>>,
    owner: OwnerId,
    shared: Gates,
}

impl Parked {
    async fn wait(&mut self) -> Option<Wake> {
        let woken = self.wakes.as_mut()?.recv().await;
        self.ticket = None;
        if let Some(Wake::Ended { .. }) = woken {
            self.shared.forget(self.owner);
        }
        woken
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let (Some(ticket), Some(mut gates), Some(wakes)) =
            (self.ticket.take(), self.gates.take(), self.wakes.take())
        else {
            return;
        };
        gates.withdraw(self.shared.now(), ticket, Cancelled::HangUp);
        drop(gates);
        let (shared, owner) = (self.shared.clone(), self.owner);
        // A grant may be on its way to us: nothing was started on it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                shared.settle_crossed(wakes).await;
                shared.forget(owner);
            });
        }
    }
}

/// A call slot between its grant and the call. When the upgrade fails nothing was started on it.
struct Slot {
    gates: Gates,
    lease: Option<Lease>,
    owner: OwnerId,
}

impl Slot {
    fn of(gates: Gates, lease: Lease, owner: OwnerId) -> Slot {
        Slot { gates, lease: Some(lease), owner }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            // Proof, not a guess: the call's task takes the lease out before it does anything.
            self.gates.settle_unused(lease);
        }
        self.gates.forget(self.owner);
    }
}

async fn run(
    site: Site,
    call: CallId,
    caller: Caller,
    agent: Agent,
    query: HashMap<String, String>,
    mut slot: Slot,
    socket: Wire,
) {
    let service = site.service.clone();
    let model = query.get("model").map_or(agent.name.as_str(), String::as_str).to_owned();
    let variables = variables(&site, call, &caller, query);
    let metadata = variables.metadata(&agent);
    let defaults = defaults(&site, &variables, &model, &agent, caller.session);
    let realtime = &service.config.realtime;
    let socket = Kept::new(socket, realtime.ping, realtime.dead_after);
    let leg = RealtimeLeg::new(socket, defaults);
    let settings = leg.protocol().settings();
    let accepted = Accepted::new(&service, call, caller.tenant, &agent, metadata);
    let Some(lease) = slot.lease.take() else { return };
    let leg: Box<dyn Leg> = Box::new(leg);
    service.clone().run_call(lease, accepted, settings, leg).await;
    drop(slot);
}

/// What is known of a call over this transport: its parameters are the query's.
fn variables(
    site: &Site,
    call: CallId,
    caller: &Caller,
    query: HashMap<String, String>,
) -> Variables {
    let of = |key: &str| query.get(key).cloned().unwrap_or_default();
    Variables {
        call: call.to_string(),
        transport: "realtime",
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
        turn_detection: service.config.turn_detection(agent, &service.abilities()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Release;
    use crate::admission::limits::Limits;
    use crate::evidence::Evidence;

    fn offer(gates: &mut OwnerGates, owner: u64) -> Answer {
        let now = crate::time::Timestamp::from_millis(1);
        gates.rotate(now, OwnerId(owner), Generation(0), Cancelled::Superseded);
        let offer =
            Offer::plain(gates.name_offer(), OwnerId(owner), now, now + Duration::from_secs(60));
        gates.ask(now, Stage::Call, offer)
    }

    /// The grant has left the gate and its waiter goes before it has looked.
    #[tokio::test]
    async fn a_grant_that_crosses_a_leaving_client_comes_back_unused() {
        let limits = Limits { max_wait_ms: 60_000, ..Limits::of(1, 4) };
        let shared = Gates::new(Clock::start(), [(Stage::Call, limits)]);
        let (control, _wakes) = mpsc::channel(2);
        let mut holder = shared.for_owner(control);
        let Answer::Admitted(lease) = offer(&mut holder, 1) else { panic!("the gate is empty") };
        let (control, wakes) = mpsc::channel(2);
        let mut gates = shared.for_owner(control);
        let Answer::Queued(ticket) = offer(&mut gates, 2) else { panic!("the gate is full") };
        let (gates, ticket, wakes) = (Some(gates), Some(ticket), Some(wakes));
        let parked = Parked { gates, ticket, wakes, owner: OwnerId(2), shared: shared.clone() };
        shared.settle(lease, Release::Completed(Evidence::Completed));
        drop(parked);
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        shared.look(Stage::Call, |gate| {
            let counts = gate.counts(shared.now());
            assert_eq!((counts.active, counts.queued, counts.quarantined), (0, 0, 0));
            assert_eq!(gate.ledger().released_on(Evidence::NeverStarted), 1);
            assert!(gate.generation(OwnerId(2)).is_none(), "the owner is forgotten");
        });
    }
}
