//! Reading a fixture: every wrong key or value is answered with the file, the key and what would be
//! right.

use std::time::Duration;

use serde::Deserialize;

use super::script::{
    Deed, Expect, Handled, Held, Script, ScriptError, Session, WORDS_PER_S, What, When,
};
use crate::config::Config;

/// Keys of a fixture that are not the configuration's.
const OWN_KEYS: [&str; 6] = ["about", "caller", "gate", "expect", "ends_by", "session"];
/// What a deed can be.
const DEEDS: &str = "one of says, noise, hangs_up, presses, cancels, responds, writes, outputs, \
                     truncates, commits, clears, configures, drains";
/// Where the script language is told.
const GUIDE: &str = "see docs/reference/fixtures.md";

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
    says: Option<String>,
    noise: Option<String>,
    hangs_up: Option<bool>,
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
}

impl Script {
    /// Reads a fixture.
    pub fn parse(file: &str, text: &str) -> Result<Script, ScriptError> {
        let reading = Reading { file };
        let mut table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            let line = e.span().map_or(0, |span| text[..span.start].lines().count().max(1));
            reading.wrong(&format!("line {line}"), e.message(), GUIDE)
        })?;
        let mut own = toml::Table::new();
        for key in OWN_KEYS {
            if let Some(value) = table.remove(key) {
                own.insert(key.to_owned(), value);
            }
        }
        let about = own.get("about").and_then(toml::Value::as_str).unwrap_or("").to_owned();
        if about.is_empty() {
            return Err(reading.wrong("about", "it is missing", "one sentence on what this shows"));
        }
        let ends_by = match own.get("ends_by").and_then(toml::Value::as_str) {
            Some(text) => reading.span("ends_by", text)?,
            None => Duration::from_secs(60),
        };
        let session = match own.get("session") {
            Some(value) => value
                .clone()
                .try_into()
                .map_err(|e: toml::de::Error| reading.wrong("session", e.message(), GUIDE))?,
            None => Session::default(),
        };
        let caller = reading.list(&own, "caller", Reading::deed)?;
        reading.possible(&caller, ends_by)?;
        Ok(Script {
            about,
            caller,
            session,
            gates: reading.list(&own, "gate", Reading::held)?,
            expect: reading.list(&own, "expect", Reading::expect)?,
            config: reading.config(table)?,
            ends_by,
        })
    }
}

impl Reading<'_> {
    fn wrong(&self, key: &str, problem: impl Into<String>, right: &str) -> ScriptError {
        let (file, key) = (self.file.to_owned(), key.to_owned());
        ScriptError { file, key, problem: problem.into(), right: right.to_owned() }
    }

    fn list<R: serde::de::DeserializeOwned, T>(
        &self,
        own: &toml::Table,
        key: &str,
        read: fn(&Self, &str, R) -> Result<T, ScriptError>,
    ) -> Result<Vec<T>, ScriptError> {
        let Some(value) = own.get(key) else { return Ok(Vec::new()) };
        let Some(entries) = value.as_array() else {
            return Err(self.wrong(key, "it is no list", "a [[…]] header before each entry"));
        };
        let mut all = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            let name = format!("{key}[{}]", at + 1);
            let raw: R = entry
                .clone()
                .try_into()
                .map_err(|e: toml::de::Error| self.wrong(&name, e.message(), GUIDE))?;
            all.push(read(self, &name, raw)?);
        }
        Ok(all)
    }

    /// The rest of the file is configuration; every provider is scripted unless it says otherwise.
    fn config(&self, mut table: toml::Table) -> Result<Config, ScriptError> {
        for (key, name, value) in [
            ("llm", "provider", "scripted"),
            ("asr", "provider", "scripted"),
            ("tts", "provider", "scripted"),
            ("turn", "end", "silence"),
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

    fn deed(&self, key: &str, raw: RawDeed) -> Result<Deed, ScriptError> {
        let when = match (&raw.at, &raw.after) {
            (Some(at), None) => When::At(self.span(&format!("{key}.at"), at)?),
            (None, Some(after)) => self.after(&format!("{key}.after"), after, raw.nth)?,
            (Some(_), Some(_)) => {
                return Err(self.wrong(key, "it has both at and after", "one of them"));
            }
            (None, None) => return Err(self.wrong(key, "it has no time", "at or after")),
        };
        let mut all = self.deeds(key, &raw)?;
        match (all.pop(), all.is_empty()) {
            (Some(what), true) => Ok(Deed { when, what, maybe: raw.maybe }),
            (Some(_), false) => Err(self.wrong(key, "it is more than one deed", DEEDS)),
            (None, _) => Err(self.wrong(key, "it does not say what the caller does", DEEDS)),
        }
    }

    /// All that a deed says is done.
    fn deeds(&self, key: &str, raw: &RawDeed) -> Result<Vec<What>, ScriptError> {
        let mut all = Vec::new();
        if let Some(words) = &raw.says {
            let natural = words.split_whitespace().count() as f64 / WORDS_PER_S;
            let span = match &raw.span {
                Some(text) => self.span(&format!("{key}.for"), text)?,
                None => Duration::from_secs_f64(natural),
            };
            all.push(What::Says { words: words.clone(), span, mutes: raw.mutes });
        }
        if let Some(span) = &raw.noise {
            all.push(What::Noise(self.span(&format!("{key}.noise"), span)?));
        }
        if let Some(played) = &raw.truncates {
            all.push(What::Truncates(self.span(&format!("{key}.truncates"), played)?));
        }
        match &raw.responds {
            Some(RawResponds::Yes(true)) => all.push(What::Responds { beside: false }),
            Some(RawResponds::How(how)) if how == "beside" => {
                all.push(What::Responds { beside: true });
            }
            Some(RawResponds::Yes(false) | RawResponds::How(_)) => {
                let right = "true, or \"beside\" for an answer beside the conversation";
                return Err(self.wrong(&format!("{key}.responds"), "it is no way to ask", right));
            }
            None => {}
        }
        all.extend(raw.presses.map(What::Presses));
        all.extend(raw.writes.clone().map(What::Writes));
        all.extend(raw.outputs.clone().map(What::Outputs));
        all.extend(raw.configures.clone().map(What::Configures));
        let plain = [
            (raw.hangs_up, What::HangsUp),
            (raw.cancels, What::Cancels),
            (raw.commits, What::Commits),
            (raw.clears, What::Clears),
            (raw.drains, What::Drains),
        ];
        all.extend(plain.into_iter().filter(|(on, _)| *on == Some(true)).map(|(_, what)| what));
        Ok(all)
    }

    /// Deeds that can never be done are mistakes: behind the fixture's end, or waiting for each
    /// other.
    fn possible(&self, caller: &[Deed], ends_by: Duration) -> Result<(), ScriptError> {
        for (at, deed) in caller.iter().enumerate() {
            let key = format!("caller[{}]", at + 1);
            match &deed.when {
                When::At(time) if *time > ends_by => {
                    let problem = format!("{time:?} is behind the fixture's end ({ends_by:?})");
                    return Err(self.wrong(&key, problem, "an earlier time, or a later ends_by"));
                }
                When::At(_) => {}
                When::After { fact, .. } if self.is_cycle(caller, at) => {
                    let problem = format!("\"{fact}\" is only done behind this very deed");
                    return Err(self.wrong(&key, problem, "a deed that does not wait for itself"));
                }
                When::After { .. } => {}
            }
        }
        Ok(())
    }

    /// Whether a deed waits, over others, for itself: every deed of that name does.
    fn is_cycle(&self, caller: &[Deed], start: usize) -> bool {
        let mut seen = vec![start];
        let mut next = start;
        loop {
            let When::After { fact, .. } = &caller[next].when else { return false };
            let Some(name) = fact.strip_prefix("caller.") else { return false };
            let mut named = (0..caller.len()).filter(|&at| caller[at].what.name() == name);
            let (Some(only), None) = (named.next(), named.next()) else { return false };
            if seen.contains(&only) {
                return true;
            }
            seen.push(only);
            next = only;
        }
    }

    fn held(&self, key: &str, raw: RawGate) -> Result<Held, ScriptError> {
        let span = |name: &str, text: &Option<String>| {
            text.as_ref().map(|text| self.span(&format!("{key}.{name}"), text)).transpose()
        };
        let from = span("from", &raw.from)?.unwrap_or_default();
        let until = span("until", &raw.until)?;
        let what = match (raw.hold, raw.slots, raw.queue) {
            (Some(units), None, None) => Handled::Holds(units),
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

    fn expect(&self, key: &str, raw: RawExpect) -> Result<Expect, ScriptError> {
        match raw {
            RawExpect { order: Some(order), .. } => Ok(Expect::Order(order)),
            RawExpect { never: Some(fact), after, .. } => Ok(Expect::Never { fact, after }),
            RawExpect { count: Some(count), .. } => Ok(Expect::Count {
                fact: count.event,
                at_least: count.exactly.or(count.at_least).unwrap_or(0),
                at_most: count.exactly.or(count.at_most).unwrap_or(usize::MAX),
            }),
            RawExpect { within: Some(within), .. } => {
                let span = self.span(&format!("{key}.within.span"), &within.span)?;
                Ok(Expect::Within { fact: within.event, of: within.of, span })
            }
            RawExpect { history_ends_with: Some(what), .. } if what == "heard" => {
                Ok(Expect::HistoryEndsWithHeard)
            }
            RawExpect { asked: Some(RawAsked { nth, has, lacks }), .. } => {
                Ok(Expect::Asked { nth, has, lacks })
            }
            _ => {
                let right =
                    "one of order, never, count, within, asked, history_ends_with = \"heard\"";
                Err(self.wrong(key, "it expects nothing", right))
            }
        }
    }

    fn after(&self, key: &str, text: &str, nth: Option<u32>) -> Result<When, ScriptError> {
        let (fact, delay) = match text.rsplit_once('+') {
            Some((fact, delay)) => (fact.trim(), self.span(key, delay.trim())?),
            None => (text.trim(), Duration::ZERO),
        };
        Ok(When::After { fact: fact.to_owned(), delay, nth: nth.unwrap_or(1) })
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
}
