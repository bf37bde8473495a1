//! WAV files in and out: any of them comes in as mono 16-bit sound at the rate asked for.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use hound::{SampleFormat, WavReader, WavSpec, WavWriter};
use rubato::audioadapter_buffers::direct::InterleavedSlice;
use rubato::{Fft, FixedSync, Resampler};

use crate::audio::Pcm;

/// Longest recording that is read: a caller does not talk for an hour in one file.
const MAX_SECONDS: u64 = 3_600;
/// Rates that recordings are made at.
const RATES_HZ: RangeInclusive<u32> = 1_000..=768_000;
/// Frames the resampler takes at a time; any size will do for a whole file.
const CHUNK_FRAMES: usize = 1_024;

/// A recording, and how it was before it was converted.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Mono sound at the rate asked for.
    pub pcm: Pcm,
    /// As the file has it.
    pub source: Source,
}

/// How a file holds its sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Samples a second.
    pub rate_hz: u32,
    /// Channels; they are averaged.
    pub channels: u16,
    /// Bits a sample.
    pub bits: u16,
    /// Whether the samples are floating point.
    pub float: bool,
}

impl Recording {
    /// What was converted, for the user; `None` when the file was as wanted.
    pub fn conversion(&self) -> Option<String> {
        let Source { rate_hz, channels, bits, float } = self.source;
        let want_hz = self.pcm.rate_hz;
        if rate_hz == want_hz && channels == 1 && bits == 16 && !float {
            return None;
        }
        let kind = if float { "float" } else { "bit" };
        let layout = match channels {
            1 => "mono".to_owned(),
            2 => "stereo".to_owned(),
            n => format!("{n} channels"),
        };
        Some(format!("{rate_hz} Hz {layout} {bits} {kind} -> {want_hz} Hz mono 16 bit"))
    }
}

/// Why a file could not be used.
#[derive(Debug)]
pub struct WavError {
    /// Which file.
    pub path: PathBuf,
    /// What was wrong, and what would be right.
    pub reason: String,
}

impl fmt::Display for WavError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.reason)
    }
}

impl std::error::Error for WavError {}

/// Reads a recording as mono 16-bit sound at `rate_hz`.
pub fn read(path: &Path, rate_hz: u32) -> Result<Recording, WavError> {
    let fail = |reason: String| WavError { path: path.to_owned(), reason };
    let reader = WavReader::open(path).map_err(|error| fail(open_reason(&error)))?;
    let spec = reader.spec();
    let frames = u64::from(reader.duration());
    if frames == 0 {
        return Err(fail("holds no sound; a recording of at least 20 ms is needed".into()));
    }
    if !RATES_HZ.contains(&spec.sample_rate) || spec.channels == 0 {
        let (rate_hz, channels) = (spec.sample_rate, spec.channels);
        let (least, most) = (RATES_HZ.start(), RATES_HZ.end());
        return Err(fail(format!(
            "states {rate_hz} samples a second in {channels} channels; {least} to {most} in one or \
             more are right"
        )));
    }
    if frames / u64::from(spec.sample_rate) > MAX_SECONDS {
        return Err(fail(format!("is longer than {MAX_SECONDS} s; use a shorter one")));
    }
    let mixed = mix_down(reader).map_err(|error| fail(format!("breaks off: {error}")))?;
    let samples = resample(mixed, spec.sample_rate, rate_hz).map_err(&fail)?;
    Ok(Recording {
        pcm: Pcm { rate_hz, samples },
        source: Source {
            rate_hz: spec.sample_rate,
            channels: spec.channels,
            bits: spec.bits_per_sample,
            float: spec.sample_format == SampleFormat::Float,
        },
    })
}

/// Mono sound at another rate.
pub fn at_rate(pcm: &Pcm, rate_hz: u32) -> Result<Vec<i16>, String> {
    let sound = pcm.samples.iter().map(|&sample| f32::from(sample) / 32_768.0).collect();
    resample(sound, pcm.rate_hz, rate_hz)
}

/// Writes mono 16-bit sound.
pub fn write(path: &Path, pcm: &Pcm) -> Result<(), WavError> {
    let fail = |error: hound::Error| WavError {
        path: path.to_owned(),
        reason: format!("cannot be written: {error}"),
    };
    let spec = WavSpec {
        channels: 1,
        sample_rate: pcm.rate_hz,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let mut writer = WavWriter::create(path, spec).map_err(fail)?;
    for &sample in &pcm.samples {
        writer.write_sample(sample).map_err(fail)?;
    }
    writer.finalize().map_err(fail)
}

fn open_reason(error: &hound::Error) -> String {
    match error {
        hound::Error::IoError(io) if io.kind() == std::io::ErrorKind::NotFound => {
            "no such file; give the path of a WAV recording".to_owned()
        }
        hound::Error::IoError(io) => format!("cannot be read: {io}"),
        other => {
            format!("is not a WAV file this can read ({other}); PCM of 8 to 32 bits or float is")
        }
    }
}

/// All channels averaged, full scale being 1.
fn mix_down<R: std::io::Read>(reader: WavReader<R>) -> Result<Vec<f32>, hound::Error> {
    let spec = reader.spec();
    let scale = match spec.sample_format {
        SampleFormat::Float => 1.0,
        SampleFormat::Int => 1.0 / (1_u64 << (spec.bits_per_sample - 1)) as f32,
    };
    let channels = usize::from(spec.channels);
    let gain = scale / channels as f32;
    // It grows with what is there: a header may state any length.
    let mut mixed = Vec::new();
    let mut sum = 0.0;
    let mut seen = 0;
    let mut add = |sample: f32| {
        sum += sample;
        seen += 1;
        if seen == channels {
            mixed.push(sum * gain);
            (sum, seen) = (0.0, 0);
        }
    };
    match spec.sample_format {
        SampleFormat::Float => {
            for sample in reader.into_samples::<f32>() {
                add(sample?);
            }
        }
        SampleFormat::Int => {
            for sample in reader.into_samples::<i32>() {
                add(sample? as f32);
            }
        }
    }
    Ok(mixed)
}

fn resample(sound: Vec<f32>, from_hz: u32, to_hz: u32) -> Result<Vec<i16>, String> {
    if from_hz == to_hz {
        return Ok(sound.into_iter().map(to_i16).collect());
    }
    let frames = sound.len();
    let refuse = |detail: &dyn fmt::Display| {
        format!("cannot be converted from {from_hz} Hz to {to_hz} Hz: {detail}")
    };
    let input = InterleavedSlice::new(&sound, 1, frames).map_err(|error| refuse(&error))?;
    let mut resampler =
        Fft::<f32>::new(from_hz as usize, to_hz as usize, CHUNK_FRAMES, 1, FixedSync::Both)
            .map_err(|error| refuse(&error))?;
    let output = resampler.process_all(&input, frames, None).map_err(|error| refuse(&error))?;
    Ok(output.take_data().into_iter().map(to_i16).collect())
}

fn to_i16(sample: f32) -> i16 {
    (sample * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("floorkeeper-wav-{}-{name}", std::process::id()))
    }

    fn tone(rate_hz: u32, hz: f32, seconds: f32) -> Vec<f32> {
        let step = std::f32::consts::TAU * hz / rate_hz as f32;
        (0..(rate_hz as f32 * seconds) as usize).map(|n| 0.5 * (n as f32 * step).sin()).collect()
    }

    #[test]
    fn stereo_at_another_rate_becomes_mono_of_the_same_length_and_pitch() {
        let path = scratch("stereo.wav");
        let spec = WavSpec {
            channels: 2,
            sample_rate: 44_100,
            bits_per_sample: 24,
            sample_format: SampleFormat::Int,
        };
        let mut writer = WavWriter::create(&path, spec).unwrap();
        for sample in tone(44_100, 440.0, 1.0) {
            let value = (sample * 8_388_607.0) as i32;
            writer.write_sample(value).unwrap();
            writer.write_sample(value).unwrap();
        }
        writer.finalize().unwrap();
        let recording = read(&path, 24_000).unwrap();
        std::fs::remove_file(&path).unwrap();
        let samples = &recording.pcm.samples;
        assert!(samples.len().abs_diff(24_000) <= 2, "{} samples", samples.len());
        let rising = samples.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
        assert!(rising.abs_diff(440) <= 2, "{rising} periods in a second");
        let loudest = samples.iter().map(|s| s.unsigned_abs()).max().unwrap();
        assert!((15_500..17_500).contains(&loudest), "peak {loudest}");
        assert_eq!(
            recording.conversion().unwrap(),
            "44100 Hz stereo 24 bit -> 24000 Hz mono 16 bit"
        );
    }

    #[test]
    fn what_was_written_is_read_back_untouched() {
        let path = scratch("same.wav");
        let pcm = Pcm { rate_hz: 24_000, samples: vec![0, 1, -1, i16::MAX, i16::MIN] };
        write(&path, &pcm).unwrap();
        let recording = read(&path, 24_000).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(recording.pcm, pcm);
        assert_eq!(recording.conversion(), None);
    }

    #[test]
    fn a_rate_that_no_recording_has_is_refused() {
        let path = scratch("slow.wav");
        write(&path, &Pcm { rate_hz: 7, samples: vec![1; 100] }).unwrap();
        let wrong = read(&path, 24_000).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(wrong.contains("states 7 samples a second"), "{wrong}");
        assert!(wrong.contains("1000 to 768000"), "{wrong}");
    }

    #[test]
    fn a_missing_file_and_one_that_is_no_wav_are_named() {
        let missing = read(&scratch("none.wav"), 24_000).unwrap_err().to_string();
        assert!(missing.contains("none.wav: no such file"), "{missing}");
        let path = scratch("text.wav");
        std::fs::write(&path, "hello").unwrap();
        let wrong = read(&path, 24_000).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(wrong.contains("is not a WAV file"), "{wrong}");
    }
}
