//! A call over AudioSocket, as the call's task polls it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Sleep;

use super::frame::{self, Frame, Kind};
use super::line::Line;
use super::sound::{SoundIn, SoundOut};
use crate::audio::Pcm;
use crate::id::ItemId;
use crate::leg::{FromCaller, HangUp, PlayoutState, ToCaller};
use crate::time::{Timestamp, ms};
use crate::transport::moving::{self, Leaving, Mover};
use crate::transport::{Clock, Leg, LegLost, Transfer};

/// The caller hears what was sent so much later: Asterisk's own way and the telephone's.
pub(super) const FAR_END: Duration = ms(60);
/// Sound is sent no further ahead than this, so that to stop sending is to be silent.
const LEAD: Duration = ms(40);
/// Frames of sound that may wait for an Asterisk that reads slowly: ten seconds.
const QUEUE_MAX_FRAMES: usize = 500;
/// Frames of one call that may make no sense; one that says more nonsense is ended.
const WRONG_MAX: u32 = 50;

/// One AudioSocket connection, from its answer to its end.
///
/// *Heard* is what was sent, by the call's own paced clock, at most 40 ms ahead, less the 60 ms
/// that Asterisk and the telephone hold. Nothing is kept back here: a pause of the call is silence.
pub struct AudioSocketLeg<S> {
    line: Line<S>,
    clock: Arc<dyn Clock>,
    ear: SoundIn,
    mouth: SoundOut,
    /// The item that sounds.
    sounding: Option<ItemId>,
    heard: VecDeque<FromCaller>,
    /// Frames that made no sense.
    wrong: u32,
    timer: Pin<Box<Sleep>>,
    state: State,
    /// Who can have its caller go on elsewhere.
    mover: Option<Arc<dyn Mover>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// Hung up; the last words are on their way.
    Leaving {
        at: Timestamp,
    },
    /// Our hang-up is said, and the rest of the outbox with it.
    Closing,
    /// The connection is over.
    Gone(&'static str),
}

impl<S: AsyncRead + AsyncWrite + Unpin> AudioSocketLeg<S> {
    /// A call that has said this so far.
    pub(super) fn new(
        line: Line<S>,
        kind: Kind,
        first: Vec<Frame>,
        clock: Arc<dyn Clock>,
    ) -> AudioSocketLeg<S> {
        let timer = Box::pin(tokio::time::sleep_until(clock.instant(clock.now())));
        let mut leg = AudioSocketLeg {
            line,
            clock,
            ear: SoundIn::new(kind),
            mouth: SoundOut::new(kind),
            sounding: None,
            heard: VecDeque::new(),
            wrong: 0,
            timer,
            state: State::Open,
            mover: None,
        };
        first.into_iter().for_each(|frame| leg.take(frame));
        leg
    }

    /// The same, whose caller can go on elsewhere.
    pub fn movable(mut self, mover: Option<Arc<dyn Mover>>) -> Self {
        self.mover = mover;
        self
    }

    fn take(&mut self, frame: Frame) {
        match frame {
            Frame::Sound(kind, sound) => {
                self.mouth.follow(kind);
                let samples = self.ear.hear(kind, &sound);
                self.heard.push_back(FromCaller::Audio(samples));
            }
            Frame::Key(key) => self.heard.push_back(FromCaller::Dtmf(key)),
            Frame::HangUp => self.be_gone("closed"),
            Frame::Error => self.be_gone("reset"),
            // A kind that is new to us is no nonsense.
            Frame::Unknown => {}
            Frame::Uuid(_) | Frame::Malformed => {
                self.wrong += 1;
                if self.wrong > WRONG_MAX {
                    self.end_it();
                }
            }
        }
    }

    /// Who goes on like that is no Asterisk.
    fn end_it(&mut self) {
        self.line.discard();
        self.line.push(frame::hang_up());
        self.be_gone("protocol");
    }

    fn be_gone(&mut self, how: &'static str) {
        if !matches!(self.state, State::Gone(_)) {
            self.state = State::Gone(how);
        }
    }

    fn say(&mut self, now: Timestamp, what: ToCaller) {
        match what {
            ToCaller::Audio { item, pcm, .. } => self.say_sound(now, item, &pcm),
            ToCaller::MessageEnded { item, .. } if self.is_of_another(&item) => {}
            ToCaller::MessageEnded { .. } => self.finish(now),
            ToCaller::ClearFarEnd { .. }
            | ToCaller::Playout { state: PlayoutState::Cleared, .. } => self.clear(),
            ToCaller::HangUp { why } => self.hang_up(now, why),
            // The rest is for clients that show it.
            _ => {}
        }
    }

    fn say_sound(&mut self, now: Timestamp, item: ItemId, pcm: &Pcm) {
        if self.is_of_another(&item) {
            self.finish(now);
        }
        self.sounding = Some(item);
        let frames = self.mouth.say(now, pcm);
        self.send_frames(frames);
    }

    fn is_of_another(&self, item: &ItemId) -> bool {
        self.sounding.as_ref().is_some_and(|sounding| sounding != item)
    }

    /// Nothing follows of what sounds.
    fn finish(&mut self, now: Timestamp) {
        self.sounding = None;
        let frames = self.mouth.finish(now);
        self.send_frames(frames);
    }

    fn clear(&mut self) {
        self.sounding = None;
        self.mouth.clear();
        self.line.discard();
    }

    fn send_frames(&mut self, frames: Vec<Bytes>) {
        frames.into_iter().for_each(|frame| self.line.push(frame));
    }

    fn hang_up(&mut self, now: Timestamp, why: HangUp) {
        let mut at = now;
        if why.lets_finish() {
            self.finish(now);
            at = self.mouth.plays_until().map_or(now, |until| until.max(now) + FAR_END);
        }
        self.state = State::Leaving { at };
    }

    /// The last words were heard, or the caller has gone meanwhile.
    fn poll_left(&mut self, cx: &mut Context<'_>, at: Timestamp) -> Poll<()> {
        self.timer.as_mut().reset(self.clock.instant(at));
        while self.timer.as_mut().poll(cx).is_pending() {
            match ready!(self.line.poll_frame(cx)) {
                // The call is over, and nobody hears what still comes.
                Ok(frame) if !matches!(frame, Frame::HangUp | Frame::Error) => {}
                Ok(_) | Err(_) => {
                    self.be_gone("closed");
                    return Poll::Ready(());
                }
            }
        }
        self.line.push(frame::hang_up());
        self.state = State::Closing;
        Poll::Ready(())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Leg for AudioSocketLeg<S> {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<FromCaller> {
        loop {
            if let Some(what) = self.heard.pop_front() {
                return Poll::Ready(what);
            }
            if let State::Gone(how) = self.state {
                return Poll::Ready(FromCaller::Gone { how });
            }
            match ready!(self.line.poll_frame(cx)) {
                Ok(frame) => self.take(frame),
                Err("protocol") => self.end_it(),
                Err(how) => self.be_gone(how),
            }
        }
    }

    fn send(&mut self, what: ToCaller) -> Result<(), LegLost> {
        match self.state {
            State::Open => {}
            State::Gone(_) => return Err(LegLost),
            // Behind the hang-up nobody is told any more; what was said before still goes out.
            State::Leaving { .. } | State::Closing => return Ok(()),
        }
        self.say(self.clock.now(), what);
        if self.line.waiting() > self.mouth.bytes_of(QUEUE_MAX_FRAMES) {
            self.end_it();
            return Err(LegLost);
        }
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LegLost>> {
        loop {
            if let State::Gone(_) = self.state {
                return Poll::Ready(Err(LegLost));
            }
            if ready!(self.line.poll_write(cx)).is_err() {
                self.be_gone("reset");
                return Poll::Ready(Err(LegLost));
            }
            let State::Leaving { at } = self.state else { return Poll::Ready(Ok(())) };
            ready!(self.poll_left(cx, at));
        }
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.line.poll_part(cx)
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
        let mover = self.mover.clone()?;
        Some(moving::transfer(mover, Leaving::default()))
    }

    fn name(&self) -> &'static str {
        "audiosocket"
    }
}
