//! The files of one run: events as JSON lines and as CSV, the sound, the TextGrid.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use hound::{SampleFormat, WavSpec, WavWriter};
use serde_json::json;

use super::textgrid::{self, Drawing};
use crate::sim::facts::Fact;
use crate::sim::heard::Heard;
use crate::sim::tracks::Tracks;
use crate::sim::world::Outcome;
use crate::time::Timestamp;

/// Version of every exported shape; it rises when a field changes its meaning or goes.
pub const SCHEMA: u32 = 1;
/// What lies in a run's folder.
pub const RUN_FILES: [&str; 4] = ["events.jsonl", "events.csv", "audio.wav", "call.TextGrid"];

/// Which run it is.
#[derive(Clone, Copy, Debug)]
pub struct RunName<'a> {
    /// The fixture's name.
    pub fixture: &'a str,
    /// The variant's name.
    pub variant: &'a str,
    /// Its place among the variant's runs.
    pub run: u64,
    /// Its seed.
    pub seed: u64,
}

/// Writes a run's folder.
pub fn write(dir: &Path, name: RunName<'_>, outcome: &Outcome, heard: &[Heard]) -> io::Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join("events.jsonl"), events_jsonl(name, &outcome.facts))?;
    std::fs::write(dir.join("events.csv"), events_csv(name, &outcome.facts))?;
    if let Some(tracks) = &outcome.tracks {
        audio(&dir.join("audio.wav"), tracks)?;
    }
    let drawing =
        Drawing { said: &outcome.said, heard, facts: &outcome.facts, end: end(outcome, heard) };
    std::fs::write(dir.join("call.TextGrid"), textgrid::write(drawing))
}

/// Where the call's last trace ends.
fn end(outcome: &Outcome, heard: &[Heard]) -> Timestamp {
    let facts = outcome.facts.iter().map(|fact| fact.at);
    let sounds = outcome.said.iter().map(|said| said.until).chain(heard.iter().map(|h| h.until));
    let recorded = outcome.tracks.iter().map(|tracks| {
        let samples = tracks.caller.len().max(tracks.agent.len());
        Timestamp::ZERO + crate::audio::samples_to_duration(samples, tracks.rate_hz)
    });
    let last = facts.chain(sounds).chain(recorded).max().unwrap_or_default();
    last.max(Timestamp::from_millis(1))
}

fn events_jsonl(name: RunName<'_>, facts: &[Fact]) -> String {
    let mut text = String::new();
    for fact in facts {
        let details: serde_json::Map<String, serde_json::Value> =
            details(fact).map(|(key, value)| (key.to_owned(), json!(value))).collect();
        let line = json!({
            "schema": SCHEMA, "fixture": name.fixture, "variant": name.variant, "run": name.run,
            "seed": name.seed, "t_ms": at_ms(fact.at), "name": fact.name, "details": details,
        });
        // Writing to a string does not fail, here and below.
        let _ = writeln!(text, "{line}");
    }
    text
}

fn events_csv(name: RunName<'_>, facts: &[Fact]) -> String {
    let mut text = String::from("schema,fixture,variant,run,seed,t_ms,name,details\n");
    for fact in facts {
        let details: Vec<String> =
            details(fact).map(|(key, value)| format!("{key}={value}")).collect();
        let (fixture, variant) = (field(name.fixture), field(name.variant));
        let _ = writeln!(
            text,
            "{SCHEMA},{fixture},{variant},{},{},{},{},{}",
            name.run,
            name.seed,
            at_ms(fact.at),
            field(&fact.name),
            field(&details.join(" "))
        );
    }
    text
}

/// The detail that needs no name in a fixture is called `value` here; what is empty is left out.
fn details(fact: &Fact) -> impl Iterator<Item = (&str, &str)> {
    fact.details.iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| {
        let key = if key.is_empty() { "value" } else { key };
        (key, value.as_str())
    })
}

fn at_ms(at: Timestamp) -> f64 {
    at.as_micros() as f64 / 1_000.0
}

/// A field of a CSV line.
pub fn field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// The caller left, the agent right, as long as the longer of them.
fn audio(path: &Path, tracks: &Tracks) -> io::Result<()> {
    let spec = WavSpec {
        channels: 2,
        sample_rate: tracks.rate_hz,
        bits_per_sample: 16,
        sample_format: SampleFormat::Int,
    };
    let fail = |error: hound::Error| match error {
        hound::Error::IoError(error) => error,
        other => io::Error::other(other),
    };
    let mut writer = WavWriter::create(path, spec).map_err(fail)?;
    let length = tracks.caller.len().max(tracks.agent.len());
    for at in 0..length {
        for track in [&tracks.caller, &tracks.agent] {
            writer.write_sample(track.get(at).copied().unwrap_or(0)).map_err(fail)?;
        }
    }
    writer.finalize().map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wav_file_has_the_caller_left_and_the_agent_right_sample_by_sample() {
        let dir = std::env::temp_dir().join(format!("floorkeeper-study-{}", std::process::id()));
        let tracks =
            Tracks { rate_hz: 24_000, caller: vec![1, 2, 3], agent: vec![0, -20, -30, i16::MIN] };
        let outcome = Outcome { tracks: Some(tracks), ..Outcome::default() };
        let name = RunName { fixture: "f", variant: "v", run: 0, seed: 0 };
        write(&dir, name, &outcome, &[]).unwrap();
        let mut reader = hound::WavReader::open(dir.join("audio.wav")).unwrap();
        let spec = reader.spec();
        assert_eq!((spec.channels, spec.sample_rate, spec.bits_per_sample), (2, 24_000, 16));
        let samples: Vec<i16> = reader.samples().map(Result::unwrap).collect();
        std::fs::remove_dir_all(&dir).unwrap();
        assert_eq!(samples, [1, 0, 2, -20, 3, -30, 0, i16::MIN]);
    }

    #[test]
    fn fields_with_commas_and_quotes_stay_one_field() {
        assert_eq!(field("plain words"), "plain words");
        assert_eq!(field("a, \"b\""), "\"a, \"\"b\"\"\"");
    }
}
