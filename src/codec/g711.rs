//! G.711: one byte a sample at 8 kHz, in its two flavours.

use audio_codec_algorithms::{decode_alaw, decode_ulaw, encode_alaw, encode_ulaw};

/// Sample rate of all G.711 sound, in Hz.
pub const RATE_HZ: u32 = 8_000;

/// Which companding law.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Law {
    /// PCMU: North America and Japan.
    Mu,
    /// PCMA: elsewhere.
    A,
}

impl Law {
    /// Appends the samples that `bytes` stand for.
    pub fn decode(self, bytes: &[u8], out: &mut Vec<i16>) {
        match self {
            Law::Mu => out.extend(bytes.iter().map(|&byte| decode_ulaw(byte))),
            Law::A => out.extend(bytes.iter().map(|&byte| decode_alaw(byte))),
        }
    }

    /// Appends the bytes that stand for `samples`.
    pub fn encode(self, samples: &[i16], out: &mut Vec<u8>) {
        match self {
            Law::Mu => out.extend(samples.iter().map(|&sample| encode_ulaw(sample))),
            Law::A => out.extend(samples.iter().map(|&sample| encode_alaw(sample))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives_the_way_to_linear_and_back() {
        for law in [Law::Mu, Law::A] {
            let codes: Vec<u8> = (0..=255).collect();
            let (mut linear, mut again) = (Vec::new(), Vec::new());
            law.decode(&codes, &mut linear);
            law.encode(&linear, &mut again);
            let mut linear_again = Vec::new();
            law.decode(&again, &mut linear_again);
            // Mu-law has two codes for zero, so the samples are compared, not the codes.
            assert_eq!(linear, linear_again, "{law:?}");
        }
    }

    #[test]
    fn known_codes() {
        let mut out = Vec::new();
        Law::Mu.decode(&[0xFF, 0x80, 0x00], &mut out);
        Law::A.decode(&[0xD5, 0xAA, 0x2A], &mut out);
        assert_eq!(out, [0, 32124, -32124, 8, 32256, -32256]);
    }

    #[test]
    fn quantisation_stays_below_the_laws_own_step() {
        for law in [Law::Mu, Law::A] {
            let samples: Vec<i16> = (-32_000..32_000).step_by(37).map(|s| s as i16).collect();
            let (mut bytes, mut back) = (Vec::new(), Vec::new());
            law.encode(&samples, &mut bytes);
            law.decode(&bytes, &mut back);
            for (&was, &is) in samples.iter().zip(&back) {
                let step = 32 + (i32::from(was).abs() >> 4);
                assert!((i32::from(was) - i32::from(is)).abs() <= step, "{law:?} {was} {is}");
            }
        }
    }
}
