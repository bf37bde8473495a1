//! Finds a free slot.
use std::sync::Arc;

use crate::provider::{BuildError, Entry, Surroundings};

/// Its line in the table.
pub const ENTRY: Entry<dyn super::Tool> =
    Entry { name: "find_slot", about: "finds a free time", build };

fn build(_: &toml::Table, _: &Surroundings) -> Result<Arc<dyn super::Tool>, BuildError> {
    Err(BuildError::Missing { what: "find_slot".into(), detail: "not built yet".into() })
}
