//! Scripts drawn around a script: the same story with other delays, rates and times. Same seed,
//! same script.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use toml::Value;

use super::script::{Deed, Script, What, When};

/// How far from the script's values is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Delays and rates of providers, in percent to either side; lengths of speech vary by half as
    /// much, and the caller's times by five milliseconds a percent.
    pub pct: u32,
    /// Keys that stay as they are, as `llm.first_token_ms`.
    pub held: Vec<String>,
}

/// Largest spread: what is drawn stays above zero.
pub const SPREAD_PCT_MAX: i64 = 90;
/// The spread where nothing is said.
pub const SPREAD_PCT: u32 = 20;

/// Delays and rates of a scripted provider that are drawn around their default where the script
/// says nothing. A spread of 0 changes no fixture, which holds them to the providers' own.
const DEFAULTS: [(&str, &str, Value); 6] = [
    ("llm", "first_token_ms", Value::Integer(120)),
    ("llm", "tokens_per_s", Value::Float(40.0)),
    ("asr", "partial_ms", Value::Integer(40)),
    ("asr", "final_ms", Value::Integer(60)),
    ("tts", "first_audio_ms", Value::Integer(80)),
    ("tts", "words_per_s", Value::Float(2.5)),
];
const TOOL_TAKES: (&str, Value) = ("takes_ms", Value::Integer(50));
/// What is a rate. The recogniser's `words_per_s` is none: it is how fast this caller speaks.
const RATES: [&str; 5] = ["tokens_per_s", "words_per_s", "ms_per_char", "rate_x", "drip_per_s"];
/// Providers take no larger rate and no longer delay.
const RATE_MAX: f64 = 1_000_000.0;
const DELAY_MS_MAX: f64 = 86_400_000.0;

/// Keys that are drawn although no script has to write them.
pub fn keys() -> impl Iterator<Item = String> {
    DEFAULTS.iter().map(|(table, key, _)| format!("{table}.{key}"))
}

/// The script that a seed stands for, around this one.
pub fn drawn(script: &Script, seed: u64, spread: &Spread) -> Script {
    let draw = Draw { seed, spread };
    let mut script = script.clone();
    let config = &mut script.config;
    for (name, table) in [
        ("llm", &mut config.llm.table),
        ("asr", &mut config.asr.table),
        ("tts", &mut config.tts.table),
    ] {
        for (_, key, value) in DEFAULTS.iter().filter(|(table, _, _)| *table == name) {
            let other_pace = *key == "words_per_s" && table.contains_key("ms_per_char");
            if !other_pace && !table.contains_key(*key) {
                table.insert((*key).to_owned(), value.clone());
            }
        }
        draw.table(name, table);
    }
    for (name, tool) in config.tools.iter_mut().filter(|(_, tool)| tool.provider == "scripted") {
        let (key, value) = TOOL_TAKES;
        tool.table.entry(key).or_insert(value);
        draw.table(&format!("tool.{name}"), &mut tool.table);
    }
    draw.caller(&mut script.caller, script.ends_by);
    script
}

struct Draw<'a> {
    seed: u64,
    spread: &'a Spread,
}

impl Draw<'_> {
    /// From -1 to 1: one value a name, so that a key more or less leaves the others as they are.
    fn unit(&self, name: &str) -> f64 {
        // FNV-1a: a name's number, the same on every machine.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mixed = hash ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        StdRng::seed_from_u64(mixed).random_range(-1.0..=1.0)
    }

    fn factor(&self, name: &str, pct: f64) -> f64 {
        1.0 + self.unit(name) * pct / 100.0
    }

    fn table(&self, path: &str, table: &mut toml::Table) {
        for (key, value) in table.iter_mut() {
            let name = format!("{path}.{key}");
            let is_rate = RATES.contains(&key.as_str()) && name != "asr.words_per_s";
            if (is_rate || key.ends_with("_ms")) && !self.spread.held.contains(&name) {
                self.value(&name, is_rate, value);
            }
        }
    }

    fn value(&self, name: &str, is_rate: bool, value: &mut Value) {
        let pct = f64::from(self.spread.pct);
        match value {
            Value::Array(list) => {
                for (at, one) in list.iter_mut().enumerate() {
                    self.value(&format!("{name}[{at}]"), is_rate, one);
                }
            }
            Value::Integer(_) | Value::Float(_) => {
                let written = value.as_float().or(value.as_integer().map(|i| i as f64));
                let written = written.unwrap_or_default();
                let drawn = written * self.factor(name, pct);
                // A synthesiser that keeps up with the caller's ear still does.
                let least = if name.starts_with("tts.rate_x") { written.min(1.0) } else { 0.0 };
                *value = match is_rate {
                    true => Value::Float(drawn.max(least).min(RATE_MAX)),
                    false => Value::Integer(drawn.round().min(DELAY_MS_MAX) as i64),
                };
            }
            Value::String(_) | Value::Boolean(_) | Value::Datetime(_) | Value::Table(_) => {}
        }
    }

    /// Deeds at a time of their own stay in their order.
    fn caller(&self, caller: &mut [Deed], ends_by: Duration) {
        let mut before = (Duration::ZERO, Duration::ZERO);
        for (at, deed) in caller.iter_mut().enumerate() {
            let name = format!("caller[{at}]");
            match &mut deed.when {
                When::At(time) => {
                    let written = *time;
                    *time = self.moved(&name, written).min(ends_by);
                    if written >= before.0 {
                        *time = (*time).max(before.1);
                    }
                    before = (written, *time);
                }
                When::After { delay, .. } => *delay = self.moved(&name, *delay),
            }
            if let What::Says { span, .. } | What::Noise { span, .. } = &mut deed.what {
                let factor = self.factor(&format!("{name}.for"), f64::from(self.spread.pct) / 2.0);
                *span = whole_ms(span.as_secs_f64() * 1_000.0 * factor);
            }
        }
    }

    fn moved(&self, name: &str, time: Duration) -> Duration {
        let by_ms = self.unit(name) * 5.0 * f64::from(self.spread.pct);
        whole_ms((time.as_secs_f64() * 1_000.0 + by_ms).max(0.0))
    }
}

fn whole_ms(millis: f64) -> Duration {
    Duration::from_millis(millis.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::ms;

    fn script() -> Script {
        let text = "about = \"a test\"\n[llm]\nfirst_token_ms = [100, \"none\", 200]\n\
                    [tts]\nrate_x = 1\n[tool.book]\nprovider = \"scripted\"\n\
                    [[caller]]\nat = \"1s\"\nsays = \"one two three four five\"\n\
                    [[caller]]\nat = \"1010ms\"\nhangs_up = true\n\
                    [[caller]]\nafter = \"prompt + 30ms\"\nmaybe = true\nnoise = \"200ms\"\n";
        Script::parse("test.toml", text).unwrap()
    }

    fn spread(pct: u32) -> Spread {
        Spread { pct, held: Vec::new() }
    }

    #[test]
    fn a_seed_is_a_script_and_stays_within_the_spread() {
        for seed in 1..200 {
            let drawn = drawn(&script(), seed, &spread(20));
            let again = super::drawn(&script(), seed, &spread(20));
            assert_eq!(drawn.config, again.config);
            assert_eq!(drawn.caller[0].when, again.caller[0].when);
            let first = drawn.config.llm.table["first_token_ms"].as_array().unwrap();
            assert!((80..=120).contains(&first[0].as_integer().unwrap()), "{first:?}");
            assert_eq!(first[1].as_str(), Some("none"));
            assert!((1.0..=1.2).contains(&drawn.config.tts.table["rate_x"].as_float().unwrap()));
            let takes = drawn.config.tools["book"].table["takes_ms"].as_integer().unwrap();
            assert!((40..=60).contains(&takes), "{takes}");
            let When::At(speaks) = drawn.caller[0].when else { panic!("at a time") };
            let When::At(leaves) = drawn.caller[1].when else { panic!("at a time") };
            assert!(speaks >= ms(900) && speaks <= leaves && leaves <= ms(1_110));
            let What::Says { span, .. } = drawn.caller[0].what else { panic!("speech") };
            assert!((ms(1_800)..=ms(2_200)).contains(&span), "{span:?}");
        }
    }

    #[test]
    fn other_seeds_are_other_scripts_and_held_keys_stay() {
        let held = Spread { pct: 20, held: vec!["llm.first_token_ms".into()] };
        let (one, two) = (drawn(&script(), 1, &held), drawn(&script(), 2, &held));
        assert_ne!(one.config.tts.table, two.config.tts.table);
        assert_ne!(one.caller[0].when, two.caller[0].when);
        assert_eq!(one.config.llm.table["first_token_ms"], two.config.llm.table["first_token_ms"]);
    }
}
