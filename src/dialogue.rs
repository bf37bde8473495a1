//! What is said and done in a conversation: messages, tools, transcripts, word times.

use std::time::Duration;

use crate::id::ItemId;

/// Who said a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions of the operator or the client.
    System,
    /// The caller.
    User,
    /// The agent.
    Assistant,
}

/// One entry of the history that a model is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Something said or written.
    Said {
        /// Who.
        role: Role,
        /// The words; for the agent only those that were heard.
        text: String,
    },
    /// The model asked for a tool.
    Called(ToolCall),
    /// What came of a tool.
    Returned {
        /// The call it answers.
        call_id: String,
        /// The result as the model is shown it.
        output: String,
    },
}

/// A model's request to run a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// The model's name for this call.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// Its arguments: JSON text, as the model wrote it.
    pub arguments: String,
}

/// What a tool does to the world (DESIGN section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Reads only: may be abandoned and asked again.
    Read,
    /// Changes something and can be stopped half-way.
    Cancellable,
    /// Changes something and runs to its end once started.
    MustFinish,
}

/// What a tool is, as a model is told and as the call has to treat it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// When to use it, for the model.
    pub description: String,
    /// JSON schema of the arguments.
    pub parameters: serde_json::Value,
    /// Who runs it.
    pub runs: ToolRuns,
}

/// Who runs a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolRuns {
    /// We do, in the process's tool table.
    Here {
        /// Its place in the table.
        tool: crate::id::ToolId,
        /// What it does to the world.
        effect: Effect,
    },
    /// The client does; we only pass the request on.
    AtClient,
}

/// How a tool that had started ended. Never invented: what is not known is `Unknown`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolOutcome {
    /// It ran and this is its result.
    Completed(String),
    /// It was stopped before it changed anything.
    Cancelled,
    /// It failed, and says why.
    Failed(String),
    /// Nobody can say whether it took effect.
    Unknown,
}

impl ToolOutcome {
    /// The stable label of traces, metrics and records.
    pub fn label(&self) -> &'static str {
        match self {
            ToolOutcome::Completed(_) => "completed",
            ToolOutcome::Cancelled => "cancelled",
            ToolOutcome::Failed(_) => "failed",
            ToolOutcome::Unknown => "unknown",
        }
    }
}

/// Which tools a model may or must use.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
}

/// What a recogniser made of a stretch of speech.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Transcript {
    /// The words; empty when there was no speech in it.
    pub text: String,
    /// Mean log-probability a token, where the recogniser tells.
    pub mean_log_prob: Option<f32>,
}

/// When a word of a phrase sounds, from the start of the phrase's audio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordTime {
    /// Bytes of the phrase's text up to and including this word.
    pub text_end: usize,
    /// When it has been said completely.
    pub end: Duration,
}

/// Everything a language model is given for one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRequest {
    /// How to behave.
    pub instructions: String,
    /// What was said so far, oldest first; the agent's words only as far as they were heard.
    pub history: Vec<Message>,
    /// Tools on offer.
    pub tools: Vec<ToolSpec>,
    /// Which of them to use.
    pub tool_choice: ToolChoice,
    /// Most tokens to write; `None` is the model's own limit.
    pub max_tokens: Option<u32>,
    /// The agent's language (BCP 47), for models that care.
    pub language: String,
}

/// Tokens a model says it used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens it read.
    pub input_tokens: u32,
    /// Tokens it wrote.
    pub output_tokens: u32,
}

/// Why a model stopped writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It was done.
    Stop,
    /// It wants its tools run.
    ToolCalls,
    /// It reached the limit of tokens.
    Length,
    /// Its provider's content filter stopped it.
    ContentFilter,
}

/// An item of the conversation as a protocol client sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its name.
    pub id: ItemId,
    /// What it is.
    pub body: ItemBody,
    /// Whether it is whole.
    pub status: ItemStatus,
}

/// What an item is.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemBody {
    /// Something written by the client, or an answer in text.
    Text {
        /// Who.
        role: Role,
        /// The words.
        text: String,
    },
    /// The caller's speech; the transcript is `None` until the recogniser is done.
    Speech {
        /// What the recogniser understood.
        transcript: Option<String>,
    },
    /// The agent's speech.
    Spoken {
        /// All that was sent as transcript, or the heard prefix once truncated.
        transcript: String,
    },
    /// A request to run a tool.
    FunctionCall(ToolCall),
    /// What came of a tool.
    FunctionOutput {
        /// The call it answers.
        call_id: String,
        /// The result.
        output: String,
    },
}

/// Whether an item is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemStatus {
    /// Being made.
    InProgress,
    /// Whole.
    Completed,
    /// Stopped half-way.
    Incomplete,
}
