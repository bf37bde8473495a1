//! What a signalling task speaks for: a call that came in, or one that we place.

use std::net::SocketAddr;

use bytes::Bytes;

use super::call::Order;
use super::dialog::{Dialog, Hop, Said};
use super::message::Message;
use super::outgoing::Outgoing;
use crate::time::Timestamp;

/// One call's signalling, as its task drives it.
pub(super) trait Talk: Send + std::fmt::Debug {
    /// Does what is due.
    fn tick(&mut self, now: Timestamp);
    /// When that is so again.
    fn due(&self) -> Option<Timestamp>;
    /// Something came that is for this call, or says so. `true`: what follows goes the way that it
    /// came.
    fn receive(&mut self, now: Timestamp, message: Message, hop: Hop) -> bool;
    /// The call has decided.
    fn obey(&mut self, now: Timestamp, order: Order);
    /// The peer is to ring somebody else.
    fn refer(&mut self, now: Timestamp, to: &str);
    /// The call is over on our side.
    fn hang_up(&mut self, now: Timestamp);
    /// What is to be sent, and where to.
    fn poll_send(&mut self) -> Option<(SocketAddr, Bytes)>;
    /// What the call has to know.
    fn poll_said(&mut self) -> Option<Said>;
    /// Only what comes again is answered.
    fn has_ended(&self) -> bool;
    /// Nothing follows any more.
    fn is_over(&self, now: Timestamp) -> bool;
}

macro_rules! drives {
    ($talk:ident) => {
        fn tick(&mut self, now: Timestamp) {
            $talk::tick(self, now);
        }
        fn due(&self) -> Option<Timestamp> {
            $talk::due(self)
        }
        fn receive(&mut self, now: Timestamp, message: Message, hop: Hop) -> bool {
            $talk::receive(self, now, message, hop)
        }
        fn refer(&mut self, now: Timestamp, to: &str) {
            $talk::refer(self, now, to);
        }
        fn hang_up(&mut self, now: Timestamp) {
            $talk::hang_up(self, now);
        }
        fn poll_send(&mut self) -> Option<(SocketAddr, Bytes)> {
            $talk::poll_send(self)
        }
        fn poll_said(&mut self) -> Option<Said> {
            $talk::poll_said(self)
        }
        fn has_ended(&self) -> bool {
            $talk::has_ended(self)
        }
        fn is_over(&self, now: Timestamp) -> bool {
            $talk::is_over(self, now)
        }
    };
}

impl Talk for Dialog {
    drives!(Dialog);

    fn obey(&mut self, now: Timestamp, order: Order) {
        match order {
            Order::Ring => self.ring(),
            Order::Refuse { status, retry_after_s } => self.refuse(now, status, retry_after_s),
            Order::Accept { at } => self.accept(now, at),
            Order::HangUp => Dialog::hang_up(self, now),
            Order::Refer { to, .. } => Dialog::refer(self, now, &to),
        }
    }
}

impl Talk for Outgoing {
    drives!(Outgoing);

    fn obey(&mut self, now: Timestamp, order: Order) {
        match order {
            Order::HangUp => Outgoing::hang_up(self, now),
            Order::Refer { to, .. } => Outgoing::refer(self, now, &to),
            // Whoever rings has nothing to answer.
            Order::Ring | Order::Refuse { .. } | Order::Accept { .. } => {}
        }
    }
}
