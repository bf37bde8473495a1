//! Sound of telephone calls: from and to 16-bit samples.

use crate::audio::{CALLER_RATE_HZ, FRAME, duration_to_samples};
use crate::codec::g711::{self, Law};
use crate::codec::resample::Resampler;
use crate::transport::LEG_RATES_HZ;

/// How a stream encodes its sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// G.711 at 8 kHz.
    G711(Law),
    /// 16-bit little-endian samples at this rate.
    Linear(u32),
}

impl Encoding {
    /// As media types name it; `None` is none that can be spoken here.
    pub fn named(name: &str, rate_hz: u64) -> Option<Encoding> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_prefix("audio/").unwrap_or(&name);
        let rate_hz = u32::try_from(rate_hz).ok()?;
        match (name, rate_hz) {
            ("x-mulaw" | "mulaw" | "pcmu", 8_000) => Some(Encoding::G711(Law::Mu)),
            ("x-alaw" | "alaw" | "pcma", 8_000) => Some(Encoding::G711(Law::A)),
            ("l16" | "x-l16" | "base64" | "raw/slin", rate_hz)
                if LEG_RATES_HZ.contains(&rate_hz) =>
            {
                Some(Encoding::Linear(rate_hz))
            }
            _ => None,
        }
    }

    /// A media type with its rate: `audio/l16;rate=16000`.
    pub fn typed(text: &str) -> Option<Encoding> {
        let (name, rest) = text.split_once(';').unwrap_or((text, "rate=8000"));
        let rate = rest.trim().strip_prefix("rate=")?.trim().parse().ok()?;
        Encoding::named(name.trim(), rate)
    }

    /// Samples a second.
    pub fn rate_hz(self) -> u32 {
        match self {
            Encoding::G711(_) => g711::RATE_HZ,
            Encoding::Linear(rate_hz) => rate_hz,
        }
    }

    /// Bytes a sample.
    pub fn sample_bytes(self) -> usize {
        match self {
            Encoding::G711(_) => 1,
            Encoding::Linear(_) => 2,
        }
    }

    /// The bytes that stand for these samples.
    pub fn encode(self, samples: &[i16]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(samples.len() * self.sample_bytes());
        match self {
            Encoding::G711(law) => law.encode(samples, &mut bytes),
            Encoding::Linear(_) => bytes.extend(samples.iter().flat_map(|s| s.to_le_bytes())),
        }
        bytes
    }

    /// Bytes of 20 ms.
    pub fn frame_bytes(self) -> usize {
        duration_to_samples(FRAME, self.rate_hz()) * self.sample_bytes()
    }

    /// Fills a frame up with silence.
    pub(super) fn fill_frame(self, sound: &mut Vec<u8>) {
        let missing = self.frame_bytes().saturating_sub(sound.len());
        sound.extend(self.encode(&vec![0; missing / self.sample_bytes()]));
    }

    fn decode(self, bytes: &[u8], out: &mut Vec<i16>) {
        match self {
            Encoding::G711(law) => law.decode(bytes, out),
            Encoding::Linear(_) => {
                out.extend(bytes.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]])));
            }
        }
    }
}

/// The caller's sound, brought to the rate that the call hears at.
#[derive(Debug)]
pub(super) struct SoundIn {
    encoding: Encoding,
    resampler: Resampler,
    decoded: Vec<i16>,
}

impl SoundIn {
    pub fn new(encoding: Encoding) -> SoundIn {
        let resampler = Resampler::new(encoding.rate_hz(), CALLER_RATE_HZ);
        SoundIn { encoding, resampler, decoded: Vec::new() }
    }

    pub fn hear(&mut self, bytes: &[u8]) -> Vec<i16> {
        self.decoded.clear();
        self.encoding.decode(bytes, &mut self.decoded);
        let rate = self.encoding.rate_hz() as usize;
        let mut out =
            Vec::with_capacity(self.decoded.len() * CALLER_RATE_HZ as usize / rate.max(1) + 1);
        self.resampler.push(&self.decoded, &mut out);
        out
    }
}
