//! Sound packed without loss: quiet or smooth stretches take fewer bits a sample.
//!
//! A block holds its samples or the steps between them, whichever are smaller, with as many bits
//! as its largest needs: telephone speech shrinks to about two thirds, a quiet room to half.

/// Samples that share a number of bits.
const BLOCK: usize = 64;
/// Set in a block's first byte when it holds steps; the rest of the byte is the number of bits.
const STEPS: u8 = 0x80;

/// A stretch of sound in as little room as it needs.
#[derive(Clone, Debug)]
pub struct Packed {
    samples: u32,
    bytes: Box<[u8]>,
}

impl Packed {
    /// Packs a stretch.
    pub fn new(samples: &[i16]) -> Packed {
        let mut bytes = Vec::with_capacity(samples.len() * 2 + samples.len().div_ceil(BLOCK));
        let mut before = 0;
        for block in samples.chunks(BLOCK) {
            let (mut plain, mut steps) = ([0; BLOCK], [0; BLOCK]);
            for ((plain, step), &sample) in plain.iter_mut().zip(&mut steps).zip(block) {
                *plain = i32::from(sample);
                *step = *plain - before;
                before = *plain;
            }
            let (plain_bits, step_bits) = (bits(&plain), bits(&steps));
            if step_bits < plain_bits {
                bytes.push(STEPS | step_bits);
                put(&mut bytes, step_bits, &steps[..block.len()]);
            } else {
                bytes.push(plain_bits);
                put(&mut bytes, plain_bits, &plain[..block.len()]);
            }
        }
        Packed { samples: samples.len() as u32, bytes: bytes.as_slice().into() }
    }

    /// How many samples it holds.
    pub fn len(&self) -> usize {
        self.samples as usize
    }

    /// It holds none.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Appends all of them.
    pub fn unpack(&self, out: &mut Vec<i16>) {
        let (mut bytes, mut left, mut before) = (&*self.bytes, self.len(), 0);
        while left > 0 {
            let count = left.min(BLOCK);
            let (head, rest) = (bytes[0], &bytes[1..]);
            let bits = head & !STEPS;
            let (block, rest) = rest.split_at((count * usize::from(bits)).div_ceil(8));
            let carried = if head & STEPS == 0 { 0 } else { 1 };
            take(block, bits, count, |value| {
                before = before * carried + value;
                out.push(before as i16);
            });
            (bytes, left) = (rest, left - count);
        }
    }
}

/// Bits that hold the widest of these, sign and all.
fn bits(values: &[i32]) -> u8 {
    let widest = values.iter().fold(0, |widest, value| widest | (value ^ (value >> 31)));
    (33 - widest.leading_zeros()) as u8
}

/// Appends the low `bits` of each value, the first lowest.
fn put(bytes: &mut Vec<u8>, bits: u8, values: &[i32]) {
    let mask = (1_u64 << bits) - 1;
    let (mut waiting, mut filled) = (0_u64, 0);
    for &value in values {
        waiting |= (i64::from(value) as u64 & mask) << filled;
        filled += u32::from(bits);
        if filled >= 32 {
            bytes.extend((waiting as u32).to_le_bytes());
            waiting >>= 32;
            filled -= 32;
        }
    }
    bytes.extend(&waiting.to_le_bytes()[..filled.div_ceil(8) as usize]);
}

/// Gives `count` values of `bits` each.
fn take(bytes: &[u8], bits: u8, count: usize, mut found: impl FnMut(i32)) {
    let unused = 64 - u32::from(bits);
    let (mut waiting, mut filled, mut bytes) = (0_u64, 0, bytes.iter());
    for _ in 0..count {
        while filled < u32::from(bits) {
            waiting |= u64::from(bytes.next().copied().unwrap_or(0)) << filled;
            filled += 8;
        }
        found((((waiting << unused) as i64) >> unused) as i32);
        waiting >>= bits;
        filled -= u32::from(bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn comes_back(samples: &[i16]) -> usize {
        let packed = Packed::new(samples);
        assert_eq!(packed.len(), samples.len());
        let mut out = vec![7];
        packed.unpack(&mut out);
        assert_eq!(&out[1..], samples);
        packed.bytes.len()
    }

    #[test]
    fn the_extremes_come_back_and_cost_little_more_than_plain() {
        assert_eq!(comes_back(&[]), 0);
        assert!(comes_back(&[0; 320]) <= 5 + 320 / 8);
        let jumps: Vec<i16> =
            (0..320).map(|n| if n % 2 == 0 { i16::MAX } else { i16::MIN }).collect();
        assert_eq!(comes_back(&jumps), 5 + 640);
        assert!(comes_back(&[i16::MIN; 65]) <= 2 * 65 + 2);
        for sample in [i16::MIN, -1, 0, 1, i16::MAX] {
            comes_back(&[sample]);
        }
    }

    #[test]
    fn a_quiet_room_takes_half_and_a_low_voice_two_thirds() {
        let mut dice = 1_u32;
        let quiet: Vec<i16> = (0..3_200)
            .map(|_| {
                dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (dice >> 24) as i16 % 115 - 57
            })
            .collect();
        assert!(comes_back(&quiet) <= 3_200);
        let voice: Vec<i16> = (0..3_200)
            .map(|n| {
                let turn = n as f32 / 16_000.0 * std::f32::consts::TAU;
                ((turn * 140.0).sin() * 3_000.0 + (turn * 560.0).sin() * 1_500.0) as i16
            })
            .collect();
        assert!(comes_back(&voice) <= 2 * 3_200 * 11 / 16);
    }

    proptest! {
        #[test]
        fn anything_comes_back(
            samples in prop::collection::vec(any::<i16>(), 0..700),
            quieter in 0_u32..16,
        ) {
            let samples: Vec<i16> = samples.into_iter().map(|sample| sample >> quieter).collect();
            comes_back(&samples);
        }
    }
}
