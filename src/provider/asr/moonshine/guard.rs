//! Keeps what Moonshine invents out of the transcript: it writes something for any sound, and what
//! it writes for noise looks like speech.

/// A sample counts as speech when its window does; of these a segment needs this many: 200 ms.
const SPEECH_MIN: usize = 3_200;
/// Less than this is not even a single letter: 120 ms.
const WORD_MIN: usize = 1_920;
/// A segment in which so little speech is believed is short itself: 2 s.
const WORD_SEGMENT_MAX: usize = 32_000;
/// Nobody says more; measured in partials of real people: up to 7 a second.
const WORDS_PER_S_MAX: usize = 10;
/// Whatever the detector has heard, so many there may be.
const WORDS_MIN: usize = 2;
/// Least mean log-probability a token. Measured: single words of real people down to -0.8.
const LOG_PROB_MIN: f32 = -1.0;
/// And for a short word, which music makes as well.
const WORD_LOG_PROB_MIN: f32 = -0.6;

/// How much of a segment is speech.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    /// Samples in it.
    pub(super) samples: usize,
    /// Samples of speech in it.
    pub(super) speech: usize,
}

impl Heard {
    /// Asking the model is worth it.
    pub(super) fn may_hold_words(self) -> bool {
        self.speech >= SPEECH_MIN || self.may_be_a_word()
    }

    fn may_be_a_word(self) -> bool {
        self.speech >= WORD_MIN && self.samples <= WORD_SEGMENT_MAX
    }

    /// So many words can be said in this much speech.
    pub(super) fn may_hold(self, words: usize) -> bool {
        words <= WORDS_MIN + self.speech * WORDS_PER_S_MAX / 16_000
    }

    /// What the model wrote can be believed.
    pub(super) fn believes(self, mean_log_prob: f32, looped: bool) -> bool {
        if self.speech >= SPEECH_MIN {
            mean_log_prob >= LOG_PROB_MIN
        } else {
            self.may_be_a_word() && mean_log_prob >= WORD_LOG_PROB_MIN && !looped
        }
    }
}

/// Longest pattern that is looked for.
const PATTERN_MAX: usize = 12;

/// How much of these tokens is left when a loop at the end is cut down to its first round.
pub(super) fn without_loop(tokens: &[i64]) -> &[i64] {
    for length in 1..=PATTERN_MAX.min(tokens.len() / 2) {
        let pattern = &tokens[tokens.len() - length..];
        let rounds = tokens.rchunks_exact(length).take_while(|round| *round == pattern).count();
        if rounds > rounds_max(length) {
            return &tokens[..tokens.len() - (rounds - 1) * length];
        }
    }
    tokens
}

/// How often a pattern of this length may be said in a row: eight equal digits are possible, and so
/// is "one two" five times; a sentence four times over is not.
fn rounds_max(length: usize) -> usize {
    match length {
        1 => 8,
        2 | 3 => 5,
        _ => 3,
    }
}

/// The text without notes and other signs of music; empty when no letter or digit is left.
pub(super) fn cleaned(text: &str) -> String {
    let kept: String = text.chars().filter(|c| !is_note(*c)).collect();
    if kept.chars().any(char::is_alphanumeric) {
        kept.split_whitespace().collect::<Vec<_>>().join(" ")
    } else {
        String::new()
    }
}

fn is_note(c: char) -> bool {
    matches!(c, '\u{2669}'..='\u{266f}' | '\u{1f3b5}' | '\u{1f3b6}' | '\u{1f3bc}' | '\u{fffd}')
}

#[cfg(test)]
mod tests {
    use super::{Heard, cleaned, without_loop};

    #[test]
    fn a_loop_is_cut_to_its_first_round() {
        let looping = [7, 8, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4];
        assert_eq!(without_loop(&looping), &[7, 8, 1, 2, 3, 4]);
        // Cut off in the middle of a round, the pattern is found all the same.
        assert_eq!(
            without_loop(&looping[..17]),
            &[7, 8, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3]
        );
        assert_eq!(without_loop(&[5; 40]), &[5]);
    }

    #[test]
    fn what_people_say_twice_stays() {
        for said in [&[4, 4, 4, 4, 4, 4, 4][..], &[1, 2, 1, 2, 1, 2], &[], &[9]] {
            assert_eq!(without_loop(said), said);
        }
    }

    #[test]
    fn notes_go_and_lone_punctuation_is_nothing() {
        assert_eq!(cleaned("\u{266a} la  la \u{266b}"), "la la");
        assert_eq!(cleaned(" ? "), "");
        assert_eq!(cleaned("\u{266a}"), "");
        assert_eq!(cleaned("I'm 5."), "I'm 5.");
    }

    #[test]
    fn little_speech_is_believed_only_when_it_is_a_sure_short_word() {
        let letter = Heard { samples: 9_600, speech: 2_048 };
        assert!(letter.may_hold_words() && letter.believes(-0.3, false));
        assert!(!letter.believes(-0.8, false) && !letter.believes(-0.1, true));
        let music = Heard { samples: 128_000, speech: 2_048 };
        assert!(!music.may_hold_words() && !music.believes(-0.1, false));
        let screams = Heard { samples: 258_880, speech: 13_824 };
        assert!(!screams.may_hold(24) && screams.may_hold(10));
        assert!(letter.may_hold(2), "a partial of two short words");
        let sentence = Heard { samples: 128_000, speech: 64_000 };
        assert!(sentence.may_hold_words() && sentence.believes(-0.8, true));
        assert!(!sentence.believes(-1.2, false));
    }
}
