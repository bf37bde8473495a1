//! What short answers mean, by language: back-channels, yes and no. Data, and the one way in which
//! words are compared.

use std::borrow::Cow;

/// What a language's short answers mean.
#[derive(Debug)]
pub struct Locale {
    /// The language (BCP 47, its first part).
    pub language: &'static str,
    /// Said without wanting the floor.
    pub backchannels: &'static [&'static str],
    /// Agreement to what was asked.
    pub yes: &'static [&'static str],
    /// Refusal of what was asked.
    pub no: &'static [&'static str],
    /// Asks to be rung.
    pub callback: &'static [&'static str],
    /// Said around a yes or a no without changing it.
    pub padding: &'static [&'static str],
    /// Last words behind which more is to come.
    pub unfinished: &'static [&'static str],
}

/// Sounds that are no words, in any language: what recognisers make of a hum.
pub const HUMS: [&str; 18] = [
    "uh", "um", "ah", "eh", "oh", "er", "hm", "hmm", "mm", "mmm", "mhm", "huh", "hum", "u", "m",
    "ha", "ooh", "aha",
];

/// The languages known; the first stands for every other one.
pub const LOCALES: [Locale; 3] = [
    Locale {
        language: "en",
        backchannels: &[
            "mm-hmm", "mhm", "mmm", "hmm", "uh-huh", "yeah", "yes", "okay", "ok", "right", "sure",
            "i see", "aha",
        ],
        yes: &[
            "yes",
            "yeah",
            "yep",
            "yup",
            "sure",
            "okay",
            "ok",
            "correct",
            "right",
            "please do",
            "go ahead",
            "do it",
            "do that",
            "that's right",
            "that works",
            "sounds good",
            "i do",
            "absolutely",
            "of course",
            "definitely",
            "please",
        ],
        no: &[
            "no",
            "nope",
            "nah",
            "not",
            "don't",
            "do not",
            "never",
            "wait",
            "stop",
            "cancel",
            "hold on",
            "rather not",
        ],
        callback: &[
            "call me back",
            "call me",
            "ring me",
            "call back",
            "return call",
            "callback",
            "phone me",
        ],
        padding: &[
            "that",
            "thank you",
            "thanks",
            "that is",
            "is",
            "fine",
            "great",
            "perfect",
            "it",
        ],
        unfinished: &[
            "and", "or", "but", "so", "because", "the", "a", "an", "to", "for", "with", "of", "at",
            "in", "on", "my", "um", "uh", "er", "like", "if", "that", "is", "i", "we", "from",
        ],
    },
    Locale {
        language: "de",
        backchannels: &[
            "mm-hmm", "mhm", "hm", "aha", "ja", "okay", "ok", "genau", "gut", "klar", "ach so",
            "verstehe",
        ],
        yes: &[
            "ja",
            "jawohl",
            "genau",
            "gerne",
            "gern",
            "klar",
            "okay",
            "ok",
            "richtig",
            "stimmt",
            "bitte",
            "einverstanden",
            "natürlich",
            "auf jeden fall",
            "machen sie das",
            "in ordnung",
        ],
        no: &["nein", "nee", "nö", "nicht", "kein", "keine", "niemals", "halt", "stopp", "moment"],
        callback: &["rufen sie mich", "rückruf", "zurückrufen", "ruf mich", "rufen sie zurück"],
        padding: &["danke", "das", "ist", "gut", "so", "dann", "es", "passt"],
        unfinished: &[
            "und", "oder", "aber", "weil", "der", "die", "das", "ein", "eine", "einen", "zu",
            "für", "mit", "von", "am", "im", "in", "um", "äh", "ähm", "also", "dass", "wenn",
            "ich", "wir",
        ],
    },
    Locale {
        language: "es",
        backchannels: &[
            "mm-hmm", "mhm", "ajá", "sí", "vale", "claro", "ok", "okay", "bueno", "ya", "entiendo",
        ],
        yes: &[
            "sí",
            "si",
            "claro",
            "vale",
            "por supuesto",
            "de acuerdo",
            "correcto",
            "exacto",
            "ok",
            "okay",
            "por favor",
            "adelante",
            "está bien",
            "hágalo",
        ],
        no: &["no", "nunca", "jamás", "espere", "espera", "pare", "para", "tampoco"],
        callback: &["llámeme", "llamarme", "devuélvame", "que me llamen", "la llamada"],
        padding: &["gracias", "muchas gracias", "eso", "es", "muy bien", "perfecto", "que"],
        unfinished: &[
            "y", "o", "pero", "porque", "el", "la", "los", "las", "un", "una", "a", "para", "con",
            "de", "en", "mi", "eh", "este", "que", "si", "yo",
        ],
    },
];

/// A language's words: those of its first part, as `de` of `de-AT`.
pub fn locale(language: &str) -> &'static Locale {
    let main = language.split(['-', '_']).next().unwrap_or_default();
    LOCALES.iter().find(|known| known.language.eq_ignore_ascii_case(main)).unwrap_or(&LOCALES[0])
}

/// What a caller answers to a question that can be answered with yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Agreement and nothing else.
    Yes,
    /// Refusal, or anything with a refusal in it.
    No,
    /// Anything else: also a yes with a condition.
    Other,
}

/// Reads an answer to a question. Agreement counts only when nothing but agreement was said: "yes,
/// but for three" agrees to nothing.
pub fn reply(words: &str, language: &str) -> Reply {
    let (locale, said) = (locale(language), normalise(words));
    if contains_any(&said, locale.no) {
        return Reply::No;
    }
    let rest = without(&said, locale.yes);
    let agreed = rest.len() < said.len();
    match agreed && without(&rest, locale.padding).is_empty() {
        true => Reply::Yes,
        false => Reply::Other,
    }
}

/// The caller asks to be called back, and does not say no.
pub fn wants_callback(words: &str, language: &str) -> bool {
    let (locale, said) = (locale(language), normalise(words));
    contains_any(&said, locale.callback) && !contains_any(&said, locale.no)
}

/// All of these words are phrases of the list, and there is at least one.
pub fn is_only(words: &str, phrases: impl Iterator<Item = impl AsRef<str>> + Clone) -> bool {
    let mut rest = normalise(words);
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let known = phrases.clone().map(|phrase| normalise(phrase.as_ref())).find(|phrase| {
            rest.strip_prefix(phrase.as_str()).is_some_and(|r| r.is_empty() || r.starts_with(' '))
        });
        let Some(known) = known else { return false };
        rest = rest[known.len()..].trim_start().to_owned();
    }
    true
}

/// Lower case, letters and digits only, single spaces.
pub fn normalise(words: &str) -> String {
    let kept = |c: char| match c {
        '\'' | '’' => None,
        c if c.is_alphanumeric() => Some(Cow::Owned(c.to_lowercase().collect::<String>())),
        _ => Some(Cow::Borrowed(" ")),
    };
    let cleaned: String = words.chars().filter_map(kept).collect();
    cleaned.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn contains_any(said: &str, phrases: &[&str]) -> bool {
    let padded = format!(" {said} ");
    phrases.iter().any(|phrase| padded.contains(&format!(" {} ", normalise(phrase))))
}

/// What is left when every phrase of the list is taken out, the longest first.
fn without(said: &str, phrases: &[&str]) -> String {
    let mut longest: Vec<String> = phrases.iter().map(|phrase| normalise(phrase)).collect();
    longest.sort_by_key(|phrase| std::cmp::Reverse(phrase.len()));
    let mut rest = format!(" {said} ");
    for phrase in longest {
        let wanted = format!(" {phrase} ");
        while let Some(at) = rest.find(&wanted) {
            rest.replace_range(at..at + wanted.len(), " ");
        }
    }
    rest.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yes_is_a_yes_only_when_nothing_else_was_said() {
        for yes in ["Yes.", "yeah, sure", "Okay, go ahead please!", "That's right, thank you."] {
            assert_eq!(reply(yes, "en"), Reply::Yes, "{yes}");
        }
        for other in ["yes, but for three", "maybe", "", "what does it cost", "thanks"] {
            assert_eq!(reply(other, "en"), Reply::Other, "{other}");
        }
        for no in ["No.", "No thanks, yes I know", "please don't", "yes... no wait"] {
            assert_eq!(reply(no, "en"), Reply::No, "{no}");
        }
    }

    #[test]
    fn the_other_languages_have_words_of_their_own() {
        assert_eq!(reply("Ja, gerne!", "de-AT"), Reply::Yes);
        assert_eq!(reply("NÖ", "de"), Reply::No);
        assert_eq!(reply("Sí, por favor.", "es_MX"), Reply::Yes);
        assert_eq!(reply("yes", "fr"), Reply::Yes, "an unknown language is read as the first one");
        assert!(is_only("Ach so, GENAU", locale("de").backchannels.iter()));
        assert!(!is_only("genau, stopp", locale("de").backchannels.iter()));
    }

    #[test]
    fn words_are_compared_without_case_signs_and_spaces() {
        assert_eq!(normalise("  Ähm — that's   IT! "), "ähm thats it");
    }
}
