//! Prompts rendered ahead, at the rate a leg wants: speaking one needs no model, no unit and no
//! network.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::audio::Pcm;
use crate::call::Choose;
use crate::codec::resample::Resampler;
use crate::config::Fallback;
use crate::fallback::PromptId;

/// The fallback's script with its sound.
pub struct PromptSounds {
    fallback: Fallback,
    /// Sounds brought to a leg's rate, by prompt, language and rate: as many as there are prompts.
    converted: Mutex<HashMap<(String, String, u32), Arc<Vec<i16>>>>,
}

impl PromptSounds {
    /// Everything that may have to be said.
    pub fn new(fallback: Fallback) -> PromptSounds {
        PromptSounds { fallback, converted: Mutex::default() }
    }

    /// Chooses what is said.
    pub fn chooser(&self) -> Arc<dyn Choose> {
        self.fallback.script.clone()
    }

    /// The sound of a prompt as it was rendered.
    pub fn original(&self, prompt: &str, language: &str) -> Option<Arc<Pcm>> {
        self.fallback.sound(language, &PromptId::new(prompt))
    }

    /// The sound of a prompt at this rate; empty for a prompt that does not exist.
    pub fn sound(&self, prompt: &str, language: &str, rate_hz: u32) -> Vec<i16> {
        let key = (prompt.to_owned(), language.to_owned(), rate_hz);
        let mut converted = self.converted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(samples) = converted.get(&key) {
            return samples.to_vec();
        }
        let Some(pcm) = self.original(prompt, language) else { return Vec::new() };
        let samples = Arc::new(at_rate(&pcm, rate_hz));
        converted.insert(key, samples.clone());
        samples.to_vec()
    }
}

fn at_rate(pcm: &Pcm, rate_hz: u32) -> Vec<i16> {
    if pcm.rate_hz == rate_hz {
        return pcm.samples.clone();
    }
    let mut out = Vec::new();
    let mut resampler = Resampler::new(pcm.rate_hz, rate_hz);
    resampler.push(&pcm.samples, &mut out);
    // The filter's tail: without it the last sound of the prompt would stay inside.
    resampler.push(&vec![0; resampler.delay_samples() + 1], &mut out);
    out
}
