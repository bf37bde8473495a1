//! Transcriptions.
use std::sync::Arc;

use crate::provider::{BuildError, Entry, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn super::Asr> =
    Entry { name: "openai", about: "any OpenAI-compatible transcriptions endpoint", build };

fn build(_: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::Asr>, BuildError> {
    Err(BuildError::Missing { what: "openai".into(), detail: "not built yet".into() })
}
