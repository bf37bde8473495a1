//! Prompts rendered ahead, at the rate a leg wants: speaking one needs no model, no unit and no
//! network.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::audio::Pcm;
use crate::call::Choose;
use crate::codec::resample::Resampler;
use crate::config::{Fallback, Script};
use crate::fallback::{DeskWords, Facts, PromptId, Rung};

/// The fallback's script with its sound.
pub struct PromptSounds {
    fallback: RwLock<Fallback>,
    /// Sounds brought to a leg's rate, by prompt, language and rate: as many as there are prompts.
    converted: Mutex<HashMap<Rendering, Arc<Vec<i16>>>>,
}

/// Prompt, language, rate.
type Rendering = (String, String, u32);

impl PromptSounds {
    /// Everything that may have to be said.
    pub fn new(fallback: Fallback) -> PromptSounds {
        PromptSounds { fallback: RwLock::new(fallback), converted: Mutex::default() }
    }

    /// A copy of what there is, to be completed elsewhere.
    pub fn copy(&self) -> Fallback {
        self.fallback.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a script with more sound than before.
    pub fn take(&self, fallback: Fallback) {
        *self.fallback.write().unwrap_or_else(PoisonError::into_inner) = fallback;
        self.converted.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Brings every prompt of a language to these rates now, so that no caller waits for it.
    pub fn warm(&self, language: &str, rates_hz: &[u32]) {
        let script = self.script();
        let locale = script.prompts.locale_for(language);
        let Some(book) = script.prompts.0.get(locale) else { return };
        for id in book.prompts.keys() {
            for rate_hz in rates_hz {
                let _ = self.sound(id.as_str(), language, *rate_hz);
            }
        }
    }

    /// Chooses what is said.
    pub fn chooser(&self) -> Arc<dyn Choose> {
        self.script()
    }

    /// What whoever was rung to take a caller hears, at this rate; nothing where it is not true.
    pub fn at_desk(
        &self,
        prompt: &str,
        caller_waits: bool,
        language: &str,
        rate_hz: u32,
    ) -> Vec<i16> {
        let (script, facts) = (self.script(), Facts::at_desk(caller_waits));
        let rung = if caller_waits { Rung::Handoff } else { Rung::Goodbye };
        let locale = script.prompts.locale_for(language);
        match script.prompts.get(locale, &PromptId::new(prompt)) {
            Some(known) if facts.hold_on(rung, &known.claims) => {
                self.sound(prompt, language, rate_hz)
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// What they are told of the caller.
    pub fn desk_words(&self, language: &str) -> DeskWords {
        let script = self.script();
        let book = script.prompts.0.get(script.prompts.locale_for(language));
        book.map(|book| book.desk.clone()).unwrap_or_default()
    }

    fn script(&self) -> Arc<Script> {
        self.fallback.read().unwrap_or_else(PoisonError::into_inner).script.clone()
    }

    /// The sound of a prompt as it was rendered.
    pub fn original(&self, prompt: &str, language: &str) -> Option<Arc<Pcm>> {
        let fallback = self.fallback.read().unwrap_or_else(PoisonError::into_inner);
        fallback.sound(language, &PromptId::new(prompt))
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
