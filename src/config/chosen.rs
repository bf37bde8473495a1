//! Which plug-in does a job, with the keys that are its own: `[vad]`, `[asr]`, `[llm]`, `[tts]`,
//! `[tool.x]`.

use std::collections::{BTreeMap, BTreeSet};

use super::agent::is_name;
use super::limits::LIMIT_KEYS;
use super::raw::{Node, Source};
use super::reader::{Reader, nearest};
use crate::provider::{Entry, asr, ear, llm, tool, tts};

/// A plug-in and its own keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Its name in its folder's table.
    pub provider: String,
    /// Its own keys, without `provider` (or `detector`).
    pub table: toml::Table,
}

/// The plug-ins that do the work.
pub(super) struct AllChosen {
    pub vad: Chosen,
    pub gain_max_db: u32,
    pub asr: Chosen,
    pub llm: Chosen,
    pub tts: Chosen,
    pub tools: BTreeMap<String, Chosen>,
    /// Tools that need the caller's yes.
    pub confirmed: BTreeSet<String>,
}

pub(super) fn read(reader: &mut Reader<'_>) -> AllChosen {
    let tools = tools(reader);
    let confirmed = confirmed(reader, tools.keys());
    AllChosen {
        vad: chosen_beside(reader, "vad", "detector", "silero", &detectors(), &[GAIN]),
        gain_max_db: reader.number(&*format!("vad.{GAIN}"), 18, 0..=40, "a number of dB") as u32,
        asr: chosen(reader, "asr", "provider", "moonshine", &names(asr::ASRS)),
        llm: chosen(reader, "llm", "provider", "front_desk", &names(llm::LLMS)),
        tts: chosen(reader, "tts", "provider", "piper", &names(tts::TTSS)),
        tools,
        confirmed,
    }
}

/// The speech detectors, and the word for none.
fn detectors() -> Vec<&'static str> {
    names(ear::DETECTORS).into_iter().chain([ear::OFF]).collect()
}

/// The built-in tools, and those that are described.
fn tools(reader: &mut Reader<'_>) -> BTreeMap<String, Chosen> {
    let providers = names(tool::TOOLS);
    let mut all = BTreeMap::new();
    let built_in = providers.iter().filter(|name| **name != SCRIPTED).map(|&name| name.to_owned());
    for name in built_in.chain(reader.names("tool")) {
        if all.contains_key(&name) {
            continue;
        }
        let path = format!("tool.{name}");
        if !is_name(&name) || LIMIT_KEYS.contains(&name.as_str()) {
            let right =
                "letters a-z, A-Z, 0-9, '_' and '-', and none of the keys of [limits.tools]";
            reader.refuse(&path, "this can be no tool's name", right);
            reader.open.insert(path);
            continue;
        }
        // A tool that is named like a built-in one is that one, if nothing else is said.
        let default = if providers.contains(&name.as_str()) { name.as_str() } else { SCRIPTED };
        let tool = chosen_beside(reader, &path, "provider", default, &providers, &[CONFIRM]);
        all.insert(name, tool);
    }
    all
}

/// Of `[vad]`, whatever the detector: most that a quiet caller is amplified for it.
const GAIN: &str = "gain_max_db";
const SCRIPTED: &str = "scripted";
/// A tool's own key: it starts only in a turn in which the caller agreed to it.
const CONFIRM: &str = "confirm";

fn confirmed<'a>(
    reader: &mut Reader<'_>,
    tools: impl Iterator<Item = &'a String>,
) -> BTreeSet<String> {
    let key = |name: &String| format!("tool.{name}.{CONFIRM}");
    tools.filter(|name| reader.flag(&*key(name), false)).cloned().collect()
}

fn names<T: ?Sized>(table: &'static [Entry<T>]) -> Vec<&'static str> {
    table.iter().map(|entry| entry.name).collect()
}

fn chosen(
    reader: &mut Reader<'_>,
    path: &str,
    key: &str,
    default: &str,
    known: &[&'static str],
) -> Chosen {
    chosen_beside(reader, path, key, default, known, &[])
}

/// `ours` are keys of the table that are not the plug-in's.
fn chosen_beside(
    reader: &mut Reader<'_>,
    path: &str,
    key: &str,
    default: &str,
    known: &[&'static str],
    ours: &[&str],
) -> Chosen {
    let full = format!("{path}.{key}");
    let provider = reader.text(&*full, default);
    if !known.contains(&provider.as_str()) {
        let right = match nearest(&provider, known.iter().copied()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("there are {}", known.join(", ")),
        };
        reader.refuse(&full, format!("there is no provider \"{provider}\""), right);
    }
    let reserved: Vec<&str> = ours.iter().copied().chain([key]).collect();
    Chosen { provider, table: reader.open_table(path, &reserved) }
}

/// `--set llm.provider=scripted` chooses another plug-in than the file does: the file's keys for
/// the one it chose mean nothing to the other and are left out. Says so.
pub(super) fn drop_keys_of_others(written: &Node, root: &mut Node) -> Vec<String> {
    let mut said = Vec::new();
    for (table, key) in TABLES {
        let path = format!("{table}.{key}");
        let text = |node: &Node| node.get(&path).map(Node::to_value);
        let chosen_by_set = root.get(&path).is_some_and(|node| node.origin.source == Source::Set);
        if !chosen_by_set || text(written) == text(root) {
            continue;
        }
        let children = root.get(table).and_then(Node::children);
        let others: Vec<String> = children
            .into_iter()
            .flatten()
            .filter(|(_, node)| node.origin.source == Source::Config)
            .map(|(name, _)| name.clone())
            .collect();
        for name in &others {
            root.remove(&[table, name]);
        }
        if !others.is_empty() {
            let others = others.join(", ");
            said.push(format!("--set {path} chooses another: the file's {others} are left out"));
        }
    }
    said
}

const TABLES: [(&str, &str); 4] =
    [("vad", "detector"), ("asr", "provider"), ("llm", "provider"), ("tts", "provider")];
