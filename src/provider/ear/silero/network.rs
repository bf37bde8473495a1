//! Silero's network for 16 kHz, computed here: a spectrum, four convolutions, an LSTM cell.
//!
//! Through ONNX Runtime a window costs 100 us of a core, and 175 when other work has emptied the
//! caches, as it has with hundreds of calls: the graph chooses its branch, cuts its weights up and
//! joins them at every run, and all of it is 32 bits wide. Here a window takes 23 us: the weights
//! are 16-bit with a scale a row, 440 KB, and the spectrum is a Fourier transform instead of a
//! table. `tests/speech_chain` holds the results beside the runtime's.

use std::f32::consts::{LOG2_E, PI};
use std::ops::Range;
use std::sync::Arc;

use realfft::num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};

use super::weights::Weights;

/// Samples the network sees at once: the end of the window before, and the window.
pub const INPUT: usize = 576;
/// Numbers the LSTM cell hands on, and as many that it keeps.
pub const HIDDEN: usize = 128;

/// Samples of one spectrum and from one to the next.
const SPAN: usize = 256;
const HOP: usize = 128;
/// Spectra of one input, whose end is mirrored by half a hop.
const SPECTRA: usize = 4;
const BINS: usize = SPAN / 2 + 1;
/// Rows of weights that are worked on together.
const LANES: usize = 32;
/// Columns that each convolution of the file looks at.
const TAPS: usize = 3;

/// The network's weights; it keeps nothing between runs.
pub struct Network {
    window: Vec<f32>,
    transform: Arc<dyn RealToComplex<f32>>,
    encoder: [Rows; 4],
    cell: Rows,
    readout: Vec<f32>,
    readout_bias: f32,
}

/// What the recurrent part remembers from window to window.
#[derive(Clone)]
pub struct State {
    hidden: [f32; HIDDEN],
    kept: [f32; HIDDEN],
}

impl Default for State {
    fn default() -> Self {
        State { hidden: [0.0; HIDDEN], kept: [0.0; HIDDEN] }
    }
}

impl Network {
    /// Takes the weights from the model's file.
    pub fn read(model: &[u8]) -> Result<Network, String> {
        let weights = Weights::of(model);
        let basis = weights.get("stft.forward_basis_buffer", &[2 * BINS as u64, 1, SPAN as u64])?;
        if !is_windowed_fourier(&basis) {
            return Err("its spectrum is none that is known here".to_owned());
        }
        let convolution = |name: &str, rows: usize, inputs: usize, taps: Range<usize>| {
            let shape = [rows as u64, inputs as u64, TAPS as u64];
            let all = weights.get(&format!("encoder.{name}.reparam_conv.weight"), &shape)?;
            let bias = weights.get(&format!("encoder.{name}.reparam_conv.bias"), &shape[..1])?;
            let used: Vec<f32> =
                all.chunks_exact(TAPS).flat_map(|row| &row[taps.clone()]).copied().collect();
            Ok::<_, String>(Rows::new(&used, bias))
        };
        let encoder = [
            convolution("0", 128, BINS, 0..3)?,
            convolution("1", 64, 128, 0..3)?,
            // Two columns with an empty one before, then one between two empty ones.
            convolution("2", 64, 64, 1..3)?,
            convolution("3", 128, 64, 1..2)?,
        ];
        let readout = weights.get("decoder.decoder.2.weight", &[1, HIDDEN as u64, 1])?;
        let readout_bias = weights.get("decoder.decoder.2.bias", &[1])?[0];
        let transform = RealFftPlanner::new().plan_fft_forward(SPAN);
        if transform.get_scratch_len() > SPAN {
            return Err("the Fourier transform needs more room than it is given".to_owned());
        }
        let window = basis[..SPAN].to_vec();
        Ok(Network { window, transform, encoder, cell: cell(&weights)?, readout, readout_bias })
    }

    /// The probability that the input's window holds speech.
    pub fn run(&self, input: &[f32; INPUT], state: &mut State) -> f32 {
        let [first, second, third, fourth] = &self.encoder;
        let spectra = self.spectra(input);
        let mut wide = [[0.0; 128]; SPECTRA];
        for (at, out) in wide.iter_mut().enumerate() {
            first.over(&unfold::<BINS, { BINS * TAPS }>(&spectra, at, -1..2), out);
        }
        let mut middle = [[0.0; 64]; SPECTRA / 2];
        for (at, out) in middle.iter_mut().enumerate() {
            second.over(&unfold::<128, { 128 * TAPS }>(&wide, 2 * at, -1..2), out);
        }
        let mut narrow = [0.0; 64];
        third.over(&unfold::<64, { 64 * 2 }>(&middle, 0, 0..2), &mut narrow);
        let mut code = [0.0; HIDDEN];
        fourth.over(&narrow, &mut code);
        self.remember(&code, state);
        let heard = state.hidden.iter().zip(&self.readout).map(|(h, w)| h.max(0.0) * w);
        sigmoid(heard.sum::<f32>() + self.readout_bias)
    }

    /// Magnitudes of each spectrum.
    fn spectra(&self, input: &[f32; INPUT]) -> [[f32; BINS]; SPECTRA] {
        let mut sound = [0.0; INPUT + HOP / 2];
        sound[..INPUT].copy_from_slice(input);
        for (to, from) in sound[INPUT..].iter_mut().zip(input[..INPUT - 1].iter().rev()) {
            *to = *from;
        }
        let mut magnitudes = [[0.0; BINS]; SPECTRA];
        let mut scratch = [Complex::default(); SPAN];
        let scratch = &mut scratch[..self.transform.get_scratch_len()];
        for (magnitudes, sound) in magnitudes.iter_mut().zip(sound.windows(SPAN).step_by(HOP)) {
            let mut span = [0.0; SPAN];
            for ((to, from), weight) in span.iter_mut().zip(sound).zip(&self.window) {
                *to = from * weight;
            }
            let mut bins = [Complex::default(); BINS];
            let done = self.transform.process_with_scratch(&mut span, &mut bins, scratch);
            debug_assert!(done.is_ok(), "all lengths are the transform's own");
            for (to, bin) in magnitudes.iter_mut().zip(&bins) {
                *to = (bin.re * bin.re + bin.im * bin.im).sqrt();
            }
        }
        magnitudes
    }

    /// The LSTM cell's step.
    fn remember(&self, code: &[f32; HIDDEN], state: &mut State) {
        let mut inputs = [0.0; 2 * HIDDEN];
        inputs[..HIDDEN].copy_from_slice(code);
        inputs[HIDDEN..].copy_from_slice(&state.hidden);
        let mut gates = [0.0; 4 * HIDDEN];
        self.cell.times(&inputs, &mut gates);
        for at in 0..HIDDEN {
            let [take, keep, new, show] = [0, 1, 2, 3].map(|gate| gates[gate * HIDDEN + at]);
            let kept = sigmoid(keep) * state.kept[at] + sigmoid(take) * tanh(new);
            state.kept[at] = kept;
            state.hidden[at] = sigmoid(show) * tanh(kept);
        }
    }
}

/// Both of the cell's matrices side by side: they meet the input and the hidden state at once.
fn cell(weights: &Weights<'_>) -> Result<Rows, String> {
    let (rows, inputs) = (4 * HIDDEN as u64, HIDDEN as u64);
    let of_input = weights.get("decoder.rnn.weight_ih", &[rows, inputs])?;
    let of_hidden = weights.get("decoder.rnn.weight_hh", &[rows, inputs])?;
    let joined: Vec<f32> = of_input
        .chunks_exact(HIDDEN)
        .zip(of_hidden.chunks_exact(HIDDEN))
        .flat_map(|(input, hidden)| input.iter().chain(hidden))
        .copied()
        .collect();
    let mut bias = weights.get("decoder.rnn.bias_ih", &[rows])?;
    for (sum, other) in bias.iter_mut().zip(weights.get("decoder.rnn.bias_hh", &[rows])?) {
        *sum += other;
    }
    Ok(Rows::new(&joined, bias))
}

/// The table is cosines, then sines, each under the window that its first row shows.
fn is_windowed_fourier(basis: &[f32]) -> bool {
    let (window, _) = basis.split_at(SPAN);
    let expected = |row: usize, at: usize| {
        let angle = 2.0 * PI * ((row % BINS * at) % SPAN) as f32 / SPAN as f32;
        window[at] * if row < BINS { angle.cos() } else { -angle.sin() }
    };
    basis.chunks_exact(SPAN).enumerate().all(|(row, values)| {
        values.iter().enumerate().all(|(at, value)| (value - expected(row, at)).abs() < 1e-4)
    })
}

/// A matrix of 16-bit weights with a scale and a bias a row.
struct Rows {
    /// `LANES` rows at a time, input by input.
    weights: Box<[[i16; LANES]]>,
    inputs: usize,
    scale: Vec<f32>,
    bias: Vec<f32>,
}

impl Rows {
    /// `weights` row by row, one row for each of `bias`.
    fn new(weights: &[f32], bias: Vec<f32>) -> Rows {
        let inputs = weights.len() / bias.len();
        let largest = |row: &[f32]| row.iter().fold(0.0_f32, |most, w| most.max(w.abs()));
        let scale: Vec<f32> = weights
            .chunks_exact(inputs)
            .map(|row| largest(row).max(f32::MIN_POSITIVE) / f32::from(i16::MAX))
            .collect();
        let mut packed = vec![[0; LANES]; bias.len() / LANES * inputs].into_boxed_slice();
        for (row, (values, scale)) in weights.chunks_exact(inputs).zip(&scale).enumerate() {
            for (input, value) in values.iter().enumerate() {
                let rounded = (value / scale).round() as i16;
                packed[row / LANES * inputs + input][row % LANES] = rounded;
            }
        }
        Rows { weights: packed, inputs, scale, bias }
    }

    /// The matrix times `input`, plus the bias.
    fn times(&self, input: &[f32], out: &mut [f32]) {
        debug_assert_eq!((input.len(), out.len()), (self.inputs, self.bias.len()));
        multiply(&self.weights, input, out);
        for ((sum, scale), bias) in out.iter_mut().zip(&self.scale).zip(&self.bias) {
            *sum = *sum * scale + bias;
        }
    }

    /// The same with what is below zero cut off.
    fn over(&self, input: &[f32], out: &mut [f32]) {
        self.times(input, out);
        for sum in out {
            *sum = sum.max(0.0);
        }
    }
}

/// Sums of products, with what the processor has.
fn multiply(weights: &[[i16; LANES]], input: &[f32], out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has just been asked for both features.
        return unsafe { multiply_avx2(weights, input, out) };
    }
    multiply_with::<{ cfg!(target_arch = "aarch64") }>(weights, input, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_avx2(weights: &[[i16; LANES]], input: &[f32], out: &mut [f32]) {
    multiply_with::<true>(weights, input, out);
}

/// `FUSED`: the processor multiplies and adds in one step.
#[inline(always)]
fn multiply_with<const FUSED: bool>(weights: &[[i16; LANES]], input: &[f32], out: &mut [f32]) {
    let blocks = weights.chunks_exact(input.len()).zip(out.chunks_exact_mut(LANES));
    for (weights, out) in blocks {
        let mut sums = [0.0_f32; LANES];
        for (weights, &input) in weights.iter().zip(input) {
            // By index, over one array of sums: so it is kept in vector registers.
            for lane in 0..LANES {
                let weight = f32::from(weights[lane]);
                sums[lane] = match FUSED {
                    true => weight.mul_add(input, sums[lane]),
                    false => sums[lane] + weight * input,
                };
            }
        }
        out.copy_from_slice(&sums);
    }
}

/// What a convolution sees around one column: for each row, its values at `taps` from there.
/// Columns beyond the ends are empty.
fn unfold<const ROWS: usize, const N: usize>(
    columns: &[[f32; ROWS]],
    at: usize,
    taps: Range<isize>,
) -> [f32; N] {
    let mut out = [0.0; N];
    let width = taps.len();
    for (offset, tap) in taps.enumerate() {
        let Some(column) = at.checked_add_signed(tap).and_then(|at| columns.get(at)) else {
            continue;
        };
        for (row, value) in column.iter().enumerate() {
            out[row * width + offset] = *value;
        }
    }
    out
}

#[inline(always)]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[inline(always)]
fn tanh(x: f32) -> f32 {
    2.0 * sigmoid(2.0 * x) - 1.0
}

/// The exponential to seven digits, without a branch or a call: many at once fit a vector unit.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Added to a number of up to 22 bits this leaves it rounded, and as an integer in the low bits.
    const ROUNDING: f32 = 12_582_912.0;
    let power = x.clamp(-87.0, 87.0) * LOG2_E;
    let rounded = power + ROUNDING;
    let part = power - (rounded - ROUNDING);
    let two_to_whole = f32::from_bits((rounded.to_bits() << 23).wrapping_add(127 << 23));
    const TERMS: [f32; 7] = [
        1.535_336_2e-4,
        1.339_887_5e-3,
        9.618_437e-3,
        5.550_332_5e-2,
        2.402_264_7e-1,
        6.931_472e-1,
        1.0,
    ];
    TERMS.iter().fold(0.0, |sum, term| sum * part + term) * two_to_whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_and_its_kin_are_right_to_six_digits() {
        for step in -8_000..8_000_i16 {
            let x = f32::from(step) / 100.0;
            let wide = f64::from(x);
            assert!(
                (f64::from(exp(x)) / wide.exp() - 1.0).abs() < 1e-6 * (1.0 + wide.abs()),
                "{x}"
            );
            assert!((f64::from(tanh(x)) - wide.tanh()).abs() < 1e-6, "{x}");
            let sigmoid_of = 1.0 / (1.0 + (-wide).exp());
            assert!((f64::from(sigmoid(x)) - sigmoid_of).abs() < 1e-6, "{x}");
        }
    }

    #[test]
    fn a_matrix_times_a_column_is_what_it_should_be_on_any_processor() {
        let mut dice = 1_u32;
        let mut draw = || {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (dice >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        let weights: Vec<f32> = (0..64 * 5).map(|_| draw()).collect();
        let bias: Vec<f32> = (0..64).map(|_| draw()).collect();
        let input: [f32; 5] = std::array::from_fn(|_| draw());
        let rows = Rows::new(&weights, bias.clone());
        let mut out = [0.0; 64];
        rows.times(&input, &mut out);
        for ((row, sum), bias) in weights.chunks_exact(5).zip(&out).zip(&bias) {
            let wanted = row.iter().zip(&input).map(|(w, i)| w * i).sum::<f32>() + bias;
            assert!((sum - wanted).abs() < 2e-4, "{sum}, not {wanted}");
        }
        let (mut plain, mut fastest) = ([0.0; 64], [0.0; 64]);
        multiply_with::<false>(&rows.weights, &input, &mut plain);
        multiply(&rows.weights, &input, &mut fastest);
        for (plain, fastest) in plain.iter().zip(&fastest) {
            assert!((plain - fastest).abs() < 1e-6 * (1.0 + plain.abs()) * 10.0);
        }
        let cut = out.map(|sum| sum.max(0.0));
        rows.over(&input, &mut out);
        assert_eq!(out, cut);
    }

    #[test]
    fn a_column_is_unfolded_with_empty_ones_beyond_the_ends() {
        let columns = [[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]];
        assert_eq!(unfold::<2, 6>(&columns, 1, -1..2), [1.0, 2.0, 3.0, 5.0, 6.0, 7.0]);
        assert_eq!(unfold::<2, 6>(&columns, 0, -1..2), [0.0, 1.0, 2.0, 0.0, 5.0, 6.0]);
        assert_eq!(unfold::<2, 4>(&columns, 2, 0..2), [3.0, 0.0, 7.0, 0.0]);
    }

    #[test]
    fn what_is_no_model_is_refused() {
        assert!(Network::read(b"something else").is_err_and(|e| e.contains("forward_basis")));
    }
}
