//! Tools that we run ourselves.

use std::sync::Arc;

use crate::dialogue::{Effect, ToolOutcome};
use crate::provider::{Cancel, Ended, Entry};

pub mod book;
pub mod calendar;
pub mod find_slot;

/// Every built-in tool there is.
pub static TOOLS: &[Entry<dyn Tool>] =
    &[find_slot::ENTRY, book::ENTRY, crate::provider::scripted::TOOL_ENTRY];

/// A tool.
pub trait Tool: Send + Sync {
    /// When to use it, for the model.
    fn description(&self) -> String;
    /// JSON schema of its arguments.
    fn parameters(&self) -> serde_json::Value;
    /// What it does to the world.
    fn effect(&self) -> Effect;
    /// Runs it once. The same `idempotency_key` never takes effect twice.
    fn run(self: Arc<Self>, arguments: String, idempotency_key: String, cancel: Cancel) -> ToolRun;
}

/// One run of a tool: what came of it, and what its end proves.
pub type ToolRun =
    std::pin::Pin<Box<dyn std::future::Future<Output = (ToolOutcome, Ended)> + Send>>;
