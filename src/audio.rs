//! Sound as the inside of the system knows it: 16-bit mono PCM in frames of 20 ms.

use std::time::Duration;

/// Sample rate of everything that comes from the caller, in Hz.
pub const CALLER_RATE_HZ: u32 = 16_000;
/// Length of one frame.
pub const FRAME: Duration = Duration::from_millis(20);
/// Samples in one frame from the caller.
pub const CALLER_FRAME_SAMPLES: usize = 320;

/// A stretch of mono PCM at a stated rate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pcm {
    /// Samples a second.
    pub rate_hz: u32,
    /// The samples.
    pub samples: Vec<i16>,
}

impl Pcm {
    /// How long it sounds.
    pub fn duration(&self) -> Duration {
        samples_to_duration(self.samples.len(), self.rate_hz)
    }
}

/// What a speech detector has heard in one window of the caller's sound.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// The probability of speech.
    pub probability: f32,
    /// Its length.
    pub span: Duration,
    /// How long it has been loud right before it. Detectors are sure of a word late: of "five" not
    /// before its vowel.
    pub lead_in: Duration,
    /// It is much louder than the line's own noise, and as loud as the caller may speak.
    pub is_loud: bool,
}

impl Window {
    /// A window behind silence, or behind what is told of in windows of their own.
    pub fn plain(probability: f32, span: Duration) -> Window {
        Window { probability, span, lead_in: Duration::ZERO, is_loud: false }
    }
}

/// Time that `samples` samples take at `rate_hz`.
pub fn samples_to_duration(samples: usize, rate_hz: u32) -> Duration {
    Duration::from_micros(samples as u64 * 1_000_000 / u64::from(rate_hz.max(1)))
}

/// Samples that fit in `span` at `rate_hz`.
pub fn duration_to_samples(span: Duration, rate_hz: u32) -> usize {
    (span.as_micros() as u64 * u64::from(rate_hz) / 1_000_000) as usize
}

/// Loudness of a stretch in dB below full scale; `f32::NEG_INFINITY` for digital silence.
pub fn level_dbfs(samples: &[i16]) -> f32 {
    if samples.is_empty() {
        return f32::NEG_INFINITY;
    }
    let power: f64 =
        samples.iter().map(|&s| f64::from(s) * f64::from(s)).sum::<f64>() / samples.len() as f64;
    if power <= 0.0 {
        return f32::NEG_INFINITY;
    }
    (10.0 * (power / (32_768.0 * 32_768.0)).log10()) as f32
}
