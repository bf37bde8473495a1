//! Language models: a request in, words and tool calls out.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::dialogue::{Finish, ModelRequest, ToolCall, Usage};
use crate::provider::{Cancel, Entry, Run};

pub mod front_desk;
pub mod openai;

/// Every language model there is.
pub static LLMS: &[Entry<dyn Llm>] =
    &[front_desk::ENTRY, openai::ENTRY, crate::provider::scripted::LLM_ENTRY];

/// A language model.
pub trait Llm: Send + Sync {
    /// Answers one request. Signals go to `out` in order; the run ends when the backend is done
    /// with it.
    fn run(
        self: Arc<Self>,
        request: ModelRequest,
        out: mpsc::Sender<ModelSignal>,
        cancel: Cancel,
    ) -> Run;
}

/// What a model says while it runs.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelSignal {
    /// More words.
    Text(String),
    /// A whole tool call.
    ToolCall(ToolCall),
    /// It stopped writing; nothing follows.
    Finished {
        /// Why.
        finish: Finish,
        /// Tokens, where the backend tells.
        usage: Usage,
    },
}
