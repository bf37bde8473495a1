//! A fixture as written: TOML that names the caller's deeds, the providers' behaviour and what must
//! follow.

use std::time::Duration;

use serde::Deserialize;

use crate::config::Config;

/// A fixture.
#[derive(Clone, Debug)]
pub struct Script {
    /// What it shows, in a sentence.
    pub about: String,
    /// What the caller does.
    pub caller: Vec<Deed>,
    /// What is done to the gates from outside.
    pub gates: Vec<Held>,
    /// What must be true.
    pub expect: Vec<Expect>,
    /// Providers, gates, times: any key of the configuration.
    pub config: Config,
    /// Virtual time after which the fixture ends by itself.
    pub ends_by: Duration,
}

/// Something the caller does.
#[derive(Clone, Debug)]
pub struct Deed {
    /// When.
    pub when: When,
    /// What.
    pub what: What,
}

/// When something happens.
#[derive(Clone, Debug, PartialEq)]
pub enum When {
    /// At this time.
    At(Duration),
    /// This long after the n-th fact that fits.
    After {
        /// The fact.
        fact: String,
        /// How long after it.
        delay: Duration,
        /// Which occurrence, from 1.
        nth: u32,
    },
}

/// What the caller does.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Speaks.
    Says {
        /// The words.
        words: String,
        /// How long it takes.
        span: Duration,
    },
    /// Makes a noise that the detector takes for speech.
    Noise(Duration),
    /// Hangs up.
    HangsUp,
    /// Cancels the answer, as a protocol client.
    Cancels,
    /// Asks for an answer, as a protocol client.
    Responds,
}

/// Units held by somebody else.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The gate's name.
    pub gate: String,
    /// How many units.
    pub units: u32,
    /// From when.
    pub from: Duration,
    /// Until when; to the end without.
    pub until: Option<Duration>,
}

/// What must be true.
#[derive(Clone, Debug, PartialEq)]
pub enum Expect {
    /// These facts, in this order, with anything between.
    Order(Vec<String>),
    /// No such fact, behind that one where it is named.
    Never {
        /// The fact.
        fact: String,
        /// Only behind this.
        after: Option<String>,
    },
    /// So many such facts.
    Count {
        /// The fact.
        fact: String,
        /// At least.
        at_least: usize,
        /// At most.
        at_most: usize,
    },
    /// The fact comes within this time of another.
    Within {
        /// The fact.
        fact: String,
        /// Behind this.
        of: String,
        /// At most so much later.
        span: Duration,
    },
    /// The next request's history ends with what was heard, no word more.
    HistoryEndsWithHeard,
}

/// Why a fixture cannot be run: where, which key, what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {key}: {problem}; {right}")]
pub struct ScriptError {
    /// The file.
    pub file: String,
    /// The key.
    pub key: String,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub right: String,
}

/// Words a second that a caller says.
pub(super) const WORDS_PER_S: f64 = 2.5;
/// Keys of a fixture that are not the configuration's.
const OWN_KEYS: [&str; 5] = ["about", "caller", "gate", "expect", "ends_by"];
/// Where the script language is told.
const GUIDE: &str = "see docs/guide.md, \"Fixtures\"";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDeed {
    at: Option<String>,
    after: Option<String>,
    nth: Option<u32>,
    says: Option<String>,
    #[serde(rename = "for")]
    span: Option<String>,
    noise: Option<String>,
    #[serde(default)]
    hangs_up: bool,
    #[serde(default)]
    cancels: bool,
    #[serde(default)]
    responds: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGate {
    gate: String,
    hold: u32,
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
        Ok(Script {
            about,
            caller: reading.list(&own, "caller", Reading::deed)?,
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
        let what = match (&raw.says, &raw.noise) {
            (Some(words), None) => {
                let natural = words.split_whitespace().count() as f64 / WORDS_PER_S;
                let span = match &raw.span {
                    Some(text) => self.span(&format!("{key}.for"), text)?,
                    None => Duration::from_secs_f64(natural),
                };
                What::Says { words: words.clone(), span }
            }
            (None, Some(span)) => What::Noise(self.span(&format!("{key}.noise"), span)?),
            (None, None) if raw.hangs_up => What::HangsUp,
            (None, None) if raw.cancels => What::Cancels,
            (None, None) if raw.responds => What::Responds,
            (Some(_), Some(_)) | (None, None) => {
                let right = "one of says, noise, hangs_up, cancels, responds";
                return Err(self.wrong(key, "it does not say what the caller does", right));
            }
        };
        Ok(Deed { when, what })
    }

    fn held(&self, key: &str, raw: RawGate) -> Result<Held, ScriptError> {
        let span = |name: &str, text: &Option<String>| {
            text.as_ref().map(|text| self.span(&format!("{key}.{name}"), text)).transpose()
        };
        let from = span("from", &raw.from)?.unwrap_or_default();
        let until = span("until", &raw.until)?;
        Ok(Held { gate: raw.gate, units: raw.hold, from, until })
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
            _ => {
                let right = "one of order, never, count, within, history_ends_with = \"heard\"";
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
