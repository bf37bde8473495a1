//! Who has the floor: turns committed, barge-ins carried out, sound sent, what was heard recorded.

use std::time::Duration;

use super::fallback::Cause;
use super::state::{Afterwards, Answer, Ear, Floor, Model, Tail, Then, Turn, Voice};
use super::{Action, Call};
use crate::admission::{Admit, Cancelled};
use crate::dialogue::{Finish, ItemBody, ItemStatus, Usage};
use crate::id::{ItemId, ResponseId, TurnId};
use crate::leg::{Modality, PlayoutState, ResponseEnd, ResponseRequest, ToCaller};
use crate::time::Timestamp;

impl Call {
    // === turns ===

    /// The caller's words are known: a turn, unless there are none or they only say "go on".
    pub(super) fn commit_words(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        born: Timestamp,
        then: Then,
        text: &str,
    ) {
        let answering = matches!(self.floor, Floor::Thinking(_));
        let only_go_on = answering && self.profile.barge_in.is_backchannel(text);
        if text.is_empty() || only_go_on {
            // The reply that was being made is kept (B19, B21); the client's own request stands.
            if let Then::Respond(request, tag) = then {
                self.on_respond(now, admit, request, tag);
            }
            return self.send_frames(now, admit);
        }
        match then {
            Then::Nothing => {
                self.commit_turn(now, admit);
            }
            Then::Answer => {
                if matches!(self.floor, Floor::Speaking(_) | Floor::FallingBack(_)) {
                    // `interrupt_response = false`: the running answer goes on and this turn has
                    // none.
                    return;
                }
                let turn = self.commit_turn(now, admit);
                self.start_answer(now, admit, turn, born, ResponseRequest::default());
            }
            Then::Respond(request, tag) => {
                self.commit_turn(now, admit);
                self.on_respond(now, admit, request, tag);
            }
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
        let request = match then {
            Then::Nothing => return,
            Then::Answer => ResponseRequest::default(),
            Then::Respond(request, _) => *request,
        };
        if matches!(self.floor, Floor::Speaking(_) | Floor::FallingBack(_)) {
            return;
        }
        let turn = self.commit_turn(now, admit);
        let answer = self.new_answer(now, turn, born, request);
        self.fall_back(now, admit, cause, answer);
    }

    /// The floor changes hands: a new turn under a new generation. An answer nobody has heard
    /// anything of is superseded.
    pub(super) fn commit_turn(&mut self, now: Timestamp, admit: &mut dyn Admit) -> TurnId {
        self.counters.turn += 1;
        self.last_activity = now;
        let turn = TurnId(self.counters.turn);
        self.orphan_tools();
        self.fence(now, admit, Cancelled::Superseded);
        self.drop_answer(now, ResponseEnd::TurnDetected);
        self.tell(ToCaller::Turn { turn, state: "committed", generation: self.generation });
        turn
    }

    /// Ends whatever the agent is doing, as far as the caller's end is concerned.
    pub(super) fn drop_answer(&mut self, now: Timestamp, end: ResponseEnd) {
        self.settle_heard(now);
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        match floor {
            Floor::Ringing | Floor::Listening { .. } | Floor::PlayingOut(_) => {}
            Floor::Thinking(answer) | Floor::Speaking(answer) => self.end_early(*answer, end),
            Floor::FallingBack(prompt) => {
                let prompt = *prompt;
                if let Some((response, usage)) = prompt.response {
                    if prompt.opened {
                        let (item, text) = (prompt.item, prompt.text);
                        self.history.finish_spoken(&item, false);
                        let completed = false;
                        self.tell(ToCaller::MessageEnded { response, item, completed, text });
                    }
                    let end = match prompt.then {
                        Afterwards::Listen { code, message } => {
                            ResponseEnd::Failed { code, message }
                        }
                        Afterwards::Wait(_) | Afterwards::HangUp(_) => end,
                    };
                    self.tell(ToCaller::ResponseEnded { response, end, usage });
                }
            }
            ended @ Floor::Ended { .. } => self.floor = ended,
        }
    }

    fn end_early(&mut self, answer: Answer, end: ResponseEnd) {
        let (response, item, usage) = (answer.response, answer.item, answer.usage);
        if answer.opened {
            self.history.finish_spoken(&item, false);
            let (completed, text) = (false, answer.told);
            if answer.modality == Modality::Text {
                self.history.set_text(&item, &text, ItemStatus::Incomplete);
            }
            self.tell(ToCaller::MessageEnded { response, item, completed, text });
        }
        self.tell(ToCaller::ResponseEnded { response, end, usage });
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
        let sounding =
            self.floor.playout().map(|(item, playout)| (item.clone(), playout.heard(now)));
        self.tell(ToCaller::SpeechStarted { item, at });
        self.drop_answer(now, ResponseEnd::TurnDetected);
        if let Some((item, played)) = sounding {
            self.clear_far_end(item, played);
        }
    }

    pub(super) fn clear_far_end(&mut self, item: ItemId, played: Duration) {
        self.tell(ToCaller::ClearFarEnd { item: item.clone(), played });
        self.tell(ToCaller::Playout { state: PlayoutState::Cleared, item, played });
    }

    // === sound ===

    pub(super) fn pause_playout(&mut self, now: Timestamp) {
        let Some((item, playout)) = self.floor.playout() else { return };
        playout.pause(now);
        let (item, played) = (item.clone(), playout.heard(now));
        self.tell(ToCaller::Playout { state: PlayoutState::Paused, item, played });
    }

    pub(super) fn resume_playout(&mut self, now: Timestamp) {
        let Some((item, playout)) = self.floor.playout() else { return };
        if !playout.is_paused() {
            return;
        }
        playout.resume(now);
        let (item, played) = (item.clone(), playout.heard(now));
        self.tell(ToCaller::Playout { state: PlayoutState::Resumed, item, played });
    }

    /// Sends what is due, unless the caller speaks.
    pub(super) fn send_frames(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        if self.caller_speaks() && !self.floor.is_audible() {
            return;
        }
        while let Some((_, playout)) = self.floor.playout() {
            let Some(pcm) = playout.poll(now) else { break };
            let begun = playout.next_begun();
            self.open_message();
            if let Some(text) = begun {
                self.tell_words(&text);
            }
            let Some((item, _)) = self.floor.playout() else { break };
            let (item, generation) = (item.clone(), self.generation);
            let response = self.sounding_response();
            self.tell(ToCaller::Audio { response, item, generation, pcm });
        }
        self.after_frames(now, admit);
    }

    fn sounding_response(&mut self) -> Option<ResponseId> {
        match &self.floor {
            Floor::Thinking(answer) | Floor::Speaking(answer) => Some(answer.response),
            Floor::FallingBack(prompt) => prompt.response.map(|(response, _)| response),
            Floor::Ringing
            | Floor::Listening { .. }
            | Floor::PlayingOut(_)
            | Floor::Ended { .. } => None,
        }
    }

    /// The first of an answer is about to leave: its message begins.
    pub(super) fn open_message(&mut self) {
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        self.floor = match floor {
            Floor::Thinking(mut answer) => {
                answer.turn.audible_by = None;
                self.open_answer(&mut answer);
                match answer.modality {
                    Modality::Audio => Floor::Speaking(answer),
                    Modality::Text => Floor::Thinking(answer),
                }
            }
            Floor::FallingBack(mut prompt) if !prompt.opened => {
                prompt.opened = true;
                let body = ItemBody::Spoken { transcript: String::new() };
                let after = self.append(&prompt.item, body, ItemStatus::InProgress);
                if let Some((response, _)) = prompt.response {
                    let (item, modality) = (prompt.item.clone(), Modality::Audio);
                    self.tell(ToCaller::MessageStarted { response, item, after, modality });
                }
                Floor::FallingBack(prompt)
            }
            other => other,
        };
    }

    fn open_answer(&mut self, answer: &mut Answer) {
        if answer.opened {
            return;
        }
        answer.opened = true;
        let body = match answer.modality {
            Modality::Audio => ItemBody::Spoken { transcript: String::new() },
            Modality::Text => {
                let (role, text) = (crate::dialogue::Role::Assistant, String::new());
                ItemBody::Text { role, text }
            }
        };
        let after = self.append(&answer.item, body, ItemStatus::InProgress);
        let (response, item) = (answer.response, answer.item.clone());
        let modality = answer.modality;
        self.tell(ToCaller::MessageStarted { response, item, after, modality });
    }

    /// Words of the message for the caller's end.
    pub(super) fn tell_words(&mut self, words: &str) {
        let told = match &mut self.floor {
            Floor::Thinking(answer) | Floor::Speaking(answer) => {
                answer.told.push_str(words);
                Some((answer.response, answer.item.clone()))
            }
            Floor::FallingBack(prompt) => {
                prompt.response.map(|(response, _)| (response, prompt.item.clone()))
            }
            Floor::Ringing
            | Floor::Listening { .. }
            | Floor::PlayingOut(_)
            | Floor::Ended { .. } => None,
        };
        if let Some((response, item)) = told {
            self.tell(ToCaller::Text { response, item, delta: words.to_owned() });
        }
    }

    /// What follows from frames having been sent, or from there being none any more.
    fn after_frames(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        match &self.floor {
            Floor::Speaking(answer) if answer.playout.all_sent() => self.answer_sent(now),
            Floor::FallingBack(prompt) if prompt.playout.all_sent() => {
                self.prompt_sent(now, admit);
            }
            Floor::Ringing
            | Floor::Listening { .. }
            | Floor::Thinking(_)
            | Floor::Speaking(_)
            | Floor::PlayingOut(_)
            | Floor::FallingBack(_)
            | Floor::Ended { .. } => {}
        }
    }

    /// All of an answer was sent: its response is over, its last part still sounds.
    fn answer_sent(&mut self, now: Timestamp) {
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        let Floor::Speaking(answer) = floor else {
            self.floor = floor;
            return;
        };
        let answer = *answer;
        let resumes = self.finish_response(now, &answer);
        let tail = Tail { item: answer.item, playout: answer.playout, resumes };
        self.floor = Floor::PlayingOut(Box::new(tail));
    }

    /// Tells the caller's end that a response is over. Gives the turn that goes on with the
    /// client's function outputs, if it does.
    pub(super) fn finish_response(&mut self, now: Timestamp, answer: &Answer) -> Option<TurnId> {
        let (response, usage) = (answer.response, answer.usage);
        if answer.opened {
            let item = answer.item.clone();
            self.record_heard(now, answer.modality, &item, &answer.playout, &answer.told);
            self.history.finish_spoken(&item, true);
            let (completed, text) = (true, answer.told.clone());
            self.tell(ToCaller::MessageEnded { response, item, completed, text });
        }
        let asked = self.tell_client_calls(answer);
        let end = match (&answer.voice, &answer.model) {
            (Voice::Broken(cause), _) => {
                ResponseEnd::Failed { code: cause.code(), message: cause.to_string() }
            }
            (_, Model::Done(Finish::Length)) => ResponseEnd::MaxTokens,
            (_, Model::Done(Finish::ContentFilter)) => ResponseEnd::ContentFilter,
            (_, Model::Done(Finish::Stop | Finish::ToolCalls)) => ResponseEnd::Completed,
            (_, Model::Waiting(_) | Model::Writing(_)) => ResponseEnd::Completed,
        };
        self.tell(ToCaller::ResponseEnded { response, end, usage });
        let (turn, generation) = (answer.turn.id, self.generation);
        self.tell(ToCaller::Turn { turn, state: "answered", generation });
        asked.then_some(turn)
    }

    fn record_heard(
        &mut self,
        now: Timestamp,
        modality: Modality,
        item: &ItemId,
        playout: &crate::turn::playout::Playout,
        told: &str,
    ) {
        match modality {
            Modality::Text => self.history.set_text(item, told, ItemStatus::Completed),
            Modality::Audio => {
                let (heard, sent) = (playout.heard(now), playout.sent_time());
                self.history.set_heard(item, playout.script(), heard, sent);
            }
        }
    }

    /// Writes into the history how much of what sounds now has been heard.
    pub(super) fn settle_heard(&mut self, now: Timestamp) {
        let Some((item, playout)) = self.floor.playout() else { return };
        let item = item.clone();
        let (script, heard, sent) = (playout.script(), playout.heard(now), playout.sent_time());
        self.history.set_heard(&item, script, heard, sent);
    }

    /// The last part of an answer has been heard.
    pub(super) fn on_played_out(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Floor::PlayingOut(tail) = &self.floor else { return };
        if tail.playout.ends_at(now) > now {
            return;
        }
        let resumes = tail.resumes;
        self.settle_heard(now);
        self.last_activity = now;
        self.floor = Floor::Listening { resumes };
        // Speech suspected to be a barge-in has nothing left to interrupt: it is a turn.
        if let Ear::Suspect(_) = self.ear {
            self.announce_suspect(now, admit);
        }
    }

    fn announce_suspect(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        if let Ear::Suspect(mut utterance) = std::mem::replace(&mut self.ear, Ear::Quiet) {
            utterance.pause = None;
            let (item, at) = (utterance.item.clone(), utterance.from);
            self.ear = Ear::Hearing(utterance);
            self.tell(ToCaller::SpeechStarted { item, at });
            let _ = (now, admit);
        }
    }

    /// The sentence that sounds now is a question.
    pub(super) fn asked_something(&mut self, now: Timestamp) -> bool {
        let begun = self.floor.playout().and_then(|(_, playout)| playout.last_begun(now));
        begun.is_some_and(|text| text.trim_end().ends_with('?'))
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
            Modality::Audio => {
                Some(born + self.profile.budget.saturating_sub(self.profile.fallback_start))
            }
            Modality::Text => None,
        };
        let response = self.next_response();
        let item = self.next_item();
        let answer = Answer {
            response,
            turn: Turn { id: turn, born, audible_by },
            modality,
            item,
            opened: false,
            model: Model::Done(Finish::Stop),
            voice: Voice::Unasked,
            phraser: crate::turn::phrase::Phraser::default(),
            phrases: 0,
            written: String::new(),
            told: String::new(),
            calls: Vec::new(),
            rounds: 0,
            usage: Usage::default(),
            playout: self.new_playout(now),
            request,
        };
        self.tell(ToCaller::ResponseStarted(self.response_head(&answer)));
        answer
    }

    pub(super) fn new_playout(&self, now: Timestamp) -> crate::turn::playout::Playout {
        let (rate_hz, lead) = (self.settings.out_rate_hz, self.profile.lead);
        crate::turn::playout::Playout::new(now, rate_hz, lead)
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

    /// A run that lost the floor is asked to stop; a tool that must finish is let finish, unheard.
    pub(super) fn stops_at_fence(&self, owed: &super::state::Owed) -> bool {
        let must_finish = owed.effect == Some(crate::dialogue::Effect::MustFinish);
        owed.cancelled.is_none() && owed.stage.rotates() && !must_finish
    }

    /// Tells a run that nothing more comes.
    pub(super) fn close_run(&mut self, run: crate::id::RunId) {
        self.act(Action::Close { run });
    }
}
