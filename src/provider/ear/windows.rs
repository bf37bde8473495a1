//! A call's sound cut into the windows that its detector wants.

use super::Listening;
use super::gain::Gain;
use crate::audio::CALLER_RATE_HZ;

/// A window this quiet holds no speech: the detector is not asked.
const PLAINLY_SILENT_DBFS: f32 = -55.0;

/// One call's speech detector with the window it is collecting. Plainly silent windows are not
/// judged at all.
pub struct Windows {
    listening: Box<dyn Listening>,
    gain: Gain,
    window: Vec<i16>,
}

impl Windows {
    /// Nothing heard yet.
    pub fn new(listening: Box<dyn Listening>, gain: Gain) -> Self {
        let window = Vec::with_capacity(listening.window());
        Windows { listening, gain, window }
    }

    /// How many samples would be in an incomplete window behind this many more.
    pub fn pending_after(&self, coming: usize) -> usize {
        (self.window.len() + coming) % self.listening.window()
    }

    /// Takes sound and gives the probability of each window that is now complete, with its length.
    /// `agent_sounds`: what comes may be the agent's echo.
    pub fn push(
        &mut self,
        mut samples: &[i16],
        agent_sounds: bool,
        mut heard: impl FnMut(f32, usize),
    ) {
        let size = self.listening.window();
        while !samples.is_empty() {
            let take = (size - self.window.len()).min(samples.len());
            self.window.extend_from_slice(&samples[..take]);
            samples = &samples[take..];
            if self.window.len() == size {
                let probability = self.judge(size, !agent_sounds);
                self.window.clear();
                heard(probability, size);
            }
        }
    }

    fn judge(&mut self, size: usize, follows: bool) -> f32 {
        let (window, level) = self.gain.level(&self.window, CALLER_RATE_HZ, follows);
        if level < PLAINLY_SILENT_DBFS {
            self.listening.skip(size);
            return 0.0;
        }
        self.listening.hear(window)
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
        windows.push(&[8_000; 512 * 8 + 100], false, |_, _| told += 1);
        assert_eq!((told, count()), (8, 8), "what is incomplete waits for the rest");
        windows.push(&[500; 412], false, |_, _| told += 1);
        assert_eq!((told, count()), (9, 9));
        windows.push(&[0; 512], false, |probability, _| assert_eq!(probability, 0.0));
        assert_eq!(count(), 9);
    }
}
