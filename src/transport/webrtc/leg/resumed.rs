//! The same session over another path or another peer connection.

use std::task::{Context, Poll};

use super::{CONNECT_MAX, PeerLeg, Seated, State};
use crate::codec::opus::OpusFault;
use crate::time::Timestamp;
use crate::transport::realtime::OutputBuffer;
use crate::transport::resume::{Resume, Ticket};
use crate::transport::webrtc::sound::{SoundIn, SoundOut};

/// An ear and a mouth of a fresh connection; its numbers are random (RFC 3550, 5.1).
pub(super) fn sounds() -> Result<(SoundIn, SoundOut), OpusFault> {
    let (sequence, timestamp) = rand::random();
    Ok((SoundIn::new()?, SoundOut::new(sequence, timestamp)?))
}

impl PeerLeg {
    /// Answers further offers of the peer, in its call's own task.
    pub(super) fn restart(&mut self, cx: &mut Context<'_>) {
        while let Poll::Ready(Some(restart)) = self.offered.poll(cx) {
            let now = self.clock.instant(self.clock.now()).into_std();
            let answer = self.peer.restart(now, &restart.offer);
            if let Ok(answer) = &answer {
                self.seat.rename(&answer.name);
            }
            restart.answer(answer.map(|answer| answer.sdp));
        }
    }
}

impl Resume for PeerLeg {
    type Wire = Seated;

    fn tell_ticket(&mut self, ticket: &Ticket) {
        // Nobody is beside the peer before its first events are out.
        self.protocol.tell_ticket(ticket, &mut self.outbox);
    }

    fn last_sign(&self) -> Option<Timestamp> {
        Some(self.last_sign)
    }

    fn hold(&mut self) {
        self.state = State::Held;
    }

    fn poll_held(&mut self, cx: &mut Context<'_>) {
        // The connection that they are for is over; dropped, that is their answer.
        while let Poll::Ready(Some(_)) = self.offered.poll(cx) {}
    }

    fn take_up(&mut self, seated: Seated, ticket: &Ticket) -> Option<Seated> {
        if !matches!(self.state, State::Held) {
            self.be_gone("taken_over");
        }
        // An encoder of the same kind was made before; without one nothing would be said.
        if let Ok((ear, mouth)) = sounds() {
            (self.ear, self.mouth) = (ear, mouth);
        }
        let Seated { seat, peer, clock } = seated;
        // Its client was answered how to come back once more.
        let until = clock.now() + CONNECT_MAX;
        self.state = State::Connecting { until, missed: "timeout" };
        self.hung_up = Box::pin(seat.hang_up().cancelled_owned());
        (self.seat, self.peer) = (seat, peer);
        self.buffer = OutputBuffer::default();
        self.heard.clear();
        self.unanswered = None;
        // Whoever is beside it knows the session, and is not to come back in the peer's place.
        self.protocol.introduce(&mut self.aside);
        self.protocol.tell_ticket(ticket, &mut self.aside);
        self.introduction = std::iter::from_fn(|| self.aside.pop()).collect();
        None
    }

    fn hang_up(&mut self) {
        self.be_gone("closed");
    }
}
