//! Typed look-ups in a client's JSON object, each with the protocol's own error.

use serde_json::{Map, Value};

use super::wrong::Wrong;

/// A JSON object at a known place of an event.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    map: &'a Map<String, Value>,
    path: String,
    strict: bool,
}

impl<'a> Fields<'a> {
    /// The object at `path`; `strict` refuses keys that nobody knows.
    pub fn of(value: &'a Value, path: &str, strict: bool) -> Result<Self, Wrong> {
        let map = value.as_object().ok_or_else(|| Wrong::type_of(path, "an object", value))?;
        Ok(Fields { map, path: path.to_owned(), strict })
    }

    /// The path of one of the fields, for an error.
    pub fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// In strict mode, refuses any key but these.
    pub fn only(&self, known: &[&str]) -> Result<(), Wrong> {
        if !self.strict {
            return Ok(());
        }
        match self.map.keys().find(|key| !known.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let param = self.path(key);
                let message =
                    format!("Unknown parameter: '{param}'. Known here: {}.", known.join(", "));
                Err(Wrong::at("unknown_parameter", param, message))
            }
        }
    }

    /// The value, unless absent or null.
    pub fn get(&self, key: &str) -> Option<&'a Value> {
        self.map.get(key).filter(|value| !value.is_null())
    }

    /// The key is there and says null.
    pub fn is_null(&self, key: &str) -> bool {
        self.map.get(key).is_some_and(Value::is_null)
    }

    /// A text.
    pub fn text(&self, key: &str) -> Result<Option<&'a str>, Wrong> {
        self.get(key)
            .map(|v| v.as_str().ok_or_else(|| Wrong::type_of(self.path(key), "a string", v)))
            .transpose()
    }

    /// A text that has to be there and must not be empty.
    pub fn need_text(&self, key: &str) -> Result<&'a str, Wrong> {
        match self.text(key)? {
            None => Err(Wrong::missing(self.path(key))),
            Some("") => {
                let message = format!("'{}' must not be empty.", self.path(key));
                Err(Wrong::at("invalid_value", self.path(key), message))
            }
            Some(text) => Ok(text),
        }
    }

    /// A boolean.
    pub fn flag(&self, key: &str) -> Result<Option<bool>, Wrong> {
        self.get(key)
            .map(|v| v.as_bool().ok_or_else(|| Wrong::type_of(self.path(key), "a boolean", v)))
            .transpose()
    }

    /// A number in a range, its ends included.
    pub fn number(&self, key: &str, least: f64, most: f64) -> Result<Option<f64>, Wrong> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number =
            value.as_f64().ok_or_else(|| Wrong::type_of(self.path(key), "a number", value))?;
        if (least..=most).contains(&number) {
            return Ok(Some(number));
        }
        let path = self.path(key);
        let message = format!("'{path}' must be between {least} and {most}, but is {number}.");
        Err(Wrong::at("invalid_value", path, message))
    }

    /// A whole number in a range, its ends included; a fraction is cut off.
    pub fn whole(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>, Wrong> {
        Ok(self.number(key, least as f64, most as f64)?.map(|number| number as u64))
    }

    /// An object.
    pub fn object(&self, key: &str) -> Result<Option<Fields<'a>>, Wrong> {
        self.get(key).map(|v| Fields::of(v, &self.path(key), self.strict)).transpose()
    }

    /// An object that has to be there.
    pub fn need_object(&self, key: &str) -> Result<Fields<'a>, Wrong> {
        self.object(key)?.ok_or_else(|| Wrong::missing(self.path(key)))
    }

    /// An array, each element with its path.
    pub fn list(&self, key: &str) -> Result<Option<Vec<(String, &'a Value)>>, Wrong> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let list =
            value.as_array().ok_or_else(|| Wrong::type_of(self.path(key), "an array", value))?;
        let path = self.path(key);
        Ok(Some(list.iter().enumerate().map(|(i, v)| (format!("{path}[{i}]"), v)).collect()))
    }

    /// Whether keys that nobody knows are refused.
    pub fn strict(&self) -> bool {
        self.strict
    }
}
