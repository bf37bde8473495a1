//! Who has the floor: turns committed, barge-ins carried out, answers ended early.

use std::time::Duration;

use super::Call;
use super::fallback::Cause;
use super::state::{Afterwards, Answer, Consolation, Ear, Floor, Then, Turn, Voice};
use crate::admission::{Admit, Cancelled};
use crate::dialogue::{Finish, ItemStatus, Usage};
use crate::fault::Fault;
use crate::id::{ItemId, Stage, TurnId};
use crate::leg::{Modality, PlayoutState, ResponseEnd, ResponseRequest, ToCaller};
use crate::time::Timestamp;

use super::state::Model;

/// How an utterance stood beside the agent's own speech.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// An answer was given up for it.
    pub took_floor: bool,
    /// It began over something that was no question.
    pub over_statement: bool,
}

impl Call {
    // === turns ===

    /// The caller's words are known: a turn, unless there are none or they only say "go on".
    pub(super) fn commit_words(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        born: Timestamp,
        beside: Beside,
        then: Then,
        text: &str,
    ) {
        let Beside { took_floor, over_statement } = beside;
        let goes_on = matches!(self.floor, Floor::Thinking(_)) || over_statement && !took_floor;
        let only_go_on = goes_on && self.profile.barge_in.is_backchannel(text);
        let nothing = text.is_empty() || only_go_on;
        match then {
            Then::Respond(request, tag, asked) => self.on_respond(now, admit, asked, request, tag),
            Then::Answer if nothing && took_floor => {
                // An answer was given up for this, and nobody knows for what: silence would be
                // worse.
                let unheard = Cause::fault(Stage::Recognition, &Fault::Empty);
                // A noise is no failed try of the caller's: it brings no goodbye nearer.
                let tried = std::mem::take(&mut self.retries);
                self.commit_wordless(now, admit, born, Then::Answer, unheard);
                self.retries = tried;
            }
            // The reply that was being made is kept (B19, B21).
            Then::Answer | Then::Nothing if nothing => {
                self.send_frames(now, admit);
                // Words that had waited for these are answered without them.
                self.answer_held(now, admit, born);
            }
            Then::Answer if self.unwanted(now, admit, born, text) => {}
            Then::Answer if self.answers_offer(now, admit, born, text) => {}
            Then::Answer => self.answer_words(now, admit, born),
            Then::Nothing => self.yield_unheard(now, admit),
        }
    }

    /// One answer to these words: at once, or behind an answer that nobody may interrupt.
    pub(super) fn answer_words(&mut self, now: Timestamp, admit: &mut dyn Admit, born: Timestamp) {
        if self.floor.is_audible() || self.must_be_heard() || self.is_arranging() {
            self.unanswered = true;
            return self.send_frames(now, admit);
        }
        if crate::admission::mutant::is("second_reply_for_split_final")
            && matches!(self.floor, Floor::Thinking(_))
        {
            self.unanswered = true;
            return self.send_frames(now, admit);
        }
        let guess = self.guess.take();
        let turn = self.commit_turn(now, admit);
        self.answer_guessed(now, admit, turn, born, guess);
    }

    /// The client decides what follows these words: an answer to the words before them that nobody
    /// has heard anything of is given up, as its first sound would have been.
    fn yield_unheard(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let unheard = match &self.floor {
            Floor::Thinking(_) => true,
            Floor::FallingBack(prompt) => !prompt.playout.has_sent(),
            Floor::Ringing
            | Floor::Arranging(_)
            | Floor::Listening { .. }
            | Floor::Speaking(_)
            | Floor::PlayingOut(_)
            | Floor::Ended { .. } => false,
        };
        if unheard && self.interrupts() {
            self.orphan_tools();
            self.fence(now, admit, Cancelled::BargeIn);
            self.drop_answer(now, ResponseEnd::TurnDetected);
        }
    }

    /// The caller's turn is over and nobody can know its words: the caller is told so.
    pub(super) fn commit_wordless(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        born: Timestamp,
        then: Then,
        cause: Cause,
    ) {
        match then {
            Then::Nothing => {}
            // The client's own request stands; what it asks about may not be in speech at all.
            Then::Respond(request, tag, asked) => self.on_respond(now, admit, asked, request, tag),
            // Told behind what sounds now.
            Then::Answer if self.floor.is_audible() || self.must_be_heard() => {
                self.unheard = Some(cause);
            }
            Then::Answer if self.is_arranging() => {}
            Then::Answer => {
                let turn = self.commit_turn(now, admit);
                let answer = self.new_answer(now, turn, born, ResponseRequest::default());
                self.fall_back(now, admit, cause, answer);
            }
        }
    }

    /// The floor changes hands: a new turn under a new generation. An answer nobody has heard
    /// anything of is superseded.
    pub(super) fn commit_turn(&mut self, now: Timestamp, admit: &mut dyn Admit) -> TurnId {
        self.counters.turn += 1;
        self.last_activity = now;
        self.unanswered = false;
        self.unheard = None;
        let turn = TurnId(self.counters.turn);
        self.orphan_tools();
        self.fence(now, admit, Cancelled::Superseded);
        self.let_tail_play();
        self.drop_answer(now, ResponseEnd::TurnDetected);
        self.tell(ToCaller::Turn { turn, state: "committed", generation: self.generation });
        if let Ear::Suspect(_) = self.ear {
            self.announce_suspect();
        }
        turn
    }

    /// Nothing sounds any more and nothing is being made: words that had to wait are answered now.
    pub(super) fn floor_is_free(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        if let Ear::Suspect(_) = self.ear {
            self.announce_suspect();
        }
        self.answer_held(now, admit, now);
    }

    /// Answers words that had to wait, as of `born`: nobody speaks any more.
    fn answer_held(&mut self, now: Timestamp, admit: &mut dyn Admit, born: Timestamp) {
        // What the caller is saying belongs to what they said before.
        if self.is_hearing() || !matches!(self.floor, Floor::Listening { .. }) {
            return;
        }
        if self.unanswered {
            self.unheard = None;
            let turn = self.commit_turn(now, admit);
            self.start_answer(now, admit, turn, born, ResponseRequest::default());
        } else if let Some(cause) = self.unheard.take() {
            self.commit_wordless(now, admit, born, Then::Answer, cause);
        }
    }

    /// Ends whatever the agent is doing, as far as the caller's end is concerned.
    pub(super) fn drop_answer(&mut self, now: Timestamp, end: ResponseEnd) {
        self.settle_heard(now);
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        match floor {
            Floor::Ringing | Floor::Listening { .. } | Floor::PlayingOut(_) => {}
            Floor::Thinking(answer) | Floor::Speaking(answer) => self.end_early(*answer, end),
            Floor::FallingBack(prompt) => self.drop_prompt(*prompt, end),
            // It goes on, whoever speaks meanwhile.
            other @ (Floor::Arranging(_) | Floor::Ended { .. }) => self.floor = other,
        }
    }

    fn drop_prompt(&mut self, prompt: Consolation, end: ResponseEnd) {
        if prompt.opened {
            self.history.finish_spoken(&prompt.item, false);
        }
        if let Some((response, usage)) = prompt.response {
            if prompt.opened {
                let (item, text, completed) = (prompt.item, prompt.text, false);
                self.tell(ToCaller::MessageEnded { response, item, completed, text });
            }
            let (code, message) = (prompt.code, prompt.message);
            let end = ResponseEnd::Failed { code, message };
            self.tell(ToCaller::ResponseEnded { response, end, usage });
        }
        match (prompt.then, prompt.turn) {
            (Afterwards::Wait(answer), _) => self.end_early(*answer, end),
            (Afterwards::Arrange(arranging), _) => self.floor = Floor::Arranging(arranging),
            (Afterwards::Listen | Afterwards::HangUp(_), Some(turn)) => {
                self.tell_turn(turn.id, "failed");
            }
            (Afterwards::Listen | Afterwards::HangUp(_), None) => {}
        }
    }

    fn end_early(&mut self, answer: Answer, end: ResponseEnd) {
        let (response, usage, turn) = (answer.response, answer.usage, answer.turn.id);
        let state = if answer.opened { "interrupted" } else { "superseded" };
        self.cut_message(&answer);
        self.tell(ToCaller::ResponseEnded { response, end, usage });
        self.tell_turn(turn, state);
    }

    /// The message of an answer that has begun ends half-way; what of it was heard is in the
    /// history.
    pub(super) fn cut_message(&mut self, answer: &Answer) {
        if !answer.opened {
            return;
        }
        let (response, item, text) = (answer.response, answer.item.clone(), answer.told.clone());
        match answer.modality {
            Modality::Text => self.history.set_text(&item, &text, ItemStatus::Incomplete),
            Modality::Audio => self.history.finish_spoken(&item, false),
        }
        self.tell(ToCaller::MessageEnded { response, item, completed: false, text });
    }

    pub(super) fn tell_turn(&mut self, turn: TurnId, state: &'static str) {
        self.tell(ToCaller::Turn { turn, state, generation: self.generation });
    }

    /// A barge-in is confirmed: the generation rotates and the agent's sound is gone for good, here
    /// and at the far end, even when our own work is already done.
    pub(super) fn take_floor(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        item: ItemId,
        at: Duration,
    ) {
        self.orphan_tools();
        self.fence(now, admit, Cancelled::BargeIn);
        let sounding = self.sounding(now);
        self.tell(ToCaller::SpeechStarted { item, at });
        self.drop_answer(now, ResponseEnd::TurnDetected);
        self.clear_far_end(now, sounding);
    }

    /// The connection broke, and its client may come back: what was being said or made is cut where
    /// it was heard at the latest, and nothing is said to nobody.
    pub(super) fn on_lost(&mut self, now: Timestamp, admit: &mut dyn Admit, silent_for: Duration) {
        // Behind a goodbye the call ends, whoever hears it.
        if self.is_leaving() {
            return;
        }
        if let Some((_, playout)) = self.floor.playout() {
            playout.cap(playout.heard(now).saturating_sub(silent_for));
        }
        self.stop_listening(now, admit, Cancelled::HangUp);
        self.drop_arranging(now, admit);
        self.orphan_tools();
        self.fence(now, admit, Cancelled::HangUp);
        let sounding = self.sounding(now);
        self.drop_answer(now, ResponseEnd::ClientCancelled);
        self.clear_far_end(now, sounding);
        (self.keys, self.unanswered, self.unheard) = (None, false, None);
        self.floor = Floor::Ringing;
    }

    /// What the far end plays or has played of the present answer.
    pub(super) fn sounding(&mut self, now: Timestamp) -> Option<(ItemId, Duration)> {
        let (item, playout) = self.floor.playout()?;
        playout.has_sent().then(|| (item.clone(), playout.credited(now)))
    }

    pub(super) fn clear_far_end(&mut self, now: Timestamp, sounding: Option<(ItemId, Duration)>) {
        let Some((item, played)) = sounding else { return };
        if crate::admission::mutant::is("flush_eats_control") {
            self.actions.clear();
        }
        self.plays_until = now;
        self.tell(ToCaller::ClearFarEnd { item: item.clone(), played });
        let cleared = item.clone();
        self.tell(ToCaller::Playout { state: PlayoutState::Cleared, item: cleared, played });
        self.tell_heard(&item);
    }

    /// A new answer for a turn; nothing of it has been asked of any gate.
    pub(super) fn new_answer(
        &mut self,
        now: Timestamp,
        turn: TurnId,
        born: Timestamp,
        request: ResponseRequest,
    ) -> Answer {
        let modality = request.modality.unwrap_or(self.settings.modality);
        let audible_by = match modality {
            Modality::Audio => Some(born + self.quiet_max()),
            Modality::Text => None,
        };
        let response = self.next_response();
        let item = self.next_item();
        let answer = Answer {
            response,
            turn: Turn { id: turn, born, audible_by, heard: false },
            modality,
            item,
            interruptible: true,
            opened: false,
            model: Model::Done(Finish::Stop),
            voice: Voice::Unasked,
            phraser: crate::turn::phrase::Phraser::default(),
            phrases: 0,
            written: String::new(),
            told: String::new(),
            consent: self.consent(),
            calls: Vec::new(),
            rounds: 0,
            called: 0,
            progress: now,
            told_to_wait: false,
            usage: Usage::default(),
            playout: self.new_playout(now),
            request,
        };
        self.tell(ToCaller::ResponseStarted(self.response_head(&answer)));
        answer
    }

    pub(super) fn new_playout(&self, now: Timestamp) -> crate::turn::playout::Playout {
        let (rate_hz, lead) = (self.settings.out_rate_hz, self.profile.lead);
        let begins = now.max(self.plays_until);
        crate::turn::playout::Playout::new(begins, rate_hz, lead)
            .heard_after(self.profile.far_end_delay)
            .at_pace(self.pace)
    }

    fn response_head(&self, answer: &Answer) -> crate::leg::ResponseHead {
        let request = &answer.request;
        crate::leg::ResponseHead {
            response: answer.response,
            out_of_band: request.out_of_band,
            modality: answer.modality,
            voice: request.voice.clone(),
            max_tokens: request.max_tokens.unwrap_or(self.settings.max_tokens),
            metadata: request.metadata.clone(),
        }
    }
}
