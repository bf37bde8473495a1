//! A voice in a stream of RTP: what the transports that speak RTP share, in both directions.

use std::time::Duration;

use super::jitter::Play;
use crate::audio::{CALLER_FRAME_SAMPLES, FRAME, Pcm};
use crate::codec::opus::{Decoder, ENCODED_FRAME_SAMPLES, Encoder, OpusFault};
use crate::codec::resample::Resampler;
use crate::time::{Timestamp, ms};

/// Sending this much later than the stream would have gone on is a new spurt of it.
const SPURT_GAP: Duration = ms(100);
/// So many frames of silence behind sound that stops half-way: a decoder that gets nothing more
/// makes up another fifth of a second from the last 32 ms that it has.
pub(super) const HUSH_FRAMES: usize = 2;
/// What follows a skipped packet is faded in over this much of the caller's sound: 5 ms.
const FADE_SAMPLES: usize = CALLER_FRAME_SAMPLES / 4;

/// What the jitter buffer has of a stream of Opus, as sound.
pub(super) struct OpusEar {
    decoder: Decoder,
    /// How what was skipped began: what follows is faded into it.
    skipped: Vec<i16>,
}

impl OpusEar {
    pub fn new() -> Result<OpusEar, OpusFault> {
        Ok(OpusEar { decoder: Decoder::new()?, skipped: Vec::new() })
    }

    /// Appends what is heard of this.
    pub fn hear(&mut self, play: &Play, heard: &mut Vec<i16>) {
        let frame = match play {
            Play::Packet(payload) | Play::Skip(payload) => self.decoder.decode(payload),
            Play::Recover(next) => self.decoder.recover(next, CALLER_FRAME_SAMPLES),
            Play::Conceal => self.decoder.conceal(CALLER_FRAME_SAMPLES),
            Play::Silence => Ok(&[0; CALLER_FRAME_SAMPLES][..]),
        };
        // What is no sound is silence: the caller's time goes on all the same.
        let frame = frame.unwrap_or(&[0; CALLER_FRAME_SAMPLES]);
        if let Play::Skip(_) = play {
            if self.skipped.is_empty() {
                self.skipped.extend(frame.iter().take(FADE_SAMPLES));
            }
            return;
        }
        let from = heard.len();
        heard.extend_from_slice(frame);
        fade(&self.skipped, &mut heard[from..]);
        self.skipped.clear();
    }
}

/// Goes over from one sound into another, so that nothing clicks where they meet.
fn fade(from: &[i16], into: &mut [i16]) {
    let length = from.len().min(into.len()) as i32;
    for (at, (from, into)) in (0..length).zip(from.iter().zip(into)) {
        let mixed = i32::from(*from) * (length - at) + i32::from(*into) * at;
        *into = (mixed / length) as i16;
    }
}

/// What is said, as Opus.
pub(super) struct OpusMouth {
    encoder: Encoder,
    /// How the sound that was sent last ended; `None` once silence was sent behind it.
    ends_at: Option<i16>,
}

impl OpusMouth {
    pub fn new(encoder: Encoder) -> OpusMouth {
        OpusMouth { encoder, ends_at: None }
    }

    /// One frame as a packet; `None` where nothing has to be sent. What cannot be encoded is
    /// silence.
    pub fn say(&mut self, frame: &[i16]) -> Option<&[u8]> {
        self.ends_at = frame.last().copied();
        self.encoder.encode(frame).ok().flatten()
    }

    /// Silence that is sent behind sound which stops half-way, once.
    pub fn hush(&mut self) -> Option<Vec<i16>> {
        let last = self.ends_at.take()?;
        let mut silence = vec![0; HUSH_FRAMES * ENCODED_FRAME_SAMPLES];
        fade(&[last; FADE_SAMPLES], &mut silence);
        Some(silence)
    }

    /// That silence was sent.
    pub fn hushed(&mut self) {
        self.ends_at = None;
    }
}

/// Sound of any rate in frames of the one that is encoded.
#[derive(Debug)]
pub(super) struct Frames {
    rate_hz: u32,
    /// Only while sound of another rate comes.
    bridge: Option<(u32, Resampler)>,
    /// Less than a frame, between two calls.
    rest: Vec<i16>,
}

impl Frames {
    pub fn of(rate_hz: u32) -> Frames {
        Frames { rate_hz, bridge: None, rest: Vec::new() }
    }

    /// From now on frames have this rate.
    pub fn turn_to(&mut self, rate_hz: u32) {
        if rate_hz != self.rate_hz {
            let rest = std::mem::take(&mut self.rest);
            Resampler::new(self.rate_hz, rate_hz).push(&rest, &mut self.rest);
            (self.rate_hz, self.bridge) = (rate_hz, None);
        }
    }

    pub fn push(&mut self, pcm: &Pcm) {
        if pcm.rate_hz == self.rate_hz {
            self.bridge = None;
            return self.rest.extend_from_slice(&pcm.samples);
        }
        let same = self.bridge.take().filter(|(from, _)| *from == pcm.rate_hz);
        let fresh = || (pcm.rate_hz, Resampler::new(pcm.rate_hz, self.rate_hz));
        let (from, mut resampler) = same.unwrap_or_else(fresh);
        resampler.push(&pcm.samples, &mut self.rest);
        self.bridge = Some((from, resampler));
    }

    /// The next whole one.
    pub fn next(&mut self) -> Option<Vec<i16>> {
        let samples = self.samples();
        (self.rest.len() >= samples).then(|| self.rest.drain(..samples).collect())
    }

    /// What is no whole frame, filled up with silence.
    pub fn last(&mut self) -> Option<Vec<i16>> {
        if self.rest.is_empty() {
            return None;
        }
        let mut frame = std::mem::take(&mut self.rest);
        frame.resize(self.samples(), 0);
        Some(frame)
    }

    /// Forgets what is no whole frame yet.
    pub fn clear(&mut self) {
        self.rest.clear();
    }

    fn samples(&self) -> usize {
        self.rate_hz as usize / 50
    }
}

/// Numbers of a stream that goes on through silences: timestamps count them, sequence numbers do
/// not.
#[derive(Debug)]
pub(super) struct Numbers {
    sequence: u16,
    timestamp: u32,
    /// When the next frame would go out without a gap.
    expected: Option<Timestamp>,
}

impl Numbers {
    /// A stream that begins with these, which are random (RFC 3550, 5.1).
    pub fn from(sequence: u16, timestamp: u32) -> Numbers {
        Numbers { sequence, timestamp, expected: None }
    }

    /// A frame of so many ticks is said now: its timestamp, and whether it begins a spurt.
    pub fn frame(&mut self, now: Timestamp, ticks: u32) -> (u32, bool) {
        let expected = self.expected.unwrap_or(now);
        let late = now.since(expected);
        let mut begins = self.expected.is_none();
        let mut at = expected;
        if late > SPURT_GAP {
            let frames = (late.as_micros() / FRAME.as_micros()) as u32;
            self.timestamp = self.timestamp.wrapping_add(frames.wrapping_mul(ticks));
            at += FRAME * frames;
            begins = true;
        }
        self.expected = Some(at + FRAME);
        let timestamp = self.timestamp;
        self.timestamp = timestamp.wrapping_add(ticks);
        (timestamp, begins)
    }

    /// A packet goes out: its number.
    pub fn packet(&mut self) -> u16 {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        sequence
    }

    /// When all that was said is over.
    pub fn plays_until(&self) -> Option<Timestamp> {
        self.expected
    }
}
