//! Speech.
use std::sync::Arc;

use crate::provider::{BuildError, Entry, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn super::Tts> =
    Entry { name: "openai", about: "any OpenAI-compatible speech endpoint", build };

fn build(_: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::Tts>, BuildError> {
    Err(BuildError::Missing { what: "openai".into(), detail: "not built yet".into() })
}
