//! A model asked before it is certain that the caller has finished (`turn.speculative`).
//!
//! In a pause the words so far may be the whole turn: the model is asked about them while the
//! silence is still being judged. Such a guess is pure (B41): no tool of it runs and nothing of it
//! is spoken. It works for the generation to be, and becomes the turn's one run only when the turn
//! is committed with the very same question; anything else drops it.

use super::fallback::Cause;
use super::state::{Ear, Floor, Model, Utterance};
use super::{Action, Call, Measure};
use crate::admission::{Admit, Answer as Verdict, Cancelled, mutant};
use crate::dialogue::{Finish, Message, ModelRequest, Role, ToolCall, Usage};
use crate::id::{RunId, Stage, TurnId, UtteranceId};
use crate::leg::{ResponseRequest, TurnDetection};
use crate::time::Timestamp;

/// Units that have to be free: a guess never takes the last one from a turn that is certain.
const SPARE_MIN: u32 = 2;

/// A model's run for words that may be a whole turn.
#[derive(Debug)]
pub(super) struct Guess {
    run: RunId,
    utterance: UtteranceId,
    /// The pause that it was made in.
    seq: u32,
    request: Box<ModelRequest>,
    /// What came of it, kept until the turn is certain.
    came: Vec<Came>,
}

/// What a model said.
#[derive(Debug)]
enum Came {
    Text(String),
    Call(ToolCall),
    Finished(Finish, Usage),
}

impl Call {
    /// The words before the present pause are known: they may be all there is.
    pub(super) fn guess(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Ear::Hearing(utterance) = &self.ear else { return };
        let Some(pause) = &utterance.pause else { return };
        let Some(words) = pause.words.as_ref().map(|words| words.text.trim().to_owned()) else {
            return;
        };
        if words.is_empty() || !self.may_guess() || admit.spare(Stage::Model) < SPARE_MIN {
            return;
        }
        let (id, seq) = (utterance.id, pause.seq);
        let mut request = Box::new(self.model_request(&ResponseRequest::default()));
        request.history.push(Message::Said { role: Role::User, text: words });
        // Like an answer beside the conversation: its generation does not exist yet.
        let offer = self.offer_of(now, admit, Stage::Model, now, None);
        match admit.ask(now, Stage::Model, offer) {
            Verdict::Admitted(lease) => {
                self.note(Stage::Model, "admitted", "speculative", None);
                let run = self.owe(Stage::Model, Some(lease), None);
                if let Some(owed) = self.owed.get_mut(&run) {
                    owed.generation = self.generation.next();
                }
                self.act(Action::Think { run, request: request.clone() });
                self.guess = Some(Guess { run, utterance: id, seq, request, came: Vec::new() });
            }
            Verdict::Queued(ticket) => admit.withdraw(now, ticket, Cancelled::Superseded),
            Verdict::Refused(_) => {}
        }
    }

    /// The turn that may be about to end would be answered by ourselves, and nothing else is being
    /// made.
    fn may_guess(&self) -> bool {
        let answers = match self.settings.turn_detection {
            TurnDetection::Manual => false,
            TurnDetection::Server(turns) => turns.create_response,
        };
        self.profile.speculative
            && answers
            && !self.settings.transcription_only
            && self.guess.is_none()
            && self.keys.is_none()
            && self.settling.is_empty()
            && matches!(self.floor, Floor::Listening { resumes: None })
    }

    /// The turn is committed: answers it with the guess, if that was asked the very same.
    pub(super) fn answer_guessed(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        turn: TurnId,
        born: Timestamp,
        guess: Option<Guess>,
    ) {
        let request = ResponseRequest::default();
        let Some(guess) = guess else {
            return self.start_answer(now, admit, turn, born, request);
        };
        if self.model_request(&request) != *guess.request {
            self.give_guess_up(now, admit, guess, Cancelled::Superseded);
            return self.start_answer(now, admit, turn, born, request);
        }
        self.measures.push(Measure::Guess { adopted: true });
        let answer = self.new_answer(now, turn, born, request);
        self.floor = Floor::Thinking(Box::new(answer));
        if let Some(owed) = self.owed.get_mut(&guess.run) {
            owed.turn = Some(turn);
        }
        if let Some(answer) = self.floor.answer() {
            answer.model = Model::Writing(guess.run);
        }
        if let Err(refusal) = self.claim_voice(now, admit) {
            return self.give_up(now, admit, Cause::refused(refusal));
        }
        for came in guess.came {
            match came {
                Came::Text(text) => self.on_wrote(now, admit, guess.run, &text),
                Came::Call(call) => self.on_wanted(guess.run, call),
                Came::Finished(finish, usage) => {
                    self.on_finished(now, admit, guess.run, finish, usage);
                }
            }
        }
    }

    /// The guess loses its reason: the caller went on, or the turn became another one.
    pub(super) fn drop_guess(&mut self, now: Timestamp, admit: &mut dyn Admit, why: Cancelled) {
        if let Some(guess) = self.guess.take() {
            self.give_guess_up(now, admit, guess, why);
        }
    }

    fn give_guess_up(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        guess: Guess,
        why: Cancelled,
    ) {
        self.measures.push(Measure::Guess { adopted: false });
        if !mutant::is("guess_kept") {
            self.cancel_run(now, admit, guess.run, why);
        }
    }

    /// Behind every event: a guess lives only as long as the pause that it was made in.
    pub(super) fn review_guess(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Some(guess) = &self.guess else { return };
        let (utterance, seq) = (guess.utterance, guess.seq);
        let same = |u: &Utterance| {
            u.id == utterance && u.pause.as_ref().is_some_and(|pause| pause.seq == seq)
        };
        if self.utterance(same).is_none() {
            self.drop_guess(now, admit, Cancelled::Superseded);
        }
    }

    // === what comes of it is kept ===

    fn guess_of(&mut self, run: RunId) -> Option<&mut Guess> {
        self.guess.as_mut().filter(|guess| guess.run == run)
    }

    pub(super) fn guess_wrote(&mut self, run: RunId, text: &str) -> bool {
        let Some(guess) = self.guess_of(run) else { return false };
        guess.came.push(Came::Text(text.to_owned()));
        true
    }

    pub(super) fn guess_wanted(&mut self, run: RunId, call: &ToolCall) -> bool {
        let Some(guess) = self.guess_of(run) else { return false };
        guess.came.push(Came::Call(call.clone()));
        true
    }

    pub(super) fn guess_finished(&mut self, run: RunId, finish: Finish, usage: Usage) -> bool {
        let Some(guess) = self.guess_of(run) else { return false };
        guess.came.push(Came::Finished(finish, usage));
        true
    }

    /// Its run is over. One that failed is forgotten: the turn asks anew, as if it had never been.
    pub(super) fn guess_over(&mut self, run: RunId) -> bool {
        let Some(guess) = self.guess_of(run) else { return false };
        if !matches!(guess.came.last(), Some(Came::Finished(..))) {
            self.measures.push(Measure::Guess { adopted: false });
            self.guess = None;
        }
        true
    }
}
