//! The caller's voice: words and noise as sound.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::super::call::wire::WIRE_RATE_HZ;
use super::super::spoken::spoken;
use super::super::wav;
use crate::audio::{Pcm, duration_to_samples};
use crate::provider::tts::{TTSS, Tts, TtsOptions};
use crate::provider::{BuildError, Surroundings, find};
use crate::sim::script::{Script, What};

/// Quieter samples at both ends are no part of what is said.
const EDGE_LEVEL: u16 = 200;
/// How loud noise is: as loud as speech.
const NOISE_PEAK: i16 = 9_000;
/// The same noise every time.
const NOISE_SEED: u64 = 7;

/// What is said for a noise where the script decides what is understood: it has to be taken for
/// speech, which a good detector does not do with white noise.
pub(super) const NOISE: &str = "La la la la la la la la la la";

/// Everything that a script's caller will say, made ahead.
#[derive(Debug, Default)]
pub(super) struct Sounds(BTreeMap<String, Vec<i16>>);

/// The first voice of these that can be had.
pub(super) fn find_voice(
    names: &[&'static str],
    around: &Surroundings,
) -> Result<(Arc<dyn Tts>, &'static str), String> {
    let mut missing = Vec::new();
    for name in names {
        let built = find(TTSS, "tts.provider", name)
            .and_then(|entry| (entry.build)(&toml::Table::new(), around));
        match built {
            Ok(voice) => return Ok((voice, name)),
            Err(BuildError::Missing { what, detail }) => missing.push(format!("{what}: {detail}")),
            Err(wrong) => return Err(wrong.to_string()),
        }
    }
    Err(format!("the caller has no voice: {}", missing.join("; ")))
}

impl Sounds {
    /// Makes all that a script's caller says.
    pub(super) async fn of(script: &Script, voice: &Arc<dyn Tts>) -> Result<Sounds, String> {
        let mut sounds = BTreeMap::new();
        for deed in &script.caller {
            let words = match &deed.what {
                What::Says { words, .. } => words.as_str(),
                What::Noise(_) => NOISE,
                _ => continue,
            };
            if !sounds.contains_key(words) {
                // Nobody takes a hiss for speech.
                let is_voiced = words.contains(|c: char| "aeiouyAEIOUY".contains(c));
                let spoken = if is_voiced { words } else { NOISE };
                let sound = speak(voice, spoken).await.map_err(|e| format!("\"{words}\": {e}"))?;
                sounds.insert(words.to_owned(), sound);
            }
        }
        Ok(Sounds(sounds))
    }

    /// The words as they are said, or, where a script decides what was understood, as long as the
    /// script says that they take.
    pub(super) fn words(&self, words: &str, span: Option<Duration>) -> Pcm {
        let sound = self.0.get(words).map(Vec::as_slice).unwrap_or_default();
        let samples = match span {
            None => sound.to_vec(),
            Some(span) => {
                let length = duration_to_samples(span, WIRE_RATE_HZ);
                sound.iter().copied().cycle().take(length).collect()
            }
        };
        Pcm { rate_hz: WIRE_RATE_HZ, samples }
    }
}

/// White noise of this length.
pub(super) fn white_noise(span: Duration) -> Pcm {
    let mut random = StdRng::seed_from_u64(NOISE_SEED);
    let length = duration_to_samples(span, WIRE_RATE_HZ);
    let samples = (0..length).map(|_| random.random_range(-NOISE_PEAK..=NOISE_PEAK)).collect();
    Pcm { rate_hz: WIRE_RATE_HZ, samples }
}

/// One phrase, without the silence around it.
async fn speak(voice: &Arc<dyn Tts>, words: &str) -> Result<Vec<i16>, String> {
    let options = TtsOptions { voice: None, language: "en".to_owned(), speed: 1.0 };
    let sound = spoken(voice, options, words).await?;
    let samples = wav::at_rate(&sound, WIRE_RATE_HZ)?;
    let loud = |sample: &i16| sample.unsigned_abs() > EDGE_LEVEL;
    match (samples.iter().position(loud), samples.iter().rposition(loud)) {
        (Some(first), Some(last)) => Ok(samples[first..=last].to_vec()),
        _ => Err("only silence came".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audio::level_dbfs;

    #[test]
    fn words_take_as_long_as_the_script_says() {
        let sounds = Sounds(BTreeMap::from([("hi".to_owned(), vec![1, 2, 3])]));
        assert_eq!(sounds.words("hi", None).samples, [1, 2, 3]);
        let span = Duration::from_millis(10);
        let said = sounds.words("hi", Some(span));
        assert_eq!((said.duration(), said.samples[3]), (span, 1));
        let noise = white_noise(Duration::from_millis(300));
        assert_eq!(noise.duration(), Duration::from_millis(300));
        assert!((-25.0..-10.0).contains(&level_dbfs(&noise.samples)));
    }
}
