//! Silero v6.
use std::sync::Arc;

use crate::provider::{BuildError, Entry, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn super::Detector> =
    Entry { name: "silero", about: "Silero v6 through ONNX Runtime", build };

fn build(_: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::Detector>, BuildError> {
    Err(BuildError::Missing { what: "silero".into(), detail: "not built yet".into() })
}
