//! HTTP and WebSocket: our own accept loop, the routes, and who may use them.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post, put};

use super::service::Service;
use crate::transport::realtime::secrets::Secrets;
use crate::transport::webrtc::Port;

mod accept;
mod admission;
mod answer;
mod asterisk;
mod auth;
mod body;
mod budget;
mod bypass;
mod callbacks;
mod calls;
mod cors;
mod desk;
mod handoffs;
mod hold;
mod kept;
mod multipart;
mod openapi;
mod pages;
mod peers;
mod realtime;
mod resume;
mod secrets;
mod shown;
mod sideband;
pub(super) mod slot;
mod stall;
mod tls;
mod twilio;
mod twilio_auth;
mod twilio_outgoing;
mod twilio_voice;
mod upgrade;
mod watch;

pub use accept::{Listening, bind, serve};
pub(super) use realtime::offer_call;
pub(super) use twilio_voice::why;

/// What every handler is given.
#[derive(Clone)]
pub struct Site {
    /// What all calls share.
    pub service: Arc<Service>,
    /// Ephemeral keys that live.
    pub secrets: Arc<std::sync::Mutex<Secrets>>,
    /// Room for the large messages of all clients.
    large: Arc<tokio::sync::Semaphore>,
    /// Units held by hand, to be given back.
    pub holds: Arc<hold::Holds>,
    /// Telephone calls that have their line and wait for their stream.
    seats: Arc<twilio_voice::Seats>,
    /// The UDP port of WebRTC calls, where there is one.
    port: Option<Arc<Port>>,
    /// WebRTC calls that live.
    peers: Arc<peers::Peers>,
    /// Calls whose clients may come back.
    resumptions: Arc<resume::Resumptions>,
}

/// Most ephemeral keys alive at once.
const SECRETS_MAX: usize = 10_000;

impl Site {
    /// The site of a service.
    pub fn new(service: Arc<Service>, port: Option<Arc<Port>>) -> Site {
        let secrets = Arc::new(std::sync::Mutex::new(Secrets::new(SECRETS_MAX)));
        Site {
            resumptions: Arc::new(resume::Resumptions::new(&service.incarnation)),
            service,
            secrets,
            large: budget::room(),
            holds: Arc::default(),
            seats: Arc::default(),
            port,
            peers: Arc::default(),
        }
    }
}

/// Every route there is.
fn routes(site: Site) -> Router {
    Router::new()
        .route("/healthz", get(calls::healthz))
        .route("/readyz", get(calls::readyz))
        .route("/metrics", get(calls::metrics))
        .route("/v1/calls", get(calls::list))
        .route("/v1/calls/{id}", get(calls::show))
        .route("/v1/drain", get(calls::drain_state).put(calls::drain))
        .route("/v1/ledger", get(admission::ledger))
        .route("/v1/admission", get(admission::list))
        .route("/v1/admission/{gate}", get(admission::one).patch(admission::change))
        .route("/v1/admission/{gate}/hold", put(hold::hold).delete(hold::let_go))
        .route("/v1/admission/{gate}/log", get(watch::log))
        .route("/v1/admission/{gate}/reclaim", post(watch::reclaim))
        .route("/v1/admission/{gate}/shadow", put(watch::add_shadow).delete(watch::drop_shadows))
        .merge(promises())
        .route("/v1/realtime", get(realtime::upgrade))
        .merge(asterisk::routes())
        .merge(twilio::routes())
        .merge(peers::routes(&site))
        .route("/openapi.json", get(openapi::show))
        .route("/prompts/{locale}/{file}", get(pages::prompt))
        .route("/", get(pages::index))
        .route("/ops", get(pages::ops))
        .route("/{file}", get(pages::file))
        .fallback(answer::not_found)
        .method_not_allowed_fallback(answer::wrong_method)
        .layer(axum::middleware::from_fn(body::whole))
        .layer(axum::middleware::from_fn_with_state(site.clone(), bypass::counted))
        .with_state(site)
}

/// What is promised, and working on it.
fn promises() -> Router<Site> {
    Router::new()
        .route("/v1/callbacks", get(callbacks::list).post(callbacks::create))
        .route("/v1/callbacks/claim", post(callbacks::claim))
        .route("/v1/callbacks/{id}", get(callbacks::show))
        .route("/v1/callbacks/{id}/extend", post(callbacks::extend))
        .route("/v1/callbacks/{id}/start_dialling", post(callbacks::start_dialling))
        .route("/v1/callbacks/{id}/settle", post(callbacks::settle))
        .route("/v1/callbacks/{id}/cancel", post(callbacks::cancel))
        .route("/v1/callbacks/{id}/resolve", post(callbacks::resolve))
        .route("/v1/callbacks/{id}/replay", post(callbacks::replay))
        .route("/v1/handoffs", get(handoffs::list))
        .route("/v1/handoffs/{id}", get(handoffs::show))
        .route("/v1/handoffs/{id}/acknowledge", post(handoffs::acknowledge))
        .route("/v1/handoffs/{id}/connected", post(handoffs::connected))
        .route("/v1/handoffs/{id}/end", post(handoffs::end))
}
