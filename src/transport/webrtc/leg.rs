//! A Realtime session over one peer connection, as the call's task polls it.

mod beside;
mod resumed;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::time::Sleep;
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::EVENTS_LABEL;
use super::demux::check_name;
use super::offer::{BadOffer, Offer};
use super::peer::{MESSAGE_MAX, Peer, Said};
use super::port::{Datagram, Port, Seat};
use super::restart::{Offered, Restarts};
use super::sideband::{Door, Sidebands};
use super::sound::{SoundIn, SoundOut};
use crate::codec::opus::OpusFault;
use crate::leg::{FromCaller, HangUp, PlayoutState, ToCaller};
use crate::time::{Timestamp, ms};
use crate::transport::realtime::{Audible, Defaults, Medium, Outbox, OutputBuffer, Protocol};
use crate::transport::{Clock, Leg, LegLost};

/// A client that has its answer has to be connected within this time.
const CONNECT_MAX: Duration = ms(15_000);
/// Our last words are confirmed within this time, or were not heard.
const LEAVE_MAX: Duration = ms(1_000);
/// The caller hears what was sent so much later: the network and the far end's own buffer.
const FAR_END: Duration = ms(60);
/// RTP is sent no further ahead than this, so that to stop sending is to be silent.
const LEAD: Duration = ms(40);
/// Bytes of events on their way to a peer; what is more waits here and is bounded here.
const UNCONFIRMED_MAX: usize = 128 * 1024;
/// How the answer to a connectivity check begins.
const CHECK_ANSWERED: [u8; 2] = [1, 1];
/// Datagrams that are worked on before others have their turn.
const BURST: usize = 64;

/// A call's connection between its answer and its leg.
pub struct Seated {
    seat: Seat,
    peer: Peer,
    clock: Arc<dyn Clock>,
}

impl Seated {
    /// Answers an offer: a seat at the port, and the SDP to answer with. Events of at most
    /// `heard_max` bytes are taken, as far as the library can.
    pub fn answer(
        port: &Arc<Port>,
        clock: Arc<dyn Clock>,
        offer: &Offer,
        heard_max: u64,
    ) -> Result<(Seated, String), BadOffer> {
        let now = clock.instant(clock.now()).into_std();
        let heard_max = u32::try_from(heard_max).unwrap_or(MESSAGE_MAX).min(MESSAGE_MAX);
        let (peer, answer) = Peer::answer(now, offer, port.candidates(), heard_max)?;
        let seat = port.seat(&answer.name);
        Ok((Seated { seat, peer, clock }, answer.sdp))
    }

    /// Cancelling it hangs up.
    pub fn hang_up(&self) -> tokio_util::sync::CancellationToken {
        self.seat.hang_up()
    }
}

/// The Realtime events on a data channel, sound as Opus over RTP.
///
/// *Heard* is what was sent, by the call's own paced clock, at most 40 ms ahead, less the 60 ms
/// that the network and the far end's buffer hold; on an interruption we truncate the answer
/// ourselves, as nobody but us knows what was played.
///
/// Nothing is kept back here: what the call paces goes out at once, so that a pause of the call is
/// silence at the far end.
pub struct PeerLeg {
    seat: Seat,
    peer: Peer,
    clock: Arc<dyn Clock>,
    protocol: Protocol,
    outbox: Outbox,
    /// What is written for one sideband, or for the peer alone.
    aside: Outbox,
    /// What the peer alone is told, in front of all else, when it is back.
    introduction: VecDeque<Bytes>,
    sidebands: Sidebands,
    offered: Offered,
    buffer: OutputBuffer,
    ear: SoundIn,
    mouth: SoundOut,
    heard: VecDeque<FromCaller>,
    /// Filled by the protocol and emptied at once: kept for its memory.
    fresh: Vec<FromCaller>,
    hung_up: Pin<Box<WaitForCancellationFutureOwned>>,
    /// When something last came from the peer.
    last_sign: Timestamp,
    /// A connectivity check that was met with one of ours instead of an answer, as the library does
    /// with one that nominates at once. It is looked at again when ours is answered; its sender
    /// would else repeat it only after half a second.
    unanswered: Option<(SocketAddr, BytesMut)>,
    timer: Pin<Box<Sleep>>,
    state: State,
}

/// What went back to where a datagram came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SentBack {
    Nothing,
    Something,
    /// A connectivity check's answer.
    Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The client has its answer; the events' channel is not open yet.
    Connecting {
        until: Timestamp,
        /// What it is called if it never opens.
        missed: &'static str,
    },
    Open,
    /// Hung up; the last words are on their way.
    Leaving {
        from: Timestamp,
        until: Timestamp,
    },
    /// The connection is over.
    Gone(&'static str),
    /// It is, and its client may come back: events wait.
    Held,
}

impl PeerLeg {
    /// A session over a connection that was just answered; its first words wait for the channel.
    pub fn new(seated: Seated, defaults: Defaults) -> Result<Self, OpusFault> {
        let Seated { seat, peer, clock } = seated;
        let (ear, mouth) = resumed::sounds()?;
        let mut outbox = Outbox::new(&defaults.id_seed);
        let aside = Outbox::new(&format!("{}_aside", defaults.id_seed));
        let mut protocol = Protocol::over(Medium::Peer, defaults);
        let mut fresh = Vec::new();
        protocol.begin(&mut fresh, &mut outbox);
        let now = clock.now();
        Ok(PeerLeg {
            hung_up: Box::pin(seat.hang_up().cancelled_owned()),
            timer: Box::pin(tokio::time::sleep_until(clock.instant(now))),
            state: State::Connecting { until: now + CONNECT_MAX, missed: "unopened" },
            last_sign: now,
            ear,
            mouth,
            heard: fresh.drain(..).collect(),
            buffer: OutputBuffer::default(),
            seat,
            peer,
            clock,
            protocol,
            outbox,
            aside,
            introduction: VecDeque::new(),
            sidebands: Sidebands::new(),
            offered: Offered::new(),
            fresh,
            unanswered: None,
        })
    }

    /// The session's protocol, to look at.
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// Where others go in who may see the session's events.
    pub fn door(&self) -> Door {
        self.sidebands.door()
    }

    /// Where further offers of the peer go in.
    pub fn restarts(&self) -> Restarts {
        self.offered.restarts()
    }

    /// Does all that can be done now. Ready when the connection is over or somebody was heard.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = self.clock.now();
            if self.hung_up.as_mut().poll(cx).is_ready() {
                self.be_gone("closed");
            }
            self.restart(cx);
            let mut more = self.receive(cx);
            self.tick(now);
            self.listen(now);
            more |= self.listen_aside(cx);
            self.flush(now);
            self.welcome(cx);
            if !self.heard.is_empty() || matches!(self.state, State::Gone(_)) {
                return Poll::Ready(());
            }
            if more {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            // A deadline that stays in the past must not spin.
            let due = self.due().map_or(now + ms(1_000), |due| due.max(now + ms(1)));
            self.timer.as_mut().reset(self.clock.instant(due));
            if self.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Takes what has come; `true`: there may be more.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        for _ in 0..BURST {
            let Poll::Ready(Some(datagram)) = self.seat.datagrams.poll_recv(cx) else {
                return false;
            };
            self.last_sign = self.clock.now();
            let now = self.clock.instant(self.last_sign).into_std();
            self.take(now, datagram);
        }
        true
    }

    fn take(&mut self, now: Instant, Datagram { from, bytes }: Datagram) {
        let is_answer = bytes.starts_with(&CHECK_ANSWERED);
        let check = check_name(&bytes).is_some().then(|| bytes.clone());
        self.peer.receive(now, from, bytes);
        let sent = self.transmit(Some(from));
        if let Some(check) = check {
            // We send to nobody but those whose check had our password in it.
            if sent != SentBack::Nothing {
                self.seat.prove(from);
            }
            self.unanswered = (sent != SentBack::Answer).then_some((from, check));
        } else if is_answer
            && let Some((from, check)) = self.unanswered.take_if(|(of, _)| *of == from)
        {
            self.peer.receive(now, from, check);
            self.transmit(None);
        }
    }

    /// Sends what has to be sent, and says what of it went to this address.
    fn transmit(&mut self, watched: Option<SocketAddr>) -> SentBack {
        let mut back = SentBack::Nothing;
        while let Some((to, datagram)) = self.peer.poll_send() {
            self.seat.send(to, &datagram);
            if watched == Some(to) {
                let is_answer = datagram.starts_with(&CHECK_ANSWERED);
                back = back.max(if is_answer { SentBack::Answer } else { SentBack::Something });
            }
        }
        back
    }

    fn tick(&mut self, now: Timestamp) {
        self.peer.tick(self.clock.instant(now).into_std());
        let heard = self.ear.play(now);
        if !heard.is_empty() && !matches!(self.state, State::Gone(_)) {
            self.heard.push_back(FromCaller::Audio(heard));
        }
        self.buffer.tick(now, &mut self.outbox);
        match self.state {
            State::Connecting { until, .. } if until <= now => self.be_gone("timeout"),
            State::Leaving { from, until } => {
                let said = self.has_said_all() && self.peer.unconfirmed() == 0;
                if until <= now || from <= now && said {
                    self.be_gone("closed");
                }
            }
            State::Connecting { .. } | State::Open | State::Gone(_) | State::Held => {}
        }
    }

    /// What the peer said goes to the protocol, and from there to the call.
    fn listen(&mut self, now: Timestamp) {
        let at = self.clock.instant(now).into_std();
        while let Some(said) = self.peer.poll(at) {
            let is_open = matches!(self.state, State::Open);
            match said {
                Said::Opened => {
                    if let State::Connecting { .. } = self.state {
                        self.state = State::Open;
                    }
                }
                Said::Event(event) if is_open => {
                    self.protocol.hear(&event, &mut self.fresh, &mut self.outbox);
                    self.heard.extend(self.fresh.drain(..));
                }
                Said::Binary if is_open => self.protocol.hear_binary(&mut self.outbox),
                Said::OtherChannel { id, label } => {
                    self.protocol.hear_channel(&label, EVENTS_LABEL, &mut self.aside);
                    while let Some(refusal) = self.aside.pop_text() {
                        self.peer.say_on(at, id, &refusal);
                    }
                }
                Said::Overlong if is_open => {
                    self.protocol.hear_overlong(self.peer.heard_max(), &mut self.outbox);
                }
                Said::Endless => {
                    if is_open {
                        self.protocol.hear_overlong(self.peer.heard_max(), &mut self.outbox);
                        self.flush(now);
                    }
                    self.be_gone("protocol");
                    return;
                }
                Said::Event(_) | Said::Binary | Said::Overlong => {}
                Said::Sound { sequence, timestamp, payload } => {
                    self.ear.push(now, sequence, timestamp, payload);
                }
                Said::Gone(how) => self.be_gone(how),
            }
        }
    }

    /// Events go out as far as the peer confirms them.
    fn flush(&mut self, now: Timestamp) {
        let at = self.clock.instant(now).into_std();
        if matches!(self.state, State::Open | State::Leaving { .. }) {
            while self.peer.unconfirmed() < UNCONFIRMED_MAX {
                let Some(event) = self.next_event() else { break };
                self.say_event(at, &event);
            }
        }
        if self.outbox.is_overfull() {
            self.be_gone("unread");
        }
        self.transmit(None);
    }

    fn has_said_all(&self) -> bool {
        self.introduction.is_empty() && self.outbox.is_empty()
    }

    /// The next event for the peer, which all beside it have been told unless it is the peer's own.
    fn next_event(&mut self) -> Option<Bytes> {
        self.introduction.pop_front().or_else(|| {
            let event = self.outbox.pop()?;
            self.sidebands.tell(&event);
            Some(event)
        })
    }

    /// Says one event, or that it is too long for the peer; one that takes not even that is told
    /// nothing.
    fn say_event(&mut self, at: Instant, event: &[u8]) {
        let most = self.peer.message_max();
        let told = if event.len() > most {
            self.protocol.cannot_say(event, most, &mut self.aside);
            self.aside.pop().filter(|told| told.len() <= most)
        } else {
            None
        };
        let event = told.as_deref().unwrap_or(event);
        // Every event was written as JSON text.
        let text = std::str::from_utf8(event).unwrap_or_default();
        if event.len() <= most && !self.peer.say_event(at, text) {
            self.be_gone("closed");
        }
    }

    fn due(&mut self) -> Option<Timestamp> {
        let state = match self.state {
            State::Connecting { until, .. } => Some(until),
            State::Leaving { from, until } => {
                Some(if from > self.clock.now() { from } else { until })
            }
            State::Open | State::Gone(_) | State::Held => None,
        };
        let peer = self.peer.due().map(|due| self.clock.at(due));
        [state, peer, self.ear.due(), self.buffer.due()].into_iter().flatten().min()
    }

    /// The connection is over; the peer is told where it still listens.
    fn be_gone(&mut self, how: &'static str) {
        let how = match self.state {
            State::Connecting { missed, .. } if how == "timeout" => missed,
            _ => how,
        };
        if !matches!(self.state, State::Gone(_)) {
            tracing::debug!(how, heard = ?self.ear.tally(), "a peer connection is over");
            self.state = State::Gone(how);
            self.outbox.discard();
            self.peer.close();
            self.transmit(None);
        }
    }

    /// Sound that the protocol let through goes out at once, and silence behind sound that stops.
    fn sound(&mut self, now: Timestamp, stops: bool) {
        let mut packets = Vec::new();
        while let Some(audible) = self.outbox.pop_audible() {
            match &audible {
                Audible::Over { .. } => self.mouth.finish(now, &mut packets),
                Audible::Clear { .. } => self.mouth.clear(),
                Audible::Sound { .. } => {}
            }
            if let Some(pcm) = self.buffer.take(now, audible, &mut self.outbox) {
                self.mouth.say(now, &pcm, &mut packets);
            }
        }
        if stops {
            self.mouth.hush(now, &mut packets);
        }
        if let State::Held = self.state {
            return;
        }
        let at = self.clock.instant(now).into_std();
        for packet in packets {
            self.peer.say_sound(at, packet);
        }
    }

    fn hang_up(&mut self, now: Timestamp, why: HangUp) {
        let plays_until = self.buffer.plays_until().unwrap_or(now);
        let from = if why.lets_finish() { plays_until + FAR_END } else { now };
        self.state = match self.state {
            State::Gone(how) => State::Gone(how),
            State::Held => State::Held,
            State::Connecting { .. } | State::Open | State::Leaving { .. } => {
                State::Leaving { from, until: from + LEAVE_MAX }
            }
        };
    }
}

impl Leg for PeerLeg {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<FromCaller> {
        loop {
            if let Some(what) = self.heard.pop_front() {
                return Poll::Ready(what);
            }
            if let State::Gone(how) = self.state {
                return Poll::Ready(FromCaller::Gone { how });
            }
            std::task::ready!(self.poll_work(cx));
        }
    }

    fn send(&mut self, what: ToCaller) -> Result<(), LegLost> {
        match self.state {
            State::Connecting { .. } | State::Open | State::Held => {}
            // Behind the hang-up nobody is told any more; what was said before still goes out.
            State::Leaving { .. } => return Ok(()),
            State::Gone(_) => return Err(LegLost),
        }
        let now = self.clock.now();
        let goodbye = if let ToCaller::HangUp { why } = &what { Some(*why) } else { None };
        let stops =
            matches!(&what, ToCaller::Playout { state, .. } if *state != PlayoutState::Resumed);
        self.protocol.say(what, &mut self.outbox);
        self.sound(now, stops);
        if let Some(why) = goodbye {
            self.hang_up(now, why);
        }
        if !matches!(self.state, State::Held) {
            self.flush(now);
        }
        if matches!(self.state, State::Gone(_)) { Err(LegLost) } else { Ok(()) }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LegLost>> {
        // What waits for a peer to confirm goes out as it does, in poll_recv.
        while matches!(self.state, State::Leaving { .. }) {
            std::task::ready!(self.poll_work(cx));
            self.heard.clear();
        }
        Poll::Ready(Ok(()))
    }

    fn lead_max(&self) -> Option<Duration> {
        Some(LEAD)
    }

    fn far_end_delay(&self) -> Duration {
        FAR_END
    }

    fn name(&self) -> &'static str {
        "webrtc"
    }
}
