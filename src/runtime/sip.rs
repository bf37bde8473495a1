//! Telephone calls over SIP: the call gate before they are answered, the call behind it.

use std::pin::pin;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::certificate::Certificate;
use super::clock::Clock;
use super::http::offer_call;
use super::http::slot::NoSlot;
use super::phone;
use super::service::{Accepted, Service};
use super::variables::Variables;
use crate::codec::g711;
use crate::config::{Agent, Config};
use crate::id::{CallId, Stage};
use crate::transport::sip::{Invited, Invites, NoPort, Ringing, Settings, SipPort};

/// How often it is looked whether somebody still has to be told goodbye.
const LOOK_EVERY: std::time::Duration = std::time::Duration::from_millis(25);

/// When somebody is to try again for whose sound there was no port.
const NO_PORT_RETRY_S: u32 = 5;

/// Takes the ports, where the configuration says so. The error says why they cannot be had.
pub(super) fn bind(
    config: &Config,
    certificate: Option<&Certificate>,
    clock: Clock,
) -> Result<Option<(SipPort, Invites)>, String> {
    let Config { sip, connections, .. } = config;
    if sip.listen.is_none() && sip.tls_listen.is_none() {
        return Ok(None);
    }
    let tls = match (sip.tls_listen, certificate) {
        // Whoever is not told of a protocol speaks the one that the port is for.
        (Some(at), Some(certificate)) => Some((at, Arc::new(certificate.shown_to(&[])?))),
        (Some(_), None) => return Err("sip.tls_listen: there is no certificate".to_owned()),
        (None, _) => None,
    };
    let settings = Settings {
        listen: sip.listen,
        tls,
        public_ip: sip.public_address,
        peers: sip.peers.clone(),
        users: sip.users.clone(),
        rtp_ports: sip.rtp_ports.clone(),
        srtp: sip.srtp,
        codecs: sip.codecs,
        t1: sip.t1,
        media_timeout: sip.media_timeout,
        most: connections.total,
        most_each: connections.per_address,
    };
    match SipPort::bind(settings, Arc::new(clock)) {
        Ok(bound) => Ok(Some(bound)),
        Err(NoPort { key, at, problem }) => {
            Err(format!("{key}: {at}: {problem}; choose another address, or \"\" for none"))
        }
    }
}

/// Takes calls at the port.
pub(super) fn open(service: &Arc<Service>, port: SipPort, invites: Invites) -> Vec<JoinHandle<()>> {
    let shared = port.shared();
    match shared.tls_address() {
        Some(secure) if secure == shared.address() => tracing::info!("sips:{secure} takes calls"),
        Some(secure) => tracing::info!("sip:{} and sips:{secure} take calls", shared.address()),
        None => tracing::info!("sip:{} takes calls", shared.address()),
    }
    service.set_sip(shared);
    vec![tokio::spawn(port.run()), tokio::spawn(take_calls(Arc::downgrade(service), invites))]
}

/// The goodbyes of the last calls go out, and are answered, for a bounded time.
pub(super) async fn last_words(service: &Service) {
    const LOOKS: u32 = 20;
    let Some(shared) = service.sip() else { return };
    for _ in 0..LOOKS {
        if shared.dialogs().0 == 0 {
            return;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn take_calls(service: std::sync::Weak<Service>, mut invites: Invites) {
    while let Some((ringing, signalling)) = invites.next().await {
        let Some(service) = service.upgrade() else { return };
        tokio::spawn(signalling.run());
        tokio::spawn(answer(service, ringing));
    }
}

/// Answers a call once there is a line for it and everything that listens; until then it rings.
async fn answer(service: Arc<Service>, mut ringing: Ringing) {
    let agent = dialled(&service, &ringing.invited).clone();
    let call = service.next_call();
    let tenant = service.tenants.find(service.config.sip.tenant.as_deref());
    let mut slot = {
        let mut taking = pin!(offer_call(&service, call, tenant, &agent));
        let slot = tokio::select! {
            biased;
            slot = &mut taking => slot,
            () = std::future::ready(()) => {
                ringing.ring();
                tokio::select! {
                    slot = &mut taking => slot,
                    () = ringing.given_up() => return,
                }
            }
        };
        match slot {
            Ok(slot) => slot,
            Err(none) => return refuse(&service, ringing, &none),
        }
    };
    let ear = match ringing.listen() {
        Ok(ear) => ear,
        Err(problem) => {
            tracing::error!("a call finds no port for its sound: {problem}");
            service.metrics.call_refused("no_port");
            return ringing.refuse(503, Some(NO_PORT_RETRY_S));
        }
    };
    let variables = variables(&service, call, &ringing);
    let settings = phone::settings(&service, &agent, &variables, g711::RATE_HZ, false);
    let accepted = Accepted::new(&service, call, tenant, &agent, &variables);
    let Some(leg) = ringing.answer(ear).await else { return };
    if let Some(lease) = slot.use_it() {
        service.run_call(lease, accepted, settings, Box::new(leg)).await;
    }
    drop(slot);
}

/// The agent that a trunk names (`X-Agent`), else the one that was dialled; the default one where
/// there is neither.
fn dialled<'a>(service: &'a Service, invited: &Invited) -> &'a Agent {
    let config = &service.config;
    let named = invited.headers.get("X-Agent").and_then(|name| config.agent(name));
    named.or_else(|| config.agent_at(&invited.to)).unwrap_or_else(|| config.default_agent())
}

/// 486 and 480 where only this call finds no room, 503 where nobody does.
fn refuse(service: &Service, ringing: Ringing, none: &NoSlot) {
    let (row, retry_after_s) = none.told(&service.gates, Stage::Call);
    service.metrics.call_refused(row.http_code);
    ringing.refuse(row.sip_status, retry_after_s);
}

fn variables(service: &Service, call: CallId, ringing: &Ringing) -> Variables {
    let invited = &ringing.invited;
    let tenant = service.config.sip.tenant.clone();
    let mut params = invited.headers.clone();
    params.insert("Call-ID".to_owned(), invited.call_id.clone());
    Variables {
        call: call.to_string(),
        transport: "sip",
        from: invited.from.clone(),
        to: invited.to.clone(),
        tenant: tenant.unwrap_or_default(),
        params,
    }
}
