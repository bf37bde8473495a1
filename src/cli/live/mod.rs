//! `floorkeeper fixture run --live`: a script in real time against a server that speaks Realtime
//! events: our own, started here with the script's configuration, or another one.
//!
//! Pure: [`plan`] says what the caller does next, [`hearing`] makes facts of events, [`inner`]
//! reads our own server's record, [`judge`] holds the expectations against what can be seen.
//! [`talk`] is the loop around them.

mod ears;
mod hearing;
mod inner;
mod judge;
mod own;
mod plan;
mod requests;
mod room;
mod talk;
pub(super) mod voice;

use std::path::Path;

use self::inner::{Merged, merge};
use self::judge::Sight;
pub(super) use self::judge::TOLERANCE;
use self::own::Own;
use self::talk::Talk;
use self::voice::find_voice;
use super::call::connect::{Line, Target};
use super::call::wire::WIRE_RATE_HZ;
use super::check::environment;
use super::fixture::Ran;
use crate::cli::fixture;
use crate::config::Config;
use crate::provider::Surroundings;
use crate::sim::expect::{self, HeardCheck};
use crate::sim::facts::Fact;
use crate::sim::heard;
use crate::sim::script::{Listener, Script};
use crate::sim::sound::Bank;
use crate::sim::world::Outcome;
use crate::time::Timestamp;

/// Tables of a fixture that a running server of somebody else cannot be given.
const NOT_CONFIGURATION: [&str; 6] = ["about", "caller", "expect", "ends_by", "session", "sound"];

/// Parts that a fixture plays itself, and that a running server has of its own.
const PARTS_PLAYED: [&str; 2] = ["callbacks", "human"];

/// Where live fixtures run.
pub(super) struct Live {
    /// `None` is our own server.
    target: Option<Target>,
    machine: Config,
}

/// Everything seen of a call.
struct Seen {
    sight: Sight,
    merged: Merged,
    heard: Vec<HeardCheck>,
    asked: Vec<Vec<String>>,
}

impl Live {
    /// Checks the address; an empty one is our own server.
    pub(super) fn new(address: &str, key: Option<String>) -> Result<Live, String> {
        let machine =
            Config::load(None, &[], environment()).map_err(|errors| errors.to_string())?;
        if address.is_empty() {
            return match key {
                Some(_) => Err("--key is for a server of your own; --live URL names it".into()),
                None => Ok(Live { target: None, machine }),
            };
        }
        if !address.contains("://") {
            return Err(format!(
                "--live `{address}` is no address; ws://127.0.0.1:8080/v1/realtime is right, and \
                 --live without one goes behind the paths"
            ));
        }
        let plain = match address.split_once("://") {
            Some(("http", rest)) => format!("ws://{rest}"),
            Some(("https", rest)) => format!("wss://{rest}"),
            _ => address.to_owned(),
        };
        let target = Target::new(&plain, None, key).map_err(|e| format!("--live {e}"))?;
        Ok(Live { target: Some(target), machine })
    }

    /// Runs one fixture; the error is why it could not be run at all.
    pub(super) async fn run_file(&self, path: &Path) -> Result<Ran, String> {
        let (text, script) = fixture::read(path)?;
        let mut ran = match &self.target {
            None => {
                let mut ran = self.with_own(&script, path).await?;
                ran.notes.splice(..0, not_applied(&text, |key| PARTS_PLAYED.contains(&key), &[]));
                ran
            }
            Some(target) => {
                let (bank, told) = self.bank(&script, path, &["piper", "espeak"]).await?;
                let line = dial(target).await?;
                let (mut outcome, mut notes) = play(&script, None, &bank, line).await;
                let given = |key: &str| !NOT_CONFIGURATION.contains(&key);
                notes.splice(..0, not_applied(&text, given, &sound_keys(&script)));
                notes.splice(..0, told);
                outcome.trace = ended(outcome.trace);
                Ran::live(outcome, notes, format!("server {}", target.url))
            }
        };
        ran.path = path.to_owned();
        ran.about = script.about;
        Ok(ran)
    }

    async fn with_own(&self, script: &Script, path: &Path) -> Result<Ran, String> {
        // What a recogniser of its own makes of a voice is better with a good one.
        let scripted = script.config.asr.provider == "scripted";
        let voices: &[&str] = if scripted { &["espeak", "piper"] } else { &["piper", "espeak"] };
        let (bank, told) = self.bank(script, path, voices).await?;
        let mut own = Own::start(script, &self.machine).await?;
        let setting = format!("our own server, detector {}", own.detector);
        let target = Target::new(&own.url(), None, None)?;
        let line = dial(&target).await?;
        let (mut outcome, mut notes) = play(script, Some(&mut own), &bank, line).await;
        notes.splice(..0, told);
        own.stop().await;
        outcome.trace = ended(outcome.trace);
        Ok(Ran::live(outcome, notes, setting))
    }

    /// All that a script's caller sounds, and what was converted for it.
    async fn bank(
        &self,
        script: &Script,
        path: &Path,
        voices: &[&'static str],
    ) -> Result<(Bank, Vec<String>), String> {
        let mut bank = Bank::default();
        let notes = voice::recordings(script, path, WIRE_RATE_HZ, &mut bank)?;
        if voice::all_words(script).next().is_some() {
            let models_dir = self.machine.models.dir.clone();
            let around = Surroundings { models_dir, language: "en".into() };
            let (voice, _) = find_voice(voices, &around)?;
            voice::voices(script, &voice, WIRE_RATE_HZ, &mut bank).await?;
        }
        Ok((bank, notes))
    }
}

/// What every live run is told by.
pub(super) fn tolerance() -> String {
    format!("times may be {} ms later than in virtual time", TOLERANCE.as_millis())
}

async fn dial(target: &Target) -> Result<Line, String> {
    let mut complaints = Vec::new();
    let line = target.dial(|what| complaints.push(what.to_owned())).await;
    complaints.iter().for_each(|complaint| eprintln!("floorkeeper: {complaint}"));
    line
}

/// Tables, and what of the sound, that a running server was not given.
fn not_applied(text: &str, is_left: impl Fn(&str) -> bool, sound: &[&str]) -> Option<String> {
    let table: toml::Table = text.parse().ok()?;
    let left = table.keys().filter(|key| is_left(key.as_str()));
    let named = left.map(|key| match key.as_str() {
        "gate" => "[[gate]]".to_owned(),
        key => format!("[{key}]"),
    });
    let named: Vec<String> = named.chain(sound.iter().map(|key| (*key).to_owned())).collect();
    (!named.is_empty()).then(|| format!("not applied: {}", named.join(", ")))
}

fn sound_keys(script: &Script) -> Vec<&'static str> {
    let scene = &script.scene;
    let detector = (scene.listener != Listener::Scripted).then_some("sound.detector");
    let agent = scene.agent.is_some().then_some("sound.agent");
    detector.into_iter().chain(agent).collect()
}

async fn play(
    script: &Script,
    own: Option<&mut Own>,
    bank: &Bank,
    line: Line,
) -> (Outcome, Vec<String>) {
    let asked = own.as_ref().map(|own| own.asked.clone());
    let asked = || asked.as_ref().map(|asked| asked.all()).unwrap_or_default();
    let is_own = own.is_some();
    let mut talk = Talk::new(script, own, bank, line);
    talk.run(|talk| verdict(script, &seen(script, talk, is_own, asked())).is_empty()).await;
    let mut problems = talk.settle().await;
    let seen = seen(script, &talk, is_own, asked());
    let mut notes = std::mem::take(&mut talk.notes);
    for (at, fact, nth) in talk.undone() {
        let unseen = || format!("not done: caller[{}] waits for {fact}, which nobody sees", at + 1);
        match seen.sight.sees(&fact) {
            true => problems.push(expect::never_happened(at, &fact, nth)),
            false => notes.push(unseen()),
        }
    }
    let (_, unseen) = judge::visible(&script.expect, seen.sight);
    if !unseen.is_empty() {
        notes.push(format!("not observable: {}", unseen.join(", ")));
    }
    problems.append(&mut talk.problems);
    problems.extend(verdict(script, &seen));
    problems.extend(seen.heard.iter().filter_map(expect::too_much));
    problems.extend(seen.merged.problems);
    let trace = story(&talk.record, &talk.lines, is_own);
    (Outcome { trace, facts: seen.merged.facts, problems, ..Outcome::default() }, notes)
}

/// Everything seen so far, in one order.
fn seen(script: &Script, talk: &Talk<'_>, is_own: bool, asked: Vec<Vec<String>>) -> Seen {
    let sight = match (is_own, talk.hearing.extras) {
        (true, _) => Sight::Whole,
        (false, true) => Sight::WithExtras,
        (false, false) => Sight::Plain,
    };
    let merged = match is_own {
        true => merge(talk.reading.facts(), &talk.wire, talk.zero, talk.reading.gone_at),
        false => Merged { facts: talk.wire.clone(), problems: Vec::new() },
    };
    let heard = talk.reading.heard(&asked, heard::words_per_s(script));
    Seen { sight, merged, heard, asked }
}

fn verdict(script: &Script, seen: &Seen) -> Vec<String> {
    let facts: &[Fact] = &seen.merged.facts;
    judge::judge(&script.expect, seen.sight, facts, &seen.heard, &seen.asked)
}

/// The story line by line: our own server's record with the caller's deeds put in, or what the wire
/// told.
fn story(record: &[String], lines: &[(Timestamp, String)], is_own: bool) -> String {
    let written = |(at, line): &(Timestamp, String)| (at.as_millis(), format!("{at}  {line}"));
    let mut all: Vec<(u64, String)> =
        lines.iter().filter(|(_, line)| !is_own || line.starts_with("<- ")).map(written).collect();
    if is_own {
        let at_ms =
            |line: &str| line.trim_start().split_once("ms").and_then(|(t, _)| t.parse().ok());
        all.extend(record.iter().map(|line| (at_ms(line).unwrap_or(0), line.clone())));
        all.sort_by_key(|(at_ms, _)| *at_ms);
    }
    let lines: Vec<String> = all.into_iter().map(|(_, line)| line).collect();
    lines.join("\n")
}

fn ended(mut trace: String) -> String {
    trace.push('\n');
    trace
}
