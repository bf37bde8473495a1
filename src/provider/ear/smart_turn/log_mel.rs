//! The spectrum that Whisper-like models are shown: 80 mel bands of 8 s in steps of 10 ms.

use std::sync::Arc;

use realfft::{RealFftPlanner, RealToComplex};

/// Samples that are looked at: 8 s at 16 kHz.
pub(super) const SAMPLES: usize = 128_000;
/// Bands.
pub(super) const MELS: usize = 80;
/// Steps.
pub(super) const FRAMES: usize = 800;

const WINDOW: usize = 400;
const HOP: usize = 160;
const BINS: usize = WINDOW / 2 + 1;
const RATE_HZ: f64 = 16_000.0;
/// Keeps the variance of silence away from zero.
const VARIANCE_FLOOR: f64 = 1e-7;
/// Quietest power that is told apart from nothing.
const POWER_FLOOR: f64 = 1e-10;
/// Loudest to quietest, in powers of ten.
const RANGE: f32 = 8.0;

/// Makes log-mel spectra.
pub(super) struct LogMel {
    fft: Arc<dyn RealToComplex<f32>>,
    hann: Vec<f32>,
    bands: Vec<Band>,
}

/// One triangular filter: the first bin it weighs, and the weights.
struct Band {
    first: usize,
    weights: Vec<f32>,
}

impl LogMel {
    pub(super) fn new() -> LogMel {
        let turn = std::f64::consts::TAU / WINDOW as f64;
        let hann = (0..WINDOW).map(|n| (0.5 - 0.5 * (turn * n as f64).cos()) as f32).collect();
        LogMel { fft: RealFftPlanner::new().plan_fft_forward(WINDOW), hann, bands: bands() }
    }

    /// The spectrum of the last 8 s, `[MELS, FRAMES]` row by row; shorter sound has silence before
    /// it.
    pub(super) fn of(&self, sound: &[i16]) -> Vec<f32> {
        let padded = padded(sound);
        let mut windowed = self.fft.make_input_vec();
        let mut spectrum = self.fft.make_output_vec();
        let mut scratch = self.fft.make_scratch_vec();
        let mut features = vec![0.0; MELS * FRAMES];
        for frame in 0..FRAMES {
            let from = &padded[frame * HOP..frame * HOP + WINDOW];
            for ((to, sample), weight) in windowed.iter_mut().zip(from).zip(&self.hann) {
                *to = sample * weight;
            }
            // The three buffers are the plan's own, so their lengths are right.
            let _ = self.fft.process_with_scratch(&mut windowed, &mut spectrum, &mut scratch);
            for (mel, band) in self.bands.iter().enumerate() {
                let bins = &spectrum[band.first..band.first + band.weights.len()];
                let power: f32 = bins
                    .iter()
                    .zip(&band.weights)
                    .map(|(bin, weight)| bin.norm_sqr() * weight)
                    .sum();
                features[mel * FRAMES + frame] = power.max(POWER_FLOOR as f32).log10();
            }
        }
        let loudest = features.iter().copied().fold(f32::MIN, f32::max);
        for value in &mut features {
            *value = (value.max(loudest - RANGE) + 4.0) / 4.0;
        }
        features
    }
}

/// 8 s of sound with mean 0 and variance 1, silence in front of what is shorter, mirrored at both
/// ends.
fn padded(sound: &[i16]) -> Vec<f32> {
    let sound = &sound[sound.len().saturating_sub(SAMPLES)..];
    let scale = |sample: &i16| f64::from(*sample) / 32_768.0;
    let mean = sound.iter().map(scale).sum::<f64>() / SAMPLES as f64;
    let square = sound.iter().map(|sample| scale(sample).powi(2)).sum::<f64>() / SAMPLES as f64;
    let deviation = (square - mean * mean + VARIANCE_FLOOR).sqrt();
    let half = WINDOW / 2;
    let mut padded = vec![(-mean / deviation) as f32; SAMPLES + WINDOW];
    let start = half + SAMPLES - sound.len();
    for (to, sample) in padded[start..].iter_mut().zip(sound) {
        *to = ((scale(sample) - mean) / deviation) as f32;
    }
    for step in 1..=half {
        padded[half - step] = padded[half + step];
        padded[half + SAMPLES - 1 + step] = padded[half + SAMPLES - 1 - step];
    }
    padded
}

/// Slaney's mel scale: linear below 1 kHz, logarithmic above.
fn mel_of_hz(hz: f64) -> f64 {
    if hz < 1_000.0 { 3.0 * hz / 200.0 } else { 15.0 + (hz / 1_000.0).ln() * 27.0 / 6.4_f64.ln() }
}

fn hz_of_mel(mel: f64) -> f64 {
    if mel < 15.0 {
        200.0 * mel / 3.0
    } else {
        1_000.0 * ((mel - 15.0) * 6.4_f64.ln() / 27.0).exp()
    }
}

fn bands() -> Vec<Band> {
    let highest = mel_of_hz(RATE_HZ / 2.0);
    let edge = |n: usize| hz_of_mel(highest * n as f64 / (MELS + 1) as f64);
    let hz = |bin: usize| RATE_HZ / 2.0 * bin as f64 / (BINS - 1) as f64;
    let band = |mel: usize| {
        let (low, middle, high) = (edge(mel), edge(mel + 1), edge(mel + 2));
        let weight = |bin: usize| {
            let slope = ((hz(bin) - low) / (middle - low)).min((high - hz(bin)) / (high - middle));
            slope.max(0.0) * 2.0 / (high - low)
        };
        let first = (0..BINS).find(|bin| weight(*bin) > 0.0).unwrap_or(0);
        let weights = (first..BINS).map(weight).take_while(|weight| *weight > 0.0);
        Band { first, weights: weights.map(|weight| weight as f32).collect() }
    };
    (0..MELS).map(band).collect()
}

#[cfg(test)]
mod tests {
    use super::{FRAMES, LogMel, MELS, SAMPLES, hz_of_mel, mel_of_hz};

    fn tone(hz: f64, samples: usize) -> Vec<i16> {
        let turn = std::f64::consts::TAU * hz / 16_000.0;
        (0..samples).map(|n| ((turn * n as f64).sin() * 8_000.0) as i16).collect()
    }

    #[test]
    fn the_scale_is_its_own_inverse() {
        for hz in [0.0, 300.0, 999.0, 1_000.0, 3_400.0, 8_000.0] {
            assert!((hz_of_mel(mel_of_hz(hz)) - hz).abs() < 1e-6);
        }
    }

    #[test]
    fn a_tone_is_loudest_in_its_own_band() {
        let features = LogMel::new().of(&tone(1_000.0, SAMPLES));
        let middle = |mel: usize| features[mel * FRAMES + FRAMES / 2];
        let loudest = (0..MELS).max_by(|a, b| middle(*a).total_cmp(&middle(*b))).expect("a band");
        // 1 kHz is mel 15; 8 kHz is mel 45.2: band 15 / 45.2 * 81 - 1 = 25.8.
        assert!((25..=26).contains(&loudest), "band {loudest}");
    }

    #[test]
    fn short_sound_has_its_silence_in_front() {
        let features = LogMel::new().of(&tone(1_000.0, 16_000));
        assert!(features[25 * FRAMES + 750] > features[25 * FRAMES + 100] + 0.5);
    }

    #[test]
    fn nothing_at_all_is_flat_and_finite() {
        let features = LogMel::new().of(&[]);
        assert_eq!(features.len(), MELS * FRAMES);
        assert!(features.iter().all(|value| value.is_finite() && *value == features[0]));
    }
}
