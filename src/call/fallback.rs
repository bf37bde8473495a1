//! The one door where refusals and faults meet: something true is said, and the turn has failed.

use std::fmt;

use super::state::{Afterwards, Answer, Consolation, Floor, Model, Voice};
use super::{Action, Call};
use crate::admission::{Admit, Refusal};
use crate::fault::Fault;
use crate::id::{RunId, Stage, TurnId};
use crate::leg::{Modality, ResponseEnd, ToCaller};
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
}

impl Cause {
    /// A gate's refusal.
    pub fn refused(refusal: Refusal) -> Cause {
        Cause::Refused(refusal)
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
        }
    }
}

impl Call {
    /// Says something true in place of an answer.
    pub(super) fn fall_back(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        cause: Cause,
        answer: Answer,
    ) {
        self.withdraw_answer(now, admit, &answer);
        let (code, message) = (cause.code(), cause.to_string());
        if answer.modality == Modality::Text {
            let (response, usage) = (answer.response, answer.usage);
            self.floor = Floor::Listening { resumes: None };
            let end = ResponseEnd::Failed { code, message };
            return self.tell(ToCaller::ResponseEnded { response, end, usage });
        }
        let then = Afterwards::Listen { code, message };
        let response = Some((answer.response, answer.usage));
        self.console(now, &cause, response, Some(answer.turn), then);
    }

    /// What an answer still has running is stopped; what it waits for is withdrawn.
    fn withdraw_answer(&mut self, now: Timestamp, admit: &mut dyn Admit, answer: &Answer) {
        let why = crate::admission::Cancelled::Superseded;
        if let Model::Writing(run) = answer.model {
            self.cancel_run(now, admit, run, why);
        }
        if let Voice::Open(run) | Voice::Closing(run) = answer.voice {
            self.cancel_run(now, admit, run, why);
        }
    }

    /// Chooses a prompt whose claims hold and starts it.
    fn console(
        &mut self,
        now: Timestamp,
        cause: &Cause,
        response: Option<(crate::id::ResponseId, crate::dialogue::Usage)>,
        turn: Option<super::state::Turn>,
        then: Afterwards,
    ) {
        let said = self.profile.fallback.choose(cause, &self.profile.language);
        let run = self.owe(Stage::Synthesis, None, turn.map(|turn| turn.id));
        let mut playout = self.new_playout(now);
        playout.announce(0, &said.text);
        self.act(Action::Prompt { run, prompt: said.prompt.clone() });
        let (rung, outcome, prompt) = (said.rung, "established", said.prompt.clone());
        self.tell(ToCaller::Fallback { rung, outcome, prompt });
        let item = self.next_item();
        self.floor = Floor::FallingBack(Box::new(Consolation {
            prompt: said.prompt,
            text: said.text,
            item,
            run,
            playout,
            opened: false,
            response,
            turn,
            then,
        }));
    }

    /// The answer that a "please wait" promised cannot be given either: the truth about that
    /// follows.
    pub(super) fn console_again(&mut self, now: Timestamp, cause: Cause) {
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        let Floor::FallingBack(prompt) = floor else {
            self.floor = floor;
            return;
        };
        let prompt = *prompt;
        let heard = prompt.playout.heard(now);
        if prompt.opened {
            let (script, sent) = (prompt.playout.script(), prompt.playout.sent_time());
            self.history.set_heard(&prompt.item, script, heard, sent);
            self.history.finish_spoken(&prompt.item, prompt.playout.all_sent());
        }
        self.console(now, &cause, prompt.response, prompt.turn, prompt.then);
    }

    /// The turn's budget is nearly spent and nothing is audible: the caller is told the truth now.
    pub(super) fn on_budget(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        let Floor::Thinking(mut answer) = floor else {
            self.floor = floor;
            return;
        };
        let queued = match (&answer.model, &answer.voice) {
            (Model::Waiting(_), _) => Some(Stage::Model),
            (_, Voice::Waiting(..)) => Some(Stage::Synthesis),
            (Model::Writing(_) | Model::Done(_), _) => None,
        };
        match queued {
            Some(stage) => {
                // Waiting and saying so satisfies the budget, once (DESIGN section 3, *Ages*).
                answer.turn.audible_by = None;
                if let Model::Waiting(ticket) = &answer.model {
                    admit.extend(now, ticket);
                }
                if let Voice::Waiting(ticket, _) = &answer.voice {
                    admit.extend(now, ticket);
                }
                let (turn, cause) = (answer.turn, Cause::StillQueued(stage));
                self.console(now, &cause, None, Some(turn), Afterwards::Wait(answer));
            }
            None => {
                self.floor = Floor::Thinking(answer);
                self.give_up(now, admit, Cause::BudgetSpent);
            }
        }
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
        let (heard, script) = (prompt.playout.heard(now), prompt.playout.script());
        self.history.set_heard(&prompt.item, script, heard, sent);
        self.history.finish_spoken(&prompt.item, true);
        let turn = prompt.turn.map_or(TurnId(self.counters.turn), |turn| turn.id);
        match prompt.then {
            Afterwards::Listen { code, message } => {
                if let Some((response, usage)) = prompt.response {
                    let (item, text) = (prompt.item.clone(), prompt.text);
                    let completed = prompt.opened;
                    if completed {
                        self.tell(ToCaller::MessageEnded { response, item, completed, text });
                    }
                    let end = ResponseEnd::Failed { code, message };
                    self.tell(ToCaller::ResponseEnded { response, end, usage });
                }
                let generation = self.generation;
                self.tell(ToCaller::Turn { turn, state: "failed", generation });
                let (item, playout) = (prompt.item, prompt.playout);
                let tail = super::state::Tail { item, playout, resumes: None };
                self.floor = Floor::PlayingOut(Box::new(tail));
            }
            Afterwards::Wait(answer) => {
                self.floor = Floor::Thinking(answer);
                self.send_frames(now, admit);
            }
            Afterwards::HangUp(why) => self.end(now, admit, why),
        }
    }
}

/// Chooses what is said: the ladder and the prompts are data (`fallback/`).
pub trait Choose: fmt::Debug + Send + Sync {
    /// The prompt for a cause in a language; its claims hold by the cause alone.
    fn choose(&self, cause: &Cause, language: &str) -> Said;
}

/// A prompt chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// The rung it stands for.
    pub rung: &'static str,
    /// The prompt's id.
    pub prompt: String,
    /// Its words.
    pub text: String,
}
