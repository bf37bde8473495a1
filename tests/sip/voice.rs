//! What a telephone's codec makes of its caller, and of the server's packets.

use std::f32::consts::TAU;

use floorkeeper::codec::g711::Law;
use floorkeeper::codec::resample::Resampler;
use floorkeeper::codec::{g722, opus};

use crate::phone::{PCMA, Packet};

/// How a telephone encodes, with what it was before.
pub enum Voice {
    /// By the payload type.
    G711,
    G722(Box<g722::Encoder>),
    Opus(Box<opus::Encoder>),
}

/// What a caller says in a frame.
#[derive(Clone, Copy)]
pub enum Said {
    Nothing,
    /// At 500 Hz.
    Words,
    /// A pure tone, of which there are so many frames, this one with them.
    Tone {
        hz: f32,
        frames_left: usize,
    },
}

impl Voice {
    pub fn g722() -> Voice {
        Voice::G722(Box::default())
    }

    pub fn opus() -> Voice {
        Voice::Opus(Box::new(opus::Encoder::new().unwrap()))
    }

    /// What the timestamps of 20 ms count.
    pub fn ticks(&self) -> u32 {
        if let Voice::Opus(_) = self { 960 } else { 160 }
    }

    fn rate_hz(&self) -> u32 {
        match self {
            Voice::G711 => 8_000,
            Voice::G722(_) => g722::RATE_HZ,
            Voice::Opus(_) => opus::ENCODED_RATE_HZ,
        }
    }

    /// A frame of what a caller says.
    pub fn frame(&mut self, said: Said, payload_type: u8) -> Vec<u8> {
        let (rate_hz, length) = (self.rate_hz() as f32, self.rate_hz() as usize / 50);
        let half = self.rate_hz() as usize / 1_000;
        let wave = |at: usize| match said {
            Said::Nothing => 0,
            Said::Words if at % (2 * half) < half => 8_000,
            Said::Words => -8_000,
            Said::Tone { hz, frames_left } => {
                let t = at as f32 - (frames_left * length) as f32;
                (10_000.0 * (TAU * (hz * t / rate_hz).fract()).sin()) as i16
            }
        };
        let samples: Vec<i16> = (0..length).map(wave).collect();
        let mut sound = Vec::new();
        match self {
            Voice::G711 if payload_type == PCMA => Law::A.encode(&samples, &mut sound),
            Voice::G711 => Law::Mu.encode(&samples, &mut sound),
            Voice::G722(encoder) => encoder.encode(&samples, &mut sound),
            Voice::Opus(encoder) => {
                let packet = encoder.encode(&samples).unwrap();
                sound.extend_from_slice(packet.unwrap_or(&opus::NOTHING));
            }
        }
        sound
    }

    /// What these packets say, at 16 kHz, one behind the other.
    pub fn heard(&self, packets: &[Packet]) -> Vec<i16> {
        let mut heard = Vec::new();
        let mut g722 = g722::Decoder::default();
        let mut opus = opus::Decoder::new().unwrap();
        let mut resampler = Resampler::new(8_000, 16_000);
        for Packet { payload, payload_type, .. } in packets {
            match self {
                Voice::G711 => {
                    let law = if *payload_type == PCMA { Law::A } else { Law::Mu };
                    let mut narrow = Vec::new();
                    law.decode(payload, &mut narrow);
                    resampler.push(&narrow, &mut heard);
                }
                Voice::G722(_) => g722.decode(payload, &mut heard),
                Voice::Opus(_) => heard.extend_from_slice(opus.decode(payload).unwrap()),
            }
        }
        heard
    }
}

/// How much of this is as loud as a voice, in milliseconds.
pub fn loud_ms(heard: &[i16]) -> usize {
    let is_loud = |frame: &&[i16]| floorkeeper::audio::level_dbfs(frame) > -40.0;
    heard.chunks(160).filter(is_loud).count() * 10
}

/// How much of the power of this a tone of so many Hz has, from 0 to 1.
pub fn part_of(heard: &[i16], hz: f32) -> f32 {
    let (mut cos, mut sin, mut all) = (0.0, 0.0, 1.0);
    for (n, sample) in heard.iter().map(|sample| f32::from(*sample)).enumerate() {
        let turn = n as f32 * hz * TAU / 16_000.0;
        (cos, sin, all) =
            (cos + sample * turn.cos(), sin + sample * turn.sin(), all + sample * sample);
    }
    2.0 * (cos * cos + sin * sin) / (all * heard.len().max(1) as f32)
}
