//! The port that all SIP comes in by: each message is read, and handed to the dialog it is for.
//!
//! What is for no dialog is answered here without a memory of it (RFC 3261, 8.2.7), so that nobody
//! can fill one; an INVITE begins a dialog, of which there is a bounded number.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustls::ServerConfig;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_rustls::TlsAcceptor;

use super::bound::{self, NoPort};
use super::call::{Inbound, Ringing, Signalling, Way};
use super::count::{Count, Counts};
use super::dialog::{Dialog, Setup};
use super::digest::{Doorkeeper, Verdict};
use super::message::{MESSAGE_MAX, Message, Request, Response, Wrong, parse};
use super::network::{heard, told};
use super::rtp_port::RtpPorts;
use super::stateless;
use super::stream;
use super::table::{Dialogs, Key, Seat};
use super::write::{Answer, back_to};
use crate::transport::Clock;
use crate::transport::places::Places;

/// Largest datagram there is.
const DATAGRAM_MAX: usize = 65_536;
/// Messages that may wait for one dialog.
pub(super) const WAITING_MAX: usize = 32;
/// INVITEs that may wait for the server to look at them.
const INVITES_MAX: usize = 256;
/// When somebody is to try again for whom there was no place at all.
const RETRY_S: &str = "5";

/// How SIP is spoken here.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it is listened, UDP and TCP.
    pub listen: Option<SocketAddr>,
    /// And by TLS, with what is shown to who connects. Sound comes in at the same interface.
    pub tls: Option<(SocketAddr, Arc<ServerConfig>)>,
    /// What peers call this machine, where that is not the address listened on.
    pub public_ip: Option<IpAddr>,
    /// Whose addresses may ring without a password; empty: nobody's, and where nobody has a
    /// password either, all.
    pub peers: Vec<super::Network>,
    /// Who may ring with one.
    pub users: super::Users,
    /// Which ports sound comes in by.
    pub rtp_ports: Option<std::ops::RangeInclusive<u16>>,
    /// Whether that is encrypted.
    pub srtp: super::Srtp,
    /// How it may be encoded.
    pub codecs: super::Codecs,
    /// What a packet takes there and back.
    pub t1: Duration,
    /// A caller whose sound stops for so long is gone; `None`: never.
    pub media_timeout: Option<Duration>,
    /// Dialogs that are remembered at once, and connections that are open, in all.
    pub most: u32,
    /// And with one address.
    pub most_each: u32,
}

/// What all calls of a port share.
pub struct Shared {
    socket: Option<UdpSocket>,
    us: SocketAddr,
    /// Where TLS is spoken.
    secure: Option<SocketAddr>,
    rtp: RtpPorts,
    settings: Settings,
    clock: Arc<dyn Clock>,
    dialogs: Arc<Dialogs>,
    counts: Counts,
    /// `None`: nobody has a password.
    doorkeeper: Option<Doorkeeper>,
    /// Tags of answers without a memory are made with it: nobody can guess one.
    secret: u64,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("us", &self.us).finish_non_exhaustive()
    }
}

/// The port.
#[derive(Debug)]
pub struct SipPort {
    shared: Arc<Shared>,
    invites: mpsc::Sender<(Ringing, Signalling)>,
    plain: Option<TcpListener>,
    secure: Option<(TcpListener, Arc<ServerConfig>)>,
}

/// Calls as they come in.
#[derive(Debug)]
pub struct Invites(mpsc::Receiver<(Ringing, Signalling)>);

impl Invites {
    /// The next one; `None` once the port is closed.
    pub async fn next(&mut self) -> Option<(Ringing, Signalling)> {
        self.0.recv().await
    }
}

impl SipPort {
    /// Binds; must be called within the runtime.
    pub fn bind(settings: Settings, clock: Arc<dyn Clock>) -> Result<(SipPort, Invites), NoPort> {
        let (socket, plain) = settings.listen.map(bound::plain).transpose()?.unzip();
        let tls = settings.tls.as_ref();
        let secure = tls.map(|(at, tls)| Ok((bound::secure(*at)?, tls.clone()))).transpose()?;
        let local = |listener: &TcpListener| listener.local_addr().ok();
        let plain_at = plain.as_ref().and_then(local);
        let secure_at = secure.as_ref().and_then(|(listener, _)| local(listener));
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let ip = plain_at.or(secure_at).unwrap_or(nowhere).ip();
        let reached = |at: SocketAddr| SocketAddr::new(settings.public_ip.unwrap_or(ip), at.port());
        let us = reached(plain_at.or(secure_at).unwrap_or(nowhere));
        let rtp = RtpPorts { ip, range: settings.rtp_ports.clone() };
        let users = settings.users.clone();
        let doorkeeper = (!users.is_empty()).then(|| Doorkeeper::new(users, rand::random()));
        let shared = Shared {
            dialogs: Dialogs::new(settings.most, settings.most_each),
            doorkeeper,
            socket,
            us,
            secure: secure_at.map(reached),
            rtp,
            settings,
            clock,
            counts: Counts::default(),
            secret: rand::random(),
        };
        let (invites, waiting) = mpsc::channel(INVITES_MAX);
        let port = SipPort { shared: Arc::new(shared), invites, plain, secure };
        Ok((port, Invites(waiting)))
    }

    /// What all calls of it share.
    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Reads for as long as the process lives.
    pub async fn run(self) {
        let port = Arc::new(Door { shared: self.shared, invites: self.invites });
        let places = Arc::new(port.shared.places());
        let accept = async |listener: Option<TcpListener>, tls: Option<TlsAcceptor>| {
            if let Some(listener) = listener {
                stream::accept(listener, tls, places.clone(), port.clone()).await;
            }
        };
        let (secure, tls) = self.secure.unzip();
        let tls = tls.map(TlsAcceptor::from);
        tokio::join!(port.clone().read_datagrams(), accept(self.plain, None), accept(secure, tls));
    }
}

/// Where messages come in.
pub(super) struct Door {
    pub shared: Arc<Shared>,
    invites: mpsc::Sender<(Ringing, Signalling)>,
}

impl Door {
    async fn read_datagrams(self: Arc<Self>) {
        let Some(socket) = &self.shared.socket else { return };
        let mut buffer = vec![0; DATAGRAM_MAX];
        loop {
            // An error is one peer's (its port is closed) and passes.
            let Ok((length, from)) = socket.recv_from(&mut buffer).await else {
                tokio::task::yield_now().await;
                continue;
            };
            let datagram = &buffer[..length];
            // What keeps a way through a NAT open is no message.
            if datagram.iter().all(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
                continue;
            }
            self.take(heard(from), Way::Datagrams, datagram);
        }
    }

    /// One message. A parser that breaks takes nothing with it but what it was to read.
    pub fn take(&self, from: SocketAddr, way: Way, bytes: &[u8]) {
        let shared = &self.shared;
        if !shared.may_speak(from.ip()) {
            return shared.counts.add(Count::Strangers);
        }
        let taken = catch_unwind(AssertUnwindSafe(|| self.sort(from, way, bytes)));
        if taken.is_err() {
            shared.counts.add(Count::Broken);
        }
    }

    fn sort(&self, from: SocketAddr, way: Way, bytes: &[u8]) {
        let shared = &self.shared;
        let read = if bytes.len() > MESSAGE_MAX { Err(Wrong::Nothing) } else { parse(bytes) };
        match read {
            Ok(Message::Request(request)) => self.request(from, way, request),
            Ok(Message::Response(response)) => self.response(from, way, response),
            Err(Wrong::Nothing) => shared.counts.add(Count::Malformed),
            Err(Wrong::Request(request, status)) => {
                shared.counts.add(Count::Malformed);
                if let Some(answer) = stateless::wrong(&request, status, &shared.tag(&request)) {
                    shared.answer(&way, from, &request, &answer);
                }
            }
        }
    }

    fn response(&self, from: SocketAddr, way: Way, response: Response) {
        let Some(call_id) = response.fields.get("call-id").map(str::to_owned) else {
            return self.shared.counts.add(Count::Nobodys);
        };
        let tag = response.fields.tag("to").unwrap_or_default().to_owned();
        // Some telephones answer with a tag of their own: the dialog knows what it has asked.
        let key = self.shared.dialogs.known((call_id, tag));
        let message = Message::Response(response);
        if self.shared.pass_on(&key, Inbound { from, way, message }).is_some() {
            self.shared.counts.add(Count::Nobodys);
        }
    }

    fn request(&self, from: SocketAddr, way: Way, request: Request) {
        let key = (
            request.fields.get("call-id").unwrap_or_default().to_owned(),
            request.fields.tag("from").unwrap_or_default().to_owned(),
        );
        if request.method == "INVITE" && self.shared.begins_anew(&key, &request) {
            return self.invite(from, way, key, request);
        }
        let inbound = Inbound { from, way: way.clone(), message: Message::Request(request) };
        let Some(inbound) = self.shared.pass_on(&key, inbound) else { return };
        let Message::Request(request) = inbound.message else { return };
        if request.method == "INVITE" && request.fields.tag("to").is_none() {
            return self.invite(from, way, key, request);
        }
        let tag = self.shared.tag(&request);
        if self.is_asked(from, &way, &request) {
            return;
        }
        match stateless::answer(&request, &tag) {
            Some(answer) => self.shared.answer(&way, from, &request, &answer),
            None => self.shared.counts.add(Count::Nobodys),
        }
    }

    /// Somebody has to say a password first.
    fn is_asked(&self, from: SocketAddr, way: &Way, request: &Request) -> bool {
        let shared = &self.shared;
        let Some(challenge) = shared.asks(from.ip(), request) else { return false };
        shared.counts.add(Count::Unproven);
        let tag = shared.tag(request);
        let answer = Answer::of(401, &tag).with("WWW-Authenticate", challenge);
        shared.answer(way, from, request, &answer);
        true
    }

    fn invite(&self, from: SocketAddr, way: Way, key: Key, request: Request) {
        let shared = &self.shared;
        // Whom we have rung may speak of that call and begin none.
        if !shared.may_ring(from.ip()) {
            return shared.counts.add(Count::Strangers);
        }
        if self.is_asked(from, &way, &request) {
            return;
        }
        let (inbox, messages) = mpsc::channel(WAITING_MAX);
        let tag = shared.tag(&request);
        let cseq = request.fields.cseq().map_or(0, |(number, _)| number);
        let full = || {
            shared.counts.add(Count::Flood);
            let answer = Answer::of(503, &tag).with("Retry-After", RETRY_S);
            shared.answer(&way, from, &request, &answer);
        };
        let (Some(seat), Ok(place)) =
            (shared.seat(key, from.ip(), cseq, inbox), self.invites.try_reserve())
        else {
            return full();
        };
        let setup = Setup::fresh(shared.us, way.transport(), shared.settings.t1);
        let (srtp, codecs) = (shared.srtp(), shared.codecs());
        let setup = Setup { srtp, codecs, ..setup.secured(shared.secure, &request) };
        let back = back_to(&request, from);
        match Dialog::begin(shared.clock.now(), setup, request, from) {
            Ok(dialog) => {
                place.send(Signalling::begin(dialog, from, way, messages, seat, shared.clone()));
            }
            Err(refusal) => shared.send(&way, back, refusal),
        }
    }
}

impl Shared {
    /// What came and went no further.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Where it is reached.
    pub fn address(&self) -> SocketAddr {
        self.us
    }

    /// Where it is reached by TLS.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.secure
    }

    /// Dialogs that live, and dialogs that are over and remembered for what comes again.
    pub fn dialogs(&self) -> (usize, usize) {
        self.dialogs.counts()
    }

    pub(super) fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    pub(super) fn rtp(&self) -> &RtpPorts {
        &self.rtp
    }

    pub(super) fn media_ip(&self) -> IpAddr {
        self.us.ip()
    }

    pub(super) fn t1(&self) -> Duration {
        self.settings.t1
    }

    pub(super) fn srtp(&self) -> super::Srtp {
        self.settings.srtp
    }

    pub(super) fn codecs(&self) -> super::Codecs {
        self.settings.codecs
    }

    pub(super) fn media_timeout(&self) -> Option<Duration> {
        self.settings.media_timeout
    }

    /// For connections.
    pub(super) fn places(&self) -> Places {
        Places::new(self.settings.most, self.settings.most_each)
    }

    /// Sends now or never: what does not fit is lost, as on any network.
    pub(super) fn send(&self, way: &Way, to: SocketAddr, bytes: Bytes) {
        match way {
            Way::Datagrams => {
                let to = told(self.rtp.ip, to);
                let _ = self.socket.as_ref().map(|socket| socket.try_send_to(&bytes, to));
            }
            Way::Stream(out) | Way::Secure(out) => drop(out.try_send(bytes)),
        }
    }

    fn answer(&self, way: &Way, from: SocketAddr, request: &Request, answer: &Answer<'_>) {
        self.send(way, back_to(request, from), answer.write(request, from));
    }

    pub(super) fn may_ring(&self, ip: IpAddr) -> bool {
        self.settings.peers.is_empty() || self.doorkeeper.is_some() || self.is_peer(ip)
    }

    fn may_speak(&self, ip: IpAddr) -> bool {
        self.may_ring(ip) || self.dialogs.are_with(ip)
    }

    fn is_peer(&self, ip: IpAddr) -> bool {
        self.settings.peers.iter().any(|network| network.has(ip))
    }

    /// The challenge to somebody who has to say a password first.
    fn asks(&self, from: IpAddr, request: &Request) -> Option<String> {
        let asked = matches!(request.method.as_str(), "INVITE" | "REGISTER");
        let door = self.doorkeeper.as_ref().filter(|_| asked && !self.is_peer(from))?;
        match door.look(self.clock.now(), from, request) {
            Verdict::Known => None,
            Verdict::Ask(challenge) => Some(challenge),
        }
    }

    /// The same for a request that comes again.
    fn tag(&self, request: &Request) -> String {
        let mut hasher = DefaultHasher::new();
        self.secret.hash(&mut hasher);
        for name in ["via", "from", "call-id", "cseq"] {
            request.fields.get(name).hash(&mut hasher);
        }
        format!("{:016x}", hasher.finish())
    }

    /// Who was refused tries again under the same name, a number further (RFC 3261, 8.1.3.5).
    fn begins_anew(&self, key: &Key, request: &Request) -> bool {
        let cseq = request.fields.cseq().map_or(0, |(number, _)| number);
        request.fields.tag("to").is_none() && self.dialogs.was_over_before(key, cseq)
    }

    /// Hands a message to its dialog; back comes what is for none.
    fn pass_on(&self, key: &Key, inbound: Inbound) -> Option<Inbound> {
        let Some(route) = self.dialogs.inbox(key) else { return Some(inbound) };
        match route.try_send(inbound) {
            Ok(()) => None,
            Err(TrySendError::Full(_)) => {
                self.counts.add(Count::Overrun);
                None
            }
            Err(TrySendError::Closed(inbound)) => Some(inbound),
        }
    }

    /// A place for one more dialog.
    pub(super) fn seat(
        &self,
        key: Key,
        ip: IpAddr,
        cseq: u32,
        inbox: mpsc::Sender<Inbound>,
    ) -> Option<Seat> {
        self.dialogs.seat(key, ip, cseq, inbox)
    }
}
