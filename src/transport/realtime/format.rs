//! The three encodings of sound on this wire, and the way from and to base64.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::fields::Fields;
use super::wrong::Wrong;
use crate::audio::{CALLER_RATE_HZ, Pcm};
use crate::codec::g711::{self, Law};
use crate::codec::resample::Resampler;
use crate::leg::FromCaller;

/// Rate of `audio/pcm` on this wire, in Hz (protocols T8).
pub const PCM_RATE_HZ: u32 = 24_000;
/// Pieces that a second of sound is cut into at least: 200 ms each.
const PIECES_A_SECOND: u32 = 5;
/// Decode buffers larger than this are given back after use.
const KEEP_BYTES: usize = 64 * 1024;

/// Padding is what some clients forget; everything else is strict.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// An encoding of sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// 16-bit little-endian mono at 24 kHz.
    Pcm,
    /// G.711 at 8 kHz.
    G711(Law),
}

impl Format {
    /// Reads a `format` object.
    pub fn parse(fields: &Fields<'_>) -> Result<Self, Wrong> {
        fields.only(&["type", "rate"])?;
        match fields.need_text("type")? {
            "audio/pcm" => {
                let rate = fields.number("rate", 1.0, 1e6)?;
                if rate.is_some_and(|rate| rate != f64::from(PCM_RATE_HZ)) {
                    let path = fields.path("rate");
                    let message = format!("'{path}' must be {PCM_RATE_HZ} for audio/pcm.");
                    return Err(Wrong::at("invalid_value", path, message));
                }
                Ok(Format::Pcm)
            }
            "audio/pcmu" => Ok(Format::G711(Law::Mu)),
            "audio/pcma" => Ok(Format::G711(Law::A)),
            other => Err(Wrong::value(
                fields.path("type"),
                other,
                "'audio/pcm', 'audio/pcmu', 'audio/pcma'",
            )),
        }
    }

    /// Samples a second.
    pub fn rate_hz(self) -> u32 {
        match self {
            Format::Pcm => PCM_RATE_HZ,
            Format::G711(_) => g711::RATE_HZ,
        }
    }

    /// The object as the session shows it.
    pub fn object(self) -> FormatObject {
        match self {
            Format::Pcm => FormatObject { r#type: "audio/pcm", rate: Some(PCM_RATE_HZ) },
            Format::G711(Law::Mu) => FormatObject { r#type: "audio/pcmu", rate: None },
            Format::G711(Law::A) => FormatObject { r#type: "audio/pcma", rate: None },
        }
    }
}

/// A `format` object.
#[derive(serde::Serialize)]
pub(super) struct FormatObject {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<u32>,
}

/// The caller's sound: base64 to 16 kHz.
#[derive(Debug)]
pub(super) struct SoundIn {
    format: Format,
    resampler: Resampler,
    bytes: Vec<u8>,
    samples: Vec<i16>,
}

impl SoundIn {
    pub fn new(format: Format) -> Self {
        let resampler = Resampler::new(format.rate_hz(), CALLER_RATE_HZ);
        SoundIn { format, resampler, bytes: Vec::new(), samples: Vec::new() }
    }

    /// Follows the session's format; a new one begins a new stream.
    pub fn set_format(&mut self, format: Format) {
        if self.format != format {
            *self = SoundIn::new(format);
        }
    }

    /// Decodes one `audio` field; an error leaves the stream as it was.
    pub fn hear(&mut self, text: &str, out: &mut Vec<FromCaller>) -> Result<(), Wrong> {
        self.bytes.clear();
        BASE64.decode_vec(text, &mut self.bytes).map_err(|fault| {
            let fault = fault.to_string();
            let message =
                format!("'audio' must be base64, but is not: {}.", fault.trim_end_matches('.'));
            Wrong::at("invalid_value", "audio", message)
        })?;
        if self.format == Format::Pcm && !self.bytes.len().is_multiple_of(2) {
            let message = format!(
                "'audio' must hold whole 16-bit samples, but has {} bytes, an odd number.",
                self.bytes.len()
            );
            return Err(Wrong::at("invalid_value", "audio", message));
        }
        self.convert(out);
        if self.bytes.capacity() > KEEP_BYTES {
            self.bytes = Vec::new();
        }
        Ok(())
    }

    fn convert(&mut self, out: &mut Vec<FromCaller>) {
        let piece_samples = (self.format.rate_hz() / PIECES_A_SECOND) as usize;
        let piece_bytes = match self.format {
            Format::Pcm => piece_samples * 2,
            Format::G711(_) => piece_samples,
        };
        for piece in self.bytes.chunks(piece_bytes) {
            self.samples.clear();
            match self.format {
                Format::Pcm => self
                    .samples
                    .extend(piece.chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]]))),
                Format::G711(law) => law.decode(piece, &mut self.samples),
            }
            let rate = self.format.rate_hz() as usize;
            let room = self.samples.len() * CALLER_RATE_HZ as usize / rate + 1;
            let mut heard = Vec::with_capacity(room);
            self.resampler.push(&self.samples, &mut heard);
            if !heard.is_empty() {
                out.push(FromCaller::Audio(heard));
            }
        }
    }
}

/// The agent's sound: samples at the leg's rate to bytes.
#[derive(Debug)]
pub(super) struct SoundOut {
    format: Format,
    bytes: Vec<u8>,
    /// Only while sound of another rate comes: the client changed the format in mid-answer.
    bridge: Option<(u32, Resampler)>,
}

impl SoundOut {
    pub fn new(format: Format) -> Self {
        SoundOut { format, bytes: Vec::new(), bridge: None }
    }

    pub fn set_format(&mut self, format: Format) {
        if self.format != format {
            *self = SoundOut::new(format);
        }
    }

    /// The wire's bytes for this sound, valid until the next call.
    pub fn encode(&mut self, pcm: &Pcm) -> &[u8] {
        self.bytes.clear();
        if pcm.rate_hz == self.format.rate_hz() {
            self.bridge = None;
            encode(self.format, &pcm.samples, &mut self.bytes);
            return &self.bytes;
        }
        let rate = self.format.rate_hz();
        let same = self.bridge.take().filter(|(from, _)| *from == pcm.rate_hz);
        let (from, mut resampler) =
            same.unwrap_or_else(|| (pcm.rate_hz, Resampler::new(pcm.rate_hz, rate)));
        let mut samples = Vec::new();
        resampler.push(&pcm.samples, &mut samples);
        self.bridge = Some((from, resampler));
        encode(self.format, &samples, &mut self.bytes);
        &self.bytes
    }
}

fn encode(format: Format, samples: &[i16], bytes: &mut Vec<u8>) {
    match format {
        Format::Pcm => bytes.extend(samples.iter().flat_map(|sample| sample.to_le_bytes())),
        Format::G711(law) => law.encode(samples, bytes),
    }
}
