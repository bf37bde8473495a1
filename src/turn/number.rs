//! A telephone number as callers say it: digits, in words or in figures.

use super::words::{locale, normalise};

/// Fewest digits of a number that somebody can be rung at.
const DIGITS_MIN: usize = 7;
/// Most digits of a number (E.164).
const DIGITS_MAX: usize = 15;

const EN: [&str; 10] =
    ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
const DE: [&str; 10] =
    ["null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun"];
const ES: [&str; 10] =
    ["cero", "uno", "dos", "tres", "cuatro", "cinco", "seis", "siete", "ocho", "nueve"];
/// Other words for digits.
const ALSO: [(&str, char); 5] = [("oh", '0'), ("o", '0'), ("zwo", '2'), ("ein", '1'), ("un", '1')];
/// Said before a digit that comes so often.
const TIMES: [(&str, usize); 6] =
    [("double", 2), ("triple", 3), ("doppel", 2), ("dreifach", 3), ("doble", 2), ("triple", 3)];
/// The sign in front of a country's code.
const PLUS: [&str; 3] = ["plus", "más", "mas"];

/// The one number in what was said: `+` and digits, or digits alone. `None` when there is none, or
/// the digits are too few or too many for one.
pub fn in_words(said: &str, language: &str) -> Option<String> {
    let names = match locale(language).language {
        "de" => DE,
        "es" => ES,
        _ => EN,
    };
    let (mut number, mut times) = (String::new(), 1);
    // A sign in front of figures would be lost with the other signs.
    let said = normalise(&said.replace('+', " plus "));
    for word in said.split(' ') {
        if let Some((_, count)) = TIMES.iter().find(|(name, _)| *name == word) {
            times = *count;
        } else if PLUS.contains(&word) && number.is_empty() {
            number.push('+');
        } else if let Some(digit) = digit(word, &names) {
            number.extend(std::iter::repeat_n(digit, times));
            times = 1;
        } else if word.chars().all(|c| c.is_ascii_digit()) {
            number.push_str(word);
        }
    }
    let digits = number.trim_start_matches('+').len();
    (DIGITS_MIN..=DIGITS_MAX).contains(&digits).then_some(number)
}

fn digit(word: &str, names: &[&str; 10]) -> Option<char> {
    let named = (b'0'..=b'9').map(char::from).zip(names).find(|(_, name)| **name == word);
    named
        .map(|(digit, _)| digit)
        .or_else(|| ALSO.iter().find(|(name, _)| *name == word).map(|(_, digit)| *digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_words_and_figures() {
        for (said, language, number) in [
            ("It's five five five, oh one double zero.", "en", "5550100"),
            ("+1 555 555 0100", "en", "+15555550100"),
            ("plus one, 555-555-0100 please", "en", "+15555550100"),
            ("null drei null zwo drei eins zwei fünf null", "de", "030231250"),
            ("más tres cuatro nueve uno dos tres cuatro cinco seis siete", "es", "+3491234567"),
            ("Keys pressed: 5550100#", "en", "5550100"),
        ] {
            assert_eq!(in_words(said, language).as_deref(), Some(number), "{said}");
        }
    }

    #[test]
    fn too_few_or_too_many_digits_are_no_number() {
        for said in ["yes", "one two three", "for two people at seven", &"9 ".repeat(20)] {
            assert_eq!(in_words(said, "en"), None, "{said}");
        }
    }
}
