//! Smart Turn v3.
use std::sync::Arc;

use crate::provider::{BuildError, Entry, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn super::EndOfTurn> =
    Entry { name: "smart_turn", about: "Smart Turn v3.2 through ONNX Runtime", build };

fn build(_: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::EndOfTurn>, BuildError> {
    Err(BuildError::Missing { what: "smart_turn".into(), detail: "not built yet".into() })
}
