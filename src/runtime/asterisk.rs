//! AudioSocket: an Asterisk connects for each of its calls. The call gate before sound is
//! exchanged, the call behind it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::ari::Dialplan;
use super::http::slot::{NoSlot, Slot};
use super::http::{offer_call, why};
use super::phone;
use super::service::{Accepted, Service};
use super::variables::Variables;
use crate::audio::Pcm;
use crate::call::Standing;
use crate::config::{Agent, Config};
use crate::id::CallId;
use crate::transport::asterisk::audiosocket::{Arrived, Count, arrive};
use crate::transport::places::{Place, Places};

/// A connection says which call it is within this time, or is none.
const UUID_WITHIN: Duration = Duration::from_secs(5);
/// The first sound of a call tells its rate; it is waited for so long.
const RATE_WITHIN: Duration = Duration::from_millis(300);
/// A caller for whom there is no room is told so for so long at most.
const REFUSAL_MAX: Duration = Duration::from_secs(20);
/// A peer that says nothing is asked whether it is there, first after this time.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// And so often then.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(5);
/// How long to pause when the process has no file descriptor left.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);

type Arrival = Arrived<TcpStream>;

/// Takes the port, where the configuration says so. The error says why it cannot be had.
pub(super) fn bind(config: &Config) -> Result<Option<TcpListener>, String> {
    let Some(listen) = config.asterisk.audiosocket_listen else { return Ok(None) };
    match listener(listen) {
        Ok(listener) => Ok(Some(listener)),
        Err(problem) => Err(format!(
            "asterisk.audiosocket_listen: {listen}: {problem}; choose another address, or \"\" for \
             no AudioSocket"
        )),
    }
}

fn listener(listen: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(listen)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Takes calls at the port.
pub(super) fn open(service: &Arc<Service>, listener: TcpListener) -> JoinHandle<()> {
    if let Ok(address) = listener.local_addr() {
        tracing::info!("audiosocket {address} takes calls");
    }
    tokio::spawn(take_calls(Arc::downgrade(service), listener))
}

async fn take_calls(service: std::sync::Weak<Service>, listener: TcpListener) {
    let most = service.upgrade().map(|service| service.config.connections.clone());
    let Some(most) = most else { return };
    let places = Arc::new(Places::new(most.total, most.per_address));
    loop {
        let accepted = listener.accept().await;
        let Some(service) = service.upgrade() else { return };
        match accepted {
            Ok((stream, peer)) => {
                if let Some(place) = admit(&service, &places, peer) {
                    tokio::spawn(welcome(service, stream, place));
                }
            }
            Err(problem) => {
                // Existing calls go on, new ones wait in the backlog.
                tracing::warn!("audiosocket: {problem}");
                tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
            }
        }
    }
}

/// Who may connect, and for whom there is room.
fn admit(service: &Service, places: &Arc<Places>, peer: SocketAddr) -> Option<Place> {
    let peers = &service.config.asterisk.audiosocket_peers;
    if !peers.is_empty() && !peers.iter().any(|network| network.has(peer.ip())) {
        service.audiosocket.add(Count::Stranger);
        return None;
    }
    let place = places.clone().take(peer.ip());
    if place.is_none() {
        service.audiosocket.add(Count::NoRoom);
    }
    place
}

async fn welcome(service: Arc<Service>, stream: TcpStream, place: Place) {
    // A socket that refuses the options still works, only slower, and is missed later.
    let _ = stream.set_nodelay(true);
    let alive = socket2::TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE_EVERY);
    let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&alive);
    match timeout(UUID_WITHIN, arrive(stream, service.audiosocket.clone())).await {
        Ok(Ok(arrived)) => answer(service, arrived).await,
        Ok(Err(how)) => tracing::debug!("audiosocket: no call: {how}"),
        Err(_) => service.audiosocket.add(Count::NothingSaid),
    }
    drop(place);
}

/// Speaks with a caller once there is a line; until then they hear nothing of us.
async fn answer(service: Arc<Service>, mut arrived: Arrival) {
    let agent = service.config.default_agent().clone();
    let call = service.next_call();
    let tenant = service.config.asterisk.audiosocket_tenant.as_deref();
    let tenant = service.tenants.find(tenant);
    let slot = tokio::select! {
        biased;
        slot = offer_call(&service, call, tenant, &agent) => slot,
        how = arrived.gone() => return tracing::debug!("{call}: given up: {how}"),
    };
    let mut slot = match slot {
        Ok(slot) => slot,
        Err(none) => return refuse(&service, arrived, &agent, none).await,
    };
    let rate_hz = arrived.rate_hz(RATE_WITHIN).await;
    let variables = variables(&service, call, &arrived);
    let settings = phone::settings(&service, &agent, &variables, rate_hz, false);
    let accepted = Accepted::new(&service, call, tenant, &agent, &variables);
    begin(service, &mut slot, accepted, settings, arrived).await;
    drop(slot);
}

async fn begin(
    service: Arc<Service>,
    slot: &mut Slot,
    accepted: Accepted,
    settings: crate::leg::Settings,
    arrived: Arrival,
) {
    let mover = Dialplan::of(&service, arrived.uuid());
    let leg = Box::new(arrived.answer(Arc::new(service.clock)).movable(mover));
    if let Some(lease) = slot.use_it() {
        service.run_call(lease, accepted, settings, leg).await;
    }
}

/// Asterisk has answered its caller: they are told why nobody speaks with them, where there are
/// words for it, and hung up on.
async fn refuse(service: &Service, mut arrived: Arrival, agent: &Agent, none: NoSlot) {
    let (cause, row) = why(service, &none);
    service.metrics.call_refused(row.http_code);
    let said = service.prompts.chooser().choose(&cause, &agent.language, &Standing::default());
    let rate_hz = arrived.rate_hz(RATE_WITHIN).await;
    let samples = service.prompts.sound(&said.prompt, &agent.language, rate_hz);
    let words = Pcm { rate_hz, samples };
    let mut ending = service.ending();
    let told = timeout(REFUSAL_MAX, arrived.refuse(service.clock.now(), &words));
    tokio::select! {
        _ = told => {}
        _ = ending.wait_for(|ending| *ending) => {}
    }
}

fn variables(service: &Service, call: CallId, arrived: &Arrival) -> Variables {
    let tenant = service.config.asterisk.audiosocket_tenant.clone();
    Variables {
        call: call.to_string(),
        transport: "audiosocket",
        from: String::new(),
        to: String::new(),
        tenant: tenant.unwrap_or_default(),
        params: BTreeMap::from([("uuid".to_owned(), arrived.uuid().to_owned())]),
    }
}
