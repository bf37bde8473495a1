//! What a recogniser wrote, as plain words: no case, no punctuation, no fillers, numbers in digits.

use std::sync::LazyLock;

use text2num::{Language, replace_numbers_in_text};

/// Words of one utterance that are looked at; the rest of a monologue is not.
const MOST_WORDS: usize = 120;
/// Letters of one word that are kept.
const MOST_LETTERS: usize = 24;

static ENGLISH: LazyLock<Language> = LazyLock::new(Language::english);

const FILLERS: &[&str] = &[
    "um",
    "umm",
    "uh",
    "uhm",
    "uhh",
    "erm",
    "er",
    "err",
    "hmm",
    "hm",
    "mm",
    "ah",
    "eh",
    "ehm",
    "like",
    "well",
    "basically",
    "kindly",
];

/// Short forms and their long ones, so that a phrase is written once.
const LONG_FORMS: &[(&str, &str)] = &[
    ("i'd", "i would"),
    ("i'm", "i am"),
    ("i'll", "i will"),
    ("i've", "i have"),
    ("we'd", "we would"),
    ("we're", "we are"),
    ("we'll", "we will"),
    ("you're", "you are"),
    ("what's", "what is"),
    ("where's", "where is"),
    ("who's", "who is"),
    ("how's", "how is"),
    ("that's", "that is"),
    ("it's", "it is"),
    ("it'll", "it will"),
    ("there's", "there is"),
    ("don't", "do not"),
    ("didn't", "did not"),
    ("doesn't", "does not"),
    ("isn't", "is not"),
    ("can't", "can not"),
    ("cannot", "can not"),
    ("couldn't", "could not"),
    ("won't", "will not"),
    ("let's", "let us"),
    ("o'clock", "oclock"),
    ("gonna", "going to"),
    ("wanna", "want to"),
    ("gimme", "give me"),
    ("nevermind", "never mind"),
    ("mhm", "yes"),
    ("mm-hmm", "yes"),
    ("mmhmm", "yes"),
    ("uh-huh", "yes"),
    ("uh-uh", "no"),
];

/// The words of one utterance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    all: Vec<String>,
    /// A bit for each first letter: most phrases are ruled out by it.
    firsts: u64,
}

impl Words {
    /// Reads what a recogniser wrote.
    pub fn of(text: &str) -> Words {
        let mut plain = Vec::new();
        for raw in text.split_whitespace().take(MOST_WORDS) {
            push_plain(raw, &mut plain);
        }
        let joined = plain.join(" ");
        let counted = replace_numbers_in_text(&joined, &*ENGLISH, 0.0);
        let all: Vec<String> = counted.split_whitespace().map(str::to_owned).collect();
        let firsts = all.iter().fold(0, |firsts, word| firsts | first_bit(word));
        Words { all, firsts }
    }

    /// The words.
    pub fn all(&self) -> &[String] {
        &self.all
    }

    /// The word at a place, or nothing.
    pub fn at(&self, place: usize) -> &str {
        self.all.get(place).map_or("", String::as_str)
    }

    /// Nothing was said.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Where this phrase begins, allowing for slips in its longer words.
    pub fn find(&self, phrase: &str) -> Option<usize> {
        if self.firsts & first_bit(phrase) == 0 {
            return None;
        }
        let fits = |at: usize| {
            phrase.split(' ').enumerate().all(|(step, wanted)| near(self.at(at + step), wanted))
        };
        (0..self.all.len()).find(|at| fits(*at))
    }

    /// The phrase was said.
    pub fn says(&self, phrase: &str) -> bool {
        self.find(phrase).is_some()
    }

    /// One of the phrases was said.
    pub fn says_any(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.says(phrase))
    }

    /// One of the phrases is all that was said.
    pub fn is_any(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| {
            phrase.split(' ').count() == self.all.len() && self.find(phrase) == Some(0)
        })
    }
}

fn first_bit(word: &str) -> u64 {
    word.bytes().next().map_or(0, |byte| 1 << (byte & 63))
}

/// A slip of the recogniser is forgiven in long words: one letter from six, two from nine.
pub fn near(said: &str, wanted: &str) -> bool {
    if said == wanted {
        return true;
    }
    let most = match wanted.len() {
        0..=5 => return false,
        6..=8 => 1,
        _ => 2,
    };
    said.as_bytes().first() == wanted.as_bytes().first()
        && said.len().abs_diff(wanted.len()) <= most
        && strsim::osa_distance(said, wanted) <= most
}

/// The same words, for comparing what was heard with what was said.
pub fn bare(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

fn push_plain(raw: &str, plain: &mut Vec<String>) {
    let lower = raw.to_lowercase().replace('\u{2019}', "'");
    let trimmed = lower.trim_matches(|c: char| !c.is_alphanumeric());
    match trimmed {
        "p.m" => return plain.push("pm".into()),
        "a.m" => return plain.push("am".into()),
        _ => {}
    }
    if let Some((_, long)) = LONG_FORMS.iter().find(|(short, _)| *short == trimmed) {
        return plain.extend(long.split(' ').map(str::to_owned));
    }
    for part in trimmed.split(|c: char| !(c.is_alphanumeric() || ":.'".contains(c))) {
        let (digits, rest) = half_of_day(part);
        for word in [digits, rest] {
            let word = word.trim_matches('\'');
            let word = word.strip_suffix("'s").unwrap_or(word);
            let keep: String = word.chars().take(MOST_LETTERS).collect();
            let keep = if keep.starts_with(|c: char| c.is_ascii_digit()) {
                keep.trim_end_matches(['.', ':']).replace('.', ":")
            } else {
                keep.replace(['.', ':'], "")
            };
            if !keep.is_empty() && !FILLERS.contains(&keep.as_str()) {
                plain.push(keep);
            }
        }
    }
}

/// `7pm` and `7:30p.m` as two words.
fn half_of_day(word: &str) -> (&str, &str) {
    let digits = word.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.'));
    match digits {
        Some(at) if at > 0 && matches!(&word[at..], "pm" | "am" | "p.m" | "a.m") => {
            word.split_at(at)
        }
        _ => (word, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> String {
        Words::of(text).all().join(" ")
    }

    #[test]
    fn plain_words_and_digits() {
        assert_eq!(
            words("Um, I'd like a table for FOUR!"),
            "i would a table for 4",
            "\"like\" is a filler"
        );
        assert_eq!(words("half-past seven p.m."), "half past 7 pm");
        assert_eq!(words("at 7:30pm"), "at 7:30 pm");
        assert_eq!(words("7.30"), "7:30");
        assert_eq!(words("the twenty-first of June"), "the 21st of june");
        assert_eq!(words("it\u{2019}s eight o\u{2019}clock"), "it is 8 oclock");
        assert_eq!(words("mm-hmm"), "yes");
        assert_eq!(words("... ?! —"), "");
    }

    #[test]
    fn slips_are_forgiven_in_long_words_only() {
        assert!(Words::of("make a reservasion").says("reservation"));
        assert!(Words::of("what are your openning hours").says("opening hours"));
        assert!(!Words::of("I am cooking").says("booking"));
        assert!(!Words::of("look").says("book"));
    }
}
