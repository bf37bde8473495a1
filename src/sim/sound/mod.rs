//! The sound of a call: what the caller's microphone sends ([`microphone`]), what their end plays
//! ([`far_end`]), and the way to the server ([`network`]).
//!
//! Sounds come out of a [`Bank`] that was filled outside, or are made here ([`craft`]); everything
//! that is drawn has a seed, and the arithmetic is the same on every machine.

use std::collections::BTreeMap;
use std::fmt;

use super::script::{Background, Bed, Loudness, Source, What};
use crate::audio::duration_to_samples;
use crate::provider::ear::SharedDetector;

pub mod craft;
pub(super) mod ends;
pub mod far_end;
pub mod microphone;
pub mod network;

/// Recordings and voices made ahead, all at one rate.
#[derive(Clone, Default)]
pub struct Bank {
    files: BTreeMap<String, Vec<i16>>,
    words: BTreeMap<String, Vec<i16>>,
    /// Who listens, where that takes more than the program itself.
    pub detector: Option<SharedDetector>,
}

impl fmt::Debug for Bank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.files.keys()).entries(self.words.keys()).finish()
    }
}

impl Bank {
    /// A recording, by its path as the script has it.
    pub fn add_file(&mut self, file: &str, samples: Vec<i16>) {
        self.files.insert(file.to_owned(), samples);
    }

    /// Words as they are said.
    pub fn add_words(&mut self, words: &str, samples: Vec<i16>) {
        self.words.insert(words.to_owned(), samples);
    }

    /// Whether these words can be said.
    pub fn has_words(&self, words: &str) -> bool {
        self.words.contains_key(words)
    }

    /// A recording.
    pub fn file(&self, file: &str) -> Option<&[i16]> {
        self.files.get(file).map(Vec::as_slice)
    }
}

/// Said for a noise that has to be taken for speech and holds no words.
pub const WORDLESS: &str = "La la la la la la la la la la";

/// Makes the sounds of deeds.
#[derive(Clone, Copy, Debug)]
pub struct Maker<'a> {
    /// Samples a second, the bank's as well.
    pub rate_hz: u32,
    /// What was made ahead.
    pub bank: &'a Bank,
    /// How loud the background is.
    pub background_dbfs: Option<f64>,
    /// Seed of noise.
    pub seed: u64,
    /// Words take as long as the script says, not as long as they were spoken.
    pub fits_spans: bool,
}

impl Maker<'_> {
    /// The sound of a deed, if it has one; the error names a recording that is not in the bank.
    pub fn sound(&self, deed: usize, what: &What) -> Result<Option<Vec<i16>>, String> {
        let (samples, loudness) = match what {
            What::Says { words, span, loudness, .. } => {
                let length = duration_to_samples(*span, self.rate_hz);
                (self.voice(words, length), *loudness)
            }
            What::Noise { span, loudness } => {
                let length = duration_to_samples(*span, self.rate_hz);
                (self.wordless(length), *loudness)
            }
            What::Plays { source, loudness } => (self.source(deed, source)?, *loudness),
            _ => return Ok(None),
        };
        Ok(Some(match loudness {
            Loudness::AsItIs => samples,
            Loudness::Level(level) => craft::at_level(samples, level, self.rate_hz),
            Loudness::OverBackground(snr) => {
                let level = self.background_dbfs.unwrap_or_default() + snr;
                craft::at_level(samples, level, self.rate_hz)
            }
        }))
    }

    fn voice(&self, words: &str, length: usize) -> Vec<i16> {
        match self.bank.words.get(words) {
            Some(spoken) if !self.fits_spans => spoken.clone(),
            Some(spoken) => spoken.iter().copied().cycle().take(length).collect(),
            None => craft::voice(self.rate_hz, length),
        }
    }

    fn wordless(&self, length: usize) -> Vec<i16> {
        match self.bank.words.get(WORDLESS) {
            Some(spoken) => spoken.iter().copied().cycle().take(length).collect(),
            None => craft::voice(self.rate_hz, length),
        }
    }

    fn source(&self, deed: usize, source: &Source) -> Result<Vec<i16>, String> {
        let length = |span| duration_to_samples(span, self.rate_hz);
        Ok(match source {
            Source::Wav { file, .. } => match self.bank.file(file) {
                Some(samples) => samples.to_vec(),
                None => return Err(format!("caller[{}].plays: {file} was not read", deed + 1)),
            },
            Source::Tone { hz, span } => craft::tone(self.rate_hz, *hz, length(*span)),
            Source::Noise { colour, span } => {
                craft::noise(*colour, self.seed ^ (deed as u64 + 1), length(*span))
            }
            Source::Silence { span } => vec![0; length(*span)],
        })
    }

    /// The sound of a background, to be played over and over.
    pub fn bed(&self, background: &Background) -> Result<Vec<i16>, String> {
        /// Long enough that nobody hears it come again.
        const BED_S: usize = 11;
        let samples = match &background.bed {
            Bed::Noise(colour) => craft::noise(*colour, self.seed, BED_S * self.rate_hz as usize),
            Bed::Wav(file) => match self.bank.file(file) {
                Some(samples) => samples.to_vec(),
                None => return Err(format!("sound.background.wav: {file} was not read")),
            },
        };
        Ok(craft::at_level(samples, background.level_dbfs, self.rate_hz))
    }
}
