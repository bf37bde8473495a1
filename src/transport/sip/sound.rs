//! Sound as G.711 over RTP: what is heard, on a clock of ours; what is said, encoded and numbered.

use std::time::Duration;

use bytes::Bytes;

use super::press::Presses;
use super::rtp;
use crate::audio::{CALLER_FRAME_SAMPLES, CALLER_RATE_HZ, FRAME, Pcm};
use crate::codec::g711::{self, Law};
use crate::codec::opus::CLOCK_HZ;
use crate::codec::resample::Resampler;
use crate::time::{Timestamp, ms};
use crate::transport::jitter::{JitterBuffer, Packet, Play, Tally};

/// Ticks of the jitter buffer in one of G.711; all it does with them is to compare them modulo
/// 2^32, which a factor does not change.
const TICKS_EACH: u32 = CLOCK_HZ / g711::RATE_HZ;
/// Samples, and so bytes, of one frame.
pub(super) const FRAME_SAMPLES: usize = 160;
/// Sending this much later than the stream would have gone on is a new spurt of it.
const SPURT_GAP: Duration = ms(100);
/// A frame of silence so often keeps the way through a NAT open (RFC 6263).
const KEEP_ALIVE: Duration = ms(15_000);
/// Each made-up frame has so much of the one before: half.
const FADES_BY: i16 = 2;

/// The caller's voice. What does not come is silence, from the first moment on: a phone that sends
/// nothing while nobody speaks still ends its turns.
#[derive(Debug)]
pub(super) struct SoundIn {
    jitter: JitterBuffer,
    ssrc: Option<u32>,
    resampler: Resampler,
    /// When the next frame of silence is due where nothing was heard yet.
    silence_due: Timestamp,
    /// The newest frame, at the telephone's rate.
    newest: Vec<i16>,
}

impl SoundIn {
    /// The call begins.
    pub fn new(now: Timestamp) -> SoundIn {
        SoundIn {
            jitter: JitterBuffer::default(),
            ssrc: None,
            resampler: Resampler::new(g711::RATE_HZ, CALLER_RATE_HZ),
            silence_due: now + FRAME,
            newest: Vec::new(),
        }
    }

    /// Takes a packet's sound. Another sender's stream begins anew, in the time that goes on.
    pub fn push(&mut self, now: Timestamp, packet: &rtp::Packet<'_>, law: Law) {
        if self.ssrc != Some(packet.ssrc) {
            self.jitter.begin_anew(self.due());
            self.ssrc = Some(packet.ssrc);
        }
        // The law goes with the sound: it may change from one packet to the next.
        let mut payload = Vec::with_capacity(packet.payload.len() + 1);
        payload.push(if law == Law::Mu { 0 } else { 8 });
        payload.extend_from_slice(packet.payload);
        self.jitter.push(
            now,
            Packet {
                sequence: packet.sequence,
                timestamp: packet.timestamp.wrapping_mul(TICKS_EACH),
                ticks: packet.payload.len() as u32 * TICKS_EACH,
                payload: Bytes::from(payload),
            },
        );
    }

    /// The sound that is due by now.
    pub fn play(&mut self, now: Timestamp) -> Vec<i16> {
        let mut heard = Vec::new();
        if self.jitter.due().is_none() {
            while self.silence_due <= now {
                self.silence_due += FRAME;
                heard.resize(heard.len() + CALLER_FRAME_SAMPLES, 0);
            }
            return heard;
        }
        while let Some(play) = self.jitter.poll(now) {
            match play {
                Play::Packet(payload) => {
                    self.newest.clear();
                    decode(&payload, &mut self.newest);
                }
                Play::Skip(_) => continue,
                Play::Recover(_) | Play::Conceal => {
                    self.newest.resize(FRAME_SAMPLES, 0);
                    self.newest.iter_mut().for_each(|sample| *sample /= FADES_BY);
                }
                Play::Silence => {
                    self.newest.clear();
                    self.newest.resize(FRAME_SAMPLES, 0);
                }
            }
            self.resampler.push(&self.newest, &mut heard);
        }
        heard
    }

    /// When there is more.
    pub fn due(&self) -> Timestamp {
        self.jitter.due().unwrap_or(self.silence_due)
    }

    /// What the network made necessary.
    pub fn tally(&self) -> Tally {
        self.jitter.tally()
    }
}

fn decode(payload: &[u8], out: &mut Vec<i16>) {
    let Some((law, sound)) = payload.split_first() else { return };
    let law = if *law == 0 { Law::Mu } else { Law::A };
    law.decode(sound, out);
}

/// The agent's voice.
#[derive(Debug)]
pub(super) struct SoundOut {
    /// Only while sound of another rate comes.
    bridge: Option<(u32, Resampler)>,
    /// Less than a frame.
    rest: Vec<i16>,
    sequence: u16,
    timestamp: u32,
    ssrc: u32,
    /// When the next frame would go out without a gap.
    expected: Option<Timestamp>,
    sent: Timestamp,
    /// Keys that go out in its place.
    presses: Presses,
}

/// How a packet of ours is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spoken {
    pub law: Law,
    pub payload_type: u8,
}

impl SoundOut {
    /// A stream that begins with these numbers, which are random (RFC 3550, 5.1).
    pub fn new(now: Timestamp, (sequence, timestamp, ssrc): (u16, u32, u32)) -> SoundOut {
        let (bridge, rest, expected) = (None, Vec::new(), None);
        let presses = Presses::default();
        SoundOut { bridge, rest, sequence, timestamp, ssrc, expected, sent: now, presses }
    }

    /// The peer, who knows events by this number, is to hear a key.
    pub fn press(&mut self, kind: u8, key: char) {
        self.presses.press(kind, key);
    }

    /// Sound that is to be heard now, as packets.
    pub fn say(&mut self, now: Timestamp, pcm: &Pcm, how: Spoken, sent: &mut Vec<Vec<u8>>) {
        if pcm.rate_hz == g711::RATE_HZ {
            self.bridge = None;
            self.rest.extend_from_slice(&pcm.samples);
        } else {
            let same = self.bridge.take().filter(|(from, _)| *from == pcm.rate_hz);
            let (from, mut resampler) =
                same.unwrap_or_else(|| (pcm.rate_hz, Resampler::new(pcm.rate_hz, g711::RATE_HZ)));
            resampler.push(&pcm.samples, &mut self.rest);
            self.bridge = Some((from, resampler));
        }
        while self.rest.len() >= FRAME_SAMPLES {
            let frame: Vec<i16> = self.rest.drain(..FRAME_SAMPLES).collect();
            self.send(now, &frame, how, sent);
        }
    }

    /// Nothing follows for now: what is no whole frame is filled up with silence.
    pub fn finish(&mut self, now: Timestamp, how: Spoken, sent: &mut Vec<Vec<u8>>) {
        if !self.rest.is_empty() {
            let mut frame = std::mem::take(&mut self.rest);
            frame.resize(FRAME_SAMPLES, 0);
            self.send(now, &frame, how, sent);
        }
    }

    /// Forgets what is no whole frame yet.
    pub fn clear(&mut self) {
        self.rest.clear();
    }

    /// Keeps the way open where nothing is said for long.
    pub fn keep_alive(&mut self, now: Timestamp, how: Spoken, sent: &mut Vec<Vec<u8>>) {
        if self.keep_alive_due() <= now {
            self.send(now, &[0; FRAME_SAMPLES], how, sent);
        }
    }

    /// When that is due.
    pub fn keep_alive_due(&self) -> Timestamp {
        self.sent + KEEP_ALIVE
    }

    /// When all that was sent is over, where it is not.
    pub fn plays_until(&self) -> Option<Timestamp> {
        self.expected
    }

    fn send(&mut self, now: Timestamp, frame: &[i16], how: Spoken, sent: &mut Vec<Vec<u8>>) {
        let expected = self.expected.unwrap_or(now);
        let late = now.since(expected);
        let mut marker = self.expected.is_none();
        let mut at = expected;
        if late > SPURT_GAP {
            let frames = (late.as_micros() / FRAME.as_micros()) as u32;
            self.timestamp = self.timestamp.wrapping_add(frames.wrapping_mul(FRAME_SAMPLES as u32));
            at += FRAME * frames;
            marker = true;
        }
        (self.expected, self.sent) = (Some(at + FRAME), now);
        if let Some(key) = self.presses.in_place_of(self.timestamp, FRAME_SAMPLES as u16) {
            for again in 0..key.times {
                let (sequence, marker) = (self.sequence.wrapping_add(again), key.marker);
                let packet =
                    rtp::write(key.kind, marker, sequence, key.began, self.ssrc, &key.payload);
                sent.push(packet);
            }
            self.sequence = self.sequence.wrapping_add(key.times);
            self.timestamp = self.timestamp.wrapping_add(FRAME_SAMPLES as u32);
            return;
        }
        let mut payload = Vec::with_capacity(FRAME_SAMPLES);
        how.law.encode(frame, &mut payload);
        let (sequence, timestamp) = (self.sequence, self.timestamp);
        sent.push(rtp::write(how.payload_type, marker, sequence, timestamp, self.ssrc, &payload));
        self.sequence = sequence.wrapping_add(1);
        self.timestamp = timestamp.wrapping_add(FRAME_SAMPLES as u32);
    }
}

#[cfg(test)]
#[path = "sound_tests.rs"]
mod tests;
