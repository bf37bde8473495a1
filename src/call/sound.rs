//! The agent's sound: frames sent, paused and resumed, and what of it was heard.

use std::time::Duration;

use super::state::{Answer, Floor, Model, Tail, Turn, Voice};
use super::{Call, Measure};
use crate::admission::{Admit, mutant};
use crate::dialogue::{Finish, ItemBody, ItemStatus, Role};
use crate::id::{ItemId, ResponseId, TurnId};
use crate::leg::{Modality, PlayoutState, ResponseEnd, ToCaller};
use crate::time::Timestamp;
use crate::turn::playout::Playout;

impl Call {
    pub(super) fn pause_playout(&mut self, now: Timestamp) {
        let Some((item, playout)) = self.floor.playout() else { return };
        if self.settings.stops_at_pause {
            playout.halt(now);
            self.plays_until = now;
        } else {
            playout.pause(now);
        }
        let (item, played) = (item.clone(), playout.heard(now));
        self.tell(ToCaller::Playout { state: PlayoutState::Paused, item, played });
    }

    /// It is loud at the caller's end, and nobody knows yet what it is.
    pub(super) fn rein_in(&mut self, now: Timestamp) {
        if let Some((_, playout)) = self.floor.playout() {
            playout.rein_in(now);
        }
    }

    pub(super) fn resume_playout(&mut self, now: Timestamp) {
        let Some((item, playout)) = self.floor.playout() else { return };
        if !playout.is_paused() {
            return;
        }
        playout.resume(now);
        self.plays_until = playout.ends_at(now);
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
            let begun: String = std::iter::from_fn(|| playout.next_begun()).collect();
            self.plays_until = playout.ends_at(now);
            self.open_message(now);
            if !begun.is_empty() {
                self.tell_words(&begun);
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
            | Floor::Arranging(_)
            | Floor::Listening { .. }
            | Floor::PlayingOut(_)
            | Floor::Ended { .. } => None,
        }
    }

    /// The first of an answer is about to leave: its message begins.
    pub(super) fn open_message(&mut self, now: Timestamp) {
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        self.floor = match floor {
            Floor::Thinking(mut answer) => {
                self.measure_first_audio(now, answer.turn);
                answer.turn.heard = true;
                self.open_answer(&mut answer);
                match answer.modality {
                    Modality::Audio => Floor::Speaking(answer),
                    Modality::Text => Floor::Thinking(answer),
                }
            }
            Floor::FallingBack(mut prompt) if !prompt.opened => {
                prompt.opened = true;
                if let Some(turn) = prompt.turn {
                    self.measure_first_audio(now, turn);
                }
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

    fn measure_first_audio(&mut self, now: Timestamp, turn: Turn) {
        if turn.audible_by.is_some() && !turn.heard {
            let after = now.since(turn.born);
            let too_late = after > self.profile.budget;
            self.measures.push(Measure::FirstAudio { after, too_late });
        }
    }

    fn open_answer(&mut self, answer: &mut Answer) {
        if answer.opened {
            return;
        }
        answer.opened = true;
        let body = match answer.modality {
            Modality::Audio => ItemBody::Spoken { transcript: String::new() },
            Modality::Text => ItemBody::Text { role: Role::Assistant, text: String::new() },
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
            | Floor::Arranging(_)
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
            Floor::Speaking(answer) if answer.playout.all_sent() => {
                self.answer_sent(now, admit);
            }
            Floor::FallingBack(prompt) if prompt.playout.all_sent() => {
                self.prompt_sent(now, admit);
            }
            Floor::Ringing
            | Floor::Arranging(_)
            | Floor::Listening { .. }
            | Floor::Thinking(_)
            | Floor::Speaking(_)
            | Floor::PlayingOut(_)
            | Floor::FallingBack(_)
            | Floor::Ended { .. } => {}
        }
    }

    /// All of an answer was sent: its response is over, its last part still sounds. An answer that
    /// broke half-way is followed by the truth about that.
    fn answer_sent(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        let Floor::Speaking(answer) = floor else {
            self.floor = floor;
            return;
        };
        let answer = *answer;
        if let Voice::Broken(cause) = &answer.voice {
            let cause = cause.clone();
            return self.fall_back(now, admit, cause, answer);
        }
        let resumes = self.finish_response(now, &answer);
        let Answer { item, playout, interruptible, .. } = answer;
        let tail = Tail { item, playout, interruptible, resumes, leaves: None };
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
        let end = match &answer.model {
            Model::Done(Finish::Length) => ResponseEnd::MaxTokens,
            Model::Done(Finish::ContentFilter) => ResponseEnd::ContentFilter,
            Model::Done(Finish::Stop | Finish::ToolCalls) => ResponseEnd::Completed,
            Model::Waiting(_) | Model::Behind | Model::Writing(_) => ResponseEnd::Completed,
        };
        self.tell(ToCaller::ResponseEnded { response, end, usage });
        self.retries = 0;
        self.tried.clear();
        self.offers_made.clear();
        self.offered = None;
        if asked {
            // The client's own functions come first; the turn goes on with their outputs.
            return Some(answer.turn.id);
        }
        self.orders_told();
        self.tell_turn(answer.turn.id, "answered");
        None
    }

    fn record_heard(
        &mut self,
        now: Timestamp,
        modality: Modality,
        item: &ItemId,
        playout: &Playout,
        told: &str,
    ) {
        match modality {
            Modality::Text => self.history.set_text(item, told, ItemStatus::Completed),
            Modality::Audio => {
                let (heard, sent) = (heard_by(playout, now), playout.sent_time());
                self.history.set_heard(item, playout.script(), heard, sent);
            }
        }
    }

    /// Writes into the history how much of what sounds now has been heard.
    pub(super) fn settle_heard(&mut self, now: Timestamp) {
        let Some((item, playout)) = self.floor.playout() else { return };
        let item = item.clone();
        let (script, heard, sent) = (playout.script(), heard_by(playout, now), playout.sent_time());
        self.history.set_heard(&item, script, heard, sent);
    }

    /// No more of this item will be heard: tells how much was.
    pub(super) fn tell_heard(&mut self, item: &ItemId) {
        let Some((played, words)) = self.history.heard(item) else { return };
        let words = words.to_owned();
        self.tell(ToCaller::Heard { item: item.clone(), played, words });
    }

    /// What the far end still plays of the last answer will be heard: nobody clears it.
    pub(super) fn let_tail_play(&mut self) {
        if let Floor::PlayingOut(tail) = &self.floor {
            let (item, sent) = (tail.item.clone(), tail.playout.sent_time());
            let script = tail.playout.script();
            self.history.set_heard(&item, script, sent, sent);
            self.tell_heard(&item);
            self.floor = Floor::Listening { resumes: None };
        }
    }

    /// The last part of an answer has been heard.
    pub(super) fn on_played_out(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Floor::PlayingOut(tail) = &self.floor else { return };
        if tail.playout.ends_at(now) > now {
            return;
        }
        let (resumes, leaves, item) = (tail.resumes, tail.leaves, tail.item.clone());
        self.settle_heard(now);
        if let Some(leaving) = leaves {
            return self.end(now, admit, leaving.why);
        }
        self.tell_heard(&item);
        self.last_activity = now;
        self.floor = Floor::Listening { resumes };
        self.floor_is_free(now, admit);
    }

    /// The sentence that sounds now is a question, or the one just before was.
    pub(super) fn asked_something(&mut self, now: Timestamp) -> bool {
        self.floor.playout().is_some_and(|(_, playout)| playout.asks(now))
    }
}

fn heard_by(playout: &Playout, now: Timestamp) -> Duration {
    match mutant::is("history_from_generated_text") {
        true => Duration::MAX,
        false => playout.credited(now),
    }
}
