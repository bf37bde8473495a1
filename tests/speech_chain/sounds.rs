//! Real sound for the speech tests: the models, and recordings from Debian packages.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use floorkeeper::provider::asr::{ASRS, Asr};
use floorkeeper::provider::models;
use floorkeeper::provider::{Surroundings, find};

/// The model store, or `None` after a line that says why the test is skipped.
pub fn surroundings(test: &str) -> Option<Surroundings> {
    let dir =
        std::env::var_os("FLOORKEEPER_MODELS_DIR").map_or_else(models::default_dir, PathBuf::from);
    let found = models::look(&dir);
    if !found.complete() {
        eprintln!("SKIP {test}: {}", found.missing().join("; "));
        return None;
    }
    Some(Surroundings { models_dir: dir, language: "en".into() })
}

/// The recogniser, loaded once for all tests.
pub fn recogniser(around: &Surroundings) -> Arc<dyn Asr> {
    static LOADED: OnceLock<Arc<dyn Asr>> = OnceLock::new();
    let load = || {
        let entry = find(ASRS, "asr.provider", "moonshine").expect("it is in the table");
        (entry.build)(&toml::Table::new(), around).expect("it can be had")
    };
    Arc::clone(LOADED.get_or_init(load))
}

/// A real recording with its words.
pub struct Recording {
    /// The file's name, for messages.
    pub name: String,
    /// What is said in it.
    pub words: String,
    /// 16 kHz.
    pub sound: Vec<i16>,
}

/// Where a package puts its sound.
fn folder_of(package: &str) -> &'static Path {
    Path::new(match package {
        "pocketsphinx" => "/usr/share/pocketsphinx/test/data",
        "asterisk" => "/usr/share/asterisk/sounds/en_US_f_Allison",
        "moh" => "/usr/share/asterisk/moh",
        _ => panic!("no folder is known for {package}"),
    })
}

/// Every recording of `fixtures/speech/recordings.tsv` that is on this machine.
pub fn recordings(test: &str) -> Vec<Recording> {
    let list = include_str!("../../fixtures/speech/recordings.tsv");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let found: Vec<_> = lines
        .filter_map(|line| {
            let mut fields = line.split('\t');
            let package = fields.next()?;
            let (name, words) = (fields.next()?, fields.next()?);
            let sound = sound(package, name)?;
            Some(Recording { name: name.to_owned(), words: words.to_owned(), sound })
        })
        .collect();
    if found.is_empty() {
        eprintln!(
            "SKIP {test}: no recordings (apt-get install pocketsphinx-testdata \
             asterisk-core-sounds-en-wav)"
        );
    }
    found
}

/// No file is read further than this.
const SECONDS_MAX: usize = 40;

/// The sound of one file of a package, at 16 kHz; `None` when the package is not installed.
pub fn sound(package: &str, name: &str) -> Option<Vec<i16>> {
    let path = folder_of(package).join(name);
    if name.ends_with(".raw") {
        let bytes = std::fs::read(path).ok()?;
        return Some(
            bytes.chunks_exact(2).map(|two| i16::from_le_bytes([two[0], two[1]])).collect(),
        );
    }
    let mut wav = hound::WavReader::open(path).ok()?;
    let rate_hz = wav.spec().sample_rate;
    let most = SECONDS_MAX * rate_hz as usize;
    let samples: Vec<i16> = wav.samples().take(most).filter_map(Result::ok).collect();
    match rate_hz {
        16_000 => Some(samples),
        8_000 => Some(resample(&samples, 8_000)),
        rate => panic!("{name}: {rate} Hz"),
    }
}

/// Brings sound to 16 kHz by windowed-sinc interpolation.
pub fn resample(samples: &[i16], rate_hz: u32) -> Vec<i16> {
    const REACH: i64 = 16;
    let ratio = f64::from(rate_hz) / 16_000.0;
    // Above 16 kHz the filter also has to keep out what would fold back.
    let cutoff = (1.0 / ratio).min(1.0);
    let reach = (REACH as f64 / cutoff).ceil();
    let count = (samples.len() as f64 / ratio) as usize;
    let value = |at: usize| {
        let centre = at as f64 * ratio;
        let mut sum = 0.0;
        for n in (centre - reach).ceil() as i64..=(centre + reach).floor() as i64 {
            let Some(sample) = usize::try_from(n).ok().and_then(|n| samples.get(n)) else {
                continue;
            };
            let offset = n as f64 - centre;
            let x = std::f64::consts::PI * offset * cutoff;
            let sinc = if x.abs() < 1e-9 { 1.0 } else { x.sin() / x };
            let window = 0.5 + 0.5 * (std::f64::consts::PI * offset / reach).cos();
            sum += f64::from(*sample) * sinc * window * cutoff;
        }
        sum.clamp(-32_768.0, 32_767.0) as i16
    };
    (0..count).map(value).collect()
}
