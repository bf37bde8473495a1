//! The caller's name, picked out of what a recogniser wrote.

use super::words::Words;

/// Words that are no part of a name.
const NO_NAME: &[&str] = &[
    "the",
    "a",
    "an",
    "my",
    "name",
    "is",
    "it",
    "under",
    "for",
    "of",
    "in",
    "on",
    "at",
    "to",
    "i",
    "am",
    "this",
    "that",
    "please",
    "yes",
    "yeah",
    "no",
    "not",
    "ok",
    "okay",
    "sure",
    "and",
    "or",
    "put",
    "down",
    "make",
    "be",
    "would",
    "will",
    "can",
    "you",
    "me",
    "we",
    "us",
    "call",
    "called",
    "just",
    "say",
    "so",
    "oh",
    "booked",
    "book",
    "booking",
    "table",
    "reservation",
    "people",
    "what",
    "why",
    "who",
    "when",
    "how",
    "where",
    "hello",
    "hi",
    "hey",
    "thanks",
    "thank",
    "sorry",
    "actually",
    "tomorrow",
    "today",
    "tonight",
    "last",
    "first",
    "surname",
    "do",
    "use",
    "from",
    "evening",
    "good",
    "morning",
    "there",
    "here",
    "new",
    "have",
    "has",
    "was",
    "with",
    "go",
    "quite",
    "very",
    "one",
    "moment",
    "day",
    "after",
    "time",
    "again",
    "mean",
    "said",
    "spelled",
    "spelt",
    "great",
    "fine",
    "looking",
    "calling",
    "mr",
    "mrs",
    "ms",
    "miss",
    "doctor",
    "dr",
    "as",
];

/// A name that was announced: "my name is", "under".
pub fn announced_name(words: &Words) -> Option<String> {
    const ANNOUNCED: &[&str] = &[
        "my name is",
        "the name is",
        "name is",
        "under the name of",
        "under the name",
        "in the name of",
        "under",
        "the name",
        "this is",
        "name of",
        "i am called",
    ];
    let behind = |phrase: &&str| words.find(phrase).map(|at| at + phrase.split(' ').count());
    name_from(words, ANNOUNCED.iter().find_map(behind)?)
}

/// A name that is the answer to a question for it.
pub fn bare_name(words: &Words) -> Option<String> {
    name_from(words, 0)
}

fn name_from(words: &Words, start: usize) -> Option<String> {
    let is_name = |word: &&String| {
        let letters = word.chars().all(|c| c.is_alphabetic() || c == '\'');
        letters && !NO_NAME.contains(&word.as_str())
    };
    if let Some(spelled) = spelled(words, start) {
        return Some(capital(&spelled));
    }
    let found: Vec<&String> = words
        .all()
        .iter()
        .skip(start)
        .skip_while(|word| !is_name(word))
        .take_while(is_name)
        .collect();
    let many: Vec<String> = found.into_iter().take(3).map(|word| capital(word)).collect();
    (!many.is_empty()).then(|| many.join(" "))
}

/// "S M I T H": at least three letters on their own, one behind the other.
fn spelled(words: &Words, start: usize) -> Option<String> {
    let letter =
        |word: &&String| word.chars().all(char::is_alphabetic) && word.chars().count() == 1;
    let letters: String = words
        .all()
        .iter()
        .skip(start)
        .skip_while(|word| !letter(word))
        .take_while(letter)
        .cloned()
        .collect();
    (letters.chars().count() >= 3).then_some(letters)
}

/// "Smith", "O'Brien".
fn capital(word: &str) -> String {
    let mut start = true;
    let letter = |c: char| {
        let large = std::mem::replace(&mut start, c == '\'');
        if large { c.to_uppercase().next().unwrap_or(c) } else { c }
    };
    word.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_and_without_announcement() {
        let announced = |text: &str| announced_name(&Words::of(text));
        let bare = |text: &str| bare_name(&Words::of(text));
        assert_eq!(announced("my name is uh John Smith please").as_deref(), Some("John Smith"));
        assert_eq!(announced("put it under o'brien"), Some("O'Brien".into()));
        assert_eq!(announced("a table for two"), None);
        assert_eq!(bare("It's Smith."), Some("Smith".into()));
        assert_eq!(bare("S M I T H"), Some("Smith".into()));
        assert_eq!(bare("yes"), None);
        assert_eq!(bare("booked 99 tables"), Some("Tables".into()));
    }
}
