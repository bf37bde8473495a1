//! What a leg is woken for.

use std::future::poll_fn;

use tokio::time::Instant;

use super::super::codec::Spoken;
use super::super::digest::Users;
use super::super::port::{Settings, SipPort};
use super::*;

/// The clock of the test's runtime.
struct Paused(Instant);

impl Clock for Paused {
    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }

    fn instant(&self, at: Timestamp) -> Instant {
        self.0 + at.since(Timestamp::ZERO)
    }

    fn at(&self, instant: std::time::Instant) -> Timestamp {
        Timestamp::ZERO + Instant::from_std(instant).duration_since(self.0)
    }
}

/// A leg, and the signalling's end of it.
fn leg(sends: bool) -> (SipLeg, mpsc::Receiver<Order>, mpsc::Sender<Said>) {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = Settings {
        listen: Some(here),
        tls: None,
        public_ip: None,
        peers: Vec::new(),
        users: Users::default(),
        rtp_ports: None,
        srtp: super::super::Srtp::Offered,
        codecs: super::super::Codecs::default(),
        t1: ms(500),
        media_timeout: Some(ms(20_000)),
        most: 1,
        most_each: 1,
    };
    let (port, _invites) = SipPort::bind(settings, Arc::new(Paused(Instant::now()))).unwrap();
    let (orders, ordered) = mpsc::channel(8);
    let (say, said) = mpsc::channel(8);
    let socket = std::net::UdpSocket::bind(here).unwrap();
    socket.set_nonblocking(true).unwrap();
    let remote = Some(socket.local_addr().unwrap());
    let socket = UdpSocket::from_std(socket).unwrap();
    let spoken = Spoken { codec: Codec::Pcmu, payload_type: 0, bits_max: None };
    let media = Media { remote, spoken, events: None, sends, hears: true, keys: None };
    let line = Line { orders, said };
    (SipLeg::new(port.shared(), line, socket, here.ip(), media), ordered, say)
}

/// On hold neither the way is kept open nor is silence the caller's end: there is nothing to wake
/// for but the call's own 20 ms.
#[tokio::test(start_paused = true)]
async fn on_hold_a_leg_is_not_woken_for_what_it_does_not_do() {
    let (mut leg, _ordered, _say) = leg(false);
    let mut polls = 0;
    for _ in 0..1_500 {
        let heard = poll_fn(|cx| {
            polls += 1;
            leg.poll_recv(cx)
        });
        assert!(matches!(heard.await, FromCaller::Audio(_)));
    }
    assert!(polls <= 3_010, "30 s of 20 ms, each waited for and then taken: {polls}");
}
