//! The port that all SIP comes in by: each message is read, and handed to the dialog it is for.
//!
//! What is for no dialog is answered here without a memory of it (RFC 3261, 8.2.7), so that nobody
//! can fill one; an INVITE begins a dialog, of which there is a bounded number.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as StdSocket};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::call::{Inbound, Ringing, Signalling, Way};
use super::count::{Count, Counts};
use super::dialog::{Dialog, Setup};
use super::digest::{Doorkeeper, Verdict};
use super::message::{MESSAGE_MAX, Message, Request, Response, Wrong, parse};
use super::network::{heard, told};
use super::rtp_port::RtpPorts;
use super::stateless;
use super::write::{Answer, back_to};
use crate::transport::Clock;
use crate::transport::places::Places;

/// Largest datagram there is.
const DATAGRAM_MAX: usize = 65_536;
/// Messages that may wait for one dialog.
const WAITING_MAX: usize = 32;
/// INVITEs that may wait for the server to look at them.
const INVITES_MAX: usize = 256;
/// When somebody is to try again for whom there was no place at all.
const RETRY_S: &str = "5";

/// How SIP is spoken here.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it is listened, UDP and TCP.
    pub listen: SocketAddr,
    /// What peers call this machine, where that is not the address listened on.
    pub public_ip: Option<IpAddr>,
    /// Whose addresses may ring without a password; empty: nobody's, and where nobody has a
    /// password either, all.
    pub peers: Vec<super::Network>,
    /// Who may ring with one.
    pub users: super::Users,
    /// Which ports sound comes in by.
    pub rtp_ports: Option<std::ops::RangeInclusive<u16>>,
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
    socket: UdpSocket,
    us: SocketAddr,
    rtp: RtpPorts,
    settings: Settings,
    clock: Arc<dyn Clock>,
    table: Mutex<Table>,
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

/// Who is in a dialog: the peer's name for it, and the peer's tag.
type Key = (String, String);

#[derive(Debug, Default)]
struct Table {
    dialogs: BTreeMap<Key, Entry>,
    /// Dialogs that live, by the peer's address.
    by_address: BTreeMap<IpAddr, usize>,
    living: usize,
    /// Dialogs that are over and only answer what comes again.
    over: usize,
    /// Names of seats.
    next: u64,
}

#[derive(Debug)]
struct Entry {
    /// Its seat's.
    name: u64,
    inbox: mpsc::Sender<Inbound>,
    /// The number of the INVITE that began it.
    cseq: u32,
    is_over: bool,
}

/// A dialog's place, which goes with it.
#[derive(Debug)]
pub(super) struct Seat {
    key: Key,
    name: u64,
    ip: IpAddr,
    is_over: bool,
    shared: Arc<Shared>,
}

/// The port.
#[derive(Debug)]
pub struct SipPort {
    shared: Arc<Shared>,
    invites: mpsc::Sender<(Ringing, Signalling)>,
    listener: tokio::net::TcpListener,
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
    pub fn bind(settings: Settings, clock: Arc<dyn Clock>) -> io::Result<(SipPort, Invites)> {
        let (socket, listener) = bound(settings.listen)?;
        let local = socket.local_addr()?;
        let us = SocketAddr::new(settings.public_ip.unwrap_or(local.ip()), local.port());
        let rtp = RtpPorts { ip: local.ip(), range: settings.rtp_ports.clone() };
        let users = settings.users.clone();
        let doorkeeper = (!users.is_empty()).then(|| Doorkeeper::new(users, rand::random()));
        let shared = Shared {
            doorkeeper,
            socket,
            us,
            rtp,
            settings,
            clock,
            table: Mutex::default(),
            counts: Counts::default(),
            secret: rand::random(),
        };
        let (invites, waiting) = mpsc::channel(INVITES_MAX);
        let port = SipPort { shared: Arc::new(shared), invites, listener };
        Ok((port, Invites(waiting)))
    }

    /// What all calls of it share.
    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Reads for as long as the process lives.
    pub async fn run(self) {
        let port = Arc::new(Door { shared: self.shared, invites: self.invites });
        tokio::join!(port.clone().read_datagrams(), super::stream::accept(self.listener, port));
    }
}

/// UDP and TCP at one port; where the port is drawn, both have to be free.
fn bound(listen: SocketAddr) -> io::Result<(UdpSocket, tokio::net::TcpListener)> {
    const TRIES: u32 = 32;
    let mut tried = 0;
    loop {
        tried += 1;
        let socket = StdSocket::bind(listen)?;
        socket.set_nonblocking(true)?;
        match std::net::TcpListener::bind(socket.local_addr()?) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener)?;
                return Ok((UdpSocket::from_std(socket)?, listener));
            }
            Err(_) if listen.port() == 0 && tried < TRIES => {}
            Err(problem) => return Err(problem),
        }
    }
}

/// Where messages come in.
pub(super) struct Door {
    pub shared: Arc<Shared>,
    invites: mpsc::Sender<(Ringing, Signalling)>,
}

impl Door {
    async fn read_datagrams(self: Arc<Self>) {
        let mut buffer = vec![0; DATAGRAM_MAX];
        loop {
            // An error is one peer's (its port is closed) and passes.
            let Ok((length, from)) = self.shared.socket.recv_from(&mut buffer).await else {
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
        if !shared.may_ring(from.ip()) {
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
        let key = (response.fields.get("call-id"), response.fields.tag("to"));
        let key = match key {
            (Some(call_id), Some(tag)) => (call_id.to_owned(), tag.to_owned()),
            _ => return self.shared.counts.add(Count::Nobodys),
        };
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
        if self.is_asked(from, &way, &request) {
            return;
        }
        let (inbox, messages) = mpsc::channel(WAITING_MAX);
        let tag = shared.tag(&request);
        let cseq = request.fields.cseq().map_or(0, |(number, _)| number);
        let entry = Entry { name: 0, inbox, cseq, is_over: false };
        let full = || {
            shared.counts.add(Count::Flood);
            let answer = Answer::of(503, &tag).with("Retry-After", RETRY_S);
            shared.answer(&way, from, &request, &answer);
        };
        let (Some(seat), Ok(place)) =
            (shared.seat(key, from.ip(), entry), self.invites.try_reserve())
        else {
            return full();
        };
        let setup = Setup {
            us: shared.us,
            transport: way.transport(),
            t1: shared.settings.t1,
            tag: format!("{:016x}", rand::random::<u64>()),
            session: u64::from(rand::random::<u32>()),
        };
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

    /// Dialogs that live, and dialogs that are over and remembered for what comes again.
    pub fn dialogs(&self) -> (usize, usize) {
        let table = self.table();
        (table.living, table.over)
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
            Way::Datagrams => drop(self.socket.try_send_to(&bytes, told(self.rtp.ip, to))),
            Way::Stream(out) => drop(out.try_send(bytes)),
        }
    }

    fn answer(&self, way: &Way, from: SocketAddr, request: &Request, answer: &Answer<'_>) {
        self.send(way, back_to(request, from), answer.write(request, from));
    }

    pub(super) fn may_ring(&self, ip: IpAddr) -> bool {
        self.settings.peers.is_empty() || self.doorkeeper.is_some() || self.is_peer(ip)
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
        let is_over = |entry: &Entry| entry.is_over && entry.cseq < cseq;
        request.fields.tag("to").is_none() && self.table().dialogs.get(key).is_some_and(is_over)
    }

    /// Hands a message to its dialog; back comes what is for none.
    fn pass_on(&self, key: &Key, inbound: Inbound) -> Option<Inbound> {
        let route = self.table().dialogs.get(key).map(|entry| entry.inbox.clone());
        let Some(route) = route else { return Some(inbound) };
        match route.try_send(inbound) {
            Ok(()) => None,
            Err(TrySendError::Full(_)) => {
                self.counts.add(Count::Overrun);
                None
            }
            Err(TrySendError::Closed(inbound)) => Some(inbound),
        }
    }

    fn seat(self: &Arc<Self>, key: Key, ip: IpAddr, entry: Entry) -> Option<Seat> {
        let mut table = self.table();
        let each = table.by_address.get(&ip).copied().unwrap_or_default();
        let Settings { most, most_each, .. } = self.settings;
        if table.living >= most as usize || each >= most_each as usize {
            return None;
        }
        table.living += 1;
        table.next += 1;
        let name = table.next;
        table.by_address.insert(ip, each + 1);
        table.dialogs.insert(key.clone(), Entry { name, ..entry });
        Some(Seat { key, name, ip, is_over: false, shared: self.clone() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// The dialog is over: its place is somebody else's. `false`: so many are, that this one is not
    /// remembered any longer.
    pub fn retire(&mut self) -> bool {
        if self.is_over {
            return true;
        }
        self.is_over = true;
        let mut table = self.shared.table();
        table.leave(self.ip);
        table.over += 1;
        if let Some(entry) = table.dialogs.get_mut(&self.key).filter(|e| e.name == self.name) {
            entry.is_over = true;
        }
        table.over <= self.shared.settings.most as usize
    }
}

impl Table {
    fn leave(&mut self, ip: IpAddr) {
        self.living -= 1;
        if let Some(count) = self.by_address.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&ip);
            }
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut table = self.shared.table();
        match self.is_over {
            true => table.over -= 1,
            false => table.leave(self.ip),
        }
        // The same call may have begun anew meanwhile.
        if table.dialogs.get(&self.key).is_some_and(|entry| entry.name == self.name) {
            table.dialogs.remove(&self.key);
        }
    }
}
