//! Sound as RTP: what is heard, put in order and decoded; what is said, encoded and numbered.

use bytes::Bytes;

use crate::audio::Pcm;
use crate::codec::opus::{self, CLOCK_HZ, ENCODED_FRAME_SAMPLES, ENCODED_RATE_HZ};
use crate::codec::opus::{Encoder, OpusFault};
use crate::time::Timestamp;
use crate::transport::jitter::{JitterBuffer, Packet, Tally};
use crate::transport::voice::{Frames, Numbers, OpusEar, OpusMouth};

/// RTP ticks of one frame.
const FRAME_TICKS: u32 = CLOCK_HZ / 50;

/// The caller's voice.
pub(super) struct SoundIn {
    jitter: JitterBuffer,
    ear: OpusEar,
}

impl SoundIn {
    pub fn new() -> Result<SoundIn, OpusFault> {
        Ok(SoundIn { jitter: JitterBuffer::default(), ear: OpusEar::new()? })
    }

    /// Takes a packet; one that is no Opus is dropped.
    pub fn push(&mut self, now: Timestamp, sequence: u16, timestamp: u32, payload: Bytes) {
        if let Some(ticks) = opus::packet_ticks(&payload) {
            self.jitter.push(now, Packet { sequence, timestamp, ticks, payload });
        }
    }

    /// The sound that is due by now, or nearly.
    pub fn play(&mut self, now: Timestamp) -> Vec<i16> {
        let mut heard = Vec::new();
        while let Some(play) = self.jitter.poll(self.jitter.horizon(now)) {
            self.ear.hear(&play, &mut heard);
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
    mouth: OpusMouth,
    frames: Frames,
    numbers: Numbers,
}

impl SoundOut {
    /// A stream that begins with these numbers, which are random (RFC 3550, 5.1).
    pub fn new(sequence: u16, timestamp: u32) -> Result<SoundOut, OpusFault> {
        let (mouth, frames) = (OpusMouth::new(Encoder::new()?), Frames::of(ENCODED_RATE_HZ));
        Ok(SoundOut { mouth, frames, numbers: Numbers::from(sequence, timestamp) })
    }

    /// Sound that is to be heard now, as packets.
    pub fn say(&mut self, now: Timestamp, pcm: &Pcm, sent: &mut Vec<Sent>) {
        self.frames.push(pcm);
        while let Some(frame) = self.frames.next() {
            self.send(now, &frame, sent);
        }
    }

    /// Nothing follows for now: what is no whole frame is filled up with silence.
    pub fn finish(&mut self, now: Timestamp, sent: &mut Vec<Sent>) {
        if let Some(frame) = self.frames.last() {
            self.send(now, &frame, sent);
        }
    }

    /// The sound stops half-way, for a while or for good: silence is sent behind it, once.
    pub fn hush(&mut self, now: Timestamp, sent: &mut Vec<Sent>) {
        self.finish(now, sent);
        let Some(silence) = self.mouth.hush() else { return };
        for frame in silence.chunks(ENCODED_FRAME_SAMPLES) {
            self.send(now, frame, sent);
        }
        self.mouth.hushed();
    }

    /// Forgets what is no whole frame yet.
    pub fn clear(&mut self) {
        self.frames.clear();
    }

    fn send(&mut self, now: Timestamp, frame: &[i16], sent: &mut Vec<Sent>) {
        let (timestamp, marker) = self.numbers.frame(now, FRAME_TICKS);
        if let Some(packet) = self.mouth.say(frame) {
            let payload = Bytes::copy_from_slice(packet);
            sent.push(Sent { sequence: self.numbers.packet(), timestamp, marker, payload });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::{CALLER_FRAME_SAMPLES, level_dbfs};
    use crate::time::ms;
    use crate::transport::voice::HUSH_FRAMES;

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

    /// A sender 200 ms late that is late no more: the ear catches up, and nowhere does the wave
    /// jump by more than it does by itself.
    #[test]
    fn catching_up_does_not_click() {
        let (mut out, mut ear) = (SoundOut::new(1, 2).unwrap(), SoundIn::new().unwrap());
        let (mut heard, mut sent) = (Vec::new(), Vec::new());
        // 210 Hz: the wave stands elsewhere at the end of each frame.
        let turn = 210.0 * std::f64::consts::TAU;
        // It swells four times a second, as what is steady is taken for noise and not sent.
        let swell = |at: f64| 0.6 + 0.4 * (at * 4.0 * std::f64::consts::TAU).sin();
        let wave = |at: f64| 8_000.0 * swell(at) * (at * turn).sin();
        let tone = |at: u64| wave(at as f64 / 24_000.0) as i16;
        for frame in 0..400 {
            let samples = (frame * 480..(frame + 1) * 480).map(tone).collect();
            let pcm = Pcm { rate_hz: ENCODED_RATE_HZ, samples };
            out.say(Timestamp::from_millis(frame * 20), &pcm, &mut sent);
        }
        let arrives = |n: u64| n * 20 + if n < 100 { 200 } else { 0 };
        let frame = |packet: &Sent| u64::from((packet.timestamp - 2) / FRAME_TICKS);
        let arrival = |packet: Sent| (arrives(frame(&packet)), packet);
        let mut arrivals: Vec<(u64, Sent)> = sent.into_iter().map(arrival).collect();
        arrivals.sort_by_key(|(at, _)| *at);
        let mut arrivals = arrivals.into_iter().peekable();
        for at in 0..8_000 {
            let now = Timestamp::from_millis(at);
            while let Some((_, packet)) = arrivals.next_if(|(arrival, _)| *arrival <= at) {
                ear.push(now, packet.sequence, packet.timestamp, packet.payload);
            }
            heard.extend(ear.play(now));
        }
        assert!(ear.tally().skipped >= 3, "{:?}", ear.tally());
        let step = |two: &[i16]| (i32::from(two[0]) - i32::from(two[1])).abs();
        let steps = heard[36_000..].windows(2).map(step);
        let own = (8_000.0 / 16_000.0 * turn) as i32;
        let worst = steps.max().unwrap();
        assert!(worst < own * 2, "a step of {worst} in a tone of {own}");
    }

    /// What stops half-way is followed by silence, once, and neither clicks.
    #[test]
    fn silence_is_sent_behind_sound_that_stops_half_way() {
        let (mut out, mut ear) = (SoundOut::new(1, 2).unwrap(), SoundIn::new().unwrap());
        let (mut heard, mut sent) = (Vec::new(), Vec::new());
        out.hush(Timestamp::from_millis(0), &mut sent);
        assert!(sent.is_empty(), "there is nothing to be followed");
        for frame in 0..10 {
            out.say(Timestamp::from_millis(frame * 20), &buzz(480), &mut sent);
        }
        let stops = Timestamp::from_millis(200);
        out.hush(stops, &mut sent);
        assert_eq!(sent.len(), 10 + HUSH_FRAMES);
        out.hush(stops, &mut sent);
        assert_eq!(sent.len(), 10 + HUSH_FRAMES);
        for (nth, packet) in sent.into_iter().enumerate() {
            let now = Timestamp::from_millis(nth as u64 * 20);
            ear.push(now, packet.sequence, packet.timestamp, packet.payload);
            heard.extend(ear.play(now));
        }
        heard.extend(ear.play(Timestamp::from_millis(400)));
        let loud = heard.chunks(160).rposition(|part| level_dbfs(part) > -45.0).unwrap();
        let silent = heard[loud * 160..].chunks(160).count() - 1;
        assert!(silent >= 10, "{silent} parts of 10 ms are silent");
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
