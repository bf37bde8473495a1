//! Calls that we place.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use super::call::Signalling;
use super::dialog::{Said, Setup};
use super::leg::SipLeg;
use super::outgoing::{Outgoing, Wanted};
use super::port::{Shared, WAITING_MAX};
use super::respond::Credentials;
use super::rtp_port;

/// Whom to ring.
#[derive(Clone, Debug)]
pub struct Dial {
    /// What is rung: `sip:+15550100@192.0.2.1`.
    pub uri: String,
    /// The number or name that is shown to them.
    pub from: String,
    /// Where the INVITE goes.
    pub peer: SocketAddr,
    /// So long it may ring.
    pub ring_max: Duration,
    /// What is said to who asks for a password.
    pub credentials: Option<Credentials>,
}

/// What came of it.
#[derive(Debug)]
pub enum Rung {
    /// Somebody, or something, has answered.
    Answered(Box<SipLeg>),
    /// They are speaking already.
    Busy,
    /// It rang, and nobody came.
    NoAnswer,
    /// They do not want to.
    Declined,
    /// There is no such number, or no way to it.
    Refused(u16),
    /// Nobody has answered at all, not even to refuse.
    Unreachable,
    /// So many calls are under way that there is no place for another.
    NoPlace,
    /// There is no port for its sound.
    NoPort(io::Error),
}

impl Rung {
    /// What a refusal means (RFC 3261, 21.4 to 21.6).
    fn refused(status: u16) -> Rung {
        match status {
            486 | 600 => Rung::Busy,
            408 | 480 | 487 => Rung::NoAnswer,
            603 => Rung::Declined,
            _ => Rung::Refused(status),
        }
    }
}

impl Shared {
    /// Rings somebody until it is known what comes of it. Dropping it takes the call back.
    pub async fn ring(self: &Arc<Self>, dial: Dial) -> Rung {
        let socket = match rtp_port::bind(self.rtp()) {
            Ok(socket) => socket,
            Err(problem) => return Rung::NoPort(problem),
        };
        let local = match socket.local_addr() {
            Ok(local) => local,
            Err(problem) => return Rung::NoPort(problem),
        };
        let Dial { uri, from, peer, ring_max, credentials } = dial;
        let (inbox, messages) = mpsc::channel(WAITING_MAX);
        let call_id = format!("{:032x}", rand::random::<u128>());
        // Who answers gets their tag by answering: until then nobody has one.
        let key = (call_id.clone(), String::new());
        let Some(seat) = self.seat(key, peer.ip(), 0, inbox) else { return Rung::NoPlace };
        let wanted = Wanted {
            uri,
            from: format!("<sip:{from}@{}>", self.address()),
            call_id,
            peer,
            hears_at: SocketAddr::new(self.media_ip(), local.port()),
            ring_max,
            credentials,
        };
        let setup = Setup::fresh(self.address(), "UDP", self.t1());
        let setup = Setup { srtp: self.srtp(), codecs: self.codecs(), ..setup };
        let outgoing = Outgoing::begin(self.clock().now(), setup, wanted);
        let (mut line, signalling) = Signalling::place(outgoing, messages, seat, self.clone());
        tokio::spawn(signalling.run());
        match line.said.recv().await {
            Some(Said::Media(media)) => {
                let leg = SipLeg::new(self.clone(), line, socket, peer.ip(), media);
                Rung::Answered(Box::new(leg))
            }
            Some(Said::Refused(status)) => Rung::refused(status),
            Some(Said::Ended("no_answer")) => Rung::NoAnswer,
            Some(Said::Ended(_) | Said::Key(_) | Said::Referred(_)) | None => Rung::Unreachable,
        }
    }
}
