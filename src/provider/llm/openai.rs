//! Chat completions.
use std::sync::Arc;

use crate::provider::{BuildError, Entry, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn super::Llm> =
    Entry { name: "openai", about: "any OpenAI-compatible chat completions endpoint", build };

fn build(_: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::Llm>, BuildError> {
    Err(BuildError::Missing { what: "openai".into(), detail: "not built yet".into() })
}
