//! Scripted providers: one pure timed machine that both worlds drive.
use std::sync::Arc;

use super::{BuildError, Entry, Surroundings};

/// Its line in the table of models.
pub const LLM_ENTRY: Entry<dyn super::llm::Llm> =
    Entry { name: "scripted", about: "says what its table says", build: llm };
/// Its line in the table of recognisers.
pub const ASR_ENTRY: Entry<dyn super::asr::Asr> =
    Entry { name: "scripted", about: "hears what its table says", build: asr };
/// Its line in the table of synthesisers.
pub const TTS_ENTRY: Entry<dyn super::tts::Tts> =
    Entry { name: "scripted", about: "sounds as its table says", build: tts };
/// Its line in the table of tools.
pub const TOOL_ENTRY: Entry<dyn super::tool::Tool> =
    Entry { name: "scripted", about: "does what its table says", build: tool };

fn llm(_: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::llm::Llm>, BuildError> {
    Err(BuildError::Missing { what: "scripted".into(), detail: "not built yet".into() })
}
fn asr(_: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::asr::Asr>, BuildError> {
    Err(BuildError::Missing { what: "scripted".into(), detail: "not built yet".into() })
}
fn tts(_: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::tts::Tts>, BuildError> {
    Err(BuildError::Missing { what: "scripted".into(), detail: "not built yet".into() })
}
fn tool(_: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::tool::Tool>, BuildError> {
    Err(BuildError::Missing { what: "scripted".into(), detail: "not built yet".into() })
}
