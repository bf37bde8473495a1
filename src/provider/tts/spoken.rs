//! Text as it can be spoken: without what only eyes or markup readers need, cut into clauses.
//!
//! Everything that is taken out is replaced by as many spaces as it had bytes, so that a place in
//! the clean text is the same place in the phrase it came from.

use std::ops::Range;

/// Longest clause, in bytes; longer ones are cut at a space.
const CLAUSE_MAX: usize = 240;
/// A comma cuts only after this much, in bytes, and before as much: very short clauses sound
/// chopped.
const CLAUSE_MIN: usize = 12;
/// Words whose full stop ends no sentence.
const ABBREVIATIONS: [&str; 14] =
    ["mr", "mrs", "ms", "dr", "st", "prof", "jr", "sr", "vs", "etc", "no", "e.g", "i.e", "approx"];

/// A stretch of text that is spoken in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clause {
    /// Its parts, in order: what lies between two marks.
    pub(super) parts: Vec<Part>,
}

/// Words up to a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// Where the words are in the text.
    pub(super) words: Range<usize>,
    /// The mark that follows them: one of `. ! ? , ; :`.
    pub(super) mark: char,
}

/// The text without control characters, markup, phoneme escapes, emphasis signs and pictures.
pub(super) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let gone = match c {
            '<' => tag_length(rest),
            '&' => entity_length(rest),
            // espeak-ng reads [[...]] as phonemes.
            '[' | ']' | '{' | '}' | '`' | '|' | '\\' => 1,
            '*' | '_' | '~' if is_emphasis(&text[..at], c, &rest[1..]) => 1,
            '#' if is_heading(&out, &rest[1..]) => 1,
            c if unspeakable(c) => c.len_utf8(),
            _ => 0,
        };
        if gone == 0 {
            out.push(c);
            at += c.len_utf8();
        } else {
            out.extend(std::iter::repeat_n(' ', gone));
            at += gone;
        }
    }
    out
}

/// Length of a tag at the start, or 0.
fn tag_length(text: &str) -> usize {
    let opens = text[1..].starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c));
    match text.find('>') {
        Some(end) if opens => end + 1,
        _ => 0,
    }
}

/// Length of an XML entity at the start, or 0.
fn entity_length(text: &str) -> usize {
    match text.find(';') {
        Some(end @ 2..=8)
            if text[1..end].chars().all(|c| c.is_ascii_alphanumeric() || c == '#') =>
        {
            end + 1
        }
        _ => 0,
    }
}

/// A sign that touches a word or its own kind marks emphasis; one that stands alone is a word
/// ("press *").
fn is_emphasis(before: &str, sign: char, after: &str) -> bool {
    let touches = |c: char| c.is_alphanumeric() || c == sign;
    after.starts_with(touches) || before.ends_with(touches)
}

/// A number sign before anything else of a line; "#1" is a number.
fn is_heading(before: &str, after: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap_or_default();
    line.trim().is_empty() && !after.starts_with(char::is_alphanumeric)
}

fn unspeakable(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{2300}'..='\u{23ff}' | '\u{2500}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}'
            | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{fff0}'..='\u{ffff}'
            | '\u{1f000}'..='\u{1faff}' | '\u{e0000}'..='\u{10ffff}')
}

/// The clauses of a clean text, without those that have nothing to say.
pub(super) fn clauses(text: &str) -> Vec<Clause> {
    let mut clauses = Vec::new();
    let mut parts: Vec<Part> = Vec::new();
    let mut start = 0;
    let mut clause_start = 0;
    let mut push = |parts: &mut Vec<Part>| {
        if !parts.is_empty() {
            clauses.push(Clause { parts: std::mem::take(parts) });
        }
    };
    while start < text.len() {
        let (end, mark, next) = part_end(text, start);
        let words = trimmed(text, start..end);
        if text[words.clone()].contains(char::is_alphanumeric) {
            parts.push(Part { words, mark });
        }
        let long = next - clause_start >= CLAUSE_MIN && text.len() - next >= CLAUSE_MIN;
        if matches!(mark, '.' | '!' | '?') || long {
            push(&mut parts);
            clause_start = next;
        }
        start = next;
    }
    push(&mut parts);
    clauses
}

/// Where the part that begins here ends, the mark there, and where the next part begins.
fn part_end(text: &str, start: usize) -> (usize, char, usize) {
    let mut last_space = None;
    for (at, c) in text[start..].char_indices() {
        let at = start + at;
        let after = at + c.len_utf8();
        if at - start >= CLAUSE_MAX {
            let cut = last_space.unwrap_or(at);
            return (cut, ',', cut);
        }
        if c.is_whitespace() {
            last_space = Some(at);
        }
        let mark = match c {
            '.' if ends_sentence(text, start, at) => '.',
            '!' | '?' | ';' => c,
            ',' | ':' if parts_words(text, after) => c,
            '\u{2026}' => '.',
            '\u{2013}' | '\u{2014}' => ',',
            '-' if text[..at].ends_with(' ') && text[after..].starts_with(' ') => ',',
            '\n' => '.',
            _ => continue,
        };
        // Marks come in heaps ("?!", "...", ".)"): the first one decides.
        let heap = text[after..].find(|c: char| !".!?,;:\u{2026}\"')\u{201d}\u{2019}".contains(c));
        return (at, mark, heap.map_or(text.len(), |heap| after + heap));
    }
    (text.len(), '.', text.len())
}

/// Not inside a number or a time, and not before more of the same word.
fn parts_words(text: &str, after: usize) -> bool {
    text[after..].chars().next().is_none_or(|c| !c.is_alphanumeric())
}

fn ends_sentence(text: &str, start: usize, at: usize) -> bool {
    if !parts_words(text, at + 1) {
        return false;
    }
    let word = text[start..at].rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let more = text[at + 1..].trim_start().starts_with(char::is_alphanumeric);
    let initial = word.chars().count() == 1 && word.chars().all(char::is_alphabetic) && word != "i";
    !(more && (ABBREVIATIONS.contains(&word.as_str()) || initial))
}

fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let part = &text[range.clone()];
    let from = range.start + (part.len() - part.trim_start().len());
    from..(from + part.trim().len())
}

#[cfg(test)]
mod tests {
    use super::{clauses, clean};

    /// Clauses with their marks, parted by `/`, parts by `|`.
    fn cut(text: &str) -> String {
        let clause = |clause: super::Clause| {
            let part = |part: &super::Part| format!("{}{}", &text[part.words.clone()], part.mark);
            clause.parts.iter().map(part).collect::<Vec<_>>().join("|")
        };
        clauses(text).into_iter().map(clause).collect::<Vec<_>>().join("/")
    }

    #[test]
    fn sentences_are_clauses_and_short_openings_stay_with_what_follows() {
        assert_eq!(cut("Sure, I can help with that."), "Sure,|I can help with that.");
        assert_eq!(
            cut("I looked at the calendar, and Tuesday is free. Is that all right?"),
            "I looked at the calendar,/and Tuesday is free./Is that all right?"
        );
    }

    #[test]
    fn numbers_abbreviations_and_initials_are_not_torn_apart() {
        assert_eq!(cut("It is 3.5 of 1,000 at 10:30."), "It is 3.5 of 1,000 at 10:30.");
        assert_eq!(cut("Dr. J. Smith is in."), "Dr. J. Smith is in.");
        assert_eq!(cut("It is I. Stop."), "It is I./Stop.");
    }

    #[test]
    fn heaps_of_marks_count_once_and_lone_marks_say_nothing() {
        assert_eq!(cut("Really?! (Yes...) \"No.\""), "Really?/(Yes./\"No.");
        assert_eq!(cut("... ! -- ?"), "");
        assert_eq!(cut(""), "");
    }

    #[test]
    fn a_text_without_marks_is_cut_at_a_space() {
        let text = "word ".repeat(120);
        let all = clauses(&text);
        assert!(all.len() >= 3);
        for clause in &all {
            let words = &text[clause.parts[0].words.clone()];
            assert!(words.len() <= 240 && words.starts_with("word") && words.ends_with("word"));
        }
    }

    #[test]
    fn what_cannot_be_spoken_becomes_spaces_and_places_stay() {
        let text =
            "Say <break time=\"9s\"/>[[h@loU]] **hi** \u{1f600}\u{7} to a_b &amp; you\u{200b}.";
        let clean = clean(text);
        assert_eq!(clean.len(), text.len());
        assert_eq!(
            clean.split_whitespace().collect::<Vec<_>>().join(" "),
            "Say h@loU hi to a b you ."
        );
        assert_eq!(clean.find("hi"), text.find("hi"));
    }

    #[test]
    fn comparison_signs_and_a_star_on_its_own_are_words() {
        assert_eq!(
            clean("3 < 5 > 2, press * or # now & then"),
            "3 < 5 > 2, press * or # now & then"
        );
        assert_eq!(clean("# Title").trim(), "Title");
    }

    #[test]
    fn nothing_panics_on_odd_text() {
        for text in [
            "<",
            "<a",
            "&",
            "&#",
            "*",
            "[[",
            "\u{e9}.",
            "\u{2026}",
            "a\u{301}, b",
            "\n\n",
            "&\u{e9}bc;",
        ] {
            let clean = clean(text);
            assert_eq!(clean.len(), text.len(), "{text:?}");
            let _ = clauses(&clean);
        }
    }
}
