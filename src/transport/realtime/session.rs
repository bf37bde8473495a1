//! The session object: what the agent's profile gives, what the client made of it, how it is shown.

use serde::Serialize;
use serde_json::Value;

use super::format::{Format, FormatObject};
use super::tools::{ChoiceObject, ToolObject};
use super::turns::{Turns, TurnsObject, rounded};
use crate::dialogue::{ToolChoice, ToolSpec};
use crate::leg::{Modality, ServerTurns, Settings, TurnDetection};
use crate::time::ms;

/// How long a session may last by what it says of itself, in seconds.
const SESSION_S: u64 = 3_600;

/// What a session begins with: the agent's profile, and what only the runtime knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// The name of the model, as the session shows it; it cannot change.
    pub model: String,
    /// How the agent is to behave.
    pub instructions: String,
    /// The name of the agent's own voice.
    pub voice: String,
    /// The agent's own tools, which run here. They are not shown to the client (who would think
    /// that it has to run them), and a client's `tools` do not take them away; a client's tool of
    /// the same name comes first.
    pub tools: Vec<ToolSpec>,
    /// Who decides that the caller's turn has ended.
    pub turn_detection: TurnDetection,
    /// Spoken or written answers.
    pub modality: Modality,
    /// Most tokens an answer may have; `None` is no limit.
    pub max_tokens: Option<u32>,
    /// The name that `transcription.model` gets when a client leaves it out.
    pub transcription_model: String,
    /// Wall-clock time in seconds since 1970, for `expires_at`.
    pub now_s: u64,
    /// Letters and digits that no other session has: part of every id.
    pub id_seed: String,
    /// Refuse keys that nobody knows instead of ignoring them.
    pub strict: bool,
    /// A `session` object to begin with: the one an ephemeral key was made for.
    pub session: Option<Value>,
}

/// What is known of server turns when the agent's profile has none.
pub(super) const SERVER_TURNS: ServerTurns = ServerTurns {
    threshold: 0.5,
    prefix: ms(300),
    end: crate::leg::EndOfTurn::Silence(ms(500)),
    create_response: true,
    interrupt_response: true,
    idle: None,
};

/// What kind of session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Realtime,
    Transcription,
}

/// `audio.input.transcription`. Extra keys are not kept: strict clients choke on their echo (T2).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Transcription {
    pub model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// A session's settings as the client sees them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Session {
    pub kind: Kind,
    pub id: String,
    pub model: String,
    pub expires_at_s: u64,
    pub modality: Modality,
    pub instructions: String,
    pub tools: Vec<ToolSpec>,
    pub tool_choice: ToolChoice,
    pub max_tokens: Option<u32>,
    pub input_format: Format,
    pub output_format: Format,
    pub transcription: Option<Transcription>,
    pub noise_reduction: Option<&'static str>,
    pub turns: Option<Turns>,
    pub voice: String,
    /// The client chose the voice; else it is the agent's own.
    pub voice_chosen: bool,
    pub speed: f32,
    pub extra_events: bool,
    /// Accepted and shown, without any effect: they are about the vendor's own services.
    pub tracing: Value,
    pub truncation: Value,
    pub prompt: Value,
    pub include: Value,
    pub reasoning: Value,
    pub parallel_tool_calls: Option<bool>,
}

impl Session {
    /// The session before the client said anything.
    pub fn new(defaults: &Defaults) -> Self {
        let turns = match defaults.turn_detection {
            TurnDetection::Manual => None,
            TurnDetection::Server(server) => Some(Turns::of(server)),
        };
        Session {
            kind: Kind::Realtime,
            id: format!("sess_{}", defaults.id_seed),
            model: defaults.model.clone(),
            expires_at_s: defaults.now_s + SESSION_S,
            modality: defaults.modality,
            instructions: defaults.instructions.clone(),
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            max_tokens: defaults.max_tokens,
            input_format: Format::Pcm,
            output_format: Format::Pcm,
            transcription: None,
            noise_reduction: None,
            turns,
            voice: defaults.voice.clone(),
            voice_chosen: false,
            speed: 1.0,
            extra_events: false,
            tracing: Value::Null,
            truncation: Value::from("auto"),
            prompt: Value::Null,
            include: Value::Null,
            reasoning: Value::Null,
            parallel_tool_calls: None,
        }
    }

    /// The same for the call; `own_tools` are the agent's.
    pub fn settings(&self, own_tools: &[ToolSpec]) -> Settings {
        let shadowed = |own: &&ToolSpec| !self.tools.iter().any(|tool| tool.name == own.name);
        let tools = self.tools.iter().chain(own_tools.iter().filter(shadowed)).cloned().collect();
        Settings {
            instructions: self.instructions.clone(),
            tools,
            tool_choice: self.tool_choice.clone(),
            max_tokens: self.max_tokens,
            modality: self.modality,
            voice: self.voice_chosen.then(|| self.voice.clone()),
            speed: self.speed,
            out_rate_hz: self.output_format.rate_hz(),
            stops_at_pause: false,
            turn_detection: self
                .turns
                .map_or(TurnDetection::Manual, |turns| TurnDetection::Server(turns.server)),
            transcribe: self.transcription.is_some(),
            transcription_only: self.kind == Kind::Transcription,
            extra_events: self.extra_events,
        }
    }

    /// The whole object, as `session.created` and `session.updated` show it.
    pub fn object(&self) -> SessionObject<'_> {
        let input = InputObject {
            format: self.input_format.object(),
            transcription: self.transcription.as_ref(),
            noise_reduction: self.noise_reduction.map(|r#type| NoiseObject { r#type }),
            turn_detection: self.turns.map(|turns| turns.object()),
        };
        match self.kind {
            Kind::Realtime => SessionObject::Realtime(Box::new(self.realtime_object(input))),
            Kind::Transcription => SessionObject::Transcription {
                r#type: "transcription",
                object: "realtime.transcription_session",
                id: &self.id,
                expires_at: self.expires_at_s,
                audio: InputOnly { input },
                include: &self.include,
            },
        }
    }

    fn realtime_object<'a>(&'a self, input: InputObject<'a>) -> RealtimeObject<'a> {
        RealtimeObject {
            r#type: "realtime",
            object: "realtime.session",
            id: &self.id,
            model: &self.model,
            output_modalities: [modality_word(self.modality)],
            instructions: &self.instructions,
            tools: self.tools.iter().map(ToolObject::of).collect(),
            tool_choice: ChoiceObject::of(&self.tool_choice),
            max_output_tokens: MaxTokens::of(self.max_tokens),
            tracing: &self.tracing,
            truncation: &self.truncation,
            prompt: &self.prompt,
            expires_at: self.expires_at_s,
            audio: AudioObject {
                input,
                output: OutputObject {
                    format: self.output_format.object(),
                    voice: &self.voice,
                    speed: Some(rounded(self.speed)),
                },
            },
            include: &self.include,
            reasoning: Some(&self.reasoning).filter(|value| !value.is_null()),
            parallel_tool_calls: self.parallel_tool_calls,
            floorkeeper: self.extra_events.then_some(ExtraObject { events: true }),
        }
    }
}

/// `audio` or `text`.
pub(super) fn modality_word(modality: Modality) -> &'static str {
    match modality {
        Modality::Audio => "audio",
        Modality::Text => "text",
    }
}

/// A session object of either kind.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum SessionObject<'a> {
    Realtime(Box<RealtimeObject<'a>>),
    Transcription {
        r#type: &'static str,
        object: &'static str,
        id: &'a str,
        expires_at: u64,
        audio: InputOnly<'a>,
        include: &'a Value,
    },
}

#[derive(Serialize)]
pub(super) struct RealtimeObject<'a> {
    r#type: &'static str,
    object: &'static str,
    id: &'a str,
    model: &'a str,
    output_modalities: [&'static str; 1],
    instructions: &'a str,
    tools: Vec<ToolObject<'a>>,
    tool_choice: ChoiceObject<'a>,
    max_output_tokens: MaxTokens,
    tracing: &'a Value,
    truncation: &'a Value,
    prompt: &'a Value,
    expires_at: u64,
    audio: AudioObject<'a>,
    include: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    floorkeeper: Option<ExtraObject>,
}

#[derive(Serialize)]
struct AudioObject<'a> {
    input: InputObject<'a>,
    output: OutputObject<'a>,
}

#[derive(Serialize)]
pub(super) struct InputOnly<'a> {
    input: InputObject<'a>,
}

#[derive(Serialize)]
struct InputObject<'a> {
    format: FormatObject,
    transcription: Option<&'a Transcription>,
    noise_reduction: Option<NoiseObject>,
    turn_detection: Option<TurnsObject>,
}

#[derive(Serialize)]
struct NoiseObject {
    r#type: &'static str,
}

/// `audio.output` of a session, or (without a speed) of a response.
#[derive(Serialize)]
pub(super) struct OutputObject<'a> {
    pub format: FormatObject,
    pub voice: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
}

#[derive(Serialize)]
struct ExtraObject {
    events: bool,
}

/// A token limit: a number or `"inf"`.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum MaxTokens {
    Some(u32),
    None(&'static str),
}

impl MaxTokens {
    pub fn of(limit: Option<u32>) -> Self {
        limit.map_or(MaxTokens::None("inf"), MaxTokens::Some)
    }
}
