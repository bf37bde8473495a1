//! Sounds made of nothing but sums and products, so that they are the same on every machine (the
//! sines and powers of two C libraries differ in their last bits).

use std::f64::consts::{LN_10, TAU};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::script::Colour;

/// Full scale.
const FULL: f64 = 32_768.0;
/// Samples are judged in blocks of this part of a second.
const BLOCKS_PER_S: usize = 50;
/// A block with less than this part of the loudest one's power is a pause.
const PAUSE: f64 = 1e-3;
/// Random numbers that a sample of pink noise is the sum of: it is pink from about 30 Hz on.
const PINK_ROWS: usize = 9;

/// A steady tone at full scale.
pub fn tone(rate_hz: u32, hz: f64, length: usize) -> Vec<i16> {
    let mut wave = Wave::new(hz / f64::from(rate_hz));
    (0..length).map(|_| to_i16(wave.next() * (FULL - 1.0))).collect()
}

/// Noise, a quarter of full scale or so.
pub fn noise(colour: Colour, seed: u64, length: usize) -> Vec<i16> {
    const PEAK: i32 = 14_000;
    let mut random = StdRng::seed_from_u64(seed);
    let mut draw = move || random.random_range(-PEAK..=PEAK);
    match colour {
        Colour::White => (0..length).map(|_| draw() as i16).collect(),
        Colour::Pink => {
            // Every row is drawn anew half as often as the one before it.
            let mut rows: Vec<i32> = (0..PINK_ROWS).map(|_| draw()).collect();
            (1..=length)
                .map(|at| {
                    let row = (at.trailing_zeros() as usize).min(PINK_ROWS - 1);
                    rows[row] = draw();
                    (rows.iter().sum::<i32>() / PINK_ROWS as i32) as i16
                })
                .collect()
        }
    }
}

/// What stands for a voice where none was made: a pitch with its harmonics, some louder as those
/// of a vowel are, that swells with the syllables and wavers. Detectors take it for speech.
pub fn voice(rate_hz: u32, length: usize) -> Vec<i16> {
    const PITCH_HZ: f64 = 128.0;
    const WAVER_HZ: f64 = 2.3;
    const SYLLABLES_PER_S: f64 = 4.0;
    const LEVEL_DBFS: f64 = -26.0;
    /// Amplitudes of the harmonics: three formants.
    const HARMONICS: [f64; 22] = [
        0.6, 0.7, 0.8, 1.0, 1.0, 0.8, 0.5, 0.5, 0.6, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.15,
        0.25, 0.2, 0.1, 0.1,
    ];
    let rate = f64::from(rate_hz);
    let (mut swell, mut waver) = (Wave::new(SYLLABLES_PER_S / rate), Wave::new(WAVER_HZ / rate));
    let mut phase = 0.0;
    let samples = (0..length).map(|_| {
        let step = PITCH_HZ / rate * (1.0 + 0.06 * waver.next());
        phase += step;
        if phase >= 1.0 {
            phase -= 1.0;
        }
        let (sine, cosine) = sin_cos(TAU * phase);
        // sin((k + 1) x) from sin(k x) and sin((k - 1) x).
        let (mut before, mut now, mut sum) = (0.0, sine, 0.0);
        for part in HARMONICS {
            sum += part * now;
            (before, now) = (now, 2.0 * cosine * now - before);
        }
        let open = 0.55 + 0.45 * swell.next();
        to_i16(sum * open * FULL / 16.0)
    });
    at_level(samples.collect(), LEVEL_DBFS, rate_hz)
}

/// The same sound at a level, in dB of full scale, that its pauses do not count for.
pub fn at_level(mut samples: Vec<i16>, level_dbfs: f64, rate_hz: u32) -> Vec<i16> {
    let power = active_power(&samples, rate_hz);
    if power > 0.0 {
        let gain = amplitude(level_dbfs) * FULL / power.sqrt();
        samples.iter_mut().for_each(|sample| *sample = to_i16(f64::from(*sample) * gain));
    }
    samples
}

/// The mean square of what is no pause.
fn active_power(samples: &[i16], rate_hz: u32) -> f64 {
    let block = (rate_hz as usize / BLOCKS_PER_S).max(1);
    let power = |block: &[i16]| {
        let sum: i64 = block.iter().map(|&s| i64::from(s) * i64::from(s)).sum();
        sum as f64 / block.len() as f64
    };
    let powers: Vec<f64> = samples.chunks(block).map(power).collect();
    let loudest = powers.iter().copied().fold(0.0, f64::max);
    let active: Vec<f64> = powers.into_iter().filter(|power| *power > loudest * PAUSE).collect();
    if active.is_empty() { 0.0 } else { active.iter().sum::<f64>() / active.len() as f64 }
}

/// The factor that so many dB are.
pub fn amplitude(db: f64) -> f64 {
    let tens = db / 20.0;
    let whole = tens.floor();
    let (mut term, mut power) = (1.0, 1.0);
    for k in 1..40 {
        term *= (tens - whole) * LN_10 / f64::from(k);
        power += term;
    }
    for _ in 0..whole.abs() as u32 {
        power = if whole < 0.0 { power / 10.0 } else { power * 10.0 };
    }
    power
}

/// Sound at another rate, as a loudspeaker in a room needs it: by straight lines.
pub fn at_rate(samples: &[i16], from_hz: u32, to_hz: u32) -> Vec<i16> {
    if from_hz == to_hz || samples.is_empty() {
        return samples.to_vec();
    }
    let (from, to) = (u64::from(from_hz.max(1)), u64::from(to_hz.max(1)));
    let last = samples.len() - 1;
    (0..samples.len() as u64 * to / from)
        .map(|at| {
            let (whole, part) = ((at * from / to) as usize, (at * from % to) as i64);
            let (a, b) = (samples[whole.min(last)], samples[(whole + 1).min(last)]);
            (i64::from(a) + (i64::from(b) - i64::from(a)) * part / to as i64) as i16
        })
        .collect()
}

/// A number as a sample.
pub fn to_i16(sample: f64) -> i16 {
    sample.round().clamp(-FULL, FULL - 1.0) as i16
}

/// A sine, sample by sample: a vector that turns.
struct Wave {
    sine: f64,
    cosine: f64,
    turn: (f64, f64),
}

impl Wave {
    /// So many turns a sample.
    fn new(turns: f64) -> Wave {
        Wave { sine: 0.0, cosine: 1.0, turn: sin_cos(TAU * turns) }
    }

    fn next(&mut self) -> f64 {
        let (sine, cosine) = self.turn;
        let was = self.sine;
        self.sine = was * cosine + self.cosine * sine;
        self.cosine = self.cosine * cosine - was * sine;
        was
    }
}

/// Sine and cosine by their series, for one turn.
fn sin_cos(angle: f64) -> (f64, f64) {
    let (mut sine, mut cosine, mut term) = (0.0, 0.0, 1.0);
    for k in 0..44 {
        match k % 4 {
            0 => cosine += term,
            1 => sine += term,
            2 => cosine -= term,
            _ => sine -= term,
        }
        term *= angle / f64::from(k + 1);
    }
    (sine, cosine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::level_dbfs;

    #[test]
    fn tones_have_their_pitch_and_sounds_their_level() {
        let tone = at_level(tone(16_000, 440.0, 16_000), -20.0, 16_000);
        let rising = tone.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
        assert!(rising.abs_diff(440) <= 1, "{rising} periods");
        assert!((level_dbfs(&tone) + 20.0).abs() < 0.05);
        for colour in [Colour::White, Colour::Pink] {
            let made = at_level(noise(colour, 1, 16_000), -40.0, 16_000);
            assert!((level_dbfs(&made) + 40.0).abs() < 0.1, "{colour:?}");
            assert_ne!(noise(colour, 1, 100), noise(colour, 2, 100));
        }
        assert!((amplitude(-6.0) - 10f64.powf(-0.3)).abs() < 1e-12);
        assert!((amplitude(35.0) - 10f64.powf(1.75)).abs() < 1e-9);
        let mut half = vec![0; 16_000];
        half[..8_000].copy_from_slice(&tone[..8_000]);
        let half = at_level(half, -20.0, 16_000);
        assert!((level_dbfs(&half[..8_000]) + 20.0).abs() < 0.05, "its pause does not count");
    }

    #[test]
    fn pink_noise_falls_where_white_does_not() {
        // The difference of neighbours keeps what is high; pink has less of it.
        let high = |samples: &[i16]| {
            let differences: Vec<i16> = samples.windows(2).map(|p| (p[1] - p[0]) / 2).collect();
            level_dbfs(&differences) - level_dbfs(samples)
        };
        let white = high(&noise(Colour::White, 3, 16_000));
        let pink = high(&noise(Colour::Pink, 3, 16_000));
        assert!(pink < white - 5.0, "pink {pink} dB, white {white} dB");
    }

    #[test]
    fn another_rate_keeps_the_length() {
        assert_eq!(at_rate(&[3; 480], 24_000, 16_000), vec![3; 320]);
        assert_eq!(at_rate(&[0, 10, 20], 24_000, 16_000), vec![0, 15]);
    }
}
