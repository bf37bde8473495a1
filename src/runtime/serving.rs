//! A server that answers: bound, its gates open to nobody yet, its providers still to come.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::clock::Clock;
use super::decision_files::{DecisionFiles, RING_MIN};
use super::gates::{Gates, Setup};
use super::http::{self, Listening, Site};
use super::keeper::Keeper;
use super::prompts::PromptSounds;
use super::queue_memory;
use super::service::Service;
use crate::admission::Closed;
use crate::admission::limits::CloseMode;
use crate::config::{Config, Fallback, WebRtc};
use crate::id::Stage;
use crate::transport::webrtc::{Port, PortStats};

/// How long connections may take to end once the server is told to stop.
const STOP_MAX: Duration = Duration::from_secs(2);
/// How long calls may take to end once the drain's window has closed: their goodbye, the time that
/// it is waited for at the far end, and the peer's answer to it.
const END_MAX: Duration = Duration::from_secs(10);

/// A running server. It refuses calls as `not_ready` until [`super::start::open`].
pub struct Serving {
    /// Where it listens.
    pub address: SocketAddr,
    /// What all its calls share.
    pub service: Arc<Service>,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
    timer: JoinHandle<()>,
    port: Option<Arc<Port>>,
    media: Option<JoinHandle<()>>,
    phones: Vec<JoinHandle<()>>,
    decisions: Option<JoinHandle<()>>,
    /// Where AudioSocket connections come in, if they may.
    pub audiosocket: Option<SocketAddr>,
}

impl Serving {
    /// Begins to serve on a bound socket. The error says which port for calls cannot be had.
    pub fn begin(
        config: Config,
        fallback: Fallback,
        listening: Listening,
    ) -> Result<Serving, String> {
        let port = open_port(&config.webrtc)?;
        let clock = Clock::start();
        let sip = super::sip::bind(&config, clock)?;
        let listener = super::asterisk::bind(&config)?;
        let gates = Gates::new(clock, setups(&config));
        gates.close(Stage::Call, Closed::NotReady, CloseMode::FinishQueue);
        for stage in [Stage::Callback, Stage::Handoff] {
            // Nothing can be promised before there is a store.
            gates.close(stage, Closed::NotReady, CloseMode::EndQueue);
        }
        let prompts = PromptSounds::new(fallback);
        let service = Arc::new(Service::new(config, gates, clock, prompts, incarnation()));
        let timer = tokio::spawn(Keeper::new(service.clone()).run());
        let (stop, stopping) = watch::channel(false);
        let decisions = match DecisionFiles::open(&service) {
            Ok(files) => files.map(|files| tokio::spawn(files.run(stopping.clone()))),
            Err(problem) => {
                tracing::error!("admission.log_dir: {problem}; no decision is written");
                None
            }
        };
        let address = listening.address;
        let media = port.clone().map(|port| tokio::spawn(port.run()));
        let phones = sip.map(|(port, invites)| super::sip::open(&service, port, invites));
        let mut phones = phones.unwrap_or_default();
        let audiosocket = listener.as_ref().and_then(|listener| listener.local_addr().ok());
        phones.extend(listener.map(|listener| super::asterisk::open(&service, listener)));
        let site = Site::new(service.clone(), port.clone());
        let server = tokio::spawn(http::serve(listening, site, stopping));
        Ok(Serving {
            address,
            service,
            stop,
            server,
            timer,
            port,
            media,
            phones,
            decisions,
            audiosocket,
        })
    }

    /// What the UDP port of WebRTC calls has counted; `None` without one.
    pub fn port_stats(&self) -> Option<PortStats> {
        self.port.as_ref().map(|port| port.stats())
    }

    /// Refuses new calls and lets the accepted ones end by themselves, until the window closes or
    /// somebody is in a hurry.
    pub async fn drain(&self, window: Duration, hurry: impl Future<Output = ()>) {
        let service = &self.service;
        service.set_draining(true);
        service.gates.close(Stage::Call, Closed::Draining, CloseMode::EndQueue);
        let calls = service.callers.with_slot();
        if calls > 0 {
            tracing::info!("draining: {calls} calls; a second signal ends them now");
        }
        tokio::select! {
            () = service.callers.gone() => return,
            () = tokio::time::sleep(window) => {}
            () = hurry => {}
        }
        service.end_calls();
        let _ = tokio::time::timeout(END_MAX, service.callers.gone()).await;
    }

    /// Stops listening; connections that are not calls end.
    pub async fn stop(self) {
        // The server's task ends by itself once told; nobody else listens on this channel by then.
        let _ = self.stop.send(true);
        let _ = tokio::time::timeout(STOP_MAX, self.server).await;
        self.timer.abort();
        if let Some(media) = self.media {
            media.abort();
        }
        super::sip::last_words(&self.service).await;
        self.phones.iter().for_each(JoinHandle::abort);
        if let Some(decisions) = self.decisions {
            let _ = tokio::time::timeout(STOP_MAX, decisions).await;
        }
    }
}

/// The UDP port of all WebRTC calls, where the configuration wants them.
fn open_port(config: &WebRtc) -> Result<Option<Arc<Port>>, String> {
    let Some(listen) = config.listen else { return Ok(None) };
    let said = |problem: io::Error| {
        let problem = match problem.kind() {
            io::ErrorKind::AddrInUse => "is in use by another process".to_owned(),
            io::ErrorKind::PermissionDenied => "may not be bound by this user".to_owned(),
            io::ErrorKind::AddrNotAvailable => "is no address of this machine".to_owned(),
            _ => format!("cannot be bound: {problem}"),
        };
        format!(
            "webrtc.listen: the UDP port {listen} {problem}; choose another, \"{}\" for a free one, \
             or \"\" for no WebRTC calls",
            SocketAddr::new(listen.ip(), 0)
        )
    };
    let port = Port::bind(listen, &config.public_addresses).map_err(said)?;
    Ok(Some(Arc::new(port)))
}

/// What every gate begins with.
fn setups(config: &Config) -> Vec<(Stage, Setup)> {
    let admission = &config.admission;
    let kept = admission.log_lines as usize;
    let log_lines = if admission.log_dir.is_some() { kept.max(RING_MIN) } else { kept };
    let setup = |(stage, limits)| {
        queue_memory::warn(&config.gate_name(stage), config.gate_limits(stage));
        let law = config.gate_limits(stage).law();
        (stage, Setup { limits, law, log_lines })
    };
    config.gates().into_iter().map(setup).collect()
}

/// A short random name: a new process never continues another's counters.
fn incarnation() -> String {
    const LETTERS: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let random: [u8; 8] = rand::random();
    random.iter().map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])).collect()
}
