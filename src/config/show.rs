//! Shows every value with its source.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use toml::Value;

use super::raw::{Origin, Source};

/// One value in force and where it comes from.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The value.
    pub value: Value,
    /// Where it was written.
    pub origin: Origin,
    /// The key it was written as, where another speaks for this one.
    pub written_as: String,
}

/// Where every value comes from.
///
/// Equal to any other: where a value comes from is no part of what a configuration means.
#[derive(Clone, Debug, Default)]
pub struct Origins(pub(super) BTreeMap<String, Resolved>);

impl PartialEq for Origins {
    fn eq(&self, _: &Origins) -> bool {
        true
    }
}

impl Origins {
    /// Every key that is in force.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// The value of a key as it would be written, and its place.
    pub fn get(&self, key: &str) -> Option<&Resolved> {
        self.0.get(key)
    }

    /// The layer a key's value comes from.
    pub fn source(&self, key: &str) -> Option<Source> {
        self.0.get(key).map(|resolved| resolved.origin.source)
    }

    /// All values with their sources, secrets left out.
    pub(super) fn show(&self, json: bool) -> String {
        if json { self.show_json() } else { self.show_text() }
    }

    fn show_text(&self) -> String {
        let lines: Vec<(String, &Origin)> = self
            .0
            .iter()
            .map(|(key, r)| (format!("{key} = {}", shown(key, &r.value)), &r.origin))
            .collect();
        let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0).min(60);
        let mut text = String::new();
        for (line, origin) in lines {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line:<width$}  # {origin}");
        }
        text
    }

    fn show_json(&self) -> String {
        let values = self.0.iter().map(|(key, r)| {
            let value = serde_json::to_value(shown(key, &r.value)).unwrap_or_default();
            let mut entry = serde_json::json!({
                "value": value,
                "source": r.origin.source.label(),
            });
            if matches!(r.origin.source, Source::Config | Source::Env) {
                entry["place"] = r.origin.file.to_string().into();
            }
            if r.written_as != *key {
                entry["written_as"] = r.written_as.clone().into();
            }
            if let Some(line) = r.origin.line {
                entry["line"] = line.into();
            }
            (key.clone(), entry)
        });
        let object: serde_json::Map<String, serde_json::Value> = values.collect();
        let mut text = serde_json::Value::Object(object).to_string();
        text.push('\n');
        text
    }
}

/// A value as it is shown: a secret is none of the reader's business.
fn shown(key: &str, value: &Value) -> Value {
    let name = key.rsplit('.').next().unwrap_or(key);
    let secret = ["key", "secret", "token", "password"].iter().any(|word| {
        name.strip_suffix(word).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    });
    match value {
        Value::String(text) if secret && !text.is_empty() => Value::String("(set)".to_owned()),
        other => other.clone(),
    }
}
