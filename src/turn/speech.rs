//! Speech probability to start and stop of speech, with hysteresis, counted in the caller's own
//! sound.
//!
//! Durations are measured in audio, not on the wall: a client may send faster than real time. A
//! sender that stops sending (a muted microphone) is fed silence by its driver's gap timer, so that
//! "speaking" never stays on (B23).

use std::time::Duration;

use crate::audio::Window;
use crate::time::ms;

/// Below this distance from the threshold sound still counts as speech once speech is on.
const HYSTERESIS: f32 = 0.15;
/// Speech shorter than this is a click.
pub const ONSET: Duration = ms(60);
/// The longest consonant.
const LEAD_IN_MAX: Duration = ms(200);
/// Pauses shorter than this are part of speech.
const BRIDGE: Duration = ms(100);

/// What changed with the last window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// There has been speech for long enough to count.
    Started,
    /// Speech goes on again behind a pause.
    Resumed,
    /// A pause that is no mere gap between words has begun.
    Paused,
}

/// Follows one caller's speech.
#[derive(Clone, Debug)]
pub struct SpeechTracker {
    threshold: f32,
    run: Run,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Run {
    /// No speech since the last reset.
    Quiet,
    /// Speech that may be a click.
    Onset { speech: Duration },
    /// Speech; `silence` counts the present gap.
    On { speech: Duration, silence: Duration },
}

impl SpeechTracker {
    /// A tracker that has heard nothing; `threshold` is the probability above which there is
    /// speech.
    pub fn new(threshold: f32) -> Self {
        SpeechTracker { threshold, run: Run::Quiet }
    }

    /// Changes the threshold in place.
    pub fn set_threshold(&mut self, threshold: f32) {
        self.threshold = threshold;
    }

    /// Takes what was heard in the next window; speech of `onset` counts as begun. What was loud
    /// right before the first of it belongs to it.
    pub fn hear(&mut self, window: Window, onset: Duration) -> Option<Edge> {
        let Window { probability, span, lead_in, is_loud: _ } = window;
        let loud = probability > self.threshold;
        match self.run {
            Run::Quiet if loud => self.grow(lead_in.min(LEAD_IN_MAX), span, onset),
            Run::Quiet => None,
            Run::Onset { speech } if loud => self.grow(speech, span, onset),
            Run::Onset { .. } => {
                self.run = Run::Quiet;
                None
            }
            Run::On { speech, silence } => {
                let still = probability > (self.threshold - HYSTERESIS).max(0.01);
                let loud = if silence > BRIDGE { loud } else { still };
                self.go_on(loud, speech, silence, span)
            }
        }
    }

    fn grow(&mut self, speech: Duration, span: Duration, onset: Duration) -> Option<Edge> {
        let speech = speech + span;
        if speech >= onset {
            self.run = Run::On { speech, silence: Duration::ZERO };
            return Some(Edge::Started);
        }
        self.run = Run::Onset { speech };
        None
    }

    fn go_on(
        &mut self,
        loud: bool,
        speech: Duration,
        silence: Duration,
        span: Duration,
    ) -> Option<Edge> {
        if loud {
            self.run = Run::On { speech: speech + span, silence: Duration::ZERO };
            return (silence > BRIDGE).then_some(Edge::Resumed);
        }
        let longer = silence + span;
        self.run = Run::On { speech, silence: longer };
        (silence <= BRIDGE && longer > BRIDGE).then_some(Edge::Paused)
    }

    /// There is speech, or what the detector takes for it, and it has not been forgotten.
    pub fn is_on(&self) -> bool {
        matches!(self.run, Run::On { .. })
    }

    /// How much speech there has been since it started.
    pub fn speech(&self) -> Duration {
        match self.run {
            Run::Quiet => Duration::ZERO,
            Run::Onset { speech } | Run::On { speech, .. } => speech,
        }
    }

    /// How long the present pause has lasted; zero while there is speech.
    pub fn silence(&self) -> Duration {
        match self.run {
            Run::Quiet | Run::Onset { .. } => Duration::ZERO,
            Run::On { silence, .. } => silence,
        }
    }

    /// Forgets the speech so far: the next one starts anew.
    pub fn reset(&mut self) {
        self.run = Run::Quiet;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(tracker: &mut SpeechTracker, probabilities: &[f32]) -> Vec<Option<Edge>> {
        probabilities.iter().map(|&p| tracker.hear(Window::plain(p, ms(20)), ONSET)).collect()
    }

    #[test]
    fn a_click_is_not_speech() {
        let mut tracker = SpeechTracker::new(0.5);
        assert!(feed(&mut tracker, &[0.9, 0.9, 0.1, 0.9, 0.1]).iter().all(Option::is_none));
    }

    #[test]
    fn a_longer_onset_is_asked_for_where_somebody_would_be_interrupted() {
        let mut tracker = SpeechTracker::new(0.5);
        let edges: Vec<_> =
            (0..10).map(|_| tracker.hear(Window::plain(0.9, ms(20)), ms(160))).collect();
        assert_eq!(edges.iter().position(Option::is_some), Some(7));
    }

    #[test]
    fn what_was_loud_right_before_belongs_to_the_speech() {
        let hear = |lead_in, onset| {
            let mut tracker = SpeechTracker::new(0.5);
            let window = Window { probability: 0.9, span: ms(20), lead_in, ..Window::default() };
            (tracker.hear(window, onset), tracker.speech())
        };
        assert_eq!(hear(ms(40), ONSET), (Some(Edge::Started), ms(60)), "an f, then a vowel");
        assert_eq!(hear(ms(20), ONSET), (None, ms(40)));
        assert_eq!(hear(ms(5_000), ms(240)), (None, ms(220)), "no consonant is that long");
        let mut tracker = SpeechTracker::new(0.5);
        let noise =
            Window { probability: 0.3, span: ms(20), lead_in: ms(5_000), ..Window::default() };
        assert_eq!((tracker.hear(noise, ONSET), tracker.speech()), (None, Duration::ZERO));
    }

    #[test]
    fn sixty_milliseconds_start_and_a_pause_is_told_once() {
        let mut tracker = SpeechTracker::new(0.5);
        let edges = feed(&mut tracker, &[0.9, 0.9, 0.9, 0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1]);
        assert_eq!(edges[2], Some(Edge::Started));
        assert_eq!(edges.iter().filter(|e| **e == Some(Edge::Paused)).count(), 1);
        assert_eq!(tracker.silence(), ms(140), "0.4 is still speech by hysteresis");
        assert_eq!(tracker.hear(Window::plain(0.9, ms(20)), ONSET), Some(Edge::Resumed));
        assert_eq!(tracker.silence(), Duration::ZERO);
    }
}
