//! Reads a provider's own table of the configuration: every wrong key or value answered by name.

use std::time::Duration;

use toml::Value;

use super::BuildError;

/// A provider's table whose keys are all known.
pub struct Keys<'a> {
    table: &'a toml::Table,
}

/// A value that may differ from run to run; the last entry repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct PerRun<T>(Vec<T>);

impl<T> PerRun<T> {
    /// The same value for every run.
    pub fn always(value: T) -> Self {
        PerRun(vec![value])
    }

    /// The value of the run with this number, counted from 0.
    pub fn at(&self, nth: u32) -> &T {
        // Built with at least one entry, here and in `Keys::per_run`.
        &self.0[(nth as usize).min(self.0.len() - 1)]
    }
}

/// What is wrong with a value and what would be right.
pub type Wrong = (String, String);

impl<'a> Keys<'a> {
    /// The table, if it has no key but `provider` and those of `known`.
    pub fn new(table: &'a toml::Table, known: &[&[&'static str]]) -> Result<Keys<'a>, BuildError> {
        let known: Vec<&str> = known.iter().flat_map(|part| part.iter().copied()).collect();
        for key in table.keys() {
            if key != "provider" && !known.contains(&key.as_str()) {
                return Err(BuildError::Config {
                    key: key.clone(),
                    problem: "this key is not known here".into(),
                    right: nearest(key, &known),
                });
            }
        }
        Ok(Keys { table })
    }

    /// The raw value.
    pub fn raw(&self, key: &str) -> Option<&'a Value> {
        self.table.get(key)
    }

    /// One value, parsed; `None` when the key is absent.
    pub fn one<T>(
        &self,
        key: &str,
        parse: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Result<Option<T>, BuildError> {
        self.raw(key).map(|value| parse(value).map_err(|wrong| error(key, wrong))).transpose()
    }

    /// One value, or a list of one a run. An entry `"none"` is as if the key were absent.
    pub fn per_run<T>(
        &self,
        key: &str,
        parse: impl Fn(&Value) -> Result<T, Wrong>,
    ) -> Result<PerRun<Option<T>>, BuildError> {
        let entry = |key: &str, value: &Value| match value {
            Value::String(word) if word == "none" => Ok(None),
            other => parse(other).map(Some).map_err(|wrong| error(key, wrong)),
        };
        match self.raw(key) {
            None => Ok(PerRun::always(None)),
            Some(Value::Array(list)) if list.is_empty() => Err(error(
                key,
                ("the list is empty".into(), "at least one entry, or no key".into()),
            )),
            Some(Value::Array(list)) => list
                .iter()
                .enumerate()
                .map(|(at, value)| entry(&format!("{key}[{at}]"), value))
                .collect::<Result<Vec<_>, _>>()
                .map(PerRun),
            Some(value) => entry(key, value).map(PerRun::always),
        }
    }
}

/// The error for a value of this key.
pub fn error(key: &str, (problem, right): Wrong) -> BuildError {
    BuildError::Config { key: key.into(), problem, right }
}

fn nearest(key: &str, known: &[&str]) -> String {
    let best = known
        .iter()
        .map(|name| (strsim::jaro_winkler(key, name), *name))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        Some((likeness, name)) if likeness > 0.75 => format!("did you mean \"{name}\"?"),
        _ => format!("the keys are: {}", known.join(", ")),
    }
}

fn shown(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > 60 {
        let cut = (0..=60).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    format!("{text} is of no use here")
}

/// A text.
pub fn text(value: &Value) -> Result<String, Wrong> {
    value.as_str().map(str::to_owned).ok_or_else(|| (shown(value), "a string".into()))
}

/// `true` or `false`.
pub fn flag(value: &Value) -> Result<bool, Wrong> {
    value.as_bool().ok_or_else(|| (shown(value), "true or false".into()))
}

/// A span in milliseconds: 0 to one day.
pub fn millis(value: &Value) -> Result<Duration, Wrong> {
    const DAY_MS: u64 = 86_400_000;
    let span = match value {
        Value::Integer(number) => {
            u64::try_from(*number).ok().filter(|&n| n <= DAY_MS).map(Duration::from_millis)
        }
        Value::Float(number) if (0.0..=DAY_MS as f64).contains(number) => {
            Some(Duration::from_micros((number * 1_000.0) as u64))
        }
        _ => None,
    };
    span.ok_or_else(|| (shown(value), format!("milliseconds, 0 to {DAY_MS}")))
}

/// A rate or factor: above 0, at most a million.
pub fn rate(value: &Value) -> Result<f64, Wrong> {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        _ => f64::NAN,
    };
    if (0.001..=1_000_000.0).contains(&number) {
        Ok(number)
    } else {
        Err((shown(value), "a number from 0.001 to 1000000".into()))
    }
}

/// One of these words.
pub fn word<T: Copy>(value: &Value, words: &[(&str, T)]) -> Result<T, Wrong> {
    let found = value.as_str().and_then(|given| words.iter().find(|(name, _)| *name == given));
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<String> = words.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        (shown(value), format!("one of {}", names.join(", ")))
    })
}

/// A table or a string, as JSON text; a string is taken as it is.
pub fn json_text(value: &Value) -> Result<String, Wrong> {
    match value {
        Value::String(text) => Ok(text.clone()),
        other => Ok(to_json(other).to_string()),
    }
}

/// The same value in JSON; a date becomes a string.
pub fn to_json(value: &Value) -> serde_json::Value {
    use serde_json::Value as Json;
    match value {
        Value::String(text) => Json::from(text.as_str()),
        Value::Integer(number) => Json::from(*number),
        Value::Float(number) => Json::from(*number),
        Value::Boolean(flag) => Json::from(*flag),
        Value::Datetime(when) => Json::from(when.to_string()),
        Value::Array(list) => list.iter().map(to_json).collect(),
        Value::Table(table) => {
            table.iter().map(|(key, value)| (key.clone(), to_json(value))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_is_answered_with_the_nearest_one() {
        let table = toml::toml! { frist_token_ms = 3 };
        let wrong = Keys::new(&table, &[&["first_token_ms", "reply"]]).err().map(|e| e.to_string());
        assert_eq!(
            wrong.as_deref(),
            Some("frist_token_ms: this key is not known here; did you mean \"first_token_ms\"?")
        );
    }

    #[test]
    fn a_list_goes_by_run_and_its_last_entry_repeats() {
        let table = toml::toml! { stall_after_ms = [5, "none", 7] };
        let keys = Keys::new(&table, &[&["stall_after_ms"]]).unwrap();
        let list = keys.per_run("stall_after_ms", millis).unwrap();
        let seen: Vec<_> = (0..5).map(|n| list.at(n).map(|d| d.as_millis())).collect();
        assert_eq!(seen, [Some(5), None, Some(7), Some(7), Some(7)]);
    }

    #[test]
    fn a_wrong_entry_of_a_list_is_named() {
        let table = toml::toml! { stall_after_ms = [5, -1] };
        let keys = Keys::new(&table, &[&["stall_after_ms"]]).unwrap();
        let wrong = keys.per_run("stall_after_ms", millis).unwrap_err().to_string();
        assert_eq!(wrong, "stall_after_ms[1]: -1 is of no use here; milliseconds, 0 to 86400000");
    }
}
