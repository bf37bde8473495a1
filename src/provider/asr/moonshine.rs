//! Moonshine tiny-en.
use std::sync::Arc;

use crate::provider::{BuildError, Entry, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn super::Asr> =
    Entry { name: "moonshine", about: "Moonshine tiny-en on this machine", build };

fn build(_: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::Asr>, BuildError> {
    Err(BuildError::Missing { what: "moonshine".into(), detail: "not built yet".into() })
}
