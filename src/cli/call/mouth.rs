//! The caller's microphone: recordings played over silence, and which frames hold speech.

use std::collections::VecDeque;
use std::time::Duration;

use super::wire::WIRE_FRAME_SAMPLES;
use crate::audio::{Pcm, level_dbfs};

/// Below this a frame is never speech.
const QUIETEST_SPEECH_DBFS: f32 = -50.0;
/// A frame this far below the loud parts of its recording is a pause.
const SPEECH_RANGE_DB: f32 = 25.0;

/// A recording that waits for its moment, counted from the agent's first audio.
#[derive(Clone, Debug)]
pub(crate) struct Interruption {
    pub(super) after_first_audio: Duration,
    pub(super) sound: Pcm,
}

/// One frame out of the microphone.
#[derive(Debug, PartialEq)]
pub(crate) struct Frame {
    pub(crate) samples: [i16; WIRE_FRAME_SAMPLES],
    /// Whether somebody speaks in it.
    pub(crate) speech: bool,
}

/// What the caller says and when.
#[derive(Debug)]
pub(crate) struct Mouth {
    playing: Vec<Clip>,
    waiting: VecDeque<Interruption>,
    first_audio: Option<Duration>,
}

#[derive(Debug)]
struct Clip {
    samples: Vec<i16>,
    speech: Vec<bool>,
    next_frame: usize,
}

impl Mouth {
    /// Begins to play `input` at once.
    pub(crate) fn new(input: Pcm, mut interruptions: Vec<Interruption>) -> Mouth {
        interruptions.sort_by_key(|interruption| interruption.after_first_audio);
        Mouth { playing: vec![Clip::new(input)], waiting: interruptions.into(), first_audio: None }
    }

    /// The agent became audible for the first time: interruptions count from here.
    pub(super) fn agent_became_audible(&mut self, now: Duration) {
        self.first_audio.get_or_insert(now);
    }

    /// The next 20 ms.
    pub(crate) fn next_frame(&mut self, now: Duration) -> Frame {
        while let (Some(base), Some(next)) = (self.first_audio, self.waiting.front()) {
            if now < base + next.after_first_audio {
                break;
            }
            if let Some(due) = self.waiting.pop_front() {
                self.playing.push(Clip::new(due.sound));
            }
        }
        let mut frame = Frame { samples: [0; WIRE_FRAME_SAMPLES], speech: false };
        for clip in &mut self.playing {
            clip.mix_into(&mut frame);
        }
        self.playing.retain(|clip| !clip.is_over());
        frame
    }

    /// Nothing is being said now.
    pub(crate) fn is_quiet(&self) -> bool {
        self.playing.is_empty()
    }

    /// Interruptions that have not begun.
    pub(super) fn interruptions_waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl Clip {
    fn new(pcm: Pcm) -> Clip {
        let speech = speech_frames(&pcm.samples);
        Clip { samples: pcm.samples, speech, next_frame: 0 }
    }

    fn mix_into(&mut self, frame: &mut Frame) {
        let from = self.next_frame * WIRE_FRAME_SAMPLES;
        let rest = self.samples.get(from..).unwrap_or_default();
        for (slot, sample) in frame.samples.iter_mut().zip(rest) {
            *slot = slot.saturating_add(*sample);
        }
        frame.speech |= self.speech.get(self.next_frame).copied().unwrap_or(false);
        self.next_frame += 1;
    }

    fn is_over(&self) -> bool {
        self.next_frame >= self.speech.len()
    }
}

/// Which frames of a recording hold speech, judged by its own loud parts.
pub(crate) fn speech_frames(samples: &[i16]) -> Vec<bool> {
    let levels: Vec<f32> = samples.chunks(WIRE_FRAME_SAMPLES).map(level_dbfs).collect();
    let mut sorted = levels.clone();
    sorted.sort_by(f32::total_cmp);
    let loud = sorted.get(sorted.len() * 9 / 10).copied().unwrap_or(QUIETEST_SPEECH_DBFS);
    let threshold = (loud - SPEECH_RANGE_DB).max(QUIETEST_SPEECH_DBFS);
    levels.into_iter().map(|level| level > threshold).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pcm(frames: &[i16]) -> Pcm {
        let samples = frames.iter().flat_map(|&level| [level; WIRE_FRAME_SAMPLES]).collect();
        Pcm { rate_hz: 24_000, samples }
    }

    #[test]
    fn an_interruption_begins_when_it_is_due_and_not_before_the_agent_spoke() {
        let late =
            Interruption { after_first_audio: Duration::from_millis(40), sound: pcm(&[900]) };
        let mut mouth = Mouth::new(pcm(&[500]), vec![late]);
        let at = Duration::from_millis;
        assert_eq!(mouth.next_frame(at(0)).samples[0], 500);
        assert_eq!(mouth.next_frame(at(200)).samples[0], 0, "the agent has not spoken yet");
        mouth.agent_became_audible(at(300));
        assert_eq!(mouth.next_frame(at(320)).samples[0], 0);
        assert_eq!(mouth.interruptions_waiting(), 1);
        let frame = mouth.next_frame(at(340));
        assert_eq!((frame.samples[0], frame.speech), (900, true));
        assert!(mouth.is_quiet() && mouth.interruptions_waiting() == 0);
    }

    #[test]
    fn pauses_and_hiss_are_not_speech() {
        let speech = speech_frames(&pcm(&[3_000, 3_000, 20, 0, 3_000]).samples);
        assert_eq!(speech, [true, true, false, false, true]);
    }
}
