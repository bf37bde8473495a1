//! Those beside the peer: what they say, and how they begin.

use std::task::{Context, Poll};

use super::{BURST, PeerLeg, State};

impl PeerLeg {
    /// What sidebands say goes the same way; what they do wrong is told to them alone. `true`:
    /// there may be more.
    pub(super) fn listen_aside(&mut self, cx: &mut Context<'_>) -> bool {
        // What they say before the peer is there waits for it.
        if let State::Connecting { .. } = self.state {
            return false;
        }
        for _ in 0..BURST {
            let Poll::Ready(said) = self.sidebands.poll_said(cx) else { return false };
            if !matches!(self.state, State::Open) {
                continue;
            }
            match &said.text {
                Some(event) => self.protocol.hear(event, &mut self.fresh, &mut self.aside),
                None => self.protocol.hear_binary(&mut self.aside),
            }
            self.heard.extend(self.fresh.drain(..));
            while let Some(event) = self.aside.pop() {
                if event.starts_with(b"{\"type\":\"error\"") {
                    self.sidebands.answer(&said, &event);
                } else {
                    self.outbox.push(event);
                }
            }
        }
        true
    }

    /// A new sideband is told of the session, between the events that the peer is told.
    pub(super) fn welcome(&mut self, cx: &mut Context<'_>) {
        if matches!(self.state, State::Open) && self.has_said_all() {
            let (protocol, aside) = (&self.protocol, &mut self.aside);
            self.sidebands.poll_attached(cx, || {
                protocol.introduce(aside);
                aside.pop().unwrap_or_default()
            });
        }
    }
}
