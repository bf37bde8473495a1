//! Sound both ways: what is heard, brought to the call's rate; what is said, in frames of 20 ms.

use bytes::Bytes;

use super::frame::Kind;
use crate::audio::{CALLER_RATE_HZ, FRAME, Pcm, duration_to_samples};
use crate::codec::resample::Resampler;
use crate::time::Timestamp;
use crate::transport::LEG_RATES_HZ;

/// The rate that a call speaks at for a line of this kind: its own, or the next that there is.
pub(super) fn leg_rate_hz(kind: Kind) -> u32 {
    let above = LEG_RATES_HZ.into_iter().filter(|rate| *rate >= kind.rate_hz());
    above.min().unwrap_or(LEG_RATES_HZ[0])
}

/// The caller's voice.
#[derive(Debug)]
pub(super) struct SoundIn {
    kind: Kind,
    resampler: Resampler,
}

impl SoundIn {
    pub fn new(kind: Kind) -> SoundIn {
        SoundIn { kind, resampler: Resampler::new(kind.rate_hz(), CALLER_RATE_HZ) }
    }

    pub fn hear(&mut self, kind: Kind, bytes: &[u8]) -> Vec<i16> {
        if kind != self.kind {
            *self = SoundIn::new(kind);
        }
        let samples: Vec<i16> =
            bytes.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]])).collect();
        let mut heard = Vec::new();
        self.resampler.push(&samples, &mut heard);
        heard
    }
}

/// The agent's voice, as whole frames.
#[derive(Debug)]
pub(super) struct SoundOut {
    kind: Kind,
    from_hz: u32,
    resampler: Resampler,
    /// What is no whole frame yet.
    samples: Vec<i16>,
    /// When all that was sent has been played.
    plays_until: Option<Timestamp>,
}

impl SoundOut {
    pub fn new(kind: Kind) -> SoundOut {
        let from_hz = leg_rate_hz(kind);
        let resampler = Resampler::new(from_hz, kind.rate_hz());
        SoundOut { kind, from_hz, resampler, samples: Vec::new(), plays_until: None }
    }

    /// Answers in the kind that is heard.
    pub fn follow(&mut self, kind: Kind) {
        if kind != self.kind {
            *self = SoundOut { plays_until: self.plays_until, ..SoundOut::new(kind) };
        }
    }

    /// The frames that are whole now.
    pub fn say(&mut self, now: Timestamp, pcm: &Pcm) -> Vec<Bytes> {
        if pcm.rate_hz != self.from_hz {
            self.from_hz = pcm.rate_hz;
            self.resampler = Resampler::new(pcm.rate_hz, self.kind.rate_hz());
        }
        self.resampler.push(&pcm.samples, &mut self.samples);
        self.frames(now)
    }

    /// Nothing follows of what was said: the rest of it, filled up with silence.
    pub fn finish(&mut self, now: Timestamp) -> Vec<Bytes> {
        if self.samples.is_empty() {
            return Vec::new();
        }
        let frame = self.frame_samples();
        self.samples.resize(self.samples.len().next_multiple_of(frame), 0);
        self.frames(now)
    }

    /// What is no frame yet is not wanted any more.
    pub fn clear(&mut self) {
        self.samples.clear();
    }

    pub fn plays_until(&self) -> Option<Timestamp> {
        self.plays_until
    }

    /// Bytes of so many frames.
    pub fn bytes_of(&self, frames: usize) -> usize {
        self.frame_samples() * 2 * frames
    }

    fn frame_samples(&self) -> usize {
        duration_to_samples(FRAME, self.kind.rate_hz())
    }

    fn frames(&mut self, now: Timestamp) -> Vec<Bytes> {
        let frame = self.frame_samples();
        let whole = self.samples.len() / frame * frame;
        let frames: Vec<Bytes> =
            self.samples[..whole].chunks_exact(frame).map(|f| self.kind.frame(f)).collect();
        self.samples.drain(..whole);
        if !frames.is_empty() {
            let from = self.plays_until.map_or(now, |until| until.max(now));
            self.plays_until = Some(from + FRAME * frames.len() as u32);
        }
        frames
    }
}
