//! Word error rate: how far a transcript is from what was said, with numbers spelled one way.

/// Words that must be changed, added or removed to make `hypothesis` from `reference`, and how many
/// words `reference` has. Case, punctuation and the spelling of numbers do not count.
///
/// ```
/// use floorkeeper::cli::wer::word_errors;
/// assert_eq!(word_errors("Press one, please.", "press 1 please"), (0, 3));
/// assert_eq!(word_errors("one two three", "one three"), (1, 3));
/// ```
pub fn word_errors(reference: &str, hypothesis: &str) -> (usize, usize) {
    let wanted = words(reference);
    let got = words(hypothesis);
    (distance(&wanted, &got), wanted.len())
}

/// The words of a text: lower case, without punctuation, every digit spelled out.
fn words(text: &str) -> Vec<String> {
    let lower = text.to_lowercase().replace('\u{2019}', "'");
    let lower = without_thousands_commas(&lower);
    let mut words = Vec::new();
    for raw in lower.split(|c: char| !(c.is_alphanumeric() || c == '\'')) {
        let word = raw.trim_matches('\'');
        if word.is_empty() {
            continue;
        }
        spell(word, &mut words);
    }
    words
}

fn without_thousands_commas(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let digit =
        |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(char::is_ascii_digit);
    let parts_digits = |at: usize| digit(at.checked_sub(1)) && digit(Some(at + 1));
    let kept = chars.iter().enumerate().filter(|(at, c)| **c != ',' || !parts_digits(*at));
    kept.map(|(_, c)| *c).collect()
}

/// Splits a word into runs of digits and of letters, and spells the former.
fn spell(word: &str, words: &mut Vec<String>) {
    let mut rest = word;
    while let Some(first) = rest.chars().next() {
        let digits = first.is_ascii_digit();
        let end = rest.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        if digits {
            number(run, words);
        } else {
            words.extend(plain(run));
        }
    }
}

/// Spellings that are the same word to the ear.
fn plain(word: &str) -> Vec<String> {
    let same: &[&str] = match word {
        "mr" => &["mister"],
        "mrs" => &["missus"],
        "ok" => &["okay"],
        "oh" | "o" => &["zero"],
        "pm" => &["p", "m"],
        "am" => &["a", "m"],
        "cannot" => &["can", "not"],
        "voicemail" => &["voice", "mail"],
        "th" | "st" | "nd" | "rd" => &[],
        _ => return vec![word.to_owned()],
    };
    same.iter().map(|word| (*word).to_owned()).collect()
}

const ONES: [&str; 20] = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
];
const TENS: [&str; 10] =
    ["", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"];

/// Up to 99 as a number, a round hundred or thousand as such, everything else digit by digit, as
/// numbers are said on a telephone.
fn number(digits: &str, words: &mut Vec<String>) {
    let value: Option<usize> = if digits.starts_with('0') { None } else { digits.parse().ok() };
    let mut say = |word: &str| words.push(word.to_owned());
    match value {
        Some(value @ 0..=19) => say(ONES[value]),
        Some(value @ 20..=99) => {
            say(TENS[value / 10]);
            if value % 10 != 0 {
                say(ONES[value % 10]);
            }
        }
        Some(value) if value < 1_000 && value % 100 == 0 => {
            say(ONES[value / 100]);
            say("hundred");
        }
        Some(value) if value < 20_000 && value % 1_000 == 0 => {
            say(ONES[value / 1_000]);
            say("thousand");
        }
        _ => digits.bytes().for_each(|digit| say(ONES[usize::from(digit - b'0')])),
    }
}

/// Levenshtein distance over words, one row at a time.
fn distance(wanted: &[String], got: &[String]) -> usize {
    let mut row: Vec<usize> = (0..=got.len()).collect();
    for (i, word) in wanted.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in got.iter().enumerate() {
            let change = diagonal + usize::from(word != other);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[got.len()]
}

#[cfg(test)]
mod tests {
    use super::word_errors;

    #[test]
    fn numbers_are_the_same_however_they_are_spelled() {
        assert_eq!(word_errors("twenty one", "21"), (0, 2));
        assert_eq!(word_errors("two nine three four zero", "29340"), (0, 5));
        assert_eq!(word_errors("three hundred", "300"), (0, 2));
        assert_eq!(word_errors("forty six six oh seven five six", "46 60756"), (0, 7));
        assert_eq!(word_errors("nine thousand", "9,000"), (0, 2));
    }

    #[test]
    fn every_kind_of_error_counts_once() {
        assert_eq!(word_errors("a b c d", "a x c d"), (1, 4));
        assert_eq!(word_errors("a b c d", "a b c d e"), (1, 4));
        assert_eq!(word_errors("a b c d", "b d"), (2, 4));
        assert_eq!(word_errors("a b", ""), (2, 2));
        assert_eq!(word_errors("", "a b"), (2, 0));
    }

    #[test]
    fn punctuation_case_and_apostrophes_do_not_count() {
        assert_eq!(
            word_errors("I'm sorry; that's NOT right", "i\u{2019}m sorry that's not right."),
            (0, 5)
        );
    }
}
