//! The sounds of a script, made ahead: recordings that are read, words that are spoken.

use std::path::Path;
use std::sync::Arc;

use super::super::spoken::spoken;
use super::super::wav;
use crate::audio::CALLER_RATE_HZ;
use crate::config::Config;
use crate::provider::ear::{DETECTORS, SharedDetector, earshot};
use crate::provider::tts::{TTSS, Tts, TtsOptions};
use crate::provider::{BuildError, Surroundings, find};
use crate::sim::script::{Listener, Mention, Script, ScriptError, What};
use crate::sim::sound::{Bank, WORDLESS};

/// Quieter samples at both ends are no part of what is said.
const EDGE_LEVEL: u16 = 200;

/// The first voice of these that can be had.
pub(super) fn find_voice(
    names: &[&'static str],
    around: &Surroundings,
) -> Result<(Arc<dyn Tts>, &'static str), String> {
    let mut missing = Vec::new();
    for name in names {
        let built = find(TTSS, "tts.provider", name)
            .and_then(|entry| (entry.build)(&toml::Table::new(), around));
        match built {
            Ok(voice) => return Ok((voice, name)),
            Err(BuildError::Missing { what, detail }) => missing.push(format!("{what}: {detail}")),
            Err(wrong) => return Err(wrong.to_string()),
        }
    }
    Err(format!("the caller has no voice: {}", missing.join("; ")))
}

/// Everything that a script in virtual time needs from outside, with what there is to tell: what
/// was converted, who speaks.
pub(in crate::cli) fn for_virtual_time(
    script: &Script,
    path: &Path,
) -> Result<(Bank, Vec<String>), String> {
    let mut bank = Bank::default();
    let mut notes = recordings(script, path, CALLER_RATE_HZ, &mut bank)?;
    let Listener::Detector(name) = script.scene.listener else { return Ok((bank, notes)) };
    let needs_voice = all_words(script).next().is_some();
    if name == earshot::ENTRY.name && !needs_voice {
        return Ok((bank, notes));
    }
    let machine = Config::load(None, &[], super::super::check::environment())
        .map_err(|errors| errors.to_string())?;
    let models_dir = machine.models.dir;
    let around = Surroundings { models_dir, language: "en".to_owned() };
    let listens = detector(name, &around);
    bank.detector = Some(listens.map_err(|e| not_here(script, path, &e))?);
    if needs_voice {
        notes.push(spoken_ahead(script, &around, &mut bank)?);
    }
    Ok((bank, notes))
}

fn detector(name: &str, around: &Surroundings) -> Result<SharedDetector, BuildError> {
    let entry = find(DETECTORS, "sound.detector", name)?;
    (entry.build)(&toml::Table::new(), around)
}

fn not_here(script: &Script, path: &Path, why: &BuildError) -> String {
    let (file, key) = (path.display().to_string(), "sound.detector".to_owned());
    let right = "detector = \"earshot\" is in the program itself".to_owned();
    let (line, problem) = (script.scene.line, why.to_string());
    ScriptError { file, line, key, problem, right }.to_string()
}

/// Speaks a script's words on a thread of its own, as the caller of this may be in a runtime or
/// not; says who spoke.
fn spoken_ahead(script: &Script, around: &Surroundings, bank: &mut Bank) -> Result<String, String> {
    let (voice, name) = match find_voice(&["piper", "espeak"], around) {
        Ok(found) => found,
        Err(why) => return Ok(format!("a made-up sound stands for the caller's words: {why}")),
    };
    let speak = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        runtime.block_on(voices(script, &voice, CALLER_RATE_HZ, bank))
    };
    let joined = std::thread::scope(|scope| scope.spawn(speak).join());
    joined.map_err(|_| "the caller's voice broke".to_owned())??;
    Ok(format!("`says` is spoken by {name}, which may sound otherwise on another machine"))
}

/// All words that have to be spoken.
pub(super) fn all_words(script: &Script) -> impl Iterator<Item = &str> {
    script.caller.iter().filter_map(|deed| match &deed.what {
        What::Says { words, .. } => Some(words.as_str()),
        What::Noise { .. } => Some(WORDLESS),
        _ => None,
    })
}

/// Makes all that a script's caller says.
pub(super) async fn voices(
    script: &Script,
    voice: &Arc<dyn Tts>,
    rate_hz: u32,
    bank: &mut Bank,
) -> Result<(), String> {
    for words in all_words(script) {
        if !bank.has_words(words) {
            // Nobody takes a hiss for speech.
            let is_voiced = words.contains(|c: char| "aeiouyAEIOUY".contains(c));
            let spoken = if is_voiced { words } else { WORDLESS };
            let sound =
                speak(voice, spoken, rate_hz).await.map_err(|e| format!("\"{words}\": {e}"))?;
            bank.add_words(words, sound);
        }
    }
    Ok(())
}

/// Reads every recording of a script, whose paths are from its own folder; says what was converted.
pub(super) fn recordings(
    script: &Script,
    path: &Path,
    rate_hz: u32,
    bank: &mut Bank,
) -> Result<Vec<String>, String> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut notes = Vec::new();
    for Mention { file, key, line } in &script.files {
        if bank.file(file).is_some() {
            continue;
        }
        let recording = wav::read(&folder.join(file), rate_hz).map_err(|error| {
            let (file, key) = (path.display().to_string(), key.clone());
            let named = error.path.display();
            let (problem, right) = match error.reason.split_once("; ") {
                Some((problem, right)) => (format!("{named}: {problem}"), right.to_owned()),
                None => (format!("{named} {}", error.reason), "a WAV recording".to_owned()),
            };
            ScriptError { file, line: *line, key, problem, right }.to_string()
        })?;
        notes.extend(recording.conversion().map(|how| format!("{key}: {file}: {how}")));
        bank.add_file(file, recording.pcm.samples);
    }
    Ok(notes)
}

/// One phrase, without the silence around it.
async fn speak(voice: &Arc<dyn Tts>, words: &str, rate_hz: u32) -> Result<Vec<i16>, String> {
    let options = TtsOptions { voice: None, language: "en".to_owned(), speed: 1.0 };
    let sound = spoken(voice, options, words).await?;
    let samples = wav::at_rate(&sound, rate_hz)?;
    let loud = |sample: &i16| sample.unsigned_abs() > EDGE_LEVEL;
    match (samples.iter().position(loud), samples.iter().rposition(loud)) {
        (Some(first), Some(last)) => Ok(samples[first..=last].to_vec()),
        _ => Err("only silence came".to_owned()),
    }
}
