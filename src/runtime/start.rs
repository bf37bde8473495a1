//! From configuration to a serving process: gates, providers, HTTP; and what is said when something
//! is missing.

use std::sync::Arc;

use super::backends::Backends;
use super::service::Service;
use crate::admission::Closed;
use crate::admission::limits::CloseMode;
use crate::config::Config;
use crate::id::Stage;
use crate::provider::asr::ASRS;
use crate::provider::ear::{DETECTORS, END_OF_TURN};
use crate::provider::llm::LLMS;
use crate::provider::tool::TOOLS;
use crate::provider::tts::TTSS;
use crate::provider::{self, BuildError, Surroundings};

/// The configuration uses a provider that lives on a fetched model.
pub fn needs_models(config: &Config) -> bool {
    config.vad.provider == "silero"
        || config.asr.provider == "moonshine"
        || config.tts.provider == "piper"
        || config.end_policy().asks_model() && config.vad.provider != provider::ear::OFF
}

/// Builds every provider; blocks (models load). Each that cannot be had is said with what then does
/// not work, and the next best takes its place.
pub fn build(config: &Config) -> Result<Backends, BuildError> {
    let around = Surroundings {
        models_dir: config.models.dir.clone(),
        language: config.default_agent().language.clone(),
    };
    let detector = detector(config, &around)?;
    let judges = config.end_policy().asks_model() && detector.is_some();
    let end_of_turn = match judges {
        true => or_without(
            provider::find(END_OF_TURN, "turn.end", "smart_turn")
                .and_then(|entry| (entry.build)(&toml::Table::new(), &around)),
            "turns end by silence alone (turn.silence_ms)",
        )?,
        false => None,
    };
    let asr = or_without(
        provider::find(ASRS, "asr.provider", &config.asr.provider)
            .and_then(|entry| (entry.build)(&config.asr.table, &around)),
        "speech is not recognised: callers can type, and spoken turns are told that they were not \
         understood",
    )?;
    let llm = provider::find(LLMS, "llm.provider", &config.llm.provider)
        .and_then(|entry| (entry.build)(&config.llm.table, &around))?;
    let tts = synthesiser(config, &around)?;
    let mut tools = Vec::new();
    for (name, chosen) in &config.tools {
        let entry = provider::find(TOOLS, &format!("tool.{name}.provider"), &chosen.provider)?;
        tools.push((name.clone(), (entry.build)(&chosen.table, &around)?));
    }
    Ok(Backends { detector, end_of_turn, asr, llm, tts, tools })
}

fn detector(
    config: &Config,
    around: &Surroundings,
) -> Result<Option<Arc<dyn provider::ear::Detector>>, BuildError> {
    let chosen = &config.vad;
    if chosen.provider == provider::ear::OFF {
        return Ok(None);
    }
    let built = provider::find(DETECTORS, "vad.detector", &chosen.provider)
        .and_then(|entry| (entry.build)(&chosen.table, around));
    let next = "the pure-Rust detector listens instead; it takes music for speech";
    if let Some(detector) = or_without(built, next)? {
        return Ok(Some(detector));
    }
    let entry = provider::find(DETECTORS, "vad.detector", "earshot")?;
    (entry.build)(&toml::Table::new(), around).map(Some)
}

fn synthesiser(
    config: &Config,
    around: &Surroundings,
) -> Result<Option<Arc<dyn provider::tts::Tts>>, BuildError> {
    let built = provider::find(TTSS, "tts.provider", &config.tts.provider)
        .and_then(|entry| (entry.build)(&config.tts.table, around));
    if let Some(tts) = or_without(built, "espeak-ng's own voice speaks instead")? {
        return Ok(Some(tts));
    }
    let entry = provider::find(TTSS, "tts.provider", "espeak")?;
    let built = (entry.build)(&toml::Table::new(), around);
    or_without(built, "answers cannot be spoken: callers hear the prompts rendered ahead")
}

/// What is missing is said and done without; what is configured wrongly stops the start.
fn or_without<T: ?Sized>(
    built: Result<Arc<T>, BuildError>,
    then: &str,
) -> Result<Option<Arc<T>>, BuildError> {
    match built {
        Ok(built) => Ok(Some(built)),
        Err(missing @ BuildError::Missing { .. }) => {
            tracing::warn!("{missing}; {then}");
            Ok(None)
        }
        Err(wrong) => Err(wrong),
    }
}

/// The providers are there: calls may come.
pub fn open(service: &Service, backends: Backends) {
    if backends.asr.is_none() {
        service.gates.close(Stage::Recognition, Closed::NotReady, CloseMode::EndQueue);
    }
    if backends.tts.is_none() {
        service.gates.close(Stage::Synthesis, Closed::NotReady, CloseMode::EndQueue);
    }
    service.set_backends(backends);
    match service.is_draining() {
        true => service.gates.close(Stage::Call, Closed::Draining, CloseMode::EndQueue),
        false => service.gates.open(Stage::Call),
    }
}
