//! What can happen to a call and what it can want done: two closed enums.

use std::time::Duration;

use crate::admission::{Cancelled, Lease, OfferId, Terminal};
use crate::audio::Window;
use crate::dialogue::{Finish, ModelRequest, ToolCall, ToolOutcome, Transcript, Usage, WordTime};
use crate::evidence::{Evidence, Unknown};
use crate::fault::Fault;
use crate::id::{Generation, RunId, Stage, ToolId, UtteranceId};
use crate::leg::{FromCaller, Tag, ToCaller};

use super::rungs::{Arranged, Wish};

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// The leg is ready.
    Connected,
    /// The caller's end said something other than sound.
    Caller(FromCaller),
    /// The client says that the sound so far is one utterance.
    Commit {
        /// How much sound there is that was neither committed nor cleared.
        buffered: Duration,
        /// Position of its end in the caller's sound.
        at: Duration,
        /// The client's name for the request.
        tag: Tag,
    },
    /// The speech detector has heard another window.
    Speech {
        /// What it heard.
        window: Window,
        /// Position of its end in the caller's sound.
        at: Duration,
    },
    /// A recogniser answered.
    Recognised {
        /// Which run.
        run: RunId,
        /// Which request.
        seq: u32,
        /// It was a final request.
        is_final: bool,
        /// The words.
        transcript: Transcript,
    },
    /// The end-of-turn model answered.
    TurnJudged {
        /// About which utterance.
        utterance: UtteranceId,
        /// About which pause.
        seq: u32,
        /// The probability that the caller has finished.
        probability: f32,
    },
    /// A model wrote more words.
    Wrote {
        /// Which run.
        run: RunId,
        /// The words.
        text: String,
    },
    /// A model asked for a tool.
    Wanted {
        /// Which run.
        run: RunId,
        /// The call.
        call: ToolCall,
    },
    /// A model stopped writing.
    Finished {
        /// Which run.
        run: RunId,
        /// Why.
        finish: Finish,
        /// Tokens.
        usage: Usage,
    },
    /// More sound of a phrase, at the leg's rate.
    Sounded {
        /// Which run.
        run: RunId,
        /// Which phrase.
        phrase: u32,
        /// The sound.
        samples: Vec<i16>,
    },
    /// All sound of a phrase has come.
    PhraseSounded {
        /// Which run.
        run: RunId,
        /// Which phrase.
        phrase: u32,
        /// When its words sound.
        words: Vec<WordTime>,
    },
    /// A tool returned.
    ToolReturned {
        /// Which run.
        run: RunId,
        /// What came of it.
        outcome: ToolOutcome,
    },
    /// What the caller agreed to is arranged, or is not.
    Arranged {
        /// Which run.
        run: RunId,
        /// What came of it.
        what: Arranged,
    },
    /// A run is over, or nothing more can be known of it.
    Ended {
        /// Which run.
        run: RunId,
        /// What its end proves.
        proof: Result<Evidence, Unknown>,
        /// What went wrong.
        fault: Option<Fault>,
    },
    /// A wait is over: here is the unit.
    Granted(Lease),
    /// A wait is over without a unit.
    WaitEnded {
        /// Which offer.
        offer: OfferId,
        /// At which gate.
        stage: Stage,
        /// How.
        terminal: Terminal,
    },
    /// A timer the call asked for is due.
    Timeout,
    /// The server's drain window has closed: say so and end.
    Drain,
}

/// Something to be done. None of these waits for anything.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Tell the caller's end.
    Tell(ToCaller),
    /// The floor changed hands: output of the old generation has no authority any more.
    Fence {
        /// The generation that lost the floor.
        from: Generation,
        /// The generation that has it.
        to: Generation,
        /// Why.
        why: &'static str,
    },
    /// Start listening to an utterance.
    Recognise {
        /// The run.
        run: RunId,
        /// Feed it the caller's sound from this position on.
        from: Duration,
    },
    /// Ask a recogniser what was said so far.
    Decode {
        /// The run.
        run: RunId,
        /// Names the request.
        seq: u32,
        /// Its answer may become the turn's text.
        is_final: bool,
    },
    /// Ask the end-of-turn model about the present pause.
    JudgeTurn {
        /// About which utterance.
        utterance: UtteranceId,
        /// About which pause.
        seq: u32,
    },
    /// Start a model.
    Think {
        /// The run.
        run: RunId,
        /// What it is asked.
        request: Box<ModelRequest>,
    },
    /// Start a synthesiser.
    Voice {
        /// The run.
        run: RunId,
        /// The voice; `None` is the provider's default.
        voice: Option<String>,
        /// Speaking rate.
        speed: f32,
    },
    /// Give a synthesiser a phrase.
    Say {
        /// The run.
        run: RunId,
        /// The phrase's place in the answer.
        phrase: u32,
        /// The words.
        text: String,
    },
    /// Start a tool.
    UseTool {
        /// The run.
        run: RunId,
        /// Which.
        tool: ToolId,
        /// JSON arguments.
        arguments: String,
        /// The same key never takes effect twice.
        idempotency_key: String,
    },
    /// Fetch the sound of a prompt that was rendered ahead.
    Prompt {
        /// The run.
        run: RunId,
        /// Which prompt.
        prompt: String,
    },
    /// Arrange what the caller agreed to.
    Arrange {
        /// The run.
        run: RunId,
        /// What it is.
        wish: Box<Wish>,
    },
    /// Nothing more is given to this run.
    Close {
        /// The run.
        run: RunId,
    },
    /// Ask a run to stop.
    Cancel {
        /// The run.
        run: RunId,
        /// What for.
        why: Cancelled,
    },
    /// Sound that was not committed is no longer needed.
    ForgetSound,
}

/// Every deadline a call can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The next frame of sound is due.
    NextFrame,
    /// What was sent has been played.
    PlayedOut,
    /// A turn must become audible now, or the fallback speaks.
    TurnBudget,
    /// What announced a tool has been heard: it may start.
    Announced,
    /// An answer beside the conversation has stood still for too long.
    Beside,
    /// Ask for the words of suspected barge-in so far.
    Partial,
    /// A suspected barge-in that ended has waited for its words long enough.
    Resume,
    /// The caller's sound stopped coming in mid-speech.
    AudioGap,
    /// The recogniser owes the words of an ended utterance.
    FinalWords,
    /// The caller has spoken without a pause for too long.
    UtteranceMax,
    /// The keys pressed so far are a turn.
    Keys,
    /// What is being arranged has taken too long.
    Arranging,
    /// Nobody has spoken for the idle time.
    Idle,
    /// Nobody has spoken for so long that the call ends.
    IdleMax,
    /// A goodbye was to be heard by now.
    Goodbye,
    /// The call has reached its longest time.
    CallMax,
}

/// A time worth counting over all calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A turn became audible this long after its birth, or later than its budget allows.
    FirstAudio {
        /// How long.
        after: Duration,
        /// Later than the turn's budget.
        too_late: bool,
    },
    /// Our sending paused this long after the caller's speech had begun.
    BargeInStop(Duration),
    /// A model that was asked before the turn was certain became the turn's own, or did not.
    Guess {
        /// It did.
        adopted: bool,
    },
}
