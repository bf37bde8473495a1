//! A call's sound cut into the windows that its detector wants.

use std::time::Duration;

use super::Listening;
use super::gain::{Gain, Levelled};
use crate::audio::{CALLER_RATE_HZ, Window, samples_to_duration};

/// A window this quiet holds no speech: the detector is not asked.
const PLAINLY_SILENT_DBFS: f32 = -55.0;

/// So far above the line's own noise a sound may be the beginning of a word.
const LOUD_ABOVE_NOISE_DB: f32 = 12.0;

/// What is so much fainter than the caller, while the agent sounds, is the agent's echo: speech it
/// is, and no detector can tell whose.
const ECHO_BELOW_DB: f32 = 15.0;
/// A window more probable than this shows how loud the caller speaks.
const SPEECH: f32 = 0.5;
/// What is known of it follows slowly, so many dB a window: one slam is no loud caller.
const RISE_DB: f32 = 3.0;
const FALL_DB: f32 = 0.1;

/// One call's speech detector with the window it is collecting. Plainly silent windows are not
/// judged at all.
pub struct Windows {
    listening: Box<dyn Listening>,
    gain: Gain,
    window: Vec<i16>,
    /// How long it has been loud.
    loud: Duration,
    /// How loud the caller speaks, where it is loud.
    caller_dbfs: Option<f32>,
}

impl Windows {
    /// Nothing heard yet.
    pub fn new(listening: Box<dyn Listening>, gain: Gain) -> Self {
        let window = Vec::with_capacity(listening.window());
        Windows { listening, gain, window, loud: Duration::ZERO, caller_dbfs: None }
    }

    /// How many samples would be in an incomplete window behind this many more.
    pub fn pending_after(&self, coming: usize) -> usize {
        (self.window.len() + coming) % self.listening.window()
    }

    /// Takes sound and gives what is heard in each window that is now complete.
    /// `agent_sounds`: what comes may be the agent's echo.
    pub fn push(&mut self, mut samples: &[i16], agent_sounds: bool, mut heard: impl FnMut(Window)) {
        let size = self.listening.window();
        while !samples.is_empty() {
            let take = (size - self.window.len()).min(samples.len());
            self.window.extend_from_slice(&samples[..take]);
            samples = &samples[take..];
            if self.window.len() == size {
                heard(self.judge(agent_sounds));
                self.window.clear();
            }
        }
    }

    fn judge(&mut self, agent_sounds: bool) -> Window {
        let Levelled { window, level_dbfs, above_noise_db } =
            self.gain.level(&self.window, CALLER_RATE_HZ, !agent_sounds);
        let is_silent = level_dbfs < PLAINLY_SILENT_DBFS;
        let is_far_below = |caller_dbfs| level_dbfs < caller_dbfs - ECHO_BELOW_DB;
        let is_echo = agent_sounds && self.caller_dbfs.is_some_and(is_far_below);
        let probability = match is_silent || is_echo {
            true => {
                self.listening.skip(window.len());
                0.0
            }
            false => self.listening.hear(window),
        };
        if !agent_sounds && probability > SPEECH {
            self.caller_dbfs = Some(match self.caller_dbfs {
                None => level_dbfs,
                Some(known) if level_dbfs > known => level_dbfs.min(known + RISE_DB),
                Some(known) => known - FALL_DB,
            });
        }
        let span = samples_to_duration(self.window.len(), CALLER_RATE_HZ);
        let is_loud = !is_silent && !is_echo && above_noise_db > LOUD_ABOVE_NOISE_DB;
        let loud = if is_loud { self.loud + span } else { Duration::ZERO };
        let lead_in = std::mem::replace(&mut self.loud, loud);
        Window { probability, span, lead_in, is_loud }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges every window as speech and counts how often it was asked.
    struct Counting(std::sync::Arc<std::sync::atomic::AtomicU32>);

    impl Listening for Counting {
        fn window(&self) -> usize {
            512
        }
        fn hear(&mut self, _: &[i16]) -> f32 {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            0.99
        }
        fn skip(&mut self, _: usize) {}
    }

    #[test]
    fn every_window_is_judged_but_plain_silence() {
        let asked = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let count = || asked.load(std::sync::atomic::Ordering::Relaxed);
        let mut windows = Windows::new(Box::new(Counting(asked.clone())), Gain::new(0.0));
        let mut told = 0;
        windows.push(&[8_000; 512 * 8 + 100], false, |_| told += 1);
        assert_eq!((told, count()), (8, 8), "what is incomplete waits for the rest");
        windows.push(&[500; 412], false, |_| told += 1);
        assert_eq!((told, count()), (9, 9));
        windows.push(&[0; 512], false, |window| assert_eq!(window.probability, 0.0));
        assert_eq!(count(), 9);
    }

    fn counting() -> Windows {
        Windows::new(Box::new(Counting(Default::default())), Gain::new(0.0))
    }

    fn last(windows: &mut Windows, peak: i16, agent_sounds: bool) -> Window {
        let mut last = Window::default();
        windows.push(&[peak; 512], agent_sounds, |window| last = window);
        last
    }

    #[test]
    fn it_is_told_how_long_it_has_been_loud() {
        let mut windows = counting();
        let lead_ms = |window: Window| window.lead_in.as_millis();
        for (peak, lead) in [(20, 0), (2_000, 0), (2_000, 32), (3_000, 64), (20, 96), (20, 0)] {
            assert_eq!(lead_ms(last(&mut windows, peak, false)), lead, "{peak}");
        }
        // A line that is as noisy all the time.
        let mut windows = counting();
        for _ in 0..40 {
            assert_eq!(lead_ms(last(&mut windows, 1_000, false)), 0);
        }
    }

    #[test]
    fn what_is_much_fainter_than_the_caller_is_the_agents_echo() {
        let mut windows = counting();
        assert!(last(&mut windows, 500, true).probability > 0.5, "nobody is known yet");
        last(&mut windows, 8_000, false);
        assert_eq!(last(&mut windows, 500, true).probability, 0.0, "24 dB below");
        assert!(last(&mut windows, 2_000, true).probability > 0.5, "12 dB below");
        assert!(last(&mut windows, 500, false).probability > 0.5, "nobody else sounds");
        for _ in 0..250 {
            last(&mut windows, 500, false);
        }
        assert!(last(&mut windows, 500, true).probability > 0.5, "they speak softly now");
        last(&mut windows, i16::MAX, false);
        assert!(last(&mut windows, 500, true).probability > 0.5, "one slam is no loud caller");
    }
}
