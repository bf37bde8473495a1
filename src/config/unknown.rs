//! What was written and is no key: refused, with the nearest key that is one.

use std::collections::BTreeSet;

use super::error::ConfigError;
use super::raw::{Kind, Node};
use super::reader::{ENV_PREFIX, Reader, nearest, variable_of};

/// Refuses every key in the tree that was never asked for.
pub(super) fn refuse(reader: &mut Reader<'_>) {
    let root = reader.root;
    let mut path = Vec::new();
    walk(reader, root, &mut path);
}

fn walk<'n>(reader: &mut Reader<'_>, node: &'n Node, path: &mut Vec<&'n str>) {
    let Kind::Table(children) = &node.kind else { return };
    for (key, child) in children {
        path.push(key);
        let dotted = path.join(".");
        let inside = format!("{dotted}.");
        let is_table = matches!(child.kind, Kind::Table(_));
        let holds_keys = reader.resolved.range(inside.clone()..).next();
        let holds_keys = holds_keys.is_some_and(|(known, _)| known.starts_with(&inside));
        if reader.resolved.contains_key(&dotted) || reader.open.contains(&dotted) {
            // Known; a wrong type was refused when it was asked for.
        } else if holds_keys && is_table {
            walk(reader, child, path);
        } else {
            let error = explain(reader, child, &dotted, holds_keys);
            reader.errors.push(error);
        }
        path.pop();
    }
}

fn explain(reader: &Reader<'_>, node: &Node, dotted: &str, is_table: bool) -> ConfigError {
    if is_table {
        let right = format!("write [{dotted}] and the keys below it");
        return ConfigError::at(&node.origin, dotted, "this is a table of keys, no key", right);
    }
    let (parent, name) = dotted.rsplit_once('.').unwrap_or(("", dotted));
    let siblings = siblings(reader, parent);
    let right = match nearest(name, siblings.iter().copied()) {
        Some(near) => format!("did you mean {}?", joined(parent, near)),
        None => match reader.resolved.keys().find(|key| key.rsplit('.').next() == Some(name)) {
            Some(elsewhere) => format!("did you mean {elsewhere}?"),
            None => format!(
                "the keys here are: {}",
                siblings.into_iter().collect::<Vec<_>>().join(", ")
            ),
        },
    };
    ConfigError::at(&node.origin, dotted, "there is no such key", right)
}

/// The names directly below a table.
fn siblings<'r>(reader: &'r Reader<'_>, parent: &str) -> BTreeSet<&'r str> {
    let prefix = joined(parent, "");
    let known = reader.resolved.keys().chain(&reader.open);
    known
        .filter_map(|key| key.strip_prefix(&prefix))
        .filter_map(|rest| rest.split('.').next())
        .collect()
}

fn joined(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}

/// Sentences about environment variables that look like ours and are no key's. They warn only:
/// orchestrators set variables of their own with a service's name in front.
pub(super) fn warn_of_variables(reader: &Reader<'_>) -> Vec<String> {
    let known: Vec<String> = reader.resolved.keys().map(|key| variable_of(key)).collect();
    let ours = reader.env.keys().filter(|name| name.starts_with(ENV_PREFIX));
    ours.filter(|name| !reader.used_env.contains(*name))
        .filter(|name| !known.contains(name))
        .filter(|name| !NOT_KEYS.contains(&name.as_str()))
        .map(|name| match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("environment: {name} is no key's; did you mean {near}?"),
            None => format!("environment: {name} is no key's and has no effect"),
        })
        .collect()
}

/// Variables of ours that stand for no key.
const NOT_KEYS: [&str; 1] = ["FLOORKEEPER_MUTANT"];
