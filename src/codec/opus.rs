//! Opus for one voice: 20 ms frames with in-band error correction and silence left out.
//!
//! The encoder takes 24 kHz, which is more than our voices have; the decoder gives what is heard
//! at the caller's rate, so that nothing has to be resampled. RTP counts 48 kHz all the same.

use ropus::{Application, Bitrate, Channels, DecodeMode, InbandFec, Signal};

use crate::audio::CALLER_RATE_HZ;

/// Rate of RTP timestamps, whatever is encoded (RFC 7587).
pub const CLOCK_HZ: u32 = 48_000;
/// Rate that the encoder takes.
pub const ENCODED_RATE_HZ: u32 = 24_000;
/// Samples in one encoded frame.
pub const ENCODED_FRAME_SAMPLES: usize = 480;

/// Bits a second; with error correction some of them are spent twice.
const BITRATE: u32 = 32_000;
/// From here on more effort is hardly heard in speech.
const COMPLEXITY: u8 = 5;
/// Loss that the error correction is made for, in percent.
const EXPECTED_LOSS_PERCENT: u8 = 10;
/// Largest packet of one frame.
const PACKET_MAX: usize = 1_275;
/// Longest packet there is: 120 ms.
const DECODED_MAX: usize = CALLER_RATE_HZ as usize * 120 / 1_000;
/// A packet of no more bytes than this says that there is nothing to hear.
const EMPTY_BYTES: usize = 2;

/// A packet of 20 ms in which there is nothing to hear, which is said of all others by not sending
/// them (RFC 6716, 3.1: one frame of SILK, without any bytes).
pub const NOTHING: [u8; 1] = [0x48];

/// The codec refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not Opus, or no sound for it")]
pub struct OpusFault;

/// Encodes the agent's voice.
pub struct Encoder {
    inner: ropus::Encoder,
    packet: Vec<u8>,
}

impl Encoder {
    /// An encoder for mono speech.
    pub fn new() -> Result<Encoder, OpusFault> {
        Encoder::bounded(BITRATE)
    }

    /// One that takes no more bits a second than this, nor than usual.
    pub fn bounded(bits_max: u32) -> Result<Encoder, OpusFault> {
        let inner = ropus::Encoder::builder(ENCODED_RATE_HZ, Channels::Mono, Application::Voip)
            .bitrate(Bitrate::Bits(bits_max.min(BITRATE)))
            .complexity(COMPLEXITY)
            .signal(Signal::Voice)
            .inband_fec(InbandFec::Enabled)
            .packet_loss_perc(EXPECTED_LOSS_PERCENT)
            .dtx(true)
            .build()
            .map_err(|_| OpusFault)?;
        Ok(Encoder { inner, packet: vec![0; PACKET_MAX] })
    }

    /// One frame of [`ENCODED_FRAME_SAMPLES`] as a packet; `None` where there is nothing to hear
    /// and nothing has to be sent.
    pub fn encode(&mut self, frame: &[i16]) -> Result<Option<&[u8]>, OpusFault> {
        let length = self.inner.encode(frame, &mut self.packet).map_err(|_| OpusFault)?;
        Ok((length > EMPTY_BYTES).then(|| &self.packet[..length]))
    }
}

/// Decodes the caller's voice, mono at [`CALLER_RATE_HZ`].
pub struct Decoder {
    inner: ropus::Decoder,
    samples: Vec<i16>,
}

impl Decoder {
    /// A decoder that has heard nothing.
    pub fn new() -> Result<Decoder, OpusFault> {
        let inner = ropus::Decoder::new(CALLER_RATE_HZ, Channels::Mono).map_err(|_| OpusFault)?;
        Ok(Decoder { inner, samples: vec![0; DECODED_MAX] })
    }

    /// A packet's sound.
    pub fn decode(&mut self, packet: &[u8]) -> Result<&[i16], OpusFault> {
        if packet.is_empty() {
            return Err(OpusFault);
        }
        self.run(packet, DECODED_MAX, DecodeMode::Normal)
    }

    /// The sound of a lost packet of so many samples, from what the packet behind it knows of it.
    pub fn recover(&mut self, next: &[u8], samples: usize) -> Result<&[i16], OpusFault> {
        if next.is_empty() {
            return Err(OpusFault);
        }
        self.run(next, samples, DecodeMode::Fec)
    }

    /// Makes up so many samples that nobody knows, from what was heard before.
    pub fn conceal(&mut self, samples: usize) -> Result<&[i16], OpusFault> {
        self.run(&[], samples, DecodeMode::Normal)
    }

    fn run(
        &mut self,
        packet: &[u8],
        samples: usize,
        mode: DecodeMode,
    ) -> Result<&[i16], OpusFault> {
        let room = self.samples.get_mut(..samples).ok_or(OpusFault)?;
        let length = self.inner.decode(packet, room, mode).map_err(|_| OpusFault)?;
        self.samples.get(..length).ok_or(OpusFault)
    }
}

/// How long a packet sounds, in ticks of [`CLOCK_HZ`] (RFC 6716, 3.1); `None` for what no decoder
/// takes.
pub fn packet_ticks(packet: &[u8]) -> Option<u32> {
    let (first, rest) = packet.split_first()?;
    let frame = match first >> 3 {
        mode @ 0..=11 => [480, 960, 1_920, 2_880][usize::from(mode & 3)],
        mode @ 12..=15 => [480, 960][usize::from(mode & 1)],
        mode => [120, 240, 480, 960][usize::from(mode & 3)],
    };
    let frames = match first & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(rest.first()? & 63),
    };
    let ticks = frame * frames;
    (1..=CLOCK_HZ * 120 / 1_000).contains(&ticks).then_some(ticks)
}

#[cfg(test)]
mod tests {
    use std::f32::consts::TAU;

    use super::*;
    use crate::audio::level_dbfs;

    fn tone(frames: usize) -> Vec<i16> {
        let wave = |at: usize| (at as f32 * 440.0 * TAU / ENCODED_RATE_HZ as f32).sin();
        (0..frames * ENCODED_FRAME_SAMPLES).map(|at| (wave(at) * 8_000.0) as i16).collect()
    }

    #[test]
    fn a_tone_comes_through_and_silence_is_left_out() {
        let mut encoder = Encoder::new().unwrap();
        let mut decoder = Decoder::new().unwrap();
        let mut heard = Vec::new();
        for frame in tone(25).chunks(ENCODED_FRAME_SAMPLES) {
            let packet = encoder.encode(frame).unwrap().expect("a tone is sound").to_vec();
            assert_eq!(packet_ticks(&packet), Some(960));
            heard.extend_from_slice(decoder.decode(&packet).unwrap());
        }
        assert_eq!(heard.len(), 25 * 320);
        assert!(level_dbfs(&heard[4_000..]) > -20.0, "{}", level_dbfs(&heard[4_000..]));
        let silence = [0; ENCODED_FRAME_SAMPLES];
        let sent = (0..50).filter(|_| encoder.encode(&silence).unwrap().is_some()).count();
        assert!(sent < 25, "{sent} of 50 frames of silence were sent");
    }

    #[test]
    fn what_is_lost_is_recovered_or_made_up() {
        let mut encoder = Encoder::new().unwrap();
        let mut decoder = Decoder::new().unwrap();
        let sound = tone(30);
        let frames = sound.chunks(ENCODED_FRAME_SAMPLES);
        let packets: Vec<Vec<u8>> =
            frames.map(|frame| encoder.encode(frame).unwrap().unwrap().to_vec()).collect();
        for packet in &packets[..20] {
            decoder.decode(packet).unwrap();
        }
        let recovered = decoder.recover(&packets[21], 320).unwrap().to_vec();
        assert!(level_dbfs(&recovered) > -25.0, "{}", level_dbfs(&recovered));
        decoder.decode(&packets[21]).unwrap();
        let made_up = decoder.conceal(320).unwrap();
        assert!(made_up.len() == 320 && level_dbfs(made_up) > -40.0);
    }

    #[test]
    fn nonsense_is_refused_and_the_stream_goes_on() {
        let mut decoder = Decoder::new().unwrap();
        assert_eq!(packet_ticks(&[]), None);
        assert_eq!(packet_ticks(&[0xff]), None);
        assert_eq!(packet_ticks(&[0xff, 63]), None);
        for seed in 0..2_000_u32 {
            let noise: Vec<u8> =
                (0..seed % 97).map(|at| (seed.wrapping_mul(at + 7) >> 3) as u8).collect();
            let _ = decoder.decode(&noise);
            let _ = decoder.recover(&noise, 320);
        }
        let mut encoder = Encoder::new().unwrap();
        let sound = tone(1);
        let packet = encoder.encode(&sound).unwrap().unwrap().to_vec();
        assert_eq!(decoder.decode(&packet).unwrap().len(), 320);
    }

    /// Packets of every mode that Opus has: for one voice and two, from narrow to full band.
    fn corpus() -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let mut packet = vec![0; 4_000];
        for (rate, application, bits) in [
            (8_000, Application::Voip, 8_000),
            (16_000, Application::Voip, 20_000),
            (48_000, Application::Voip, 32_000),
            (48_000, Application::Audio, 96_000),
            (48_000, Application::RestrictedLowDelay, 64_000),
        ] {
            for (channels, count) in [(Channels::Mono, 1), (Channels::Stereo, 2)] {
                for span_ms in [5, 10, 20, 60] {
                    let mut encoder = ropus::Encoder::builder(rate, channels, application)
                        .bitrate(Bitrate::Bits(bits))
                        .inband_fec(InbandFec::Enabled)
                        .packet_loss_perc(EXPECTED_LOSS_PERCENT)
                        .build()
                        .unwrap();
                    let samples = rate as usize * span_ms / 1_000 * count;
                    let is_up = |n: usize| (n * 440 / rate as usize).is_multiple_of(2);
                    let buzz = |n: usize| if is_up(n) { 6_000 } else { -6_000 };
                    let wave: Vec<i16> = (0..3 * samples).map(buzz).collect();
                    for frame in wave.chunks(samples) {
                        let length = encoder.encode(frame, &mut packet).unwrap();
                        packets.push(packet[..length].to_vec());
                    }
                }
            }
        }
        packets
    }

    /// Packets of every mode, each changed somewhere, in any order and with losses between them,
    /// and behind all that a good one is heard.
    #[test]
    fn changed_packets_of_every_mode_break_nothing() {
        let corpus = corpus();
        assert!(corpus.len() > 100);
        let mut dice = 6_u32;
        let mut below = |end: usize| {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (dice >> 8) as usize % end.max(1)
        };
        for _ in 0..40 {
            let mut decoder = Decoder::new().unwrap();
            for _ in 0..60 {
                let mut packet = corpus[below(corpus.len())].clone();
                match below(6) {
                    0 => packet.truncate(below(packet.len() + 1)),
                    1 => packet[0] = below(256) as u8,
                    2 => packet.extend_from_slice(&corpus[below(corpus.len())]),
                    3 => {
                        let from = below(packet.len());
                        packet[from..].fill([0, 255, 127, 128][below(4)]);
                    }
                    _ => {
                        for _ in 0..=below(8) {
                            let at = below(packet.len());
                            packet[at] ^= 1 << below(8);
                        }
                    }
                }
                let _ = match below(10) {
                    0 => decoder.conceal(320).map(<[i16]>::len),
                    1 => decoder.recover(&packet, 320).map(<[i16]>::len),
                    _ => decoder.decode(&packet).map(<[i16]>::len),
                };
            }
            let mut encoder = Encoder::new().unwrap();
            let sound = tone(1);
            let good = encoder.encode(&sound).unwrap().unwrap();
            assert_eq!(decoder.decode(good).unwrap().len(), 320);
        }
    }
}
