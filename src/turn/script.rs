//! An answer's phrases, where their sound lies, and when each of their words has been said.

use std::time::Duration;

use crate::audio::{duration_to_samples, samples_to_duration};
use crate::dialogue::WordTime;

/// How long behind a question its answer may come, although the agent goes on.
const ANSWERED_WITHIN: Duration = Duration::from_millis(1_500);
/// Speaking rate assumed while no phrase has come completely: a slow one, because a word too few in
/// the history is asked again, and a word too many was never heard.
pub const CHARS_PER_S: u64 = 12;

/// One answer's phrases, in the order in which they are said.
#[derive(Clone, Debug)]
pub(super) struct Phrases {
    rate_hz: u32,
    phrases: Vec<Sounding>,
    received: usize,
    told: usize,
    /// Speaking rate while no phrase has come completely.
    assumed: u64,
}

/// A phrase and where its sound lies.
#[derive(Clone, Debug)]
struct Sounding {
    index: u32,
    text: String,
    start: usize,
    samples: usize,
    whole: bool,
    words: Vec<WordTime>,
}

impl Phrases {
    pub fn new(rate_hz: u32) -> Self {
        Phrases { rate_hz, phrases: Vec::new(), received: 0, told: 0, assumed: CHARS_PER_S }
    }

    /// The voice is known from earlier answers: it says so many characters a second.
    pub fn assume(&mut self, chars_per_s: u64) {
        self.assumed = chars_per_s;
    }

    /// A phrase whose sound will come.
    pub fn announce(&mut self, index: u32, text: &str) {
        let (text, start) = (text.to_owned(), self.received);
        self.phrases.push(Sounding {
            index,
            text,
            start,
            samples: 0,
            whole: false,
            words: Vec::new(),
        });
    }

    /// What was announced last ends without a space.
    pub fn ends_bare(&self) -> bool {
        self.phrases.last().is_some_and(|phrase| !phrase.text.ends_with(char::is_whitespace))
    }

    /// So much sound of a phrase has come.
    pub fn sounds(&mut self, index: u32, samples: usize) {
        let received = self.received;
        if let Some(phrase) = self.phrases.iter_mut().find(|phrase| phrase.index == index) {
            if phrase.samples == 0 {
                phrase.start = received;
            }
            phrase.samples += samples;
        }
        self.received += samples;
    }

    /// So much silence stands between the phrases.
    pub fn rests(&mut self, samples: usize) {
        self.received += samples;
    }

    /// All sound of a phrase has come.
    pub fn phrase_done(&mut self, index: u32, words: Vec<WordTime>) {
        if let Some(phrase) = self.phrases.iter_mut().find(|phrase| phrase.index == index) {
            phrase.whole = true;
            phrase.words = words;
        }
    }

    /// Some sound has come.
    pub fn has_sound(&self) -> bool {
        self.received > 0
    }

    /// The text of the next phrase whose sound has begun to be sent and that was not told before. A
    /// phrase that has no sound (a lone dash) is told with those around it.
    pub fn next_begun(&mut self, sent: usize) -> Option<String> {
        let phrase = self.phrases.get(self.told)?;
        let silent = phrase.samples == 0 && phrase.whole;
        if !silent && (phrase.samples == 0 || phrase.start >= sent) {
            return None;
        }
        self.told += 1;
        Some(phrase.text.clone())
    }

    /// A phrase in front of this one with words in it, of which not all sound has come.
    pub fn has_unspoken(&self, before: u32) -> bool {
        let words = |text: &str| text.chars().any(char::is_alphanumeric);
        let spoken = |p: &Sounding| p.whole && p.samples > 0;
        self.phrases.iter().any(|p| p.index < before && !spoken(p) && words(&p.text))
    }

    /// Words and when each has been said, over all phrases, for the history.
    pub fn script(&self) -> Script {
        let mut script = Script::default();
        let pace = self.pace();
        for phrase in &self.phrases {
            phrase.append_to(&mut script, self.rate_hz, pace);
        }
        script
    }

    /// How many characters this voice says in a second, from the phrases that have come
    /// completely.
    pub fn pace(&self) -> u64 {
        let whole = self.phrases.iter().filter(|phrase| phrase.whole && phrase.samples > 0);
        let (chars, samples) = whole
            .map(|phrase| (phrase.text.len() as u64, phrase.samples as u64))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        match samples {
            0 => self.assumed,
            samples => (chars * u64::from(self.rate_hz) / samples).clamp(4, 40),
        }
    }

    /// A question sounds when so much was heard, or has just sounded: an answer to it may still
    /// come.
    pub fn asks(&self, heard: Duration) -> bool {
        let heard = duration_to_samples(heard, self.rate_hz);
        let fresh = heard.saturating_sub(duration_to_samples(ANSWERED_WITHIN, self.rate_hz));
        let begun = |p: &&Sounding| p.samples > 0 && p.start <= heard;
        let is_question = |p: &Sounding| p.text.trim_end().ends_with('?');
        let mut last = self.phrases.iter().rev().filter(begun);
        match last.next() {
            Some(phrase) if is_question(phrase) => true,
            Some(phrase) if phrase.start >= fresh => last.next().is_some_and(is_question),
            Some(_) | None => false,
        }
    }
}

impl Sounding {
    fn append_to(&self, script: &mut Script, rate_hz: u32, chars_per_s: u64) {
        let start = samples_to_duration(self.start, rate_hz);
        let base = script.text.len();
        script.text.push_str(&self.text);
        if self.samples == 0 {
            return;
        }
        if !self.words.is_empty() {
            script.words.extend(self.words.iter().map(|word| WordTime {
                text_end: base + word.text_end.min(self.text.len()),
                end: start + word.end,
            }));
            return;
        }
        let estimate = Duration::from_millis(self.text.len() as u64 * 1000 / chars_per_s);
        let come = samples_to_duration(self.samples, rate_hz);
        let length = if self.whole { come } else { come.max(estimate) };
        let total = self.text.trim_end().len().max(1) as u32;
        for end in word_ends(&self.text) {
            let at = start + length * (end as u32).min(total) / total;
            script.words.push(WordTime { text_end: base + end, end: at });
        }
    }
}

/// Byte positions behind each word.
fn word_ends(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut previous_is_space = true;
    let mut ends = Vec::new();
    for (at, c) in text.char_indices() {
        if c.is_whitespace() && !previous_is_space {
            ends.push(at);
        }
        previous_is_space = c.is_whitespace();
    }
    if !previous_is_space {
        ends.push(text.len());
    }
    ends.into_iter()
}

/// An answer's words and when each has been said: what *heard* is cut from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// All of its text.
    pub text: String,
    /// Its words in order.
    pub words: Vec<WordTime>,
}

impl Script {
    /// The words that had been said completely when this much was heard.
    pub fn heard(&self, played: Duration) -> &str {
        let end = self.words.iter().take_while(|word| word.end <= played).last();
        self.text[..end.map_or(0, |word| word.text_end)].trim_end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_of_earlier_answers_is_assumed_of_a_phrase_that_has_not_come_completely() {
        let heard = |pace: u64| {
            let mut phrases = Phrases::new(8_000);
            phrases.assume(pace);
            phrases.announce(0, "one two three four five six seven eight nine ten");
            phrases.sounds(0, 16_000);
            phrases.script().heard(Duration::from_secs(2)).split(' ').count()
        };
        assert_eq!((heard(CHARS_PER_S), heard(8)), (5, 3));
    }
}
