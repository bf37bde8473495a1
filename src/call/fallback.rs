//! The one door where refusals and faults meet: something true is said, and the turn has failed.

use std::fmt;

use super::state::{Afterwards, Answer, Consolation, Floor, Leaving, Model, Tail, Turn, Voice};
use super::{Action, Call, GOODBYE_MAX};
use crate::admission::{Admit, Cancelled, Refusal};
use crate::dialogue::Usage;
use crate::evidence::{CallbackReceipt, HandoffAck};
use crate::fallback::{NotReached, Rung, Skip, Skipped};
use crate::fault::Fault;
use crate::id::{ResponseId, RunId, Stage};
use crate::leg::{HangUp, Modality, ResponseEnd, ToCaller};
use crate::time::Timestamp;

/// Why an answer cannot be given as it was meant to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A gate said no.
    Refused(Refusal),
    /// It waited at a gate until its deadline.
    Expired(Stage),
    /// A provider failed.
    Failed(Stage, Fault),
    /// It still waits at a gate, and the caller has to be told something now.
    StillQueued(Stage),
    /// Nothing audible came within the turn's budget.
    BudgetSpent,
    /// A human was asked and does not take the caller.
    NotReached(NotReached),
    /// The call itself comes to its end.
    CallEnds(HangUp),
}

impl Cause {
    /// A gate's refusal.
    pub fn refused(refusal: Refusal) -> Cause {
        Cause::Refused(refusal)
    }

    /// A rung's own gate, or what stands behind it, did not establish it.
    pub(super) fn is_of_rung(&self) -> bool {
        let stage = match self {
            Cause::Refused(refusal) => Some(refusal.stage),
            Cause::Expired(stage) | Cause::Failed(stage, _) | Cause::StillQueued(stage) => {
                Some(*stage)
            }
            Cause::NotReached(_) => Some(Stage::Handoff),
            Cause::BudgetSpent | Cause::CallEnds(_) => None,
        };
        matches!(stage, Some(Stage::Callback | Stage::Handoff))
    }

    /// A wait that ran out.
    pub fn expired(stage: Stage) -> Cause {
        Cause::Expired(stage)
    }

    /// A provider's fault.
    pub fn fault(stage: Stage, fault: &Fault) -> Cause {
        Cause::Failed(stage, fault.clone())
    }

    /// The stable code of `status_details.error` and of transcription failures.
    pub fn code(&self) -> &'static str {
        match self {
            Cause::Refused(refusal) => refusal.reason.disposition().http_code,
            Cause::Expired(_) => "admission_queue_timeout",
            Cause::Failed(_, fault) if fault.is_overload() => "provider_overloaded",
            Cause::Failed(_, Fault::Slow { .. }) => "provider_slow",
            Cause::Failed(_, Fault::Empty) => "provider_empty",
            Cause::Failed(..) => "provider_failed",
            Cause::StillQueued(_) => "admission_queued",
            Cause::BudgetSpent => "turn_budget_spent",
            Cause::NotReached(_) => "handoff_failed",
            Cause::CallEnds(why) => why.label(),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Refused(refusal) => {
                write!(f, "The {} stage refused: {}.", refusal.stage, refusal.reason.disposition())
            }
            Cause::Expired(stage) => {
                write!(f, "The {stage} stage had no room before the turn's deadline.")
            }
            Cause::Failed(stage, fault) => write!(f, "The {stage} stage failed: {fault}."),
            Cause::StillQueued(stage) => write!(f, "Still waiting for the {stage} stage."),
            Cause::BudgetSpent => f.write_str("Nothing audible came within the turn's budget."),
            Cause::NotReached(how) => write!(f, "Nobody took the caller: {}.", how.label()),
            Cause::CallEnds(why) => write!(f, "The call comes to its end: {}.", why.label()),
        }
    }
}

impl Call {
    /// Says something true in place of an answer, or of the rest of it.
    pub(super) fn fall_back(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        cause: Cause,
        answer: Answer,
    ) {
        if answer.opened && answer.modality == Modality::Audio {
            let (script, sent) = (answer.playout.script(), answer.playout.sent_time());
            // All that was sent will be heard: nobody clears it.
            self.history.set_heard(&answer.item, script, sent, sent);
            self.tell_heard(&answer.item);
        }
        self.cut_message(&answer);
        let (response, usage, turn) = (answer.response, answer.usage, answer.turn);
        match answer.modality {
            Modality::Audio => {
                let response = Some((response, usage));
                self.console(now, admit, &cause, response, Some(turn), Afterwards::Listen);
            }
            Modality::Text => {
                self.floor = Floor::Listening { resumes: None };
                let (code, message) = (cause.code(), cause.to_string());
                let end = ResponseEnd::Failed { code, message };
                self.tell(ToCaller::ResponseEnded { response, end, usage });
                self.tell_turn(turn.id, "failed");
            }
        }
    }

    /// Chooses the next rung and what it says, and says it.
    pub(super) fn console(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        cause: &Cause,
        response: Option<(ResponseId, Usage)>,
        turn: Option<Turn>,
        then: Afterwards,
    ) {
        let listens = matches!(then, Afterwards::Listen);
        let standing = Standing {
            retries: self.retries,
            tried: &self.tried,
            callback: listens && self.may_offer(admit, Rung::Callback),
            handoff: listens && self.may_offer(admit, Rung::Handoff),
            on_record: self.on_record.as_ref(),
        };
        let said = self.profile.fallback.choose(cause, &self.profile.language, &standing);
        // Not offered and not waiting are no refusals.
        let refused =
            |skipped: &&Skipped| !matches!(skipped.why, Skip::NotOffered | Skip::NotQueued);
        for skipped in said.skipped.iter().filter(refused) {
            self.tell_rung(skipped.rung, skipped.why.label());
        }
        self.note_offer(cause, &said);
        self.retries += u32::from(said.rung == Rung::Retry);
        let then = match then {
            Afterwards::Listen if said.ends_call => {
                self.stop_listening(now, admit, Cancelled::HangUp);
                Afterwards::HangUp(Leaving { why: HangUp::Goodbye, by: now + GOODBYE_MAX })
            }
            then @ (Afterwards::Listen
            | Afterwards::Wait(_)
            | Afterwards::Arrange(_)
            | Afterwards::HangUp(_)) => then,
        };
        let outcome = if said.asks { "offered" } else { "established" };
        let (rung, prompt) = (said.rung.label(), said.prompt.clone());
        self.speak(now, cause, said, response, turn, then);
        self.tell(ToCaller::Fallback { rung, outcome, prompt });
    }

    /// Starts a prompt.
    pub(super) fn speak(
        &mut self,
        now: Timestamp,
        cause: &Cause,
        said: Said,
        response: Option<(ResponseId, Usage)>,
        turn: Option<Turn>,
        then: Afterwards,
    ) {
        let run = self.owe(Stage::Synthesis, None, turn.map(|turn| turn.id));
        let mut playout = self.new_playout(now);
        playout.announce(0, &said.text);
        self.act(Action::Prompt { run, prompt: said.prompt });
        self.floor = Floor::FallingBack(Box::new(Consolation {
            text: said.text,
            item: self.next_item(),
            run,
            playout,
            opened: false,
            interruptible: said.interruptible,
            response,
            turn,
            code: cause.code(),
            message: cause.to_string(),
            then,
        }));
    }

    /// The answer that a "please wait" promised cannot be given either: the promise is cut, and the
    /// truth about that follows. Behind any other prompt nothing was promised.
    pub(super) fn break_promise(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        cause: Cause,
        prompt: Consolation,
    ) {
        let answer = match prompt.then {
            Afterwards::Wait(answer) => answer,
            then @ (Afterwards::Listen | Afterwards::Arrange(_) | Afterwards::HangUp(_)) => {
                self.floor = Floor::FallingBack(Box::new(Consolation { then, ..prompt }));
                return;
            }
        };
        if prompt.opened {
            let (script, sent) = (prompt.playout.script(), prompt.playout.sent_time());
            self.history.set_heard(&prompt.item, script, sent, sent);
            self.history.finish_spoken(&prompt.item, prompt.playout.all_sent());
        }
        self.fall_back(now, admit, cause, *answer);
    }

    /// Nothing was audible for as long as a caller may be left without a word: the truth is told
    /// now.
    pub(super) fn on_budget(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        let (Floor::Thinking(mut answer) | Floor::Speaking(mut answer)) = floor else {
            self.floor = floor;
            return;
        };
        let queued = match (&answer.model, &answer.voice) {
            (Model::Waiting(_), _) => Some(Stage::Model),
            (_, Voice::Waiting(..)) => Some(Stage::Synthesis),
            (Model::Behind | Model::Writing(_) | Model::Done(_), _) => None,
        };
        let Some(stage) = queued else {
            let cause = match answer.modality {
                Modality::Audio => Cause::BudgetSpent,
                Modality::Text => Cause::fault(Stage::Model, &Fault::Slow { deadline: "writing" }),
            };
            self.floor = resumed(answer);
            return self.give_up(now, admit, cause);
        };
        // Waiting and saying so satisfies the budget, once (DESIGN section 3, *Ages*).
        answer.turn.heard = true;
        answer.told_to_wait = true;
        if let Model::Waiting(ticket) = &answer.model {
            admit.extend(now, ticket);
        }
        if let Voice::Waiting(ticket, _) = &answer.voice {
            admit.extend(now, ticket);
        }
        let (turn, cause) = (answer.turn, Cause::StillQueued(stage));
        self.console(now, admit, &cause, None, Some(turn), Afterwards::Wait(answer));
    }

    /// A prompt's sound has come completely. False when the run is no prompt's.
    pub(super) fn prompt_over(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
    ) -> bool {
        let Floor::FallingBack(prompt) = &mut self.floor else { return false };
        if prompt.run != run {
            return false;
        }
        prompt.playout.complete();
        self.send_frames(now, admit);
        true
    }

    /// All of a prompt was sent.
    pub(super) fn prompt_sent(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        let Floor::FallingBack(prompt) = floor else {
            self.floor = floor;
            return;
        };
        let prompt = *prompt;
        let sent = prompt.playout.sent_time();
        self.history.set_heard(
            &prompt.item,
            prompt.playout.script(),
            prompt.playout.heard(now),
            sent,
        );
        self.history.finish_spoken(&prompt.item, true);
        let leaves = match prompt.then {
            Afterwards::Wait(mut answer) => {
                answer.playout.begin_behind(now, self.plays_until);
                self.history.set_heard(&prompt.item, prompt.playout.script(), sent, sent);
                self.floor = resumed(answer);
                return self.check_complete(now, admit);
            }
            Afterwards::Arrange(arranging) => {
                // What is being arranged is waited for in silence.
                self.history.set_heard(&prompt.item, prompt.playout.script(), sent, sent);
                self.floor = Floor::Arranging(arranging);
                return;
            }
            Afterwards::Listen => None,
            Afterwards::HangUp(leaving) => Some(leaving),
        };
        if let Some((response, usage)) = prompt.response {
            let (item, text) = (prompt.item.clone(), prompt.text);
            if prompt.opened {
                self.tell(ToCaller::MessageEnded { response, item, completed: true, text });
            }
            let end = ResponseEnd::Failed { code: prompt.code, message: prompt.message };
            self.tell(ToCaller::ResponseEnded { response, end, usage });
        }
        if let Some(turn) = prompt.turn {
            self.tell_turn(turn.id, "failed");
        }
        let Consolation { item, playout, interruptible, .. } = prompt;
        let tail = Tail { item, playout, interruptible, resumes: None, leaves };
        self.floor = Floor::PlayingOut(Box::new(tail));
    }

    /// The call comes to its end by itself: it says so, and ends once that was heard.
    pub(super) fn leave(&mut self, now: Timestamp, admit: &mut dyn Admit, why: HangUp) {
        if self.has_ended().is_some() || self.is_leaving() {
            return;
        }
        let silent = self.settings.modality == Modality::Text || self.settings.transcription_only;
        if silent || matches!(self.floor, Floor::Ringing) {
            return self.end(now, admit, why);
        }
        let cancelled = match why {
            HangUp::Drained => Cancelled::Drain,
            _ => Cancelled::HangUp,
        };
        let cause = Cause::CallEnds(why);
        self.drop_arranging(now, admit);
        self.orphan_tools();
        self.stop_listening(now, admit, cancelled);
        self.fence(now, admit, cancelled);
        let sounding = self.sounding(now);
        let (code, message) = (cause.code(), cause.to_string());
        self.drop_answer(now, ResponseEnd::Failed { code, message });
        self.clear_far_end(now, sounding);
        let leaving = Leaving { why, by: now + GOODBYE_MAX };
        self.console(now, admit, &cause, None, None, Afterwards::HangUp(leaving));
    }
}

/// The state of an answer that goes on.
fn resumed(answer: Box<Answer>) -> Floor {
    match answer.opened && answer.modality == Modality::Audio {
        true => Floor::Speaking(answer),
        false => Floor::Thinking(answer),
    }
}

/// Chooses what is said: the ladder and the prompts are data (`fallback/`).
pub trait Choose: fmt::Debug + Send + Sync {
    /// The next rung for a cause and its prompt, whose claims hold.
    fn choose(&self, cause: &Cause, language: &str, standing: &Standing<'_>) -> Said;

    /// What this rung says once this is a fact; `None` when it has no words for that.
    fn say(&self, cause: &Cause, rung: Rung, fact: Fact<'_>, language: &str) -> Option<Said>;
}

/// Where a caller stands on the ladder.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing<'a> {
    /// How often in a row they were asked to try again.
    pub retries: u32,
    /// Rungs that were tried for them and not established.
    pub tried: &'a [Rung],
    /// A callback can be offered.
    pub callback: bool,
    /// A human can be offered.
    pub handoff: bool,
    /// A callback is on record: its commit came too late to be told.
    pub on_record: Option<&'a CallbackReceipt>,
}

/// A fact about a rung beyond its cause: the promises carry their proofs.
#[derive(Clone, Copy, Debug)]
pub enum Fact<'a> {
    /// The caller wants a callback and has to say where to.
    NeedsNumber,
    /// A human is being asked.
    Asked,
    /// Nobody can say whether it was arranged.
    Unknown,
    /// A callback to this number was on record before.
    Exists,
    /// The callback is on record.
    Committed(&'a CallbackReceipt),
    /// A human takes the caller.
    Acknowledged(&'a HandoffAck),
}

/// A prompt chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The rung it stands for.
    pub rung: Rung,
    /// The prompt's id.
    pub prompt: String,
    /// Its words.
    pub text: String,
    /// The call ends behind it.
    pub ends_call: bool,
    /// It asks whether the caller wants the rung.
    pub asks: bool,
    /// The caller may take the floor from it.
    pub interruptible: bool,
    /// Rungs passed over on the way.
    pub skipped: Vec<Skipped>,
}
