//! The caller's microphone: everything that sounds at once, as one.

use std::ops::Range;

use super::super::script::Echo;
use super::craft;
use super::far_end::FarEnd;
use crate::audio::duration_to_samples;

/// What a microphone picks up.
#[derive(Clone, Debug, Default)]
pub struct Microphone {
    clips: Vec<Clip>,
    /// Digital silence.
    hushes: Vec<Range<u64>>,
    /// Over and over.
    bed: Vec<i16>,
    echo: Option<Path>,
}

#[derive(Clone, Debug)]
struct Clip {
    from: u64,
    samples: Vec<i16>,
}

/// From the loudspeaker back.
#[derive(Clone, Copy, Debug)]
struct Path {
    delay: u64,
    gain: f64,
}

impl Microphone {
    /// A room with this background and this way back.
    pub fn new(rate_hz: u32, bed: Vec<i16>, echo: Option<Echo>) -> Microphone {
        let echo = echo.map(|echo| Path {
            delay: duration_to_samples(echo.delay, rate_hz) as u64,
            gain: craft::amplitude(-echo.attenuation_db),
        });
        Microphone { clips: Vec::new(), hushes: Vec::new(), bed, echo }
    }

    /// Something begins to sound.
    pub fn add(&mut self, from: u64, samples: Vec<i16>) {
        self.clips.push(Clip { from, samples });
    }

    /// Nothing is picked up for so many samples.
    pub fn hush(&mut self, from: u64, length: usize) {
        self.hushes.push(from..from + length as u64);
    }

    /// Until which sample anything sounds, beside the background.
    pub fn until(&self, far: &FarEnd) -> u64 {
        let clips = self.clips.iter().map(|clip| clip.from + clip.samples.len() as u64);
        let hushes = self.hushes.iter().map(|hush| hush.end);
        let echo = self.echo.map(|echo| far.until() + echo.delay);
        clips.chain(hushes).chain(echo).max().unwrap_or(0)
    }

    /// What is picked up from this sample on.
    pub fn hear(&self, from: u64, length: usize, far: &FarEnd) -> Vec<i16> {
        let until = from + length as u64;
        let mut sum = vec![0_i32; length];
        if !self.bed.is_empty() {
            let bed = self.bed.iter().cycle().skip((from % self.bed.len() as u64) as usize);
            sum.iter_mut().zip(bed).for_each(|(sum, sample)| *sum += i32::from(*sample));
        }
        for clip in self.clips.iter().filter(|clip| clip.from < until) {
            // Either the clip began before these samples, or within them.
            let (skipped, waits) = (from.saturating_sub(clip.from), clip.from.saturating_sub(from));
            let rest = clip.samples.get(skipped as usize..).unwrap_or_default();
            let slots = sum[waits as usize..].iter_mut();
            slots.zip(rest).for_each(|(sum, sample)| *sum += i32::from(*sample));
        }
        if let Some(echo) = self.echo {
            for (at, sum) in (from..).zip(&mut sum) {
                let played = at.checked_sub(echo.delay).map_or(0, |at| far.at(at));
                *sum += i32::from(craft::to_i16(f64::from(played) * echo.gain));
            }
        }
        for hush in &self.hushes {
            let quiet = hush.start.clamp(from, until) - from..hush.end.clamp(from, until) - from;
            sum[quiet.start as usize..quiet.end as usize].fill(0);
        }
        let full = i32::from(i16::MIN)..=i32::from(i16::MAX);
        sum.into_iter().map(|sum| sum.clamp(*full.start(), *full.end()) as i16).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::audio::Pcm;

    #[test]
    fn what_sounds_at_once_is_added_and_a_hush_is_silence() {
        let echo = Echo { delay: Duration::from_millis(1), attenuation_db: 20.0 };
        let mut far = FarEnd::new(1_000, None);
        far.play(0, &Pcm { rate_hz: 1_000, samples: vec![100; 3] });
        let mut microphone = Microphone::new(1_000, vec![1, 2], Some(echo));
        microphone.add(2, vec![50; 4]);
        microphone.hush(5, 2);
        assert_eq!(microphone.hear(0, 8, &far), [1, 12, 61, 62, 51, 0, 0, 2]);
        assert_eq!(microphone.until(&far), 7);
    }
}
