//! What libg722 says, tones, and bytes of nobody.

use std::f32::consts::TAU;

use super::*;
use crate::audio::level_dbfs;

const ENCODED: u64 = 0xa09d_c1e3_bc5c_9d5b;
const DECODED: u64 = 0x049d_10cc_a22e_cf5c;

fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    let mix = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// A saw, noise as loud as it goes, a wave from one end to the other, and quiet noise.
fn wild() -> Vec<i16> {
    let mut dice = 1_u32;
    let mut wave = Vec::new();
    for n in 0..16_000_i32 {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let noise = (dice >> 16) as i16;
        wave.push(match n {
            ..4_000 => ((n * 97 % 512 - 256) * 100) as i16,
            4_000..8_000 => noise,
            8_000..12_000 if n / 40 % 2 == 0 => i16::MAX,
            8_000..12_000 => i16::MIN,
            _ => noise >> 9,
        });
    }
    wave
}

/// What libg722 says (PyPI's G722 1.2.8), byte by byte, in both directions.
#[test]
fn known_bytes() {
    let (mut bytes, mut heard) = (Vec::new(), Vec::new());
    Encoder::default().encode(&wild(), &mut bytes);
    let begins = [
        0x24, 0x84, 0x20, 0x84, 0x20, 0x84, 0x84, 0x25, 0xb3, 0x8d, 0x23, 0x08, 0xae, 0x9d, 0x06,
        0x25,
    ];
    assert_eq!((bytes.len(), &bytes[..16]), (8_000, &begins[..]));
    assert_eq!(digest(bytes.iter().copied()), ENCODED);
    Decoder::default().decode(&bytes, &mut heard);
    assert_eq!(digest(heard.iter().flat_map(|sample| sample.to_le_bytes())), DECODED);
}

/// Tones of both halves come through, 22 samples later, however they are cut.
#[test]
fn tones_come_through() {
    for (hz, least_db) in [(300.0, 50.0), (1_000.0, 40.0), (3_000.0, 35.0), (6_000.0, 20.0)] {
        let wave = |n: usize| ((n as f32 * hz * TAU / RATE_HZ as f32).sin() * 8_000.0) as i16;
        let tone: Vec<i16> = (0..16_000).map(wave).collect();
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let mut heard = Vec::new();
        for frame in tone.chunks(320) {
            let mut bytes = Vec::new();
            encoder.encode(frame, &mut bytes);
            assert_eq!(bytes.len(), 160);
            decoder.decode(&bytes, &mut heard);
        }
        let noise: Vec<i16> =
            heard[2_022..].iter().zip(&tone[2_000..]).map(|(a, b)| a - b).collect();
        let clear_db = level_dbfs(&tone) - level_dbfs(&noise);
        assert!(clear_db > least_db, "{hz} Hz: {clear_db} dB above the noise");
    }
}

/// Any bytes are sound; silence behind them is silence again.
#[test]
fn any_bytes_are_sound() {
    let (mut decoder, mut heard, mut dice) = (Decoder::default(), Vec::new(), 9_u32);
    for _ in 0..100_000 {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        decoder.decode(&[(dice >> 24) as u8], &mut heard);
    }
    assert_eq!(heard.len(), 200_000);
    let mut silence = Vec::new();
    Encoder::default().encode(&[0; 16_000], &mut silence);
    heard.clear();
    decoder.decode(&silence, &mut heard);
    assert!(level_dbfs(&heard[8_000..]) < -60.0, "{}", level_dbfs(&heard[8_000..]));
}
