//! Who the desk speaks for: its table in the configuration.

use crate::provider::BuildError;

/// What the desk knows of its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persona {
    /// How it introduces itself: "This is …".
    pub name: String,
    /// Opening hours, in whole spoken sentences.
    pub opening_hours: String,
    /// Where it is, in whole spoken sentences.
    pub address: String,
    /// The largest party it takes.
    pub party_max: u32,
}

impl Default for Persona {
    fn default() -> Persona {
        Persona {
            name: "Floorkeeper's front desk".into(),
            opening_hours: "We are open from Tuesday to Sunday. Lunch is from noon to two, \
                            and dinner from half past five to half past nine. \
                            On Mondays we are closed."
                .into(),
            address: "We are at twelve Mill Lane, right beside the old bridge.".into(),
            party_max: 8,
        }
    }
}

const KEYS: [&str; 4] = ["name", "opening_hours", "address", "party_max"];
const WEEK: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
/// Letters of a configured text: a spoken minute is enough.
const MOST_LETTERS: usize = 600;

impl Persona {
    /// Reads the desk's table; keys that are not there keep their defaults.
    pub fn from_table(table: &toml::Table) -> Result<Persona, BuildError> {
        let mut persona = Persona::default();
        for (key, value) in table {
            match key.as_str() {
                "provider" => {}
                "name" => persona.name = text(key, value)?,
                "address" => persona.address = text(key, value)?,
                "opening_hours" => persona.opening_hours = hours(key, value)?,
                "party_max" => persona.party_max = party_max(key, value)?,
                _ => return Err(unknown(key)),
            }
        }
        Ok(persona)
    }
}

fn wrong(key: &str, problem: impl Into<String>, right: impl Into<String>) -> BuildError {
    BuildError::Config { key: key.to_owned(), problem: problem.into(), right: right.into() }
}

fn unknown(key: &str) -> BuildError {
    let distance = |known: &&str| strsim::osa_distance(key, known);
    let nearest = KEYS.iter().copied().min_by_key(distance).unwrap_or("name");
    let all = KEYS.join(", ");
    wrong(key, "no such key", format!("did you mean \"{nearest}\"? There are: {all}"))
}

fn text(key: &str, value: &toml::Value) -> Result<String, BuildError> {
    let words = value.as_str().map(str::trim).unwrap_or_default();
    if words.is_empty() || words.len() > MOST_LETTERS {
        let right = format!("a text of 1 to {MOST_LETTERS} bytes, as it is to be spoken");
        return Err(wrong(key, format!("{} is not such a text", value.type_str()), right));
    }
    Ok(words.to_owned())
}

fn party_max(key: &str, value: &toml::Value) -> Result<u32, BuildError> {
    let most = value.as_integer().and_then(|n| u32::try_from(n).ok());
    most.filter(|n| (1..=99).contains(n))
        .ok_or_else(|| wrong(key, format!("{value} is out of range"), "a whole number, 1 to 99"))
}

/// A text, or a table of weekdays to texts such as "noon to ten" or "closed".
fn hours(key: &str, value: &toml::Value) -> Result<String, BuildError> {
    let Some(week) = value.as_table() else { return text(key, value) };
    if let Some(odd) = week.keys().find(|day| !WEEK.contains(&day.as_str())) {
        return Err(wrong(&format!("{key}.{odd}"), "no such day", WEEK.join(", ")));
    }
    let mut spans: Vec<(usize, usize, String)> = Vec::new();
    for (at, day) in WEEK.iter().enumerate() {
        let Some(value) = week.get(*day) else { continue };
        let open = text(&format!("{key}.{day}"), value)?;
        match spans.last_mut() {
            Some((_, last, same)) if *last + 1 == at && *same == open => *last = at,
            _ => spans.push((at, at, open)),
        }
    }
    if spans.is_empty() {
        return Err(wrong(key, "it names no day", "a text, or a table of weekdays to hours"));
    }
    let sentences = spans.into_iter().map(|(first, last, open)| {
        let day = |at: usize| capital(WEEK[at]);
        let span = match last - first {
            0 => format!("On {}", day(first)),
            _ => format!("From {} to {}", day(first), day(last)),
        };
        match open.as_str() {
            "closed" => format!("{span} we are closed."),
            open => format!("{span} we are open {open}."),
        }
    });
    Ok(sentences.collect::<Vec<_>>().join(" "))
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Result<Persona, BuildError> {
        Persona::from_table(&source.parse().expect("TOML"))
    }

    #[test]
    fn a_week_of_hours_becomes_sentences() {
        let persona = read(
            "party_max = 4\n[opening_hours]\nmonday = \"closed\"\ntuesday = \"noon to ten\"\n\
             wednesday = \"noon to ten\"\nsunday = \"noon to four\"",
        )
        .expect("valid");
        assert_eq!(
            persona.opening_hours,
            "On Monday we are closed. From Tuesday to Wednesday we are open noon to ten. \
             On Sunday we are open noon to four."
        );
        assert_eq!(persona.party_max, 4);
    }

    #[test]
    fn wrong_keys_are_answered_with_what_would_be_right() {
        let message = |source: &str| read(source).expect_err("wrong").to_string();
        assert!(message("adress = \"x\"").contains("did you mean \"address\"?"));
        assert!(message("party_max = 0").contains("1 to 99"));
        assert!(message("name = \"\"").contains("a text of 1 to 600 bytes"));
        assert!(message("name = 3").starts_with("name: integer is not"));
        assert!(message("opening_hours = { munday = \"x\" }").contains("no such day"));
    }
}
