//! Dials over SIP: through a trunk, or where a SIP address says.

use std::sync::{Arc, Weak};

use super::dialler::{Attempt, Dialled, Line};
use super::service::Service;
use crate::config::Outbound;
use crate::store::{Outcome, Record};
use crate::transport::sip::{Credentials, Dial, Rung, Shared};

/// The port of SIP where an address names none.
const PORT: u16 = 5060;

/// Dials over SIP.
pub(super) struct SipLine(Weak<Service>);

impl SipLine {
    pub(super) fn new(service: &Arc<Service>) -> SipLine {
        SipLine(Arc::downgrade(service))
    }
}

impl Line for SipLine {
    fn name(&self) -> &'static str {
        "sip"
    }

    fn dial(&self, record: &Record) -> Dialled {
        let (service, destination) = (self.0.upgrade(), record.offer.destination.clone());
        Box::pin(async move {
            let Some(service) = service else { return Attempt::no_line("the server ends") };
            let Some(shared) = service.sip() else {
                return Attempt::no_line("no SIP is spoken here");
            };
            match whom(&service, &destination).await {
                Ok(dial) => ring(shared, dial, &service.config.outbound).await,
                Err(problem) => Attempt::alone(Outcome::Failed, problem),
            }
        })
    }
}

/// Where the INVITE goes, and what it asks for.
pub(super) async fn whom(service: &Service, destination: &str) -> Result<Dial, String> {
    let (outbound, trunk) = (&service.config.outbound, &service.config.sip.trunk);
    let (uri, host) = match (destination.strip_prefix("sip:"), &trunk.address) {
        (Some(address), None) => {
            let host = address.rsplit_once('@').map_or(address, |(_, host)| host);
            (destination.to_owned(), host.to_owned())
        }
        // Whoever has a trunk rings through it.
        (Some(_), Some(trunk)) => (destination.to_owned(), trunk.clone()),
        (None, Some(trunk)) if destination.starts_with('+') => {
            (format!("sip:{destination}@{trunk};user=phone"), trunk.clone())
        }
        (None, None) if destination.starts_with('+') => {
            return Err("numbers are rung through a trunk, and sip.trunk names none".to_owned());
        }
        (None, _) => return Err(format!("{destination} is rung over TLS, which is not spoken")),
    };
    let us = service.sip().map(|shared| shared.address());
    let peers = tokio::net::lookup_host(with_port(&host)).await;
    let peers = peers.map_err(|problem| format!("{host} is not found: {problem}"))?;
    let same_kind =
        |peer: &std::net::SocketAddr| us.is_none_or(|us| us.is_ipv4() == peer.is_ipv4());
    let mut peers = peers.filter(same_kind);
    let peer = peers.next().ok_or_else(|| format!("{host} has no address that we can ring"))?;
    let password = trunk.password_env.as_ref().and_then(|name| std::env::var(name).ok());
    let credentials = trunk.user.clone().zip(password);
    Ok(Dial {
        uri,
        from: outbound.from.clone(),
        peer,
        ring_max: outbound.ring_max,
        credentials: credentials.map(|(user, password)| Credentials { user, password }),
    })
}

fn with_port(host: &str) -> String {
    let has_port = match host.rfind(']') {
        Some(end) => host[end..].contains(':'),
        None => host.contains(':'),
    };
    if has_port { host.to_owned() } else { format!("{host}:{PORT}") }
}

async fn ring(shared: &Arc<Shared>, dial: Dial, outbound: &Outbound) -> Attempt {
    let leg = match shared.ring(dial).await {
        Rung::Answered(leg) => leg,
        Rung::Busy => return Attempt::alone(Outcome::NoAnswer, "busy"),
        Rung::NoAnswer => return Attempt::alone(Outcome::NoAnswer, "it rang, and nobody came"),
        Rung::Declined => return Attempt::alone(Outcome::NoAnswer, "declined"),
        Rung::Refused(status) => {
            return Attempt::alone(Outcome::Failed, format!("refused with SIP {status}"));
        }
        Rung::Unreachable => return Attempt::alone(Outcome::Failed, "nobody answers SIP there"),
        Rung::NoPlace => return Attempt::no_line("no place for another dialog"),
        Rung::NoPort(problem) => {
            return Attempt::no_line(format!("no port for its sound: {problem}"));
        }
    };
    Attempt::with(leg, outbound.machine, "sip").await
}

#[cfg(test)]
mod tests {
    use super::with_port;

    #[test]
    fn an_address_without_a_port_has_the_usual_one() {
        for (host, whole) in [
            ("desk.example", "desk.example:5060"),
            ("192.0.2.7:5071", "192.0.2.7:5071"),
            ("[2001:db8::1]", "[2001:db8::1]:5060"),
            ("[2001:db8::1]:5071", "[2001:db8::1]:5071"),
        ] {
            assert_eq!(with_port(host), whole);
        }
    }
}
