//! Asks the tree for one key after another; what was never asked for is unknown.
//!
//! Each key exists once: where it is asked for, with its default and its bounds. That gives the
//! meant value, its source, the list of keys that a wrong one is compared with, and all errors in
//! one pass.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Value;

use super::error::ConfigError;
use super::raw::{Kind, Node, Origin, word};
use super::show::Resolved;

/// The prefix of every environment variable of ours.
pub(super) const ENV_PREFIX: &str = "FLOORKEEPER_";

/// A key to read, and the keys that speak for it when it is not written.
pub(super) struct Ask {
    pub keys: Vec<String>,
    /// `"inherit"` counts as not written.
    pub inherit_word: bool,
}

impl From<&str> for Ask {
    fn from(key: &str) -> Ask {
        Ask { keys: vec![key.to_owned()], inherit_word: false }
    }
}

/// A word of a closed list.
pub(super) trait Choice: Copy + 'static {
    const ALL: &'static [(&'static str, Self)];
}

pub(super) struct Reader<'a> {
    pub root: &'a Node,
    pub env: &'a BTreeMap<String, String>,
    /// Every key that was asked for, with what came of it.
    pub resolved: BTreeMap<String, Resolved>,
    /// Tables whose keys are somebody else's: metadata, providers.
    pub open: BTreeSet<String>,
    pub errors: Vec<ConfigError>,
    /// Environment variables that were a key's.
    pub used_env: BTreeSet<String>,
}

impl<'a> Reader<'a> {
    pub fn new(root: &'a Node, env: &'a BTreeMap<String, String>) -> Reader<'a> {
        Reader {
            root,
            env,
            resolved: BTreeMap::new(),
            open: BTreeSet::new(),
            errors: Vec::new(),
            used_env: BTreeSet::new(),
        }
    }

    /// The names of the tables below `path`: agents, tools.
    pub fn names(&self, path: &str) -> Vec<String> {
        let children = self.root.get(path).and_then(Node::children);
        children.map(|children| children.keys().cloned().collect()).unwrap_or_default()
    }

    /// Says that the value of `key` is wrong, at the place it came from.
    pub fn refuse(&mut self, key: &str, problem: impl Into<String>, right: impl Into<String>) {
        let default = Origin::default_value();
        let error = match (self.resolved.get(key), self.root.get(key)) {
            (Some(known), _) => ConfigError::at(&known.origin, &known.written_as, problem, right),
            (None, Some(node)) => ConfigError::at(&node.origin, key, problem, right),
            (None, None) => ConfigError::at(&default, key, problem, right),
        };
        self.report(error);
    }

    /// A value that speaks for several keys is refused once.
    fn report(&mut self, error: ConfigError) {
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// Resolves one key: configuration and `--set`, then environment, then the keys that speak for
    /// it, then the default.
    pub fn value<T>(
        &mut self,
        ask: impl Into<Ask>,
        default: T,
        right: &str,
        parse: impl Fn(&Value) -> Result<T, String>,
        shown: impl Fn(&T) -> Value,
    ) -> T {
        let ask = ask.into();
        let (value, origin, written_as) = match self.find(&ask, &parse) {
            Some((Ok(value), origin, key)) => (value, origin, key),
            Some((Err(problem), origin, key)) => {
                self.report(ConfigError::at(&origin, &key, problem, right));
                (default, origin, key)
            }
            None => (default, Origin::default_value(), ask.keys[0].clone()),
        };
        let resolved = Resolved { value: shown(&value), origin, written_as };
        self.resolved.insert(ask.keys[0].clone(), resolved);
        value
    }

    /// The first of the keys that is written, parsed.
    fn find<T>(
        &mut self,
        ask: &Ask,
        parse: &impl Fn(&Value) -> Result<T, String>,
    ) -> Option<(Result<T, String>, Origin, String)> {
        let inherits = |value: &Value| ask.inherit_word && value.as_str() == Some("inherit");
        for key in &ask.keys {
            match self.root.get(key).map(|node| (&node.kind, &node.origin)) {
                Some((Kind::Leaf(value), _)) if inherits(value) => {}
                Some((Kind::Leaf(value), origin)) => {
                    return Some((parse(value), origin.clone(), key.clone()));
                }
                Some((Kind::Table(_), origin)) => {
                    let problem = "a table stands here".to_owned();
                    return Some((Err(problem), origin.clone(), key.clone()));
                }
                None => {}
            }
            let variable = variable_of(key);
            let Some(text) = self.env.get(&variable) else { continue };
            let value = word(text);
            let text = Value::String(text.clone());
            self.used_env.insert(variable.clone());
            if inherits(&value) {
                continue;
            }
            // The shell knows no quotes: what is no number here may still be a text.
            let parsed = parse(&value).or_else(|problem| parse(&text).map_err(|_| problem));
            return Some((parsed, Origin::env(&variable), key.clone()));
        }
        None
    }

    /// A whole number within bounds; `what` names the unit.
    pub fn number(
        &mut self,
        ask: impl Into<Ask>,
        default: u64,
        bounds: RangeInclusive<u64>,
        what: &str,
    ) -> u64 {
        let right = format!("write {what} from {} to {}", bounds.start(), bounds.end());
        let parse = |value: &Value| whole(value, &bounds);
        self.value(ask, default, &right, parse, |&number| Value::Integer(number as i64))
    }

    /// A span in whole milliseconds.
    pub fn ms(
        &mut self,
        ask: impl Into<Ask>,
        default: u64,
        bounds: RangeInclusive<u64>,
    ) -> Duration {
        Duration::from_millis(self.number(ask, default, bounds, "a number of milliseconds"))
    }

    /// Yes or no.
    pub fn flag(&mut self, ask: impl Into<Ask>, default: bool) -> bool {
        let parse =
            |value: &Value| value.as_bool().ok_or_else(|| format!("{} is neither", told(value)));
        self.value(ask, default, "write true or false", parse, |&flag| Value::Boolean(flag))
    }

    /// Any text.
    pub fn text(&mut self, ask: impl Into<Ask>, default: &str) -> String {
        let parse = |value: &Value| {
            value.as_str().map(str::to_owned).ok_or_else(|| format!("{} is no text", told(value)))
        };
        let right = "write a text in \"quotes\"";
        self.value(ask, default.to_owned(), right, parse, |text| Value::String(text.clone()))
    }

    /// An address with a port, as this text says it; `None`: it says none, which is refused.
    pub fn address(&mut self, key: &str, text: &str, right: &str) -> Option<SocketAddr> {
        let address = text.replacen("localhost", "127.0.0.1", 1).parse();
        if address.is_err() {
            self.refuse(key, format!("\"{text}\" is no address with a port"), right);
        }
        address.ok()
    }

    /// A list of texts.
    pub fn list(&mut self, ask: impl Into<Ask>, default: &[&str]) -> Vec<String> {
        let parse = |value: &Value| {
            let texts = |list: &Vec<Value>| {
                list.iter().map(|one| one.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
            };
            value
                .as_array()
                .and_then(texts)
                .ok_or_else(|| format!("{} is no list of texts", told(value)))
        };
        let default = default.iter().map(|&text| text.to_owned()).collect();
        self.value(ask, default, "write [\"one\", \"two\"]", parse, |list| {
            Value::Array(list.iter().cloned().map(Value::String).collect())
        })
    }

    /// A number of bytes: a number, or a number with a unit.
    pub fn bytes(&mut self, ask: impl Into<Ask>, default: u64, bounds: RangeInclusive<u64>) -> u64 {
        let (least, most) = (sized(*bounds.start()), sized(*bounds.end()));
        let right = format!("write a size from \"{least}\" to \"{most}\"");
        let parse = |value: &Value| {
            let bytes = match value {
                Value::Integer(number) => u64::try_from(*number).ok(),
                Value::String(text) => parse_size(text),
                _ => None,
            };
            match bytes {
                Some(bytes) if bounds.contains(&bytes) => Ok(bytes),
                Some(bytes) => Err(format!("{} is out of bounds", sized(bytes))),
                None => Err(format!("{} is no size", told(value))),
            }
        };
        self.value(ask, default, &right, parse, |&bytes| Value::String(sized(bytes)))
    }

    /// One word of a closed list.
    pub fn choice<T: Choice>(&mut self, ask: impl Into<Ask>, default: &'static str) -> T {
        let words: Vec<String> = T::ALL.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let right = format!("write {}", words.join(" or "));
        let parse = |value: &Value| {
            let known = |text| T::ALL.iter().find(|(word, _)| *word == text);
            value.as_str().and_then(known).copied().ok_or_else(|| match nearest_of::<T>(value) {
                Some(word) => format!("{} is not known, did you mean \"{word}\"?", told(value)),
                None => format!("{} is not known", told(value)),
            })
        };
        let fallback = T::ALL.iter().find(|(word, _)| *word == default).copied();
        // The default is a word of the list: held by the test that loads nothing.
        let fallback = fallback.unwrap_or(T::ALL[0]);
        self.value(ask, fallback, &right, parse, |(word, _)| Value::String((*word).to_owned())).1
    }

    /// One of these names; the first is the default.
    pub fn one_of<const N: usize>(
        &mut self,
        ask: impl Into<Ask>,
        names: [&'static str; N],
    ) -> &'static str {
        let words: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
        let right = format!("write {}", words.join(" or "));
        let parse = |value: &Value| {
            let text = value.as_str().unwrap_or_default();
            let known = names.iter().find(|name| **name == text).copied();
            known.ok_or_else(|| match nearest(text, names.iter().copied()) {
                Some(word) => format!("{} is not known, did you mean \"{word}\"?", told(value)),
                None => format!("{} is not known", told(value)),
            })
        };
        self.value(ask, names[0], &right, parse, |name| Value::String((*name).to_owned()))
    }

    /// A table whose keys are not ours, with what the environment adds to it; without `reserved`.
    pub fn open_table(&mut self, path: &str, reserved: &[&str]) -> toml::Table {
        self.open.insert(path.to_owned());
        let prefix = format!("{}_", variable_of(path));
        let mut found: BTreeMap<String, (Value, Origin)> = BTreeMap::new();
        for (variable, text) in self.env.iter().filter(|(name, _)| name.starts_with(&prefix)) {
            let key = variable[prefix.len()..].to_ascii_lowercase();
            self.used_env.insert(variable.clone());
            found.insert(key, (word(text), Origin::env(variable)));
        }
        match self.root.get(path).map(|node| (&node.kind, &node.origin)) {
            Some((Kind::Table(children), _)) => {
                for (key, node) in children {
                    found.insert(key.clone(), (node.to_value(), node.origin.clone()));
                }
            }
            Some((Kind::Leaf(value), origin)) => {
                let problem = format!("{} is no table", told(value));
                let right = format!("write [{path}] and the keys below it");
                self.errors.push(ConfigError::at(origin, path, problem, right));
            }
            None => {}
        }
        found.retain(|key, _| !reserved.contains(&key.as_str()));
        for (key, (value, origin)) in &found {
            let key = format!("{path}.{key}");
            let (value, origin) = (value.clone(), origin.clone());
            self.resolved.insert(key.clone(), Resolved { value, origin, written_as: key });
        }
        found.into_iter().map(|(key, (value, _))| (key, value)).collect()
    }
}

/// The environment variable of a key.
pub(super) fn variable_of(key: &str) -> String {
    let mut variable = String::from(ENV_PREFIX);
    variable.extend(key.chars().map(|c| match c {
        '.' | '-' => '_',
        other => other.to_ascii_uppercase(),
    }));
    variable
}

/// A value as an error message shows it.
pub(super) fn told(value: &Value) -> String {
    let mut text = value.to_string();
    if text.chars().count() > 40 {
        text = text.chars().take(39).chain(['…']).collect();
    }
    text
}

/// A whole number within bounds.
pub(super) fn whole(value: &Value, bounds: &RangeInclusive<u64>) -> Result<u64, String> {
    match value.as_integer().map(u64::try_from) {
        Some(Ok(number)) if bounds.contains(&number) => Ok(number),
        Some(_) => Err(format!("{} is out of bounds", told(value))),
        None => Err(format!("{} is no whole number", told(value))),
    }
}

const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

fn parse_size(text: &str) -> Option<u64> {
    let (unit, factor) = SIZES.iter().find(|(unit, _)| text.ends_with(unit))?;
    text[..text.len() - unit.len()].trim().parse::<u64>().ok()?.checked_mul(*factor)
}

/// A number of bytes with the largest unit that divides it.
fn sized(bytes: u64) -> String {
    let whole = |(_, factor): &&(&str, u64)| bytes >= *factor && bytes.is_multiple_of(*factor);
    match SIZES.iter().find(whole) {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

fn nearest_of<T: Choice>(value: &Value) -> Option<&'static str> {
    let words = T::ALL.iter().map(|(word, _)| *word);
    nearest(value.as_str()?, words)
}

/// The candidate that is most like a word, if any is like it at all.
pub(crate) fn nearest<'k>(
    word: &str,
    candidates: impl Iterator<Item = &'k str>,
) -> Option<&'k str> {
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        let likeness = strsim::jaro_winkler(word, candidate);
        if likeness > best.map_or(0.8, |(most, _)| most) {
            best = Some((likeness, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}
