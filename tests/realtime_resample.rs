//! The resampler: tones survive, aliases do not, length never drifts, memory is little.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use floorkeeper::codec::resample::Resampler;

/// Counts what the current thread holds: the memory of one stream.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; the count is a plain thread-local
// cell without a destructor, so that it can be touched at any time.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.with(|held| held.set(held.get() + layout.size() as isize));
        // SAFETY: the caller's promise about `layout` is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.with(|held| held.set(held.get() - layout.size() as isize));
        // SAFETY: the caller's promise about `pointer` and `layout` is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn held() -> isize {
    HELD.with(Cell::get)
}

/// Every pair of rates that the server uses.
const PAIRS: [(u32, u32); 10] = [
    (24_000, 16_000),
    (8_000, 16_000),
    (48_000, 16_000),
    (22_050, 24_000),
    (22_050, 8_000),
    (22_050, 16_000),
    (16_000, 24_000),
    (16_000, 8_000),
    (24_000, 8_000),
    (24_000, 48_000),
];

fn tone(hz: f64, rate: u32, samples: usize, amplitude: f64) -> Vec<i16> {
    (0..samples)
        .map(|n| {
            let phase = 2.0 * std::f64::consts::PI * hz * n as f64 / f64::from(rate);
            (phase.sin() * amplitude).round() as i16
        })
        .collect()
}

/// Power of a stretch in dB of a full-scale sine; the first and last 20 ms are left out.
fn level_db(samples: &[i16], rate: u32) -> f64 {
    let edge = (rate / 50) as usize;
    let middle = &samples[edge..samples.len() - edge];
    let power: f64 =
        middle.iter().map(|&s| f64::from(s).powi(2)).sum::<f64>() / middle.len() as f64;
    10.0 * (power.max(1e-9) / (32_768f64.powi(2) / 2.0)).log10()
}

/// Power of one frequency in dB of a full-scale sine.
fn tone_db(samples: &[i16], hz: f64, rate: u32) -> f64 {
    let edge = (rate / 50) as usize;
    let middle = &samples[edge..samples.len() - edge];
    let (mut re, mut im, mut weight) = (0.0, 0.0, 0.0);
    for (n, &sample) in middle.iter().enumerate() {
        let turn = 2.0 * std::f64::consts::PI * n as f64;
        let hann = 0.5 - 0.5 * (turn / middle.len() as f64).cos();
        let phase = turn * hz / f64::from(rate);
        re += hann * f64::from(sample) * phase.cos();
        im += hann * f64::from(sample) * phase.sin();
        weight += hann;
    }
    20.0 * ((re.hypot(im) * 2.0 / weight / 32_768.0).max(1e-9)).log10()
}

fn convert(from: u32, to: u32, input: &[i16]) -> Vec<i16> {
    let mut out = Vec::new();
    Resampler::new(from, to).push(input, &mut out);
    out
}

#[test]
fn a_tone_survives_at_its_level_and_little_else_comes_with_it() {
    for (from, to) in PAIRS {
        let nyquist = f64::from(from.min(to)) / 2.0;
        for part in [0.05, 0.3, 0.6, 0.8] {
            let hz = (nyquist * part).round();
            let out = convert(from, to, &tone(hz, from, from as usize / 4, 16_000.0));
            let kept = tone_db(&out, hz, to);
            let wanted = 20.0 * (16_000f64 / 32_768.0).log10();
            assert!((kept - wanted).abs() < 0.6, "{from}->{to} at {hz} Hz: {kept:.2} dB");
            let rest = noise_beside(&out, hz, to);
            assert!(rest < -65.0, "{from}->{to} at {hz} Hz: {rest:.1} dB of something else");
        }
    }
}

/// Power of all but one tone, in dB of a full-scale sine: the tone is fitted and taken away.
fn noise_beside(samples: &[i16], hz: f64, rate: u32) -> f64 {
    let edge = (rate / 50) as usize;
    // A whole number of the tone's periods, so that sine and cosine are orthogonal over it.
    let whole = samples.len() - 2 * edge;
    let periods = (whole as f64 * hz / f64::from(rate)).floor();
    let length = (periods * f64::from(rate) / hz).round() as usize;
    let middle = &samples[edge..edge + length];
    let wave = |n: usize| 2.0 * std::f64::consts::PI * hz * n as f64 / f64::from(rate);
    let (mut re, mut im) = (0.0, 0.0);
    for (n, &sample) in middle.iter().enumerate() {
        re += f64::from(sample) * wave(n).cos() * 2.0 / length as f64;
        im += f64::from(sample) * wave(n).sin() * 2.0 / length as f64;
    }
    let rest: f64 = middle
        .iter()
        .enumerate()
        .map(|(n, &s)| (f64::from(s) - re * wave(n).cos() - im * wave(n).sin()).powi(2))
        .sum::<f64>()
        / length as f64;
    10.0 * (rest.max(1e-9) / (32_768f64.powi(2) / 2.0)).log10()
}

#[test]
fn what_the_new_rate_cannot_hold_is_not_folded_into_it() {
    for (from, to) in PAIRS.into_iter().filter(|(from, to)| to < from) {
        let nyquist = f64::from(to) / 2.0;
        let top = f64::from(from) / 2.0;
        // Just above the new Nyquist rate the transition band ends; from there on all is gone.
        for part in [0.15, 0.4, 0.7, 0.95] {
            let hz = nyquist + (top - nyquist) * part;
            let out = convert(from, to, &tone(hz, from, from as usize / 4, 30_000.0));
            let alias = level_db(&out, to);
            assert!(alias < -55.0, "{from}->{to} at {hz:.0} Hz: {alias:.1} dB of alias");
        }
    }
}

#[test]
fn silence_stays_silent_and_a_steady_level_stays_itself() {
    for (from, to) in PAIRS {
        assert!(convert(from, to, &vec![0; 4_800]).iter().all(|&s| s == 0), "{from}->{to}");
        for level in [1_000i16, -20_000, i16::MAX, i16::MIN] {
            let out = convert(from, to, &vec![level; 4_800]);
            let settled = &out[out.len() / 2..];
            assert!(settled.iter().all(|&s| s == level), "{from}->{to} at {level}");
        }
    }
}

#[test]
fn the_loudest_square_wave_is_clipped_and_does_not_wrap() {
    for (from, to) in PAIRS {
        let square: Vec<i16> =
            (0..4_800).map(|n| if n / 12 % 2 == 0 { i16::MAX } else { i16::MIN }).collect();
        let out = convert(from, to, &square);
        let wrapped = out.windows(2).filter(|w| (i32::from(w[0]) - i32::from(w[1])).abs() > 65_000);
        assert_eq!(wrapped.count(), 0, "{from}->{to}");
    }
}

#[test]
fn the_length_does_not_drift_in_sixty_seconds() {
    // One of each kind: few phases, many phases up, many phases down.
    for (from, to) in [(24_000, 16_000), (22_050, 24_000), (22_050, 8_000)] {
        let mut resampler = Resampler::new(from, to);
        let frame = vec![0i16; from as usize / 50];
        let (mut out, mut total, mut pushed) = (Vec::new(), 0u64, 0u64);
        for _ in 0..60 * 50 {
            out.clear();
            resampler.push(&frame, &mut out);
            total += out.len() as u64;
            pushed += frame.len() as u64;
            let exact = (pushed * u64::from(to)).div_ceil(u64::from(from));
            assert_eq!(total, exact, "{from}->{to} after {pushed} samples");
        }
    }
}

#[test]
fn a_frame_of_the_wire_becomes_a_frame_of_the_inside_at_once() {
    for (from, frame) in [(24_000, 480), (8_000, 160)] {
        let mut resampler = Resampler::new(from, 16_000);
        for _ in 0..10 {
            let mut out = Vec::new();
            resampler.push(&vec![5; frame], &mut out);
            assert_eq!(out.len(), 320);
        }
        assert!(resampler.delay_samples() * 1_000 <= 3 * from as usize, "at most 3 ms late");
    }
}

#[test]
fn cutting_the_stream_anywhere_changes_nothing() {
    use proptest::prelude::*;
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        proptest::test_runner::Config { cases: 40, ..Default::default() },
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let cuts = (0usize..PAIRS.len(), prop::collection::vec(0usize..1_200, 1..20));
    runner
        .run(&cuts, |(pair, cuts)| {
            let (from, to) = PAIRS[pair];
            let mut speech = tone(440.0, from, 5_000, 12_000.0);
            for (sample, other) in speech.iter_mut().zip(tone(2_900.0, from, 5_000, 9_000.0)) {
                *sample = sample.saturating_add(other);
            }
            let whole = convert(from, to, &speech);
            let mut resampler = Resampler::new(from, to);
            let (mut rest, mut pieces) = (&speech[..], Vec::new());
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                resampler.push(piece, &mut pieces);
                rest = after;
            }
            resampler.push(rest, &mut pieces);
            prop_assert_eq!(pieces, whole);
            Ok(())
        })
        .unwrap();
}

#[test]
fn equal_rates_are_passed_through() {
    let samples = tone(100.0, 16_000, 500, 30_000.0);
    assert_eq!(convert(16_000, 16_000, &samples), samples);
    assert_eq!(convert(0, 0, &samples), samples);
}

#[test]
fn one_stream_takes_a_tenth_of_what_rubatos_takes() {
    let frame = vec![100i16; 480];
    // The shared table is made before: it is not a stream's own.
    drop(Resampler::new(24_000, 16_000));
    let before = held();
    let mut resampler = Resampler::new(24_000, 16_000);
    let mut out = Vec::with_capacity(320);
    let own_out = held();
    resampler.push(&frame, &mut out);
    let ours = held() - before - 640;
    assert!(own_out > before);

    let before = held();
    let theirs = rubato_sinc();
    let rubato = held() - before;
    drop(theirs);
    println!("bytes a stream: ours {ours}, rubato's sinc {rubato}");
    assert!(ours > 0 && ours < 16 * 1024, "{ours} bytes");
    assert!(ours * 10 < rubato, "ours {ours}, rubato's {rubato}");
}

fn rubato_sinc() -> rubato::Async<f32> {
    let parameters = rubato::SincInterpolationParameters {
        sinc_len: 64,
        f_cutoff: None,
        oversampling_factor: 128,
        interpolation: rubato::SincInterpolationType::Linear,
        window: rubato::WindowFunction::BlackmanHarris2,
    };
    let ratio = 16_000.0 / 24_000.0;
    rubato::Async::new_sinc(ratio, 1.0, &parameters, 480, 1, rubato::FixedAsync::Input)
        .expect("a valid resampler")
}
