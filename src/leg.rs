//! All that a transport can say to a call, and all that a call can say to a transport.
//!
//! A transport knows nothing of gates, floors or providers: it turns bytes into [`FromCaller`] and
//! [`ToCaller`] into bytes. Protocol objects (sessions, events, their order) are its own business;
//! the conversation's items live in the call, because the history a model sees is made from them.

mod line;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use crate::audio::Pcm;
use crate::dialogue::{Item, Message, ToolChoice, ToolSpec, Transcript, Usage};
use crate::id::{Generation, ItemId, ResponseId, TurnId, UtteranceId};

pub use line::{Line, NotTaken};
pub use settings::{EndOfTurn, Modality, ServerTurns, Settings, TurnDetection};

/// What happened at the caller's end.
#[derive(Clone, Debug, PartialEq)]
pub enum FromCaller {
    /// Sound: mono 16 kHz, of any length (the runtime cuts it into frames).
    Audio(Vec<i16>),
    /// The whole of the session's settings, as they now are.
    Configure(Box<Settings>),
    /// The sound so far is one utterance (manual turn taking).
    CommitAudio {
        /// The client's name for this request, for its error.
        tag: Tag,
    },
    /// Forget the sound that was not committed.
    ClearAudio,
    /// Put an item into the conversation.
    AddItem {
        /// The item; its id is the client's or was made by the transport.
        item: Item,
        /// Where.
        after: Place,
        /// The client's name for this request, for its error.
        tag: Tag,
    },
    /// Take an item out of the conversation.
    DeleteItem {
        /// Which.
        item: ItemId,
        /// The client's name for this request, for its error.
        tag: Tag,
    },
    /// Show an item.
    RetrieveItem {
        /// Which.
        item: ItemId,
        /// The client's name for this request, for its error.
        tag: Tag,
    },
    /// The caller heard this much of the item and will hear no more of it.
    Truncate {
        /// Which item of the agent.
        item: ItemId,
        /// How much of its sound was played.
        played: Duration,
        /// The client's name for this request, for its error.
        tag: Tag,
    },
    /// Answer now.
    Respond {
        /// How, where it differs from the session.
        request: Box<ResponseRequest>,
        /// The client's name for this request, for its error.
        tag: Tag,
    },
    /// Stop answering.
    Cancel {
        /// Only this response, where named.
        response: Option<ResponseId>,
        /// The client's name for this request, for its error.
        tag: Tag,
    },
    /// The far end reports how much of an item it has played.
    Heard {
        /// Which item of the agent.
        item: ItemId,
        /// How much of its sound.
        played: Duration,
    },
    /// A key was pressed.
    Dtmf(char),
    /// The connection broke, and the call is kept for its client to come back.
    Lost {
        /// How, in a word: `reset`, `timeout`, `taken_over`.
        how: &'static str,
        /// Nothing had come from the caller's end for so long: it need not have heard what was sent
        /// meanwhile.
        silent_for: Duration,
    },
    /// The client of a lost connection is there again.
    Back,
    /// The caller has gone or the connection broke.
    Gone {
        /// How, in a word: `closed`, `reset`, `timeout`, `protocol`.
        how: &'static str,
    },
}

/// The client's own name for a request (`event_id`), given back in the error that answers it.
pub type Tag = Option<Arc<str>>;

/// Where an item goes.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Place {
    /// At the end.
    #[default]
    End,
    /// Before all others.
    Front,
    /// Behind this one.
    After(ItemId),
}

/// `response.create`: what differs from the session for this one answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResponseRequest {
    /// Written to no conversation; may run beside another.
    pub out_of_band: bool,
    /// The context to answer instead of the conversation's own.
    pub input: Option<Vec<InputItem>>,
    /// Instructions for this answer.
    pub instructions: Option<String>,
    /// Spoken or written.
    pub modality: Option<Modality>,
    /// Tools for this answer.
    pub tools: Option<Vec<ToolSpec>>,
    /// Tool choice for this answer.
    pub tool_choice: Option<ToolChoice>,
    /// Token limit for this answer; `Some(None)` is "no limit".
    pub max_tokens: Option<Option<u32>>,
    /// The voice for this answer.
    pub voice: Option<String>,
    /// JSON object to be given back untouched in this response's events.
    pub metadata: Option<serde_json::Value>,
}

/// One entry of a `response.create`'s own input.
#[derive(Clone, Debug, PartialEq)]
pub enum InputItem {
    /// An item of the conversation.
    Reference(ItemId),
    /// A message given with the request.
    Inline(Message),
}

/// What the call tells the caller's end.
#[derive(Clone, Debug, PartialEq)]
pub enum ToCaller {
    /// The caller began to speak; the item is the one the utterance becomes.
    SpeechStarted {
        /// The user item to be.
        item: ItemId,
        /// Position in the sound written so far, prefix included.
        at: Duration,
    },
    /// The caller's turn ended.
    SpeechStopped {
        /// The user item to be.
        item: ItemId,
        /// Position in the sound written so far, silence included.
        at: Duration,
    },
    /// Nobody spoke for the idle time; a commit follows.
    IdleTimeout {
        /// The user item to be.
        item: ItemId,
        /// From here.
        from: Duration,
        /// To here.
        to: Duration,
    },
    /// The utterance is an item now.
    Committed {
        /// The user item.
        item: ItemId,
        /// The item before it.
        after: Option<ItemId>,
    },
    /// The sound that was not committed is forgotten.
    AudioCleared,
    /// An item is in the conversation (and, unless in progress, whole).
    ItemAdded {
        /// The item.
        item: Item,
        /// The item before it.
        after: Option<ItemId>,
    },
    /// What the caller said.
    Transcribed {
        /// The user item.
        item: ItemId,
        /// The utterance.
        utterance: UtteranceId,
        /// The words.
        transcript: Transcript,
        /// Length of the sound.
        spoken: Duration,
    },
    /// What the caller said could not be made out.
    TranscriptionFailed {
        /// The user item.
        item: ItemId,
        /// Stable code.
        code: &'static str,
        /// What happened, in a sentence.
        message: String,
    },
    /// An answer begins.
    ResponseStarted(ResponseHead),
    /// A message of an answer begins.
    MessageStarted {
        /// The answer.
        response: ResponseId,
        /// The agent's item.
        item: ItemId,
        /// The item before it; `None` when out of band or first.
        after: Option<ItemId>,
        /// Spoken or written.
        modality: Modality,
    },
    /// More words of a message (its transcript, when it is spoken).
    Text {
        /// The answer.
        response: ResponseId,
        /// The agent's item.
        item: ItemId,
        /// The words to append.
        delta: String,
    },
    /// More sound of a message, at the leg's rate, already paced.
    Audio {
        /// The answer; `None` for a greeting or a prompt outside any answer.
        response: Option<ResponseId>,
        /// The agent's item.
        item: ItemId,
        /// Under whose authority it is sent.
        generation: Generation,
        /// The sound.
        pcm: Pcm,
    },
    /// A message is over.
    MessageEnded {
        /// The answer.
        response: ResponseId,
        /// The agent's item.
        item: ItemId,
        /// Whole, or stopped half-way.
        completed: bool,
        /// All that was sent of its text.
        text: String,
    },
    /// The model asks the client to run a function.
    FunctionCalled {
        /// The answer.
        response: ResponseId,
        /// The item.
        item: ItemId,
        /// The item before it.
        after: Option<ItemId>,
        /// What to run.
        call: crate::dialogue::ToolCall,
    },
    /// An answer is over; nothing of it follows.
    ResponseEnded {
        /// The answer.
        response: ResponseId,
        /// How.
        end: ResponseEnd,
        /// Tokens used.
        usage: Usage,
    },
    /// An agent's item was cut to what was heard.
    Truncated {
        /// The item.
        item: ItemId,
        /// How much was heard.
        played: Duration,
    },
    /// The item asked for.
    Retrieved(Item),
    /// The item is gone.
    Deleted {
        /// Which.
        item: ItemId,
    },
    /// A request was wrong and changed nothing.
    Rejected {
        /// Stable code of the protocol.
        code: &'static str,
        /// What was wrong and what would be right.
        message: String,
        /// The field, where there is one.
        param: Option<&'static str>,
        /// The client's name for the request.
        tag: Tag,
    },
    /// Throw away what the far end has buffered of the agent's sound.
    ClearFarEnd {
        /// The item that was sounding.
        item: ItemId,
        /// How much of it was heard.
        played: Duration,
    },
    /// Extra: what of an item of the agent's speech was heard, once no more of it will be.
    Heard {
        /// The item.
        item: ItemId,
        /// How much of it.
        played: Duration,
        /// Which words.
        words: String,
    },
    /// Extra: our sending paused, resumed, or was cleared for good.
    Playout {
        /// Which of the three.
        state: PlayoutState,
        /// The item that was sounding.
        item: ItemId,
        /// How much of it was heard.
        played: Duration,
    },
    /// Extra: what a gate decided about this call's work.
    Admission(AdmissionNote),
    /// Extra: a turn was committed, or has ended.
    Turn {
        /// Which.
        turn: TurnId,
        /// `committed`, `answered`, `superseded`, `interrupted`, `failed`.
        state: &'static str,
        /// The generation it runs under.
        generation: Generation,
    },
    /// Extra: output of an old generation came and was suppressed.
    LateOutput {
        /// Where: `model`, `synthesis`, `tool`, `transport`.
        stage: &'static str,
        /// Whose it was.
        generation: Generation,
    },
    /// Extra: a rung of the fallback ladder was tried.
    Fallback {
        /// The rung.
        rung: &'static str,
        /// `established`, `refused`, `not_offered`.
        outcome: &'static str,
        /// The prompt that is spoken.
        prompt: String,
    },
    /// Somebody whom the caller speaks with has pressed a key.
    Key(char),
    /// The call is over; close the connection.
    HangUp {
        /// Why.
        why: HangUp,
    },
}

/// How an answer begins.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseHead {
    /// The answer.
    pub response: ResponseId,
    /// It writes to no conversation.
    pub out_of_band: bool,
    /// Spoken or written.
    pub modality: Modality,
    /// The voice, where it differs from the session's.
    pub voice: Option<String>,
    /// Token limit.
    pub max_tokens: Option<u32>,
    /// The client's metadata, untouched.
    pub metadata: Option<serde_json::Value>,
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResponseEnd {
    /// All of it was sent.
    Completed,
    /// The caller took the floor.
    TurnDetected,
    /// The client cancelled it.
    ClientCancelled,
    /// It reached the token limit.
    MaxTokens,
    /// The provider's filter stopped it.
    ContentFilter,
    /// It could not be made.
    Failed {
        /// Stable code (`admission_capacity`, `provider_slow`, …).
        code: &'static str,
        /// What happened, in a sentence.
        message: String,
    },
}

/// What became of our sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayoutState {
    /// Stopped, may go on.
    Paused,
    /// Goes on where it stopped.
    Resumed,
    /// Gone for good.
    Cleared,
}

/// What a gate decided, in words that need no knowledge of admission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionNote {
    /// The gate: `model`, `tool:find_slot`, …
    pub gate: String,
    /// `admitted`, `queued`, `overloaded`, `expired`, …
    pub disposition: &'static str,
    /// The finer reason (`no_queue`, `draining`, `claim`, …); empty when there is none.
    pub reason: &'static str,
    /// The turn it was for.
    pub turn: Option<TurnId>,
    /// The generation it was for.
    pub generation: Generation,
}

/// Why a call is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HangUp {
    /// The caller left.
    CallerGone,
    /// The agent said goodbye.
    Goodbye,
    /// A human has taken the caller.
    HandedOver,
    /// The server drains and its window closed.
    Drained,
    /// Nobody has spoken for long.
    Idle,
    /// The call reached its longest time.
    TooLong,
    /// The peer broke the protocol or did not read.
    Misbehaved,
    /// A bug on our side ended this call.
    Broken,
}

impl HangUp {
    /// Every reason.
    pub const ALL: [HangUp; 8] = [
        HangUp::CallerGone,
        HangUp::Goodbye,
        HangUp::HandedOver,
        HangUp::Drained,
        HangUp::Idle,
        HangUp::TooLong,
        HangUp::Misbehaved,
        HangUp::Broken,
    ];

    /// What was said before is still to be heard.
    pub fn lets_finish(self) -> bool {
        match self {
            HangUp::CallerGone | HangUp::Misbehaved | HangUp::Broken => false,
            HangUp::Goodbye
            | HangUp::HandedOver
            | HangUp::Drained
            | HangUp::Idle
            | HangUp::TooLong => true,
        }
    }

    /// The stable label of traces, metrics and records.
    pub fn label(self) -> &'static str {
        match self {
            HangUp::CallerGone => "caller_gone",
            HangUp::Goodbye => "goodbye",
            HangUp::HandedOver => "handed_over",
            HangUp::Drained => "drained",
            HangUp::Idle => "idle",
            HangUp::TooLong => "too_long",
            HangUp::Misbehaved => "misbehaved",
            HangUp::Broken => "broken",
        }
    }
}
