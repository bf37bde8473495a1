//! A second of quiet, speech-like tone: a voice's pitch that swells with five syllables a second.

use std::f32::consts::TAU;
use std::sync::Arc;

/// One second that loops without a click: every part of it has a whole number of periods a second.
pub(super) fn one_second(rate_hz: u32) -> Arc<[i16]> {
    const PITCH_HZ: f32 = 130.0;
    const SYLLABLES_PER_S: f32 = 5.0;
    // About -26 dB below full scale: clearly sound, never loud.
    const PEAK: f32 = 3_300.0;
    (0..rate_hz)
        .map(|at| {
            let second = at as f32 / rate_hz as f32;
            let swell = 0.5 - 0.5 * (TAU * SYLLABLES_PER_S * second).cos();
            let voice: f32 = [(1.0, 0.5), (2.0, 0.25), (5.0, 0.15), (9.0, 0.1)]
                .iter()
                .map(|(harmonic, part)| part * (TAU * PITCH_HZ * harmonic * second).sin())
                .sum();
            (voice * swell * PEAK) as i16
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::level_dbfs;

    #[test]
    fn it_is_audible_and_quiet() {
        let level = level_dbfs(&one_second(24_000));
        assert!((-36.0..-20.0).contains(&level), "{level} dB");
    }
}
