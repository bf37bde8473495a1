//! A caller and a human who speak with each other through us: every frame goes on at its time.
//!
//! One clock paces both ways. What comes in bursts waits in a bounded queue, whose oldest sound
//! goes first; what comes too late is a gap.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Sleep;

use crate::audio::{
    CALLER_FRAME_SAMPLES, CALLER_RATE_HZ, FRAME, Pcm, duration_to_samples, samples_to_duration,
};
use crate::codec::resample::Resampler;
use crate::id::{Generation, ItemId};
use crate::leg::{FromCaller, HangUp, ToCaller};
use crate::runtime::clock::Clock;
use crate::runtime::driver;
use crate::time::{Timestamp, ms};
use crate::transport::Leg;

/// Sound that may wait for its time.
const WAITING_MAX: Duration = ms(300);
/// Behind a gap so much is waited for, so that the next burst need not be in time.
const CUSHION: Duration = ms(40);
/// Later than this the lost time is not made up for.
const BEHIND_MAX: Duration = ms(200);
/// The longest that two people may speak through us.
const TALK_MAX: Duration = Duration::from_secs(4 * 3_600);
/// What a human says in one go of the loop.
const BURST: usize = 64;

/// Why two who spoke with each other do so no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) enum Parted {
    /// Nobody was there to be joined: whoever connected them did it elsewhere.
    Elsewhere,
    CallerLeft,
    HumanLeft,
    TooLong,
    Drained,
}

impl Parted {
    /// As the call's trace has it.
    pub fn label(self) -> &'static str {
        match self {
            Parted::Elsewhere => "connected elsewhere",
            Parted::CallerLeft => "the caller hung up",
            Parted::HumanLeft => "the human hung up",
            Parted::TooLong => "they have spoken as long as they may",
            Parted::Drained => "the server ends",
        }
    }
}

/// Two who speak with each other; the caller's own end is polled by whoever has it.
pub(in crate::runtime) struct Relay {
    human: Human,
    to_human: Lane,
    to_caller: Lane,
    /// The caller's connection is lost, and waited for.
    away: bool,
    clock: Clock,
    next: Timestamp,
    timer: Pin<Box<Sleep>>,
    began: Timestamp,
}

/// Whoever the caller speaks with.
enum Human {
    Coming(oneshot::Receiver<Box<dyn Leg>>),
    Here(Box<dyn Leg>),
}

/// One way.
struct Lane {
    waiting: VecDeque<i16>,
    flows: bool,
    /// Brings it to the other end's rate.
    resampler: Option<Resampler>,
    rate_hz: u32,
    name: &'static str,
    items: u32,
    lost: usize,
    passed: Duration,
}

impl Relay {
    pub fn new(clock: Clock, coming: oneshot::Receiver<Box<dyn Leg>>, caller_hz: u32) -> Relay {
        let now = clock.now();
        Relay {
            human: Human::Coming(coming),
            to_human: Lane::new("caller", CALLER_RATE_HZ),
            to_caller: Lane::new("human", caller_hz),
            away: false,
            clock,
            next: now,
            timer: Box::pin(tokio::time::sleep_until(clock.instant(now))),
            began: now,
        }
    }

    /// Passes on what there is; ready when they are parted.
    pub fn poll(&mut self, cx: &mut Context<'_>, caller: &mut dyn Leg) -> Poll<Parted> {
        if let Human::Coming(coming) = &mut self.human {
            match ready!(Pin::new(coming).poll(cx)) {
                Ok(human) => self.human = Human::Here(human),
                Err(_) => return Poll::Ready(Parted::Elsewhere),
            }
        }
        if self.listen(cx, caller).is_ready() {
            return Poll::Ready(Parted::HumanLeft);
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            let now = self.clock.now();
            if now.since(self.began) > TALK_MAX {
                return Poll::Ready(Parted::TooLong);
            }
            self.pass_on(caller);
            self.next += FRAME;
            if now.since(self.next) > BEHIND_MAX {
                self.next = now + FRAME;
            }
            self.timer.as_mut().reset(self.clock.instant(self.next));
        }
        Poll::Pending
    }

    /// Takes what the human says; ready when they have gone.
    fn listen(&mut self, cx: &mut Context<'_>, caller: &mut dyn Leg) -> Poll<()> {
        let Human::Here(human) = &mut self.human else { return Poll::Pending };
        if let Poll::Ready(Err(_)) = human.poll_flush(cx) {
            return Poll::Ready(());
        }
        for _ in 0..BURST {
            let Poll::Ready(said) = human.poll_recv(cx) else { return Poll::Pending };
            match said {
                FromCaller::Gone { .. } => return Poll::Ready(()),
                FromCaller::Audio(samples) => self.to_caller.take(&samples),
                FromCaller::Dtmf(key) => {
                    let _ = caller.send(ToCaller::Key(key));
                }
                // It was on hold: the next sound is to be heard again.
                FromCaller::Truncate { .. } => self.to_human.items += 1,
                _ => {}
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes what the caller says; true when they have gone.
    pub fn hear(&mut self, said: FromCaller) -> bool {
        match said {
            FromCaller::Gone { .. } => return true,
            FromCaller::Audio(samples) => self.to_human.take(&samples),
            FromCaller::Dtmf(key) => {
                if let Human::Here(human) = &mut self.human {
                    // Who cannot be told has gone, and is heard to have.
                    let _ = human.send(ToCaller::Key(key));
                }
            }
            FromCaller::Truncate { .. } => self.to_caller.items += 1,
            FromCaller::Lost { .. } => self.away = true,
            FromCaller::Back => self.away = false,
            _ => {}
        }
        false
    }

    fn pass_on(&mut self, caller: &mut dyn Leg) {
        // An end that cannot be told has gone, and is heard to have.
        if let Some(frame) = self.to_caller.frame()
            && !self.away
        {
            let _ = caller.send(frame);
        }
        if let (Human::Here(human), Some(frame)) = (&mut self.human, self.to_human.frame()) {
            let _ = human.send(frame);
        }
    }

    /// It is over: the human is told goodbye. Gives what was passed on, for the record.
    pub fn end(self) -> String {
        if let Human::Here(mut human) = self.human
            && human.send(ToCaller::HangUp { why: HangUp::Goodbye }).is_ok()
        {
            tokio::spawn(driver::part(human));
        }
        format!("{}, {}", self.to_human.told(), self.to_caller.told())
    }
}

impl Lane {
    fn new(name: &'static str, rate_hz: u32) -> Lane {
        let resampler =
            (rate_hz != CALLER_RATE_HZ).then(|| Resampler::new(CALLER_RATE_HZ, rate_hz));
        Lane {
            waiting: VecDeque::new(),
            flows: false,
            resampler,
            rate_hz,
            name,
            items: 0,
            lost: 0,
            passed: Duration::ZERO,
        }
    }

    fn take(&mut self, samples: &[i16]) {
        self.waiting.extend(samples);
        let most = duration_to_samples(WAITING_MAX, CALLER_RATE_HZ);
        let too_many = self.waiting.len().saturating_sub(most);
        self.waiting.drain(..too_many);
        self.lost += too_many;
    }

    /// What is to be heard now.
    fn frame(&mut self) -> Option<ToCaller> {
        let wanted = match self.flows {
            true => CALLER_FRAME_SAMPLES,
            false => duration_to_samples(CUSHION, CALLER_RATE_HZ),
        };
        self.flows = self.waiting.len() >= wanted;
        if !self.flows {
            return None;
        }
        let heard: Vec<i16> = self.waiting.drain(..CALLER_FRAME_SAMPLES).collect();
        self.passed += FRAME;
        let samples = match &mut self.resampler {
            None => heard,
            Some(resampler) => {
                let mut samples = Vec::new();
                resampler.push(&heard, &mut samples);
                samples
            }
        };
        let item = ItemId::new(&format!("bridged_{}_{}", self.name, self.items));
        let pcm = Pcm { rate_hz: self.rate_hz, samples };
        Some(ToCaller::Audio { response: None, item, generation: Generation(0), pcm })
    }

    fn told(&self) -> String {
        let lost_ms = samples_to_duration(self.lost, CALLER_RATE_HZ).as_millis();
        let (name, passed_ms) = (self.name, self.passed.as_millis());
        format!("{passed_ms} ms of the {name} passed on, {lost_ms} ms came too fast")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(frame: Option<ToCaller>) -> Vec<i16> {
        match frame {
            Some(ToCaller::Audio { pcm, .. }) => pcm.samples,
            None => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    /// Whoever sends faster than time passes loses the oldest of it, and is counted.
    #[test]
    fn a_lane_does_not_grow() {
        let mut lane = Lane::new("caller", CALLER_RATE_HZ);
        for second in 0..10_i16 {
            lane.take(&[second; CALLER_RATE_HZ as usize]);
        }
        let most = duration_to_samples(WAITING_MAX, CALLER_RATE_HZ);
        assert_eq!(lane.waiting.len(), most);
        assert_eq!(lane.lost, 10 * CALLER_RATE_HZ as usize - most);
        assert_eq!(samples(lane.frame()), [9; CALLER_FRAME_SAMPLES]);
    }

    /// A burst that comes late is waited for; what comes evenly is passed on as it comes.
    #[test]
    fn a_lane_that_has_stopped_waits_for_a_cushion() {
        let mut lane = Lane::new("human", 8_000);
        lane.take(&[1; CALLER_FRAME_SAMPLES]);
        assert_eq!(lane.frame(), None, "one frame is no cushion");
        lane.take(&[1; CALLER_FRAME_SAMPLES]);
        assert_eq!(samples(lane.frame()).len(), 160);
        assert!(lane.frame().is_some(), "it flows");
        assert_eq!(lane.frame(), None);
    }
}
