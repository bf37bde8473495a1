//! A session's settings, and who decides that a turn has ended.

use std::time::Duration;

use crate::dialogue::{ToolChoice, ToolSpec};

/// A session's settings as a call needs them: valid, complete, typed.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How the agent is to behave.
    pub instructions: String,
    /// Tools on offer.
    pub tools: Vec<ToolSpec>,
    /// Which of them to use.
    pub tool_choice: ToolChoice,
    /// Most tokens an answer may have.
    pub max_tokens: Option<u32>,
    /// Spoken or written answers.
    pub modality: Modality,
    /// The synthesiser's voice; `None` is the agent's own.
    pub voice: Option<String>,
    /// Speaking rate: 0.25 to 1.5, 1 is normal.
    pub speed: f32,
    /// Rate of the agent's sound on this leg, in Hz.
    pub out_rate_hz: u32,
    /// A pause silences the far end at once; on resume the leg sends again what was not heard.
    pub stops_at_pause: bool,
    /// Who decides that the caller's turn has ended.
    pub turn_detection: TurnDetection,
    /// The client wants transcripts of the caller's speech.
    pub transcribe: bool,
    /// A session that only transcribes and never answers.
    pub transcription_only: bool,
    /// The client asked for `floorkeeper.*` events.
    pub extra_events: bool,
}

/// Whether an answer is spoken or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Modality {
    /// Spoken, with its transcript.
    Audio,
    /// Written.
    Text,
}

/// Who decides that the caller's turn has ended, and what follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TurnDetection {
    /// The client does (push to talk).
    Manual,
    /// We do.
    Server(ServerTurns),
}

/// How we detect turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerTurns {
    /// Speech probability above which there is speech: 0 to 1.
    pub threshold: f32,
    /// Sound kept from before the first speech.
    pub prefix: Duration,
    /// What ends a turn.
    pub end: EndOfTurn,
    /// Answer by ourselves when the turn has ended.
    pub create_response: bool,
    /// The caller's speech stops a running answer.
    pub interrupt_response: bool,
    /// After this long without speech behind an answer the caller's silence is a turn of its own.
    pub idle: Option<Duration>,
}

/// What ends a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EndOfTurn {
    /// This much silence.
    Silence(Duration),
    /// What was said decides, as the configuration's policy reads it; this much silence at the
    /// latest.
    Content {
        /// Silence that ends the turn whatever was said.
        at_most: Duration,
    },
}
