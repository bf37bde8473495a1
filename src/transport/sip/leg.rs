//! A telephone call's sound, as the call's task polls it.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use super::call::{Line, Order};
use super::codec::Codec;
use super::count::Count;
use super::dialog::{Referred, Said};
use super::keys::Keys;
use super::network::{heard, told};
use super::port::Shared;
use super::rtp::{self, Source};
use super::sdp::Media;
use super::sound::{self, SoundIn, SoundOut};
use super::srtp::Guard;
use crate::audio::{Pcm, samples_to_duration};
use crate::id::ItemId;
use crate::leg::{FromCaller, HangUp, PlayoutState, ToCaller};
use crate::time::{Timestamp, ms};
use crate::transport::{Clock, Leg, LegLost, Transfer, Transferred};

/// The caller hears what was sent so much later: the network and the phone's own buffer.
const FAR_END: Duration = ms(60);
/// RTP is sent no further ahead than this, so that to stop sending is to be silent.
const LEAD: Duration = ms(40);
/// Packets that are read before others have their turn.
const BURST: usize = 64;
/// Largest packet that is read; what is longer is no telephone's.
const PACKET_MAX: usize = 2_048;

/// Opus, G.722 or G.711 over RTP beside a SIP dialog.
///
/// *Heard* is what was sent, by the call's own paced clock, at most 40 ms ahead, less the 60 ms
/// that the network and the phone's buffer hold. Nothing is kept back here: a pause of the call is
/// silence at the far end. A caller who holds the call hears nothing: what is said then is told to
/// the call as cut off.
pub struct SipLeg {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    orders: mpsc::Sender<Order>,
    said: mpsc::Receiver<Said>,
    socket: UdpSocket,
    source: Source,
    media: Media,
    /// Encrypts what is sent, where that is agreed on.
    guard: Option<Guard>,
    ear: SoundIn,
    keys: Keys,
    mouth: SoundOut,
    sounding: Option<Sounding>,
    /// When the caller was last heard, or had no reason to be.
    alive: Timestamp,
    heard: VecDeque<FromCaller>,
    buffer: Box<[u8]>,
    timer: Pin<Box<Sleep>>,
    state: State,
}

impl std::fmt::Debug for SipLeg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SipLeg").field("media", &self.media).finish_non_exhaustive()
    }
}

/// The item that sounds.
#[derive(Clone, Debug)]
struct Sounding {
    item: ItemId,
    /// How much of it was sent.
    sent: Duration,
    /// The caller holds the call, or held it: no more of this is heard.
    cut: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Hung up; the last words are on their way.
    Leaving {
        at: Timestamp,
    },
    Gone(&'static str),
}

impl SipLeg {
    pub(super) fn new(
        shared: Arc<Shared>,
        line: Line,
        socket: UdpSocket,
        peer: IpAddr,
        media: Media,
    ) -> SipLeg {
        let clock = shared.clock();
        let now = clock.now();
        let mut source = Source::of(peer);
        source.agree(media.remote);
        let mut guard = None;
        Guard::follow(&mut guard, media.keys.as_ref());
        SipLeg {
            orders: line.orders,
            said: line.said,
            socket,
            source,
            guard,
            ear: SoundIn::new(now),
            keys: Keys::default(),
            mouth: SoundOut::new(now, media.spoken, sound::drawn()),
            media,
            sounding: None,
            alive: now,
            heard: VecDeque::new(),
            buffer: vec![0; PACKET_MAX].into_boxed_slice(),
            timer: Box::pin(tokio::time::sleep_until(clock.instant(now))),
            state: State::Open,
            shared,
            clock,
        }
    }

    /// Where its sound comes in.
    pub fn local_address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Does all that can be done now. Ready when the call is over or somebody was heard.
    fn poll_work(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let now = self.clock.now();
            self.listen(cx, now);
            let more = self.receive(cx, now);
            self.tick(now);
            if !self.heard.is_empty() || matches!(self.state, State::Gone(_)) {
                return Poll::Ready(());
            }
            if more {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            // A deadline that stays in the past must not spin.
            let due = self.clock.instant(self.due().max(now + ms(1)));
            if self.timer.deadline() != due {
                self.timer.as_mut().reset(due);
            }
            ready!(self.timer.as_mut().poll(cx));
        }
    }

    /// What the signalling has to say.
    fn listen(&mut self, cx: &mut Context<'_>, now: Timestamp) {
        while !matches!(self.state, State::Gone(_)) {
            let Poll::Ready(said) = self.said.poll_recv(cx) else { return };
            match said {
                Some(Said::Media(media)) => self.agree(now, media),
                Some(Said::Key(key)) => self.hear(FromCaller::Dtmf(key)),
                Some(Said::Ended(how)) => self.be_gone(how),
                Some(Said::Referred(_)) => {}
                Some(Said::Refused(_)) | None => self.be_gone("closed"),
            }
        }
    }

    fn agree(&mut self, now: Timestamp, media: Media) {
        self.source.agree(media.remote);
        Guard::follow(&mut self.guard, media.keys.as_ref());
        self.alive = now;
        self.mouth.turn_to(media.spoken);
        let silenced = self.media.sends && !media.sends;
        self.media = media;
        if silenced {
            self.mouth.clear();
            self.tell_cut();
        }
    }

    /// What the caller sends is the caller's voice. On hold it is music at best: who does not hear
    /// us says nothing to us.
    fn hears(&self) -> bool {
        self.media.hears && self.media.sends
    }

    /// What sounded was heard so far and no further.
    fn tell_cut(&mut self) {
        if let Some(sounding) = self.sounding.as_mut().filter(|sounding| !sounding.cut) {
            sounding.cut = true;
            let (item, played) = (sounding.item.clone(), sounding.sent.saturating_sub(FAR_END));
            self.hear(FromCaller::Truncate { item, played, tag: None });
        }
    }

    fn hear(&mut self, what: FromCaller) {
        if let State::Open = self.state {
            self.heard.push_back(what);
        }
    }

    /// Takes the packets that have come; `true`: there may be more.
    fn receive(&mut self, cx: &mut Context<'_>, now: Timestamp) -> bool {
        for _ in 0..BURST {
            let mut buffer = std::mem::take(&mut self.buffer);
            let mut read = ReadBuf::new(&mut buffer);
            let polled = self.socket.poll_recv_from(cx, &mut read);
            let length = read.filled().len();
            if let Poll::Ready(Ok(from)) = polled {
                self.take(now, heard(from), &buffer[..length]);
            }
            self.buffer = buffer;
            // An error is one peer's (its port is closed) and passes.
            if polled.is_pending() {
                return false;
            }
        }
        true
    }

    fn take(&mut self, now: Timestamp, from: SocketAddr, bytes: &[u8]) {
        let counts = self.shared.counts();
        // Where ours goes is told by sound alone, where there is a key by what that proves.
        let mut source = self.source;
        if !source.hears(from, counts) {
            return;
        }
        if rtp::is_rtcp(bytes) {
            return counts.add(Count::Rtcp);
        }
        let opened = self.guard.as_mut().map(|guard| guard.open(bytes)).transpose();
        let opened = match opened {
            Ok(opened) => opened,
            Err(why) => return counts.add(why),
        };
        let packet = rtp::parse(opened.as_deref().unwrap_or(bytes))
            .filter(|packet| packet.payload.len() <= rtp::PAYLOAD_MAX);
        let Some(packet) = packet else { return counts.add(Count::RtpMalformed) };
        (self.source, self.alive) = (source, now);
        if self.media.events == Some(packet.payload_type) {
            if let Some(key) = self.keys.hear(&packet) {
                self.hear(FromCaller::Dtmf(key));
            }
            return;
        }
        let codec = match packet.payload_type {
            kind if kind == self.media.spoken.payload_type => Some(self.media.spoken.codec),
            // Either was offered or may be, and each says which it is.
            kind => Codec::of_payload_type(kind).filter(|codec| self.shared.codecs().allow(*codec)),
        };
        let Some(codec) = codec else { return counts.add(Count::RtpUnknownType) };
        let is_sound = self.hears() && !packet.payload.is_empty();
        if is_sound && !self.ear.push(now, &packet, codec) {
            counts.add(Count::RtpMalformed);
        }
    }

    fn tick(&mut self, now: Timestamp) {
        let heard = self.ear.play(now);
        if !heard.is_empty() {
            self.hear(FromCaller::Audio(heard));
        }
        if self.keeps_open() {
            let mut packets = Vec::new();
            self.mouth.keep_alive(now, &mut packets);
            self.send_packets(packets);
        }
        if self.silent_until().is_some_and(|until| until <= now) {
            self.order(Order::HangUp);
            self.be_gone("timeout");
        }
        if matches!(self.state, State::Leaving { at } if at <= now) {
            self.order(Order::HangUp);
            self.be_gone("closed");
        }
    }

    /// The way of what is said is kept open.
    fn keeps_open(&self) -> bool {
        self.media.sends && self.state == State::Open
    }

    /// Until when a caller who is to be heard may be silent altogether.
    fn silent_until(&self) -> Option<Timestamp> {
        let most = self.shared.media_timeout()?;
        (self.hears() && self.state == State::Open).then(|| self.alive + most)
    }

    /// When [`SipLeg::tick`] has something to do: it does all that is named here.
    fn due(&self) -> Timestamp {
        let keep_alive = self.keeps_open().then(|| self.mouth.keep_alive_due());
        let leaves = match self.state {
            State::Leaving { at } => Some(at),
            State::Open | State::Gone(_) => None,
        };
        let others = [keep_alive, leaves, self.silent_until()].into_iter().flatten();
        others.fold(self.ear.due(), Timestamp::min)
    }

    fn say(&mut self, now: Timestamp, what: ToCaller) {
        match what {
            ToCaller::Audio { item, pcm, .. } => self.say_sound(now, item, &pcm),
            ToCaller::MessageEnded { item, .. } if self.is_of_another(&item) => {}
            ToCaller::MessageEnded { .. } => self.finish(now),
            ToCaller::ClearFarEnd { .. }
            | ToCaller::Playout { state: PlayoutState::Cleared, .. } => {
                self.mouth.clear();
                self.hush(now);
                self.sounding = None;
            }
            ToCaller::Playout { state, .. } if state != PlayoutState::Resumed => self.hush(now),
            ToCaller::HangUp { why } => self.hang_up(now, why),
            ToCaller::Key(key) => {
                // Who knows no events hears no keys.
                self.media.events.into_iter().for_each(|kind| self.mouth.press(kind, key));
            }
            // The rest is for clients that show it; a pause is silence.
            _ => {}
        }
    }

    fn say_sound(&mut self, now: Timestamp, item: ItemId, pcm: &Pcm) {
        if self.is_of_another(&item) {
            self.finish(now);
        }
        let fresh = || Sounding { item, sent: Duration::ZERO, cut: false };
        let sounding = self.sounding.get_or_insert_with(fresh);
        if sounding.cut {
            return;
        }
        if !self.media.sends {
            // Nobody hears it: nothing of it is ever said to have been.
            return self.tell_cut();
        }
        sounding.sent += samples_to_duration(pcm.samples.len(), pcm.rate_hz);
        let mut packets = Vec::new();
        self.mouth.say(now, pcm, &mut packets);
        self.send_packets(packets);
    }

    /// Something else than this sounds.
    fn is_of_another(&self, item: &ItemId) -> bool {
        self.sounding.as_ref().is_some_and(|sounding| sounding.item != *item)
    }

    /// Nothing follows of what sounds.
    fn finish(&mut self, now: Timestamp) {
        self.sounding = None;
        let mut packets = Vec::new();
        if self.media.sends {
            self.mouth.finish(now, &mut packets);
        }
        self.send_packets(packets);
    }

    /// What sounds stops half-way.
    fn hush(&mut self, now: Timestamp) {
        let mut packets = Vec::new();
        if self.media.sends {
            self.mouth.hush(now, &mut packets);
        }
        self.send_packets(packets);
    }

    /// What does not fit is lost, as on any network.
    fn send_packets(&mut self, packets: Vec<Vec<u8>>) {
        let Some(to) = self.source.to() else { return };
        let to = told(self.shared.rtp().ip, to);
        for packet in packets {
            let sealed = self.guard.as_mut().map(|guard| guard.seal(&packet));
            let _ = match sealed {
                Some(Some(sealed)) => self.socket.try_send_to(&sealed, to),
                Some(None) => continue,
                None => self.socket.try_send_to(&packet, to),
            };
        }
    }

    fn hang_up(&mut self, now: Timestamp, why: HangUp) {
        let mut at = now;
        if why.lets_finish() {
            self.finish(now);
            at = self.mouth.plays_until().map_or(now, |until| until.max(now) + FAR_END);
        }
        if let State::Open = self.state {
            self.state = State::Leaving { at };
        }
    }

    fn be_gone(&mut self, how: &'static str) {
        if !matches!(self.state, State::Gone(_)) {
            tracing::debug!(how, heard = ?self.ear.tally(), "a telephone call is over");
            self.state = State::Gone(how);
        }
    }

    fn order(&self, order: Order) {
        // Where it does not fit the signalling ends the call by the end of the queue.
        let _ = self.orders.try_send(order);
    }
}

impl Leg for SipLeg {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<FromCaller> {
        loop {
            if let Some(what) = self.heard.pop_front() {
                return Poll::Ready(what);
            }
            if let State::Gone(how) = self.state {
                return Poll::Ready(FromCaller::Gone { how });
            }
            ready!(self.poll_work(cx));
        }
    }

    fn send(&mut self, what: ToCaller) -> Result<(), LegLost> {
        match self.state {
            State::Open => {
                self.say(self.clock.now(), what);
                Ok(())
            }
            // Behind the hang-up nobody is told any more; what was said before still goes out.
            State::Leaving { .. } => Ok(()),
            State::Gone(_) => Err(LegLost),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LegLost>> {
        // What is said goes out at once.
        while matches!(self.state, State::Leaving { .. }) {
            ready!(self.poll_work(cx));
            self.heard.clear();
        }
        Poll::Ready(Ok(()))
    }

    fn greets(&self) -> bool {
        true
    }

    fn lead_max(&self) -> Option<Duration> {
        Some(LEAD)
    }

    fn far_end_delay(&self) -> Duration {
        FAR_END
    }

    fn transfer(&self) -> Option<Box<dyn Transfer>> {
        Some(Box::new(Refer(self.orders.downgrade())))
    }

    fn name(&self) -> &'static str {
        "sip"
    }
}

/// Sends the caller to somebody else, for as long as there is a call.
struct Refer(mpsc::WeakSender<Order>);

impl Transfer for Refer {
    fn to(self: Box<Self>, target: String) -> Pin<Box<dyn Future<Output = Transferred> + Send>> {
        Box::pin(async move {
            let (tell, told) = oneshot::channel();
            let Some(orders) = self.0.upgrade() else { return Transferred::Lost };
            let sent = orders.try_send(Order::Refer { to: target, tell });
            drop(orders);
            match (sent, told.await) {
                (Ok(()), Ok(Referred::Reached)) => Transferred::Connected,
                (Ok(()), Ok(Referred::Refused(486 | 600))) => Transferred::Busy,
                (Ok(()), Ok(Referred::Refused(408 | 480 | 487))) => Transferred::NoAnswer,
                (Ok(()), Ok(Referred::Refused(_))) => Transferred::Declined,
                (Ok(()), Ok(Referred::Unknown)) => Transferred::NoAnswer,
                (Err(_), _) | (_, Err(_)) => Transferred::Lost,
            }
        })
    }
}

#[cfg(test)]
#[path = "leg_tests.rs"]
mod tests;
