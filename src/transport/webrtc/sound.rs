//! Sound as RTP: what is heard, put in order and decoded; what is said, encoded and numbered.

use std::time::Duration;

use bytes::Bytes;

use super::jitter::{JitterBuffer, Packet, Play, Tally};
use crate::audio::{CALLER_FRAME_SAMPLES, FRAME, Pcm};
use crate::codec::opus::{self, Decoder, ENCODED_FRAME_SAMPLES, ENCODED_RATE_HZ, Encoder};
use crate::codec::opus::{CLOCK_HZ, OpusFault};
use crate::codec::resample::Resampler;
use crate::time::{Timestamp, ms};

/// RTP ticks of one frame.
const FRAME_TICKS: u32 = CLOCK_HZ / 50;
/// Sending this much later than the stream would have gone on is a new spurt of it.
const SPURT_GAP: Duration = ms(100);

/// The caller's voice.
pub(super) struct SoundIn {
    jitter: JitterBuffer,
    decoder: Decoder,
}

impl SoundIn {
    pub fn new() -> Result<SoundIn, OpusFault> {
        Ok(SoundIn { jitter: JitterBuffer::default(), decoder: Decoder::new()? })
    }

    /// Takes a packet; one that is no Opus is dropped.
    pub fn push(&mut self, now: Timestamp, sequence: u16, timestamp: u32, payload: Bytes) {
        if let Some(ticks) = opus::packet_ticks(&payload) {
            self.jitter.push(now, Packet { sequence, timestamp, ticks, payload });
        }
    }

    /// The sound that is due by now.
    pub fn play(&mut self, now: Timestamp) -> Vec<i16> {
        let mut heard = Vec::new();
        while let Some(play) = self.jitter.poll(now) {
            let frame = match &play {
                Play::Packet(payload) => self.decoder.decode(payload),
                Play::Recover(next) => self.decoder.recover(next, CALLER_FRAME_SAMPLES),
                Play::Conceal => self.decoder.conceal(CALLER_FRAME_SAMPLES),
                Play::Silence => Ok(&[0; CALLER_FRAME_SAMPLES][..]),
            };
            match frame {
                Ok(samples) => heard.extend_from_slice(samples),
                // It was no sound; the caller's time goes on all the same.
                Err(OpusFault) => heard.extend_from_slice(&[0; CALLER_FRAME_SAMPLES]),
            }
        }
        heard
    }

    /// What the network made necessary.
    pub fn tally(&self) -> Tally {
        self.jitter.tally()
    }

    /// When there is more.
    pub fn due(&self) -> Option<Timestamp> {
        self.jitter.due()
    }
}

/// One packet to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub sequence: u16,
    pub timestamp: u32,
    /// The first of a spurt.
    pub marker: bool,
    pub payload: Bytes,
}

/// The agent's voice.
pub(super) struct SoundOut {
    encoder: Encoder,
    /// Only while sound of another rate comes.
    bridge: Option<(u32, Resampler)>,
    /// Less than a frame.
    rest: Vec<i16>,
    sequence: u16,
    timestamp: u32,
    /// When the next frame would go out without a gap.
    expected: Option<Timestamp>,
}

impl SoundOut {
    /// A stream that begins with these numbers, which are random (RFC 3550, 5.1).
    pub fn new(sequence: u16, timestamp: u32) -> Result<SoundOut, OpusFault> {
        let encoder = Encoder::new()?;
        let (bridge, rest, expected) = (None, Vec::new(), None);
        Ok(SoundOut { encoder, bridge, rest, sequence, timestamp, expected })
    }

    /// Sound that is to be heard now, as packets.
    pub fn say(&mut self, now: Timestamp, pcm: &Pcm, sent: &mut Vec<Sent>) {
        if pcm.rate_hz == ENCODED_RATE_HZ {
            self.bridge = None;
            self.rest.extend_from_slice(&pcm.samples);
        } else {
            let same = self.bridge.take().filter(|(from, _)| *from == pcm.rate_hz);
            let (from, mut resampler) =
                same.unwrap_or_else(|| (pcm.rate_hz, Resampler::new(pcm.rate_hz, ENCODED_RATE_HZ)));
            resampler.push(&pcm.samples, &mut self.rest);
            self.bridge = Some((from, resampler));
        }
        while self.rest.len() >= ENCODED_FRAME_SAMPLES {
            let frame: Vec<i16> = self.rest.drain(..ENCODED_FRAME_SAMPLES).collect();
            self.send(now, &frame, sent);
        }
    }

    /// Nothing follows for now: what is no whole frame is filled up with silence.
    pub fn finish(&mut self, now: Timestamp, sent: &mut Vec<Sent>) {
        if !self.rest.is_empty() {
            let mut frame = std::mem::take(&mut self.rest);
            frame.resize(ENCODED_FRAME_SAMPLES, 0);
            self.send(now, &frame, sent);
        }
    }

    /// Forgets what is no whole frame yet.
    pub fn clear(&mut self) {
        self.rest.clear();
    }

    fn send(&mut self, now: Timestamp, frame: &[i16], sent: &mut Vec<Sent>) {
        let expected = self.expected.unwrap_or(now);
        let late = now.since(expected);
        let mut marker = self.expected.is_none();
        let mut at = expected;
        if late > SPURT_GAP {
            let frames = (late.as_micros() / FRAME.as_micros()) as u32;
            self.timestamp = self.timestamp.wrapping_add(frames.wrapping_mul(FRAME_TICKS));
            at += FRAME * frames;
            marker = true;
        }
        self.expected = Some(at + FRAME);
        let timestamp = self.timestamp;
        self.timestamp = timestamp.wrapping_add(FRAME_TICKS);
        // A frame of silence is not sent, and one that cannot be encoded is silence.
        if let Ok(Some(packet)) = self.encoder.encode(frame) {
            let payload = Bytes::copy_from_slice(packet);
            sent.push(Sent { sequence: self.sequence, timestamp, marker, payload });
            self.sequence = self.sequence.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::level_dbfs;

    fn buzz(samples: usize) -> Pcm {
        let samples = (0..samples).map(|at| if at % 60 < 30 { 8_000 } else { -8_000 }).collect();
        Pcm { rate_hz: ENCODED_RATE_HZ, samples }
    }

    #[test]
    fn timestamps_go_on_through_a_gap_and_numbers_do_not() {
        let mut out = SoundOut::new(65_535, u32::MAX - 959).unwrap();
        let mut sent = Vec::new();
        let now = Timestamp::from_millis(50);
        out.say(now, &buzz(960), &mut sent);
        out.say(now + ms(40), &buzz(500), &mut sent);
        out.finish(now + ms(40), &mut sent);
        out.say(now + ms(1_080), &buzz(480), &mut sent);
        let numbers: Vec<(u16, u32, bool)> =
            sent.iter().map(|sent| (sent.sequence, sent.timestamp, sent.marker)).collect();
        let first = u32::MAX - 959;
        let at = |frame: u32| first.wrapping_add(frame * 960);
        assert_eq!(
            numbers,
            [
                (65_535, at(0), true),
                (0, at(1), false),
                (1, at(2), false),
                (2, at(3), false),
                (3, at(54), true),
            ]
        );
    }

    #[test]
    fn what_is_said_is_heard() {
        let (mut out, mut heard) = (SoundOut::new(1, 2).unwrap(), Vec::new());
        let mut ear = SoundIn::new().unwrap();
        let mut sent = Vec::new();
        for frame in 0..50_u64 {
            let now = Timestamp::from_millis(frame * 20);
            out.say(now, &buzz(480), &mut sent);
            for Sent { sequence, timestamp, payload, .. } in sent.drain(..) {
                ear.push(now, sequence, timestamp, payload);
            }
            heard.extend(ear.play(now));
        }
        assert_eq!(heard.len(), 50 * CALLER_FRAME_SAMPLES);
        assert!(level_dbfs(&heard[8_000..]) > -20.0);
        ear.push(Timestamp::from_millis(1_000), 9, 9, Bytes::from_static(&[0xff; 3]));
    }
}
