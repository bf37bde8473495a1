//! Reading a fixture: every wrong key or value is answered with the file, the line, the key and
//! what would be right.

mod behind;
mod deeds;
mod expects;
mod places;
mod possible;
mod scene;

use std::cell::RefCell;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use self::places::Places;
use super::script::{Behind, Handled, Held, Mention, Scene, Script, ScriptError, Session};
use crate::config::{Config, line_at, nearest};

/// Keys of a fixture that are not the configuration's.
const OWN_KEYS: [&str; 9] =
    ["about", "caller", "gate", "expect", "ends_by", "session", "sound", "callbacks", "human"];
/// Where the script language is told.
const GUIDE: &str = "see docs/reference/fixtures.md";
/// The most units that a script holds: more than any gate of one machine has.
const HOLD_MOST: u32 = 10_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDeed {
    at: Option<String>,
    after: Option<String>,
    nth: Option<u32>,
    #[serde(default)]
    maybe: bool,
    #[serde(rename = "for")]
    span: Option<String>,
    #[serde(default)]
    mutes: bool,
    level_dbfs: Option<f64>,
    snr_db: Option<f64>,
    says: Option<String>,
    plays: Option<String>,
    words: Option<String>,
    tone: Option<RawTone>,
    noise: Option<RawNoise>,
    silence: Option<String>,
    hangs_up: Option<bool>,
    drops: Option<String>,
    returns: Option<bool>,
    presses: Option<char>,
    cancels: Option<bool>,
    responds: Option<RawResponds>,
    writes: Option<String>,
    outputs: Option<String>,
    truncates: Option<String>,
    commits: Option<bool>,
    clears: Option<bool>,
    configures: Option<Session>,
    drains: Option<bool>,
}

/// `tone = { hz = 440, for = "300ms" }`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTone {
    hz: f64,
    #[serde(rename = "for")]
    span: String,
    level_dbfs: Option<f64>,
}

/// `noise = "300ms"` or `noise = { kind = "pink", for = "300ms" }`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a time, or { kind = \"white\" or \"pink\", for = \"300ms\" }")]
enum RawNoise {
    Wordless(String),
    Coloured(RawColoured),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawColoured {
    kind: String,
    #[serde(rename = "for")]
    span: String,
    level_dbfs: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSound {
    detector: Option<String>,
    background: Option<RawBackground>,
    echo: Option<RawEcho>,
    network: Option<RawNetwork>,
    agent: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBackground {
    noise: Option<String>,
    wav: Option<String>,
    level_dbfs: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEcho {
    delay_ms: f64,
    attenuation_db: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNetwork {
    loss_pct: Option<f64>,
    jitter_ms: Option<f64>,
    #[serde(default)]
    gaps: Vec<RawGap>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGap {
    at: String,
    #[serde(rename = "for")]
    span: String,
}

/// `responds = true` or `responds = "beside"`.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawResponds {
    Yes(bool),
    How(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGate {
    gate: String,
    hold: Option<u32>,
    slots: Option<u32>,
    queue: Option<u32>,
    from: Option<String>,
    until: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExpect {
    order: Option<Vec<String>>,
    never: Option<String>,
    after: Option<String>,
    count: Option<RawCount>,
    within: Option<RawWithin>,
    history_ends_with: Option<String>,
    asked: Option<RawAsked>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAsked {
    nth: usize,
    #[serde(default)]
    has: Vec<String>,
    #[serde(default)]
    lacks: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCount {
    event: String,
    at_least: Option<usize>,
    at_most: Option<usize>,
    exactly: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawWithin {
    event: String,
    of: String,
    span: String,
}

struct Reading<'a> {
    file: &'a str,
    places: Places,
    /// Recordings named so far.
    files: RefCell<Vec<Mention>>,
}

impl Script {
    /// Reads a fixture.
    pub fn parse(file: &str, text: &str) -> Result<Script, ScriptError> {
        let unread = |e: toml::de::Error| {
            let line = e.span().map_or(1, |span| line_at(text, span.start));
            let (file, key) = (file.to_owned(), "the file".to_owned());
            let (problem, right) = (e.message().to_owned(), GUIDE.to_owned());
            ScriptError { file, line, key, problem, right }
        };
        let root = DeTable::parse(text).map_err(unread)?;
        // Its values are read too: a number can be written well and still be none of TOML's.
        let table: toml::Table = text.parse().map_err(unread)?;
        let places = Places::of(text, root.get_ref());
        let reading = Reading { file, places, files: RefCell::default() };
        let own = root.get_ref();
        let about = own.get("about").and_then(|value| value.get_ref().as_str()).unwrap_or("");
        if about.is_empty() {
            return Err(reading.wrong("about", "it is missing", "one sentence on what this shows"));
        }
        let ends_by = match own.get("ends_by") {
            Some(value) => reading.span("ends_by", &reading.read::<String>("ends_by", value)?)?,
            None => Duration::from_secs(60),
        };
        let session = match own.get("session") {
            Some(value) => reading.read("session", value)?,
            None => Session::default(),
        };
        let scene = match own.get("sound") {
            Some(value) => reading.scene(reading.read("sound", value)?)?,
            None => Scene::default(),
        };
        let caller = reading.list(own, "caller", Reading::deed)?;
        reading.mixed(&caller, &scene)?;
        let gates = reading.list(own, "gate", Reading::held)?;
        let expect = reading.list(own, "expect", Reading::expect)?;
        reading.facts(&caller, &expect)?;
        reading.possible(&caller, ends_by)?;
        let config = reading.config(table.clone())?;
        reading.gates(&gates, &config)?;
        let (about, files) = (about.to_owned(), reading.files.take());
        let (callbacks, human) = reading.behind(&table)?;
        let behind = Behind { callbacks, human };
        Ok(Script { about, caller, session, scene, files, gates, behind, expect, config, ends_by })
    }
}

impl Reading<'_> {
    fn wrong(&self, key: &str, problem: impl Into<String>, right: &str) -> ScriptError {
        let line = self.places.line(key);
        let (file, key) = (self.file.to_owned(), key.to_owned());
        ScriptError { file, line, key, problem: problem.into(), right: right.to_owned() }
    }

    fn list<R: DeserializeOwned, T>(
        &self,
        own: &DeTable<'_>,
        key: &str,
        read: fn(&Self, &str, R) -> Result<T, ScriptError>,
    ) -> Result<Vec<T>, ScriptError> {
        let Some(value) = own.get(key) else { return Ok(Vec::new()) };
        let Some(entries) = value.get_ref().as_array() else {
            return Err(self.wrong(key, "it is no list", "a [[…]] header before each entry"));
        };
        let mut all = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            let name = format!("{key}[{}]", at + 1);
            all.push(read(self, &name, self.read(&name, entry)?)?);
        }
        Ok(all)
    }

    /// What stands at a key, whose own keys have to be the right ones.
    fn read<R: DeserializeOwned>(
        &self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<R, ScriptError> {
        R::deserialize(ValueDeserializer::from(value.clone())).map_err(|e| {
            let inner = e.span().and_then(|span| self.places.key_at(key, span.start));
            let key = inner.unwrap_or(key);
            let (problem, right) = told(e.message());
            self.wrong(key, problem, &right)
        })
    }

    /// The rest of the file is configuration; every provider is scripted unless it says otherwise.
    fn config(&self, mut table: toml::Table) -> Result<Config, ScriptError> {
        OWN_KEYS.iter().for_each(|key| drop(table.remove(*key)));
        for (key, name, value) in [
            ("llm", "provider", "scripted"),
            ("asr", "provider", "scripted"),
            ("tts", "provider", "scripted"),
            ("turn", "end", "silence"),
            ("callback", "offer", "never"),
        ] {
            let own = table.entry(key).or_insert_with(|| toml::Table::new().into());
            if let Some(own) = own.as_table_mut() {
                own.entry(name).or_insert_with(|| value.into());
            }
        }
        let text = table.to_string();
        Config::parse(self.file, &text, &[], std::iter::empty()).map_err(|errors| {
            match errors.0.into_iter().next() {
                Some(e) => self.wrong(&e.key, e.problem, &e.right),
                None => self.wrong("", "the configuration is wrong", GUIDE),
            }
        })
    }

    fn held(&self, key: &str, raw: RawGate) -> Result<Held, ScriptError> {
        let span = |name: &str, text: &Option<String>| {
            text.as_ref().map(|text| self.span(&format!("{key}.{name}"), text)).transpose()
        };
        let from = span("from", &raw.from)?.unwrap_or_default();
        let until = span("until", &raw.until)?;
        if let Some(until) = until.filter(|until| *until <= from) {
            let problem = format!("{until:?} is not behind its beginning ({from:?})");
            return Err(self.wrong(&format!("{key}.until"), problem, "a time behind `from`"));
        }
        let what = match (raw.hold, raw.slots, raw.queue) {
            (Some(units), None, None) if units <= HOLD_MOST => Handled::Holds(units),
            (Some(units), None, None) => {
                let right = format!("at most {HOLD_MOST}");
                return Err(self.wrong(&format!("{key}.hold"), format!("{units} is many"), &right));
            }
            (None, slots, queue) if slots.is_some() || queue.is_some() => {
                Handled::Limits { slots, queue }
            }
            _ => {
                let right = "hold = N, or slots and queue as they are to be";
                return Err(self.wrong(key, "it does not say what is done to the gate", right));
            }
        };
        Ok(Held { gate: raw.gate, what, from, until })
    }

    /// Units are held at gates that there are.
    fn gates(&self, gates: &[Held], config: &Config) -> Result<(), ScriptError> {
        let names: Vec<String> =
            config.gates().iter().map(|(stage, _)| config.gate_name(*stage)).collect();
        let unknown = |held: &&Held| !names.contains(&held.gate);
        let Some(held) = gates.iter().find(unknown) else { return Ok(()) };
        let at = gates.iter().position(|other| other == held).unwrap_or_default();
        let right = match nearest(&held.gate, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("one of {}", names.join(", ")),
        };
        let problem = format!("there is no gate \"{}\"", held.gate);
        Err(self.wrong(&format!("gate[{}].gate", at + 1), problem, &right))
    }

    /// `1.2s` or `300ms`.
    fn span(&self, key: &str, text: &str) -> Result<Duration, ScriptError> {
        let number = |digits: &str| digits.trim().parse::<f64>().ok().filter(|n| *n >= 0.0);
        let millis = match text.strip_suffix("ms") {
            Some(digits) => number(digits),
            None => text.strip_suffix('s').and_then(number).map(|seconds| seconds * 1_000.0),
        };
        match millis.filter(|millis| *millis <= 3_600_000.0) {
            Some(millis) => Ok(Duration::from_micros((millis * 1_000.0).round() as u64)),
            None => {
                let right = "a time up to an hour, as 1.2s or 300ms";
                Err(self.wrong(key, format!("\"{text}\" is no time"), right))
            }
        }
    }

    /// A number within bounds.
    fn within(&self, key: &str, number: f64, least: f64, most: f64) -> Result<f64, ScriptError> {
        match (least..=most).contains(&number) {
            true => Ok(number),
            false => {
                let right = format!("a number from {least} to {most}");
                Err(self.wrong(key, format!("{number} is out of bounds"), &right))
            }
        }
    }
}

/// A parser's complaint as a problem and what would be right: of an unknown key the known one that
/// is most like it.
fn told(message: &str) -> (String, String) {
    let Some(rest) = message.strip_prefix("unknown field `") else {
        return match message.rsplit_once(", expected ") {
            Some((problem, expected)) => (problem.to_owned(), expected.to_owned()),
            None => (message.to_owned(), GUIDE.to_owned()),
        };
    };
    let mut words = rest.split('`').step_by(2);
    let word = words.next().unwrap_or_default();
    let known: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let right = match nearest(word, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("one of {}", known.join(", ")),
    };
    (format!("there is no key `{word}` here"), right)
}
