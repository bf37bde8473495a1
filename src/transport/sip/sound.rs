//! Sound over RTP: what is heard, on a clock of ours; what is said, encoded and numbered.

use std::time::Duration;

use bytes::Bytes;

use super::codec::{Codec, Spoken};
use super::press::Presses;
use super::rtp;
use crate::audio::{CALLER_FRAME_SAMPLES, CALLER_RATE_HZ, FRAME, Pcm};
use crate::codec::g711::{self, Law};
use crate::codec::opus::{self, CLOCK_HZ, ENCODED_FRAME_SAMPLES};
use crate::codec::{g722, resample::Resampler};
use crate::time::{Timestamp, ms};
use crate::transport::jitter::{JitterBuffer, Packet, Play, Tally};
use crate::transport::voice::{Frames, Numbers, OpusEar, OpusMouth};

/// A frame of silence so often keeps the way through a NAT open (RFC 6263).
const KEEP_ALIVE: Duration = ms(15_000);
/// Each made-up frame has so much of the one before: half. Opus makes up its own.
const FADES_BY: i16 = 2;

/// The caller's voice. What does not come is silence, from the first moment on: a phone that sends
/// nothing while nobody speaks still ends its turns.
pub(super) struct SoundIn {
    jitter: JitterBuffer,
    /// Whose stream it is, and what its timestamps count.
    stream: Option<(u32, u32)>,
    ear: Ear,
    /// When the next frame of silence is due where nothing was heard yet.
    silence_due: Timestamp,
}

impl SoundIn {
    /// The call begins.
    pub fn new(now: Timestamp) -> SoundIn {
        SoundIn {
            jitter: JitterBuffer::default(),
            stream: None,
            ear: Ear::new(),
            silence_due: now + FRAME,
        }
    }

    /// Takes a packet's sound; `false`: it is none. Another sender's stream begins anew, in the
    /// time that goes on, and so does one whose timestamps count something else.
    pub fn push(&mut self, now: Timestamp, packet: &rtp::Packet<'_>, codec: Codec) -> bool {
        // All that the jitter buffer does with ticks is to compare them modulo 2^32, which a
        // factor does not change.
        let ticks_each = CLOCK_HZ / codec.clock_hz();
        let ticks = match codec {
            Codec::Opus => opus::packet_ticks(packet.payload),
            Codec::G722 | Codec::Pcmu | Codec::Pcma => {
                Some(packet.payload.len() as u32 * ticks_each)
            }
        };
        let Some(ticks) = ticks else { return false };
        let stream = (packet.ssrc, codec.clock_hz());
        if self.stream != Some(stream) {
            self.jitter.begin_anew(self.due());
            self.ear.g722 = None;
            self.stream = Some(stream);
        }
        // The codec goes with the sound: it may change from one packet to the next.
        let mut payload = Vec::with_capacity(packet.payload.len() + 1);
        payload.push(codec as u8);
        payload.extend_from_slice(packet.payload);
        let timestamp = packet.timestamp.wrapping_mul(ticks_each);
        let (sequence, payload) = (packet.sequence, Bytes::from(payload));
        self.jitter.push(now, Packet { sequence, timestamp, ticks, payload });
        true
    }

    /// The sound that is due by now, or nearly.
    pub fn play(&mut self, now: Timestamp) -> Vec<i16> {
        let mut heard = Vec::new();
        if self.jitter.due().is_none() {
            while self.silence_due <= now {
                self.silence_due += FRAME;
                heard.resize(heard.len() + CALLER_FRAME_SAMPLES, 0);
            }
            return heard;
        }
        while let Some(play) = self.jitter.poll(self.jitter.horizon(now)) {
            self.ear.hear(play, &mut heard);
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

/// What makes sound of payloads.
struct Ear {
    /// What was heard last was this.
    codec: Codec,
    /// From G.711's rate.
    resampler: Resampler,
    /// The newest frame, at its codec's rate; Opus remembers its own.
    newest: Vec<i16>,
    /// These once they are spoken.
    g722: Option<Box<g722::Decoder>>,
    opus: Option<Box<OpusEar>>,
}

impl Ear {
    fn new() -> Ear {
        let resampler = Resampler::new(g711::RATE_HZ, CALLER_RATE_HZ);
        Ear { codec: Codec::Pcmu, resampler, newest: Vec::new(), g722: None, opus: None }
    }

    /// Appends what is heard of this.
    fn hear(&mut self, play: Play, heard: &mut Vec<i16>) {
        if let Play::Packet(payload) | Play::Skip(payload) | Play::Recover(payload) = &play {
            let named =
                Codec::ALL.into_iter().find(|codec| payload.first() == Some(&(*codec as u8)));
            self.codec = named.unwrap_or(self.codec);
        }
        if self.codec == Codec::Opus {
            return self.hear_opus(play, heard);
        }
        let samples = self.codec.encoded_hz() as usize / 50;
        match play {
            Play::Packet(payload) => self.decode(&payload[1..]),
            // It is decoded all the same: G.722 foretells what follows by it.
            Play::Skip(payload) => return self.decode(&payload[1..]),
            Play::Recover(_) | Play::Conceal => {
                self.newest.resize(samples, 0);
                self.newest.iter_mut().for_each(|sample| *sample /= FADES_BY);
            }
            Play::Silence => {
                self.newest.clear();
                self.newest.resize(samples, 0);
            }
        }
        match self.codec {
            Codec::G722 | Codec::Opus => heard.extend_from_slice(&self.newest),
            Codec::Pcmu | Codec::Pcma => self.resampler.push(&self.newest, heard),
        }
    }

    fn hear_opus(&mut self, play: Play, heard: &mut Vec<i16>) {
        if self.opus.is_none() {
            self.opus = OpusEar::new().ok().map(Box::new);
        }
        let play = match play {
            Play::Packet(payload) => Play::Packet(payload.slice(1..)),
            Play::Skip(payload) => Play::Skip(payload.slice(1..)),
            Play::Recover(payload) => Play::Recover(payload.slice(1..)),
            Play::Conceal | Play::Silence => play,
        };
        match &mut self.opus {
            Some(opus) => opus.hear(&play, heard),
            None => heard.resize(heard.len() + CALLER_FRAME_SAMPLES, 0),
        }
    }

    fn decode(&mut self, sound: &[u8]) {
        self.newest.clear();
        match self.codec {
            Codec::Pcmu => Law::Mu.decode(sound, &mut self.newest),
            Codec::Pcma => Law::A.decode(sound, &mut self.newest),
            Codec::G722 => self.g722.get_or_insert_default().decode(sound, &mut self.newest),
            Codec::Opus => {}
        }
    }
}

/// The agent's voice.
pub(super) struct SoundOut {
    how: Spoken,
    voice: Voice,
    frames: Frames,
    numbers: Numbers,
    ssrc: u32,
    /// The newest packet's sound.
    payload: Vec<u8>,
    sent: Timestamp,
    /// Keys that go out in its place.
    presses: Presses,
}

/// What encodes.
enum Voice {
    G711(Law),
    G722(Box<g722::Encoder>),
    /// Where there is none nothing is said.
    Opus(Option<Box<OpusMouth>>),
}

impl Voice {
    fn of(how: Spoken) -> Voice {
        match how.codec {
            Codec::Pcmu => Voice::G711(Law::Mu),
            Codec::Pcma => Voice::G711(Law::A),
            Codec::G722 => Voice::G722(Box::default()),
            Codec::Opus => {
                let encoder = opus::Encoder::bounded(how.bits_max.unwrap_or(u32::MAX));
                Voice::Opus(encoder.ok().map(|encoder| Box::new(OpusMouth::new(encoder))))
            }
        }
    }

    fn encode(&mut self, frame: &[i16], payload: &mut Vec<u8>) {
        match self {
            Voice::G711(law) => law.encode(frame, payload),
            Voice::G722(encoder) => encoder.encode(frame, payload),
            Voice::Opus(mouth) => {
                let packet = mouth.as_mut().and_then(|mouth| mouth.say(frame));
                payload.extend_from_slice(packet.unwrap_or_default());
            }
        }
    }
}

/// Numbers that a stream begins with, which are random (RFC 3550, 5.1). Lost at first, packets must
/// not hide from who hears them that the number has come round (RFC 3711, 3.3.1).
pub(super) fn drawn() -> (u16, u32, u32) {
    let (sequence, timestamp, ssrc): (u16, u32, u32) = rand::random();
    (sequence & 0x7fff, timestamp, ssrc)
}

impl SoundOut {
    /// A stream that begins with these numbers.
    pub fn new(
        now: Timestamp,
        how: Spoken,
        (sequence, timestamp, ssrc): (u16, u32, u32),
    ) -> SoundOut {
        SoundOut {
            how,
            voice: Voice::of(how),
            frames: Frames::of(how.codec.encoded_hz()),
            numbers: Numbers::from(sequence, timestamp),
            ssrc,
            payload: Vec::new(),
            sent: now,
            presses: Presses::default(),
        }
    }

    /// The peer, who knows events by this number, is to hear a key.
    pub fn press(&mut self, kind: u8, key: char) {
        self.presses.press(kind, key);
    }

    /// From now on it is spoken so. Where timestamps count something else, it is another stream
    /// (RFC 7160, 4.2), and where not, they go on.
    pub fn turn_to(&mut self, how: Spoken) {
        let before = std::mem::replace(&mut self.how, how);
        if (before.codec, before.bits_max) == (how.codec, how.bits_max) {
            return;
        }
        self.voice = Voice::of(how);
        self.frames.turn_to(how.codec.encoded_hz());
        if before.codec.clock_hz() != how.codec.clock_hz() {
            let (sequence, timestamp, ssrc) = drawn();
            (self.numbers, self.ssrc) = (Numbers::from(sequence, timestamp), ssrc);
        }
    }

    /// Sound that is to be heard now, as packets.
    pub fn say(&mut self, now: Timestamp, pcm: &Pcm, sent: &mut Vec<Vec<u8>>) {
        self.frames.push(pcm);
        while let Some(frame) = self.frames.next() {
            self.send(now, &frame, sent);
        }
    }

    /// Nothing follows for now: what is no whole frame is filled up with silence.
    pub fn finish(&mut self, now: Timestamp, sent: &mut Vec<Vec<u8>>) {
        if let Some(frame) = self.frames.last() {
            self.send(now, &frame, sent);
        }
    }

    /// Forgets what is no whole frame yet.
    pub fn clear(&mut self) {
        self.frames.clear();
    }

    /// The sound stops half-way. Behind G.711 and G.722 nothing is made up for long; behind Opus
    /// silence is sent.
    pub fn hush(&mut self, now: Timestamp, sent: &mut Vec<Vec<u8>>) {
        let Voice::Opus(Some(_)) = &self.voice else { return };
        self.finish(now, sent);
        let Voice::Opus(Some(mouth)) = &mut self.voice else { return };
        let Some(silence) = mouth.hush() else { return };
        for frame in silence.chunks(ENCODED_FRAME_SAMPLES) {
            self.send(now, frame, sent);
        }
        if let Voice::Opus(Some(mouth)) = &mut self.voice {
            mouth.hushed();
        }
    }

    /// Keeps the way open where nothing is said for long.
    pub fn keep_alive(&mut self, now: Timestamp, sent: &mut Vec<Vec<u8>>) {
        if self.keep_alive_due() > now {
            return;
        }
        self.payload.clear();
        match &mut self.voice {
            // Silence is what Opus does not send.
            Voice::Opus(_) => self.payload.extend(opus::NOTHING),
            voice => {
                let silence = vec![0; self.how.codec.encoded_hz() as usize / 50];
                voice.encode(&silence, &mut self.payload);
            }
        }
        self.send_payload(now, sent);
    }

    /// When that is due.
    pub fn keep_alive_due(&self) -> Timestamp {
        self.sent + KEEP_ALIVE
    }

    /// When all that was sent is over, where it is not.
    pub fn plays_until(&self) -> Option<Timestamp> {
        self.numbers.plays_until()
    }

    fn send(&mut self, now: Timestamp, frame: &[i16], sent: &mut Vec<Vec<u8>>) {
        self.payload.clear();
        self.voice.encode(frame, &mut self.payload);
        self.send_payload(now, sent);
    }

    fn send_payload(&mut self, now: Timestamp, sent: &mut Vec<Vec<u8>>) {
        let ticks = self.how.codec.clock_hz() / 50;
        let (timestamp, marker) = self.numbers.frame(now, ticks);
        if let Some(key) = self.presses.in_place_of(timestamp, ticks as u16) {
            self.sent = now;
            for _ in 0..key.times {
                let sequence = self.numbers.packet();
                let (kind, began) = (key.kind, key.began);
                sent.push(rtp::write(kind, key.marker, sequence, began, self.ssrc, &key.payload));
            }
            return;
        }
        if self.payload.is_empty() {
            return;
        }
        self.sent = now;
        let (kind, sequence) = (self.how.payload_type, self.numbers.packet());
        sent.push(rtp::write(kind, marker, sequence, timestamp, self.ssrc, &self.payload));
    }
}

#[cfg(test)]
#[path = "sound_tests.rs"]
mod tests;
