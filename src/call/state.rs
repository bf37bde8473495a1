//! Where a call can be, and what it holds there: a state owns its data.

use std::time::Duration;

use super::fallback::Cause;
use super::greeting::GREETING;
use super::rungs::Arranging;
use crate::admission::{Cancelled, Lease, Refusal, Ticket};
use crate::dialogue::{Effect, Finish, ToolCall, Transcript, Usage};
use crate::fault::Fault;
use crate::id::{Generation, ItemId, ResponseId, RunId, Stage, ToolId, TurnId, UtteranceId};
use crate::leg::{HangUp, Modality, ResponseRequest, Tag};
use crate::time::Timestamp;
use crate::turn::phrase::Phraser;
use crate::turn::playout::Playout;

/// Who speaks.
#[derive(Debug)]
pub(super) enum Floor {
    /// The leg is not ready.
    Ringing,
    /// The caller may speak; `resumes` is the turn that waits for the client's function outputs.
    Listening {
        /// The turn that the next `response.create` goes on with.
        resumes: Option<TurnId>,
    },
    /// An answer is being made and nothing of it was sent.
    Thinking(Box<Answer>),
    /// An answer is being heard.
    Speaking(Box<Answer>),
    /// All of an answer was sent, its last part is still heard.
    PlayingOut(Box<Tail>),
    /// A prompt is being heard in place of an answer.
    FallingBack(Box<Consolation>),
    /// An alternative that the caller agreed to is being arranged, in silence.
    Arranging(Box<Arranging>),
    /// Over; leases may still be owed.
    Ended {
        /// Why.
        why: HangUp,
    },
}

/// What the caller is doing.
#[derive(Debug)]
pub(super) enum Ear {
    /// Not speaking.
    Quiet,
    /// Speaking while the agent is audible; our sending is paused, nothing was announced.
    Suspect(Box<Utterance>),
    /// Speaking.
    Hearing(Box<Utterance>),
}

/// An utterance that has ended; its words are not known yet. The caller may already say the next
/// one.
#[derive(Debug)]
pub(super) struct Settling {
    /// What was said.
    pub utterance: Utterance,
    /// The words must be known by then.
    pub by: Timestamp,
    /// What follows.
    pub then: Then,
}

/// What follows when an utterance's words are known.
#[derive(Debug)]
pub(super) enum Then {
    /// Nothing by ourselves.
    Nothing,
    /// An answer by ourselves.
    Answer,
    /// The answer the client asked for meanwhile, and when it did.
    Respond(Box<ResponseRequest>, Tag, Timestamp),
}

/// One stretch of the caller's speech.
#[derive(Debug)]
pub(super) struct Utterance {
    pub id: UtteranceId,
    /// The user item it becomes.
    pub item: ItemId,
    /// Position of its start in the caller's sound, prefix included.
    pub from: Duration,
    /// When it began.
    pub began: Timestamp,
    /// It was a confirmed barge-in: an answer was given up for it.
    pub took_floor: bool,
    /// It began over something that the agent said, which was no question: "mm-hmm" means "go on".
    pub over_statement: bool,
    /// When the last speech was heard.
    pub last_speech: Timestamp,
    /// Position behind the last speech.
    pub last_speech_at: Duration,
    pub recognition: Recognition,
    /// The newest words, from a partial.
    pub partial: Option<String>,
    /// When to ask for the next partial.
    pub partial_due: Timestamp,
    /// The present pause, if the caller pauses.
    pub pause: Option<Pause>,
}

/// A pause in an utterance, and what is known of the words before it.
#[derive(Debug)]
pub(super) struct Pause {
    /// Names the final request that was made for it.
    pub seq: u32,
    /// The answer.
    pub words: Option<Transcript>,
    /// The end-of-turn model's answer.
    pub judged: Option<f32>,
}

/// The recogniser of one utterance.
#[derive(Debug)]
pub(super) enum Recognition {
    /// Waits for a unit.
    Waiting(Ticket),
    /// Listens.
    Open(RunId),
    /// Its gate said no.
    Refused(Refusal),
    /// It waited too long.
    Expired,
    /// It failed.
    Failed(Fault),
}

/// The turn an answer belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub id: TurnId,
    /// end of the caller's speech, or the arrival of the request; while tools run the clock
    /// stands still, and their results are the birth of the next round (DESIGN section 4, *Protocol
    /// turns*).
    pub born: Timestamp,
    /// Something must be audible by then; `None` for answers in text.
    pub audible_by: Option<Timestamp>,
    /// Something was audible: a part of the answer, or the truth that it waits.
    pub heard: bool,
}

/// One answer in the making.
#[derive(Debug)]
pub(super) struct Answer {
    pub response: ResponseId,
    pub turn: Turn,
    pub request: ResponseRequest,
    pub modality: Modality,
    pub item: ItemId,
    /// The caller may take the floor from it.
    pub interruptible: bool,
    /// The message's events have begun.
    pub opened: bool,
    pub model: Model,
    pub voice: Voice,
    pub phraser: Phraser,
    pub phrases: u32,
    /// All words so far, in all rounds.
    pub written: String,
    /// Words sent to the caller's end as text.
    pub told: String,
    /// The caller's agreement to what changes something.
    pub consent: Consent,
    /// Tool calls of the present round.
    pub calls: Vec<ToolUse>,
    pub rounds: u32,
    /// Tool calls of earlier rounds.
    pub called: u32,
    /// When the model or a tool last did something for it.
    pub progress: Timestamp,
    /// The caller was told that it waits: once is enough.
    pub told_to_wait: bool,
    pub usage: Usage,
    pub playout: Playout,
}

/// The caller's yes. It holds for the turn in which it was said, for one call of a tool that was
/// refused for want of it before: whatever is tried again has to be agreed to again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consent {
    /// The caller said no yes.
    None,
    /// The turn's words were a yes to the agent's question, and nothing else.
    Given,
}

/// The model's part of an answer.
#[derive(Debug)]
pub(super) enum Model {
    /// Waits for a unit.
    Waiting(Ticket),
    /// Writes.
    Writing(RunId),
    /// Waits until this call's own cancelled runs have let their units go: nobody else's are free.
    Behind,
    /// Has stopped writing.
    Done(Finish),
}

/// The synthesiser's part of an answer.
#[derive(Debug)]
pub(super) enum Voice {
    /// Nothing to say (yet, or all that there was has come).
    Unasked,
    /// The same, and a unit is held for what the model is about to write.
    Claimed(Lease),
    /// Waits for a unit; these phrases wait with it.
    Waiting(Ticket, Vec<(u32, String)>),
    /// Speaks.
    Open(RunId),
    /// Has been given all phrases of its round; some sound may still come. Later phrases wait for
    /// its end, so that a call holds one unit at most and its sound stays in order.
    Closing(RunId, Vec<(u32, String)>),
    /// The answer failed when part of it had been heard.
    Broken(Cause),
}

/// One tool call of an answer.
#[derive(Debug)]
pub(super) struct ToolUse {
    pub call: ToolCall,
    pub state: ToolState,
}

/// Where a tool call is.
#[derive(Debug)]
pub(super) enum ToolState {
    /// Not started: the model is still writing.
    Wanted,
    /// It changes something: it starts once the words that announced it have been heard and the
    /// caller is quiet, who may still object.
    Held,
    /// Waits for a unit.
    Waiting(Ticket),
    /// Runs.
    Running(RunId),
    /// Its result is in the history.
    Returned,
    /// The client runs it.
    AtClient,
}

/// What still sounds of a finished answer.
#[derive(Debug)]
pub(super) struct Tail {
    pub item: ItemId,
    pub playout: Playout,
    /// The caller may take the floor from it.
    pub interruptible: bool,
    /// The turn waits for the client's function outputs.
    pub resumes: Option<TurnId>,
    /// The call ends when it has been heard.
    pub leaves: Option<Leaving>,
}

/// The call is coming to its end: a goodbye is being heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub why: HangUp,
    /// It ends by then, heard or not.
    pub by: Timestamp,
}

/// A prompt in place of an answer.
#[derive(Debug)]
pub(super) struct Consolation {
    pub text: String,
    pub item: ItemId,
    pub run: RunId,
    pub playout: Playout,
    pub opened: bool,
    /// The caller may take the floor from it.
    pub interruptible: bool,
    /// The answer that could not be given, if it was announced to the client.
    pub response: Option<(ResponseId, Usage)>,
    pub turn: Option<Turn>,
    /// Why it could not be given, in words.
    pub code: &'static str,
    pub message: String,
    pub then: Afterwards,
}

/// What follows a prompt.
#[derive(Debug)]
pub(super) enum Afterwards {
    /// The caller may speak.
    Listen,
    /// The answer is still waited for.
    Wait(Box<Answer>),
    /// What the caller agreed to is still being arranged.
    Arrange(Box<Arranging>),
    /// Hang up once it has been heard.
    HangUp(Leaving),
}

/// A unit that a call still has to give back.
#[derive(Debug)]
pub(super) struct Owed {
    pub lease: Option<Lease>,
    pub stage: Stage,
    pub generation: Generation,
    pub turn: Option<TurnId>,
    /// What a tool does to the world; `None` for everything else.
    pub effect: Option<Effect>,
    pub cancelled: Option<Cancelled>,
}

/// A tool that was started for an answer which lost the floor: its outcome is recorded and speaks
/// for nobody.
#[derive(Debug)]
pub(super) struct Orphan {
    pub call: ToolCall,
    pub tool: ToolId,
}

/// A run of which nothing is known any more: what it still sends has no authority and is counted.
#[derive(Debug)]
pub(super) struct Stray {
    pub generation: Generation,
    /// The tool call whose outcome was recorded as unknown.
    pub call_id: Option<String>,
}

/// An answer in text beside the conversation (`conversation: "none"`).
#[derive(Debug)]
pub(super) struct Side {
    pub item: ItemId,
    pub model: Model,
    pub text: String,
    /// Functions of the client that the model asked for.
    pub calls: Vec<ToolCall>,
    pub opened: bool,
    /// When the model last did something for it.
    pub progress: Timestamp,
    pub request: ResponseRequest,
}

impl Floor {
    /// The caller may hear the agent right now.
    pub fn is_audible(&self) -> bool {
        match self {
            Floor::Speaking(_) | Floor::PlayingOut(_) => true,
            Floor::FallingBack(prompt) => prompt.playout.has_sent(),
            Floor::Ringing
            | Floor::Arranging(_)
            | Floor::Listening { .. }
            | Floor::Thinking(_)
            | Floor::Ended { .. } => false,
        }
    }

    /// The caller may take the floor from what sounds or is about to.
    pub fn is_interruptible(&self) -> bool {
        match self {
            Floor::Thinking(answer) | Floor::Speaking(answer) => answer.interruptible,
            Floor::PlayingOut(tail) => tail.interruptible,
            Floor::FallingBack(prompt) => prompt.interruptible,
            // What is said meanwhile is kept and answered behind it.
            Floor::Arranging(_) => false,
            Floor::Ringing | Floor::Listening { .. } | Floor::Ended { .. } => true,
        }
    }

    /// The call ends behind what is heard now.
    pub fn leaving(&self) -> Option<Leaving> {
        match self {
            Floor::FallingBack(prompt) => match &prompt.then {
                Afterwards::HangUp(leaving) => Some(*leaving),
                Afterwards::Listen | Afterwards::Wait(_) | Afterwards::Arrange(_) => None,
            },
            Floor::PlayingOut(tail) => tail.leaves,
            Floor::Ringing
            | Floor::Arranging(_)
            | Floor::Listening { .. }
            | Floor::Thinking(_)
            | Floor::Speaking(_)
            | Floor::Ended { .. } => None,
        }
    }

    /// The answer in the making, if there is one.
    pub fn answer(&mut self) -> Option<&mut Answer> {
        match self {
            Floor::Thinking(answer) | Floor::Speaking(answer) => Some(answer),
            Floor::FallingBack(prompt) => match &mut prompt.then {
                Afterwards::Wait(answer) => Some(answer),
                Afterwards::Listen | Afterwards::Arrange(_) | Afterwards::HangUp(_) => None,
            },
            Floor::Ringing
            | Floor::Arranging(_)
            | Floor::Listening { .. }
            | Floor::PlayingOut(_)
            | Floor::Ended { .. } => None,
        }
    }

    /// The sound on its way to the caller, with its item.
    pub fn playout(&mut self) -> Option<(&ItemId, &mut Playout)> {
        match self {
            Floor::Thinking(answer) | Floor::Speaking(answer) => {
                Some((&answer.item, &mut answer.playout))
            }
            Floor::PlayingOut(tail) => Some((&tail.item, &mut tail.playout)),
            Floor::FallingBack(prompt) => Some((&prompt.item, &mut prompt.playout)),
            Floor::Ringing
            | Floor::Arranging(_)
            | Floor::Listening { .. }
            | Floor::Ended { .. } => None,
        }
    }

    /// The name of the state in traces.
    pub fn name(&self) -> &'static str {
        match self {
            Floor::Ringing => "ringing",
            Floor::Listening { .. } => "listening",
            Floor::Thinking(answer) | Floor::Speaking(answer) if answer.turn.id == GREETING => {
                "greeting"
            }
            Floor::Thinking(_) => "thinking",
            Floor::Speaking(_) => "speaking",
            Floor::PlayingOut(_) => "playing_out",
            Floor::FallingBack(_) => "falling_back",
            Floor::Arranging(_) => "arranging",
            Floor::Ended { .. } => "ended",
        }
    }
}

impl Ear {
    /// The utterance being heard, if there is one.
    pub fn utterance(&mut self) -> Option<&mut Utterance> {
        match self {
            Ear::Quiet => None,
            Ear::Suspect(utterance) | Ear::Hearing(utterance) => Some(utterance),
        }
    }

    /// The name of the state in traces.
    pub fn name(&self) -> &'static str {
        match self {
            Ear::Quiet => "quiet",
            Ear::Suspect(_) => "suspect",
            Ear::Hearing(_) => "hearing",
        }
    }
}

impl Settling {
    /// Nothing is known of its words yet.
    pub fn is_open(&self) -> bool {
        let words = self.utterance.pause.as_ref().and_then(|pause| pause.words.as_ref());
        words.is_none()
            && matches!(self.utterance.recognition, Recognition::Open(_) | Recognition::Waiting(_))
    }
}
