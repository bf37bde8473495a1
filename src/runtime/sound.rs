//! The caller's sound in the real world: kept as long as somebody may need it.

use std::collections::VecDeque;
use std::time::Duration;

use crate::audio::{CALLER_RATE_HZ, duration_to_samples, samples_to_duration};
use crate::codec::packed::Packed;

/// More than any usual prefix padding and the time speech takes to be known.
const KEPT_START: Duration = Duration::from_millis(500);
/// What an end-of-turn model looks at, and some.
const KEPT_JUDGED: Duration = Duration::from_secs(9);
/// A recogniser that has waited longer than this for its unit misses the start.
const KEPT_UTTERANCE: Duration = Duration::from_secs(30);
/// Kept while the client decides what an utterance is.
const KEPT_MANUAL: Duration = Duration::from_secs(120);

/// Sound by its position since the call began, packed in the pieces it came in: no room beyond what
/// it needs.
#[derive(Debug, Default)]
pub(super) struct Sound {
    kept: VecDeque<Packed>,
    /// Samples in all pieces.
    samples: usize,
    /// Position of the first sample kept.
    start: u64,
}

/// Who needs the sound for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// Nobody but the next utterance's start.
    Start,
    /// The end-of-turn model looks back at it.
    Judged,
    /// A recogniser may still have to be given all of it.
    Utterance,
    /// The client commits by itself.
    Manual,
}

impl Sound {
    /// Takes more sound and forgets what is too old for its use.
    pub fn push(&mut self, samples: &[i16], keep: Keep) {
        if !samples.is_empty() {
            self.kept.push_back(Packed::new(samples));
            self.samples += samples.len();
        }
        let most = match keep {
            Keep::Start => KEPT_START,
            Keep::Judged => KEPT_JUDGED,
            Keep::Utterance => KEPT_UTTERANCE,
            Keep::Manual => KEPT_MANUAL,
        };
        let most = duration_to_samples(most, CALLER_RATE_HZ);
        while let Some(oldest) = self.kept.front()
            && self.samples - oldest.len() >= most
        {
            self.samples -= oldest.len();
            self.start += oldest.len() as u64;
            self.kept.pop_front();
        }
    }

    /// Position behind the newest sample.
    pub fn end(&self) -> u64 {
        self.start + self.samples as u64
    }

    /// The sound from a position on; what was forgotten is missing.
    pub fn since(&self, from: u64) -> Vec<i16> {
        let mut skip = (from.saturating_sub(self.start) as usize).min(self.samples);
        let mut out = Vec::with_capacity(self.samples - skip);
        for piece in &self.kept {
            if out.is_empty() && skip >= piece.len() {
                skip -= piece.len();
            } else {
                piece.unpack(&mut out);
            }
        }
        out.drain(..skip);
        out
    }

    /// How much there is.
    pub fn length(&self) -> Duration {
        samples_to_duration(self.samples, CALLER_RATE_HZ)
    }

    /// Forgets all of it.
    pub fn forget(&mut self) {
        self.start = self.end();
        self.samples = 0;
        self.kept = VecDeque::new();
    }
}

/// A position as time since the call began.
pub(super) fn position(samples: u64) -> Duration {
    Duration::from_micros(samples * 1_000_000 / u64::from(CALLER_RATE_HZ))
}

/// A time since the call began as a position.
pub(super) fn samples_at(position: Duration) -> u64 {
    position.as_micros() as u64 * u64::from(CALLER_RATE_HZ) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_is_found_by_its_position_and_forgotten_in_time() {
        let mut sound = Sound::default();
        sound.push(&[1; 16_000], Keep::Start);
        sound.push(&[2; 8_000], Keep::Start);
        assert_eq!((sound.end(), sound.length()), (24_000, Duration::from_millis(500)));
        assert_eq!(sound.since(16_000), vec![2; 8_000]);
        assert_eq!(sound.since(0).len(), 8_000, "the first second is gone");
        sound.forget();
        assert_eq!((sound.end(), sound.since(0).len()), (24_000, 0));
    }
}
