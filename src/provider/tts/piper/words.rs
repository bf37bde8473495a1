//! When each word of a clause sounds, from the lengths of its phonemes.

use std::ops::Range;

/// A part of a clause: its phonemes within the clause's, and its words within the phrase's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartSounds {
    /// Phonemes of the words, without the mark after them.
    pub(super) phonemes: Range<usize>,
    /// The words.
    pub(super) text: Range<usize>,
}

/// Where a word ends: in the text (byte) and in the clause's sound (sample).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WordEnd {
    pub(super) text_end: usize,
    pub(super) sample: usize,
}

/// The end of every word of a part. `ends[n]` is the sample at which the first `n` phonemes are
/// over.
///
/// espeak-ng parts phonemes with spaces as the text is, mostly; where it speaks words as one ("of
/// the") the part's words share its time by their letters.
pub(super) fn word_ends(
    text: &str,
    part: &PartSounds,
    phonemes: &[char],
    ends: &[usize],
) -> Vec<WordEnd> {
    let words = words_of(text, part.text.clone());
    let sounds = groups_of(phonemes, part.phonemes.clone());
    if words.len() == sounds.len() {
        let at = |phoneme: &usize| ends.get(*phoneme).copied().unwrap_or(0);
        let end = |(word, sound): (&usize, &usize)| WordEnd { text_end: *word, sample: at(sound) };
        return words.iter().zip(&sounds).map(end).collect();
    }
    let bound = |phoneme: usize| ends.get(phoneme).or(ends.last()).copied().unwrap_or(0);
    let (from, to) = (bound(part.phonemes.start), bound(part.phonemes.end));
    let bytes = part.text.len().max(1);
    words
        .into_iter()
        .map(|text_end| {
            let share = text_end - part.text.start;
            WordEnd { text_end, sample: from + (to - from.min(to)) * share / bytes }
        })
        .collect()
}

/// The ends of the words in this part of the text.
fn words_of(text: &str, range: Range<usize>) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut in_word = false;
    for (at, c) in text[range.clone()].char_indices() {
        if c.is_whitespace() {
            if in_word {
                ends.push(range.start + at);
            }
            in_word = false;
        } else {
            in_word = true;
        }
    }
    if in_word {
        ends.push(range.end);
    }
    ends
}

/// The ends of the groups of phonemes that no space parts.
fn groups_of(phonemes: &[char], range: Range<usize>) -> Vec<usize> {
    let mut ends = Vec::new();
    for at in range.clone() {
        let last = at + 1 == range.end || phonemes[at + 1] == ' ';
        if phonemes[at] != ' ' && last {
            ends.push(at + 1);
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::{PartSounds, WordEnd, word_ends};

    fn ends(text: &str, phonemes: &str) -> Vec<(usize, usize)> {
        let phonemes: Vec<char> = phonemes.chars().collect();
        // Every phoneme takes 100 samples.
        let ends: Vec<usize> = (0..=phonemes.len()).map(|n| n * 100).collect();
        let part = PartSounds { phonemes: 0..phonemes.len(), text: 0..text.len() };
        let pair = |end: WordEnd| (end.text_end, end.sample);
        word_ends(text, &part, &phonemes, &ends).into_iter().map(pair).collect()
    }

    #[test]
    fn words_end_with_their_phonemes() {
        assert_eq!(ends("hi there you", "ha de ju"), [(2, 200), (8, 500), (12, 800)]);
    }

    #[test]
    fn words_spoken_as_one_share_the_time_by_their_letters() {
        assert_eq!(ends("of the day", "ovde de"), [(2, 140), (6, 420), (10, 700)]);
    }

    #[test]
    fn nothing_has_no_words() {
        assert_eq!(ends("", ""), []);
        assert_eq!(ends("  ", "a"), []);
    }
}
