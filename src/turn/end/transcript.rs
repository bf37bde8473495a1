//! The words themselves shorten or lengthen the silence, without a model.

use std::time::Duration;

use super::super::words::{locale, normalise};
use super::{Pause, Policy, Silences};
use crate::time::ms;

/// Silence that is enough behind a finished sentence.
const FINISHED: Duration = ms(300);

/// A finished sentence needs less silence, an unfinished one more.
#[derive(Debug)]
pub struct Transcript;

impl Policy for Transcript {
    fn name(&self) -> &'static str {
        "transcript"
    }

    fn enough(&self, silences: Silences, pause: &Pause<'_>) -> Duration {
        let Some(words) = pause.words else { return silences.plain };
        let said = normalise(words);
        let last = said.rsplit(' ').next().unwrap_or_default();
        let goes_on = words.trim_end().ends_with([',', '-', '–', '…'])
            || locale(pause.language).unfinished.contains(&last);
        match (goes_on, words.trim_end().ends_with(['.', '!', '?'])) {
            (true, _) => silences.at_most,
            (false, true) => FINISHED.min(silences.plain),
            (false, false) => silences.plain,
        }
    }
}
