//! The caller's loudspeaker: plays what the agent sends, one piece behind the other, in real time.

use super::craft;
use crate::audio::Pcm;

/// What was played, from the call's beginning on; pauses are silence.
#[derive(Clone, Debug, Default)]
pub struct FarEnd {
    rate_hz: u32,
    track: Vec<i16>,
    /// What the agent sounds like, whatever its synthesiser makes.
    voice: Option<Vec<i16>>,
    spoken: usize,
}

impl FarEnd {
    /// Nothing was played yet. With a `voice` every sound of the agent is a piece of it.
    pub fn new(rate_hz: u32, voice: Option<Vec<i16>>) -> FarEnd {
        let voice = voice.filter(|voice| !voice.is_empty());
        FarEnd { rate_hz, track: Vec::new(), voice, spoken: 0 }
    }

    /// Sound comes at this sample: it is played behind what is still playing.
    pub fn play(&mut self, now: u64, pcm: &Pcm) {
        if self.track.len() < now as usize {
            self.track.resize(now as usize, 0);
        }
        let sound = craft::at_rate(&pcm.samples, pcm.rate_hz, self.rate_hz);
        match &self.voice {
            None => self.track.extend(sound),
            Some(voice) => {
                let from = self.spoken;
                self.track.extend((from..from + sound.len()).map(|at| voice[at % voice.len()]));
                self.spoken += sound.len();
            }
        }
    }

    /// What has not been played by this sample never will be.
    pub fn clear(&mut self, now: u64) {
        self.track.truncate(now as usize);
    }

    /// The sample that was played then.
    pub fn at(&self, sample: u64) -> i16 {
        self.track.get(sample as usize).copied().unwrap_or(0)
    }

    /// Until which sample it plays.
    pub fn until(&self) -> u64 {
        self.track.len() as u64
    }

    /// Everything that was played by this sample.
    pub fn played(mut self, end: u64) -> Vec<i16> {
        self.track.resize(end as usize, 0);
        self.track
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_plays_in_order_pauses_in_silence_and_cuts_what_is_cleared() {
        let pcm = |sample| Pcm { rate_hz: 16_000, samples: vec![sample; 4] };
        let mut far = FarEnd::new(16_000, None);
        far.play(2, &pcm(1));
        far.play(3, &pcm(2));
        far.play(12, &pcm(3));
        far.clear(14);
        assert_eq!(far.until(), 14);
        assert_eq!(far.played(15), [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 3, 3, 0]);
    }
}
