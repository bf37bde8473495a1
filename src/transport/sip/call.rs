//! An INVITE on its way to a call: [`Ringing`] is what the server decides about, [`Signalling`]
//! the task that speaks SIP for it, from its first message to the last that may come again.
//!
//! The two, and later the call's leg, only talk over queues: whichever of them breaks, the other
//! ends the call.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};

use super::dialog::{Dialog, Hop, Referred, Said};
use super::leg::SipLeg;
use super::message::{Address, Message, user};
use super::outgoing::Outgoing;
use super::port::Shared;
use super::rtp_port;
use super::sdp::Media;
use super::table::Seat;
use super::talk::Talk;
use crate::time::{Timestamp, ms};

/// Orders that may wait; a call gives five in all.
const ORDERS_MAX: usize = 8;
/// What a call has to know and has not taken yet.
const SAID_MAX: usize = 64;

/// Fields of a peer's own that are kept with its call.
const HEADERS_MAX: usize = 16;

/// How messages go back to where they came from.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// As datagrams.
    Datagrams,
    /// Over the connection that they came by.
    Stream(mpsc::Sender<Bytes>),
    /// The same where it is one of TLS.
    Secure(mpsc::Sender<Bytes>),
}

impl Way {
    pub fn transport(&self) -> &'static str {
        match self {
            Way::Datagrams => "UDP",
            Way::Stream(_) => "TCP",
            Way::Secure(_) => "TLS",
        }
    }
}

/// A message for a dialog.
#[derive(Debug)]
pub(super) struct Inbound {
    pub from: SocketAddr,
    pub way: Way,
    pub message: Message,
}

/// What a call decides.
#[derive(Debug)]
pub(super) enum Order {
    Ring,
    Refuse {
        status: u16,
        retry_after_s: Option<u32>,
    },
    /// Somebody listens at this address.
    Accept {
        at: SocketAddr,
    },
    HangUp,
    /// The caller is to ring somebody else, and it is to be told what came of it.
    Refer {
        to: String,
        tell: oneshot::Sender<Referred>,
    },
}

/// Who rings whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invited {
    /// The caller's address as it can be rung: a number, or `sip:user@host`; empty where it is
    /// withheld.
    pub from: String,
    /// The number or name that was dialled.
    pub to: String,
    /// The peer's name for the call.
    pub call_id: String,
    /// What a trunk or an exchange says of it in fields of its own: `X-Agent`, `X-Queue`, …
    pub headers: BTreeMap<String, String>,
}

/// Where a call's sound will be heard.
#[derive(Debug)]
pub struct Ear {
    socket: UdpSocket,
    at: SocketAddr,
}

/// A caller who hears nothing yet. Dropping it refuses them.
#[derive(Debug)]
pub struct Ringing {
    /// Who rings whom.
    pub invited: Invited,
    peer: SocketAddr,
    orders: mpsc::Sender<Order>,
    said: mpsc::Receiver<Said>,
    shared: Arc<Shared>,
}

impl Ringing {
    /// The caller is to hear that it rings.
    pub fn ring(&self) {
        self.order(Order::Ring);
    }

    /// There is no room.
    pub fn refuse(self, status: u16, retry_after_s: Option<u32>) {
        self.order(Order::Refuse { status, retry_after_s });
    }

    /// Resolves when the caller has given up.
    pub async fn given_up(&mut self) {
        while !matches!(self.said.recv().await, Some(Said::Ended(_)) | None) {}
    }

    /// Takes a port for the call's sound. The error: there is none.
    pub fn listen(&self) -> std::io::Result<Ear> {
        let socket = rtp_port::bind(self.shared.rtp())?;
        let at = SocketAddr::new(self.shared.media_ip(), socket.local_addr()?.port());
        Ok(Ear { socket, at })
    }

    /// Answers the call; it begins when it is agreed where sound goes, which whoever made no offer
    /// says only in the ACK. `None`: the caller has given up.
    pub async fn answer(self, ear: Ear) -> Option<SipLeg> {
        self.order(Order::Accept { at: ear.at });
        let Ringing { peer, orders, said, shared, .. } = self;
        let mut line = Line { orders, said };
        let media = line.agreed().await?;
        Some(SipLeg::new(shared, line, ear.socket, peer.ip(), media))
    }

    fn order(&self, order: Order) {
        // A full queue is none of ours: nobody gives so many orders.
        let _ = self.orders.try_send(order);
    }
}

/// The call's end of its signalling. Dropping it hangs up.
#[derive(Debug)]
pub(super) struct Line {
    pub orders: mpsc::Sender<Order>,
    pub said: mpsc::Receiver<Said>,
}

impl Line {
    /// Waits until it is agreed how sound goes; `None`: it never will be. The signalling bounds the
    /// wait.
    async fn agreed(&mut self) -> Option<Media> {
        loop {
            match self.said.recv().await? {
                Said::Media(media) => return Some(media),
                // Nobody has said anything yet that a key could answer.
                Said::Key(_) | Said::Referred(_) => {}
                Said::Ended(_) | Said::Refused(_) => return None,
            }
        }
    }
}

/// The task that speaks SIP for one call.
#[derive(Debug)]
pub struct Signalling {
    talk: Box<dyn Talk>,
    inbox: mpsc::Receiver<Inbound>,
    orders: Option<mpsc::Receiver<Order>>,
    /// Gone once the call need not know any more.
    said: Option<mpsc::Sender<Said>>,
    /// Who waits for what comes of a REFER.
    referred: Option<oneshot::Sender<Referred>>,
    /// The way to the peer.
    way: Way,
    shared: Arc<Shared>,
    seat: Seat,
}

/// One thing that woke the task.
enum Woken {
    Came(Inbound),
    Ordered(Option<Order>),
    Due,
}

impl Signalling {
    pub(super) fn begin(
        dialog: Dialog,
        peer: SocketAddr,
        way: Way,
        inbox: mpsc::Receiver<Inbound>,
        seat: Seat,
        shared: Arc<Shared>,
    ) -> (Ringing, Signalling) {
        let (orders, ordered) = mpsc::channel(ORDERS_MAX);
        let (said, hears) = mpsc::channel(SAID_MAX);
        let request = dialog.request();
        let invited = Invited {
            from: caller(request.fields.get("from").unwrap_or_default()),
            to: user(&request.uri),
            call_id: request.fields.get("call-id").unwrap_or_default().to_owned(),
            headers: request.fields.own().take(HEADERS_MAX).collect(),
        };
        let ringing = Ringing { invited, peer, orders, said: hears, shared: shared.clone() };
        let (orders, said) = (Some(ordered), Some(said));
        let talk = Box::new(dialog);
        (ringing, Signalling { talk, inbox, orders, said, referred: None, way, shared, seat })
    }

    /// For a call that we place; the line hears what comes of it.
    pub(super) fn place(
        outgoing: Outgoing,
        inbox: mpsc::Receiver<Inbound>,
        seat: Seat,
        shared: Arc<Shared>,
    ) -> (Line, Signalling) {
        let (orders, ordered) = mpsc::channel(ORDERS_MAX);
        let (said, hears) = mpsc::channel(SAID_MAX);
        let line = Line { orders, said: hears };
        let (talk, way) = (Box::new(outgoing), Way::Datagrams);
        let (orders, said) = (Some(ordered), Some(said));
        (line, Signalling { talk, inbox, orders, said, referred: None, way, shared, seat })
    }

    /// Speaks until nothing can come any more.
    pub async fn run(mut self) {
        let clock = self.shared.clock();
        let sleep = tokio::time::sleep_until(clock.instant(clock.now()));
        tokio::pin!(sleep);
        loop {
            let now = clock.now();
            self.talk.tick(now);
            self.pass_on();
            let forgotten = self.talk.has_ended() && !self.seat.retire();
            if forgotten || self.talk.is_over(now) {
                return;
            }
            let due = self.talk.due().unwrap_or(now + ms(60_000));
            sleep.as_mut().reset(clock.instant(due));
            let woken = poll_fn(|cx| {
                if let Poll::Ready(Some(came)) = self.inbox.poll_recv(cx) {
                    return Poll::Ready(Woken::Came(came));
                }
                if let Some(orders) = &mut self.orders
                    && let Poll::Ready(order) = orders.poll_recv(cx)
                {
                    return Poll::Ready(Woken::Ordered(order));
                }
                sleep.as_mut().poll(cx).map(|()| Woken::Due)
            });
            let woken = woken.await;
            self.take(clock.now(), woken);
        }
    }

    fn take(&mut self, now: Timestamp, woken: Woken) {
        match woken {
            Woken::Came(Inbound { from, way, message }) => {
                let hop = Hop { from, transport: way.transport() };
                if self.talk.receive(now, message, hop) {
                    self.way = way;
                } else {
                    send(&mut *self.talk, &self.shared, &way);
                }
            }
            Woken::Ordered(Some(Order::Refer { to, tell })) => {
                self.referred = Some(tell);
                self.talk.refer(now, &to);
            }
            Woken::Ordered(Some(order)) => self.talk.obey(now, order),
            Woken::Ordered(None) => {
                self.orders = None;
                self.talk.hang_up(now);
            }
            Woken::Due => {}
        }
    }

    /// What has to be sent goes out, and the call is told what it has to know.
    fn pass_on(&mut self) {
        send(&mut *self.talk, &self.shared, &self.way);
        while let Some(what) = self.talk.poll_said() {
            if let Said::Referred(how) = what {
                // Who asked may have gone.
                let _ = self.referred.take().map(|asked| asked.send(how));
                continue;
            }
            let ends = matches!(what, Said::Ended(_) | Said::Refused(_));
            // A call that does not even take this is lost, and is told so by the end of the queue.
            let lost = self.said.as_ref().is_none_or(|said| said.try_send(what).is_err());
            if ends || lost {
                self.said = None;
                self.referred = None;
            }
        }
    }
}

fn send(dialog: &mut dyn Talk, shared: &Shared, way: &Way) {
    while let Some((to, bytes)) = dialog.poll_send() {
        shared.send(way, to, bytes);
    }
}

/// How a caller can be rung: by number where it is one, else by the whole address.
fn caller(from: &str) -> String {
    let Some(address) = Address::parse(from) else { return String::new() };
    let user = user(address.uri);
    let is_number = |text: &str| {
        let digits = text.strip_prefix('+').unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if is_number(&user) {
        return user;
    }
    let host = address.uri.rsplit_once('@').map_or("", |(_, host)| host);
    let host = host.split([';', '?']).next().unwrap_or_default();
    let withheld = user.is_empty()
        || user.eq_ignore_ascii_case("anonymous")
        || host.eq_ignore_ascii_case("anonymous.invalid");
    if withheld { String::new() } else { format!("sip:{user}@{host}") }
}

#[cfg(test)]
mod tests {
    use super::caller;

    #[test]
    fn who_calls_is_what_can_be_rung() {
        for (from, kept) in [
            ("\"Ada\" <sip:+15550100@192.0.2.4;user=phone>;tag=1", "+15550100"),
            ("<sip:ada@example.com:5062>;tag=1", "sip:ada@example.com:5062"),
            ("sip:ada@example.com;tag=1", "sip:ada@example.com"),
            ("\"Anonymous\" <sip:anonymous@anonymous.invalid>;tag=1", ""),
            ("<sip:192.0.2.4>;tag=1", ""),
            ("<tel:+15550100>;tag=1", "+15550100"),
        ] {
            assert_eq!(caller(from), kept, "{from}");
        }
    }
}
