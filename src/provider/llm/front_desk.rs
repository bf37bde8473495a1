//! The built-in front desk.
use std::sync::Arc;

use crate::provider::{BuildError, Entry, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn super::Llm> =
    Entry { name: "front_desk", about: "built-in dialogue engine", build };

fn build(_: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::Llm>, BuildError> {
    Err(BuildError::Missing { what: "front_desk".into(), detail: "not built yet".into() })
}
