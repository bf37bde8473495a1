//! Reads a local provider's own table of the configuration, and says what would be right.

use std::ops::RangeInclusive;

use super::BuildError;

/// Refuses every key but these.
pub(super) fn only(table: &toml::Table, known: &[&str]) -> Result<(), BuildError> {
    let Some(key) = table.keys().find(|key| !known.contains(&key.as_str())) else {
        return Ok(());
    };
    let near = known.iter().filter(|name| strsim::damerau_levenshtein(name, key) <= 2);
    let right = match (near.min_by_key(|name| strsim::damerau_levenshtein(name, key)), known) {
        (Some(name), _) => format!("did you mean \"{name}\"?"),
        (None, []) => "leave it out: there is nothing to configure".to_owned(),
        (None, known) => format!("the keys are: {}", known.join(", ")),
    };
    Err(BuildError::Config { key: key.clone(), problem: "there is no such key".into(), right })
}

/// A whole number within a range.
pub(super) fn count(
    table: &toml::Table,
    key: &str,
    range: RangeInclusive<usize>,
    default: usize,
) -> Result<usize, BuildError> {
    let Some(value) = table.get(key) else { return Ok(default) };
    let count = value.as_integer().and_then(|count| usize::try_from(count).ok());
    count.filter(|count| range.contains(count)).ok_or_else(|| BuildError::Config {
        key: key.to_owned(),
        problem: format!("{value} is not possible"),
        right: format!("a whole number from {} to {}", range.start(), range.end()),
    })
}

/// Text that is not empty, where the key is given.
pub(super) fn text(table: &toml::Table, key: &str) -> Result<Option<String>, BuildError> {
    let Some(value) = table.get(key) else { return Ok(None) };
    match value.as_str() {
        Some(text) if !text.is_empty() => Ok(Some(text.to_owned())),
        _ => Err(BuildError::Config {
            key: key.to_owned(),
            problem: format!("{value} is not possible"),
            right: "text in quotes".into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::{BuildError, count, only, text};

    fn table(text: &str) -> toml::Table {
        text.parse().expect("TOML")
    }

    #[test]
    fn a_misspelled_key_is_answered_with_the_right_one() {
        let Err(BuildError::Config { key, right, .. }) =
            only(&table("sesions = 2"), &["sessions", "voice"])
        else {
            panic!("accepted");
        };
        assert_eq!((key.as_str(), right.as_str()), ("sesions", "did you mean \"sessions\"?"));
        assert_eq!(only(&table("voice = \"joe\""), &["sessions", "voice"]), Ok(()));
    }

    #[test]
    fn a_count_is_within_its_range_or_an_error_that_names_it() {
        assert_eq!(count(&table(""), "sessions", 1..=16, 2), Ok(2));
        assert_eq!(count(&table("sessions = 16"), "sessions", 1..=16, 2), Ok(16));
        for wrong in ["sessions = 0", "sessions = 17", "sessions = -1", "sessions = \"2\""] {
            let error = count(&table(wrong), "sessions", 1..=16, 2).expect_err(wrong);
            assert!(error.to_string().contains("a whole number from 1 to 16"), "{error}");
        }
    }

    #[test]
    fn text_is_text() {
        assert_eq!(text(&table("voice = \"joe\""), "voice"), Ok(Some("joe".into())));
        assert!(text(&table("voice = 1"), "voice").is_err());
        assert!(text(&table("voice = \"\""), "voice").is_err());
    }
}
