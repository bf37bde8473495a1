//! G.722 at 64 kbit/s (ITU-T G.722, 09/2012): one byte for two samples of 16 kHz.
//!
//! Two halves of the band, each foretold from what was decoded of it so far; what is sent is how
//! far the forecast was out: six bits of the lower half, two of the upper.
//!
//! Ours because the one maintained crate of it, audio-codec 0.4, brings a vector library for a
//! resampler that nobody asks for (13 s of every build), and its encoder begins in another state
//! than the standard's. This one says byte by byte what libg722 does (`known_bytes`).

/// Sample rate of all G.722 sound, in Hz. RTP counts it at half of that (RFC 3551, 4.5.2).
pub const RATE_HZ: u32 = 16_000;

/// The quadrature mirror filter's coefficients of every other sample; the others have the same the
/// other way round.
const MIRROR: [i32; 12] = [3, -11, 12, 32, -210, 951, 3_876, -805, 362, -156, 53, -11];
/// Samples that the filter sees.
const MIRROR_TAPS: usize = 24;
/// Where the lower half's quantiser decides, in the order of size.
const DECISIONS: [i32; 29] = [
    35, 72, 110, 150, 190, 233, 276, 323, 370, 422, 473, 530, 587, 650, 714, 786, 858, 940, 1_023,
    1_121, 1_219, 1_339, 1_458, 1_612, 1_765, 1_980, 2_195, 2_557, 2_919,
];
/// Where the upper half's decides.
const DECISION_UPPER: i32 = 564;
/// What the lower half's six bits mean.
const SIX_BITS: [i32; 64] = [
    -136, -136, -136, -136, -24_808, -21_904, -19_008, -16_704, -14_984, -13_512, -12_280, -11_192,
    -10_232, -9_360, -8_576, -7_856, -7_192, -6_576, -6_000, -5_456, -4_944, -4_464, -4_008,
    -3_576, -3_168, -2_776, -2_400, -2_032, -1_688, -1_360, -1_040, -728, 24_808, 21_904, 19_008,
    16_704, 14_984, 13_512, 12_280, 11_192, 10_232, 9_360, 8_576, 7_856, 7_192, 6_576, 6_000,
    5_456, 4_944, 4_464, 4_008, 3_576, 3_168, 2_776, 2_400, 2_032, 1_688, 1_360, 1_040, 728, 432,
    136, -432, -136,
];
/// What its first four mean, by which both ends foretell.
const FOUR_BITS: [i32; 16] = [
    0, -20_456, -12_896, -8_968, -6_288, -4_240, -2_584, -1_200, 20_456, 12_896, 8_968, 6_288,
    4_240, 2_584, 1_200, 0,
];
/// How those change the step.
const STEP_OF_FOUR: [i32; 16] =
    [-60, 3_042, 1_198, 538, 334, 172, 58, -30, 3_042, 1_198, 538, 334, 172, 58, -30, -60];
/// The same of the upper half's two bits.
const TWO_BITS: [i32; 4] = [-7_408, -1_616, 7_408, 1_616];
const STEP_OF_TWO: [i32; 4] = [798, -214, 798, -214];
/// 2^(n/32), by 2,048.
const POWERS: [i32; 32] = [
    2_048, 2_093, 2_139, 2_186, 2_233, 2_282, 2_332, 2_383, 2_435, 2_489, 2_543, 2_599, 2_656,
    2_714, 2_774, 2_834, 2_896, 2_960, 3_025, 3_091, 3_158, 3_228, 3_298, 3_371, 3_444, 3_520,
    3_597, 3_676, 3_756, 3_838, 3_922, 4_008,
];

fn saturated(value: i32) -> i32 {
    value.clamp(i16::MIN.into(), i16::MAX.into())
}

/// `amount` where both have one sign, and its opposite where not.
fn agreeing(a: i32, b: i32, amount: i32) -> i32 {
    if (a < 0) == (b < 0) { amount } else { -amount }
}

/// One half of the band, as both ends know it. The newest value is the first of each list.
#[derive(Clone, Debug)]
struct Half {
    /// What the next value is thought to be, and how much of that the zeros make.
    foretold: i32,
    by_zeros: i32,
    poles: [i32; 2],
    zeros: [i32; 6],
    /// What was decoded, the same without the poles, and the steps that were sent.
    decoded: [i32; 2],
    partly: [i32; 2],
    steps: [i32; 6],
    /// The step's logarithm, and the step.
    log_step: i32,
    step: i32,
}

impl Half {
    fn new(step: i32) -> Half {
        Half {
            foretold: 0,
            by_zeros: 0,
            poles: [0; 2],
            zeros: [0; 6],
            decoded: [0; 2],
            partly: [0; 2],
            steps: [0; 6],
            log_step: 0,
            step,
        }
    }

    /// What a number of a table means with the step of now.
    fn scaled(&self, of: i32) -> i32 {
        (self.step * of) >> 15
    }

    /// The step grows or shrinks.
    fn adapt(&mut self, by: i32, most: i32, shift: i32) {
        self.log_step = (((self.log_step * 127) >> 7) + by).clamp(0, most);
        let power = POWERS[(self.log_step >> 6) as usize & 31];
        let shift = shift - (self.log_step >> 11);
        let step = if shift < 0 { power << -shift } else { power >> shift };
        self.step = step << 2;
    }

    /// This step was sent: what comes next is foretold.
    fn follow(&mut self, step: i32) {
        let decoded = saturated(self.foretold + step);
        let partly = saturated(self.by_zeros + step);
        let [p1, p2] = self.partly;
        let first = saturated(self.poles[0] << 2);
        let second = (-agreeing(partly, p1, first)).min(32_767) >> 7;
        let second = second + agreeing(partly, p2, 128) + ((self.poles[1] * 32_512) >> 15);
        let second = second.clamp(-12_288, 12_288);
        let first = saturated(agreeing(partly, p1, 192) + ((self.poles[0] * 32_640) >> 15));
        let most = saturated(15_360 - second);
        self.poles = [first.clamp(-most, most), second];
        let by = if step == 0 { 0 } else { 128 };
        for (zero, before) in self.zeros.iter_mut().zip(self.steps) {
            *zero = saturated(agreeing(before, step, by) + ((*zero * 32_640) >> 15));
        }
        self.steps.copy_within(..5, 1);
        self.steps[0] = step;
        (self.decoded, self.partly) = ([decoded, self.decoded[0]], [partly, p1]);
        let weighed = |(of, value): (&i32, &i32)| (of * saturated(value << 1)) >> 15;
        let by_poles = saturated(self.poles.iter().zip(&self.decoded).map(weighed).sum());
        self.by_zeros = saturated(self.zeros.iter().zip(&self.steps).map(weighed).sum());
        self.foretold = saturated(by_poles + self.by_zeros);
    }

    /// The lower half: what these six bits stand for.
    fn lower(&mut self, bits: u8) -> i32 {
        let value = self.foretold + self.scaled(SIX_BITS[usize::from(bits & 63)]);
        self.follow_lower(bits);
        value.clamp(-16_384, 16_383)
    }

    fn follow_lower(&mut self, bits: u8) {
        let four = usize::from(bits & 63) >> 2;
        let step = self.scaled(FOUR_BITS[four]);
        self.adapt(STEP_OF_FOUR[four], 18_432, 8);
        self.follow(step);
    }

    /// The upper half: what these two bits stand for.
    fn upper(&mut self, bits: u8) -> i32 {
        let value = self.foretold + self.scaled(TWO_BITS[usize::from(bits & 3)]);
        self.follow_upper(bits);
        value.clamp(-16_384, 16_383)
    }

    fn follow_upper(&mut self, bits: u8) {
        let two = usize::from(bits & 3);
        let step = self.scaled(TWO_BITS[two]);
        self.adapt(STEP_OF_TWO[two], 22_528, 10);
        self.follow(step);
    }

    /// How far the forecast is out, without its sign.
    fn out_by(&self, value: i32) -> (bool, i32) {
        let out = saturated(value - self.foretold);
        (out < 0, if out < 0 { -(out + 1) } else { out })
    }

    /// The six bits for this value of the lower half.
    fn six_bits(&self, value: i32) -> u8 {
        let (is_less, out) = self.out_by(value);
        let reached = DECISIONS.partition_point(|decision| (decision * self.step) >> 12 <= out);
        match (is_less, reached as u8) {
            (false, reached) => 61 - reached,
            (true, reached @ 0..=1) => 63 - reached,
            (true, reached) => 33 - reached,
        }
    }

    /// The two bits for this value of the upper half.
    fn two_bits(&self, value: i32) -> u8 {
        let (is_less, out) = self.out_by(value);
        let is_far = out >= (DECISION_UPPER * self.step) >> 12;
        match (is_less, is_far) {
            (true, false) => 1,
            (true, true) => 0,
            (false, false) => 3,
            (false, true) => 2,
        }
    }
}

/// The filter that parts the halves and puts them together again.
#[derive(Clone, Debug)]
struct Mirror([i32; MIRROR_TAPS]);

impl Mirror {
    /// Takes the next two values: the sums of both kinds of samples.
    fn push(&mut self, next: [i32; 2]) -> (i32, i32) {
        self.0.copy_within(2.., 0);
        self.0[MIRROR_TAPS - 2..].copy_from_slice(&next);
        let (mut even, mut odd) = (0, 0);
        for (at, two) in self.0.chunks_exact(2).enumerate() {
            even += two[0] * MIRROR[at];
            odd += two[1] * MIRROR[11 - at];
        }
        (even, odd)
    }
}

/// Both halves and their filter: one direction of a call.
#[derive(Clone, Debug)]
struct Bands {
    lower: Half,
    upper: Half,
    mirror: Mirror,
}

impl Default for Bands {
    fn default() -> Bands {
        let mirror = Mirror([0; MIRROR_TAPS]);
        Bands { lower: Half::new(32), upper: Half::new(8), mirror }
    }
}

/// Encodes one voice.
#[derive(Clone, Debug, Default)]
pub struct Encoder(Bands);

impl Encoder {
    /// Appends the bytes that stand for `samples`: half as many. An odd one at the end is left out.
    pub fn encode(&mut self, samples: &[i16], out: &mut Vec<u8>) {
        let Bands { lower, upper, mirror } = &mut self.0;
        for two in samples.chunks_exact(2) {
            let (even, odd) = mirror.push([two[0].into(), two[1].into()]);
            let six = lower.six_bits((odd + even) >> 14);
            let two = upper.two_bits((odd - even) >> 14);
            lower.follow_lower(six);
            upper.follow_upper(two);
            out.push(two << 6 | six);
        }
    }
}

/// Decodes one voice.
#[derive(Clone, Debug, Default)]
pub struct Decoder(Bands);

impl Decoder {
    /// Appends the samples that `bytes` stand for: twice as many.
    pub fn decode(&mut self, bytes: &[u8], out: &mut Vec<i16>) {
        let Bands { lower, upper, mirror } = &mut self.0;
        for &byte in bytes {
            let (low, high) = (lower.lower(byte), upper.upper(byte >> 6));
            let (even, odd) = mirror.push([low + high, low - high]);
            out.extend([odd, even].map(|sum| saturated(sum >> 11) as i16));
        }
    }
}

#[cfg(test)]
#[path = "g722_tests.rs"]
mod tests;
