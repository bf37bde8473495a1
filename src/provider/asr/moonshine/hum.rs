//! Tells a hum from words by its sound: lips that stay closed make one colour from beginning to
//! end, and a word is made of changes. Asked for words, the model writes "Well." or "The." for it.

use std::sync::Arc;

use realfft::{RealFftPlanner, RealToComplex};

/// 32 ms at 16 kHz.
const WINDOW: usize = 512;
/// Upper edges of the bands, in bins of 31.25 Hz: 500, 1000, 1700, 2700 and 3800 Hz; a telephone
/// passes them.
const EDGES: [usize; 5] = [16, 32, 54, 86, 122];
/// What lies below is no voice.
const LOWEST_BIN: usize = 3;
/// A window that is so much quieter than the loudest is nothing; a consonant may be 20 dB quieter.
const LOUD_DB: f32 = 25.0;
/// What is so much weaker than the whole is the line's noise.
const FLOOR_DB: f32 = -25.0;
/// So much a band may change. Measured at sixteen places: hums up to 5.2 dB, the letter F from 9.2
/// dB, "In." from 10.4 dB, "Who?" from 14 dB, "Stop." from 19 dB.
const CHANGE_MAX_DB: f32 = 7.0;
/// What the model writes for a hum and is right with.
const HUMS: [&str; 14] =
    ["mm", "mmm", "hmm", "hm", "mhm", "m", "um", "uh", "huh", "ah", "oh", "eh", "er", "aha"];

/// Listens for hums.
pub(super) struct HumEar {
    transform: Arc<dyn RealToComplex<f32>>,
    shape: Vec<f32>,
}

impl HumEar {
    pub(super) fn new() -> HumEar {
        let turn = |at: usize| std::f32::consts::TAU * at as f32 / WINDOW as f32;
        HumEar {
            transform: RealFftPlanner::new().plan_fft_forward(WINDOW),
            shape: (0..WINDOW).map(|at| 0.5 - 0.5 * turn(at).cos()).collect(),
        }
    }

    /// The model wrote words for a sound (16 kHz) that holds none.
    pub(super) fn invented(&self, text: &str, sound: &[f32]) -> bool {
        let lower = text.to_lowercase();
        let mut words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        !words.all(|word| HUMS.contains(&word)) && self.has_one_colour(sound)
    }

    /// The whole sound has one colour, from its first loud window to its last. Words are told apart
    /// after a few windows, however many there are.
    fn has_one_colour(&self, sound: &[f32]) -> bool {
        // What sounds at a window's edge alone is as little in its level as in its colour.
        let shaped = |window: &[f32]| window.iter().zip(&self.shape).map(|(s, w)| s * w).collect();
        let windows: Vec<Vec<f32>> = sound.chunks_exact(WINDOW).map(shaped).collect();
        let power = |window: &Vec<f32>| window.iter().map(|sample| sample * sample).sum::<f32>();
        let loudest = windows.iter().map(power).fold(0.0, f32::max);
        let least_power = loudest * 10_f32.powf(-LOUD_DB / 10.0);
        let (mut least, mut most) = ([f32::MAX; EDGES.len()], [f32::MIN; EDGES.len()]);
        windows.into_iter().filter(|window| power(window) > least_power).all(|window| {
            let bands = least.iter_mut().zip(&mut most).zip(self.colour(window));
            bands.fold(true, |same, ((least, most), share)| {
                (*least, *most) = (least.min(share), most.max(share));
                same && *most - *least <= CHANGE_MAX_DB
            })
        })
    }

    /// How loud each band of a shaped window is beside the whole, in dB.
    fn colour(&self, mut shaped: Vec<f32>) -> [f32; EDGES.len()] {
        let mut spectrum = self.transform.make_output_vec();
        let transformed = self.transform.process(&mut shaped, &mut spectrum);
        debug_assert!(transformed.is_ok(), "the lengths are those of the plan");
        let power = |from: usize, to: usize| -> f32 {
            spectrum[from..to].iter().map(|bin| bin.norm_sqr()).sum::<f32>() + f32::MIN_POSITIVE
        };
        let whole = power(LOWEST_BIN, EDGES[EDGES.len() - 1]);
        let mut from = LOWEST_BIN;
        EDGES.map(|to| {
            let band = power(std::mem::replace(&mut from, to), to);
            (10.0 * (band / whole).log10()).max(FLOOR_DB)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Overtones of a voice; `open` gives how much of those above 1 kHz comes out, by time in s.
    fn voice(seconds: f32, open: impl Fn(f32) -> f32) -> Vec<f32> {
        let sample = |at: usize| {
            let t = at as f32 / 16_000.0;
            let overtone = |n: u16| {
                let hz = 120.0 * f32::from(n);
                let share = if hz < 1_000.0 { 1.0 } else { open(t) };
                (std::f32::consts::TAU * hz * t).sin() * share / f32::from(n)
            };
            (1..26).map(overtone).sum::<f32>() * 0.1
        };
        (0..(seconds * 16_000.0) as usize).map(sample).collect()
    }

    #[test]
    fn one_colour_holds_no_words_but_a_hum_that_was_written_stays() {
        let (ear, hum) = (HumEar::new(), voice(0.5, |_| 0.2));
        for invented in ["Well,", "The.", "With him,", "Uh, I mean that"] {
            assert!(ear.invented(invented, &hum), "{invented}");
        }
        for right in ["Uh-huh", "Mm-hmm,", "Um."] {
            assert!(!ear.invented(right, &hum), "{right}");
        }
    }

    #[test]
    fn a_mouth_that_opens_says_a_word() {
        let (ear, word) = (HumEar::new(), voice(0.5, |t| if t < 0.2 { 0.05 } else { 1.0 }));
        assert!(!ear.invented("No.", &word));
    }

    #[test]
    fn silence_around_it_and_within_changes_nothing() {
        let (ear, mut hum, silence) = (HumEar::new(), voice(0.25, |_| 0.2), [0.0; 4_800]);
        // No voice is there from one sample to the next: 20 ms.
        for at in 0..320 {
            let (share, end) = (at as f32 / 320.0, hum.len() - 1 - at);
            hum[at] *= share;
            hum[end] *= share;
        }
        // Wherever a window ends in it.
        for before in (4_096..4_096 + WINDOW).step_by(32) {
            let sound = [&silence[..before], &hum, &silence[..1_120], &hum, &silence].concat();
            assert!(ear.invented("Well.", &sound), "{before} samples before");
        }
    }

    /// A word's vowel alone has one colour: its consonants are heard, however quiet they are.
    #[test]
    fn a_steady_vowel_between_quiet_consonants_is_a_word() {
        let hiss = |at: usize| (at as f32 * 2.3).sin() * 0.012;
        let consonant: Vec<f32> = (0..1_600).map(hiss).collect();
        let sound = [consonant.clone(), voice(0.3, |_| 0.2), consonant].concat();
        assert!(!HumEar::new().invented("Stop.", &sound));
    }
}
