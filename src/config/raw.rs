//! The configuration as written: a tree of values, each with the place it was written at.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use toml::Value;
use toml::de::{DeTable, DeValue};

use super::error::ConfigError;

/// A configuration file larger than this is none.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Which layer a value comes from; a later layer overrides an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Nobody said anything.
    Default,
    /// An environment variable.
    Env,
    /// The configuration file.
    Config,
    /// `--set` on the command line.
    Set,
}

impl Source {
    /// Somebody wrote it down for this server: the file or the command line.
    pub fn is_declared(self) -> bool {
        matches!(self, Source::Config | Source::Set)
    }

    /// The stable label of the API and of `floorkeeper check`.
    pub fn label(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::Env => "env",
            Source::Config => "config",
            Source::Set => "set",
        }
    }
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The layer.
    pub source: Source,
    /// The file's name, the variable's name, `--set`, or `default`.
    pub file: Arc<str>,
    /// The line in a file, from 1.
    pub line: Option<usize>,
}

impl Origin {
    pub(super) fn default_value() -> Origin {
        Origin { source: Source::Default, file: "default".into(), line: None }
    }

    pub(super) fn env(variable: &str) -> Origin {
        Origin { source: Source::Env, file: variable.into(), line: None }
    }

    fn set() -> Origin {
        Origin { source: Source::Set, file: "--set".into(), line: None }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.source, self.line) {
            (Source::Default | Source::Set, _) => f.write_str(self.source.label()),
            (Source::Env, _) => write!(f, "env {}", self.file),
            (Source::Config, Some(line)) => write!(f, "config {}:{line}", self.file),
            (Source::Config, None) => write!(f, "config {}", self.file),
        }
    }
}

/// A key with more parts than this is none of ours.
const KEY_PARTS_MAX: usize = 16;

/// A value or a table of values.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub origin: Origin,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Leaf(Value),
    Table(BTreeMap<String, Node>),
}

impl Node {
    /// A tree in which nothing is written.
    pub fn empty() -> Node {
        Node { origin: Origin::default_value(), kind: Kind::Table(BTreeMap::new()) }
    }

    /// The tree of one value.
    fn of(value: Value, origin: &Origin) -> Node {
        let kind = match value {
            Value::Table(table) => Kind::Table(
                table.into_iter().map(|(key, value)| (key, Node::of(value, origin))).collect(),
            ),
            leaf => Kind::Leaf(leaf),
        };
        Node { origin: origin.clone(), kind }
    }

    /// The children, when it is a table.
    pub fn children(&self) -> Option<&BTreeMap<String, Node>> {
        match &self.kind {
            Kind::Table(children) => Some(children),
            Kind::Leaf(_) => None,
        }
    }

    /// What is written at a dotted path.
    pub fn get(&self, path: &str) -> Option<&Node> {
        path.split('.').try_fold(self, |node, part| node.children()?.get(part))
    }

    /// Takes out what is written at `path`, wherever it is.
    pub fn remove(&mut self, path: &[&str]) -> Option<Node> {
        let Kind::Table(children) = &mut self.kind else { return None };
        match path {
            [] => None,
            [last] => children.remove(*last),
            [first, rest @ ..] => children.get_mut(*first)?.remove(rest),
        }
    }

    /// Writes over what is there: tables are merged, anything else is replaced.
    fn merge(&mut self, other: Node) {
        match (&mut self.kind, other.kind) {
            (Kind::Table(mine), Kind::Table(theirs)) => {
                for (key, node) in theirs {
                    match mine.get_mut(&key) {
                        Some(own) => own.merge(node),
                        None => {
                            mine.insert(key, node);
                        }
                    }
                }
            }
            (_, kind) => *self = Node { origin: other.origin, kind },
        }
    }

    /// The value again, without its places.
    pub fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Leaf(value) => value.clone(),
            Kind::Table(children) => Value::Table(
                children.iter().map(|(key, node)| (key.clone(), node.to_value())).collect(),
            ),
        }
    }
}

/// Reads a file into a tree.
pub(super) fn read(path: &Path) -> Result<Node, Vec<ConfigError>> {
    let file: Arc<str> = path.display().to_string().into();
    let whole = Origin { source: Source::Config, file: file.clone(), line: None };
    let bad = |problem: String, right: &str| vec![ConfigError::at(&whole, "", problem, right)];
    let text = text_of(path).map_err(|wrong| {
        let right = match wrong.kind() {
            ErrorKind::NotFound => "name a TOML file that exists",
            ErrorKind::FileTooLarge => "a configuration is at most 1 MiB",
            _ => "a readable TOML file in UTF-8",
        };
        bad(wrong.to_string(), right)
    })?;
    parse(&text, &file)
}

/// The text of a file of at most 1 MiB: more is not read, however long the file says it is.
pub fn text_of(path: &Path) -> io::Result<String> {
    let told = |error: io::Error| io::Error::new(error.kind(), format!("cannot be read: {error}"));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(told)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(told)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(ErrorKind::FileTooLarge, "is longer than 1 MiB"));
    }
    String::from_utf8(bytes).map_err(|wrong| {
        let at = wrong.utf8_error().valid_up_to();
        let told = format!("cannot be read: byte {at} is no UTF-8");
        io::Error::new(ErrorKind::InvalidData, told)
    })
}

/// Parses the text of a file into a tree.
pub(super) fn parse(text: &str, file: &Arc<str>) -> Result<Node, Vec<ConfigError>> {
    let (spans, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return Err(errors.iter().map(|error| syntax(text, file, error)).collect());
    }
    let values: toml::Table =
        toml::from_str(text).map_err(|error| vec![syntax(text, file, &error)])?;
    let line_of = |span: Range<usize>| line_at(text, span.start);
    let root = Origin { source: Source::Config, file: file.clone(), line: None };
    Ok(Node { kind: located(spans.get_ref(), values, &line_of, &root), origin: root })
}

/// Pairs each value with the line of its key.
fn located(
    spans: &DeTable<'_>,
    mut values: toml::Table,
    line_of: &dyn Fn(Range<usize>) -> usize,
    root: &Origin,
) -> Kind {
    let mut children = BTreeMap::new();
    for (key, span) in spans.iter() {
        let Some(value) = values.remove(key.get_ref().as_ref()) else { continue };
        let origin = Origin { line: Some(line_of(key.span())), ..root.clone() };
        let kind = match (span.get_ref(), value) {
            (DeValue::Table(spans), Value::Table(table)) => located(spans, table, line_of, root),
            (_, leaf) => Kind::Leaf(leaf),
        };
        children.insert(key.get_ref().to_string(), Node { origin, kind });
    }
    Kind::Table(children)
}

/// What the parser says, at its line.
pub(super) fn syntax(text: &str, file: &Arc<str>, error: &toml::de::Error) -> ConfigError {
    let line = error.span().map(|span| line_at(text, span.start));
    let origin = Origin { source: Source::Config, file: file.clone(), line };
    let problem = format!("this is not TOML: {}", error.message().replace('\n', ", "));
    ConfigError::at(&origin, "", problem, "a line reads key = value; text stands in \"quotes\"")
}

pub(crate) fn line_at(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    before.iter().filter(|&&byte| byte == b'\n').count() + 1
}

/// Writes one `--set key=value` over the tree.
pub(super) fn apply_set(root: &mut Node, set: &str) -> Result<(), ConfigError> {
    let origin = Origin::set();
    let example = "write --set limits.model.slots=8";
    let (path, value) = set
        .split_once('=')
        .ok_or_else(|| ConfigError::at(&origin, set.trim(), "there is no '=' in it", example))?;
    let path = path.trim();
    let parts: Vec<&str> = path.split('.').collect();
    let plain = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
    };
    if parts.len() > KEY_PARTS_MAX || !parts.iter().all(plain) {
        return Err(ConfigError::at(&origin, path, "this is no dotted key", example));
    }
    let nested = parts.iter().rev().fold(word(value), |value, part| {
        Value::Table(toml::Table::from_iter([((*part).to_owned(), value)]))
    });
    // A key that held a table and is now set to a plain value (or the other way round) is replaced.
    root.merge(Node::of(nested, &origin));
    Ok(())
}

/// A TOML value; a bare word, as command lines and environments have them, is a string.
pub(crate) fn word(text: &str) -> Value {
    let text = text.trim();
    text.parse().unwrap_or_else(|_| Value::String(text.to_owned()))
}
