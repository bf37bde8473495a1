//! One answer in the making: the model's words become phrases, the phrases sound.

use super::fallback::Cause;
use super::state::{Afterwards, Answer, Floor, Model, Voice};
use super::{Action, Call};
use crate::admission::{Admit, Answer as Verdict, Cancelled, Lease, OfferId};
use crate::dialogue::{Finish, ModelRequest, Usage, WordTime};
use crate::fault::Fault;
use crate::id::{RunId, Stage, TurnId};
use crate::leg::{InputItem, Modality, ResponseRequest};
use crate::time::Timestamp;

impl Call {
    /// Begins to answer a turn.
    pub(super) fn start_answer(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        turn: TurnId,
        born: Timestamp,
        request: ResponseRequest,
    ) {
        let answer = self.new_answer(now, turn, born, request);
        self.ask_model(now, admit, answer);
    }

    /// Offers an answer's next round to the model's gate.
    pub(super) fn ask_model(&mut self, now: Timestamp, admit: &mut dyn Admit, mut answer: Answer) {
        let turn = answer.turn;
        match self.offer(now, admit, Stage::Model, turn.born, Some(turn)) {
            Verdict::Admitted(lease) => answer.model = Model::Writing(self.think(lease, &answer)),
            Verdict::Queued(ticket) => answer.model = Model::Waiting(ticket),
            Verdict::Refused(refusal) => {
                return self.fall_back(now, admit, Cause::refused(refusal), answer);
            }
        }
        self.floor = match answer.playout.has_sent() {
            true => Floor::Speaking(Box::new(answer)),
            false => Floor::Thinking(Box::new(answer)),
        };
    }

    fn think(&mut self, lease: Lease, answer: &Answer) -> RunId {
        let request = Box::new(self.model_request(&answer.request));
        let run = self.owe(Stage::Model, Some(lease), Some(answer.turn.id));
        self.act(Action::Think { run, request });
        run
    }

    /// What the model is asked: the session's settings, this answer's own, the history as heard.
    pub(super) fn model_request(&self, request: &ResponseRequest) -> ModelRequest {
        let settings = &self.settings;
        let history = match &request.input {
            None => self.history.messages(),
            Some(input) => input.iter().filter_map(|item| self.input_message(item)).collect(),
        };
        ModelRequest {
            instructions: request
                .instructions
                .clone()
                .unwrap_or_else(|| settings.instructions.clone()),
            history,
            tools: request.tools.clone().unwrap_or_else(|| settings.tools.clone()),
            tool_choice: request
                .tool_choice
                .clone()
                .unwrap_or_else(|| settings.tool_choice.clone()),
            max_tokens: request.max_tokens.unwrap_or(settings.max_tokens),
            language: self.profile.language.clone(),
        }
    }

    fn input_message(&self, item: &InputItem) -> Option<crate::dialogue::Message> {
        match item {
            InputItem::Reference(id) => self.history.message(id),
            InputItem::Inline(message) => Some(message.clone()),
        }
    }

    pub(super) fn grant_model(&mut self, lease: Lease) -> Option<Lease> {
        let offer = lease.offer;
        if let Some(side) = self.side_awaiting(offer) {
            self.grant_side(side, lease);
            return None;
        }
        let waits = self.floor.answer().is_some_and(|answer| answer.model.awaits(offer));
        if !waits {
            return Some(lease);
        }
        let mut request = None;
        if let Some(answer) = self.floor.answer() {
            request = Some((answer.request.clone(), answer.turn.id));
        }
        let (request, turn) = request?;
        let request = Box::new(self.model_request(&request));
        let run = self.owe(Stage::Model, Some(lease), Some(turn));
        self.act(Action::Think { run, request });
        if let Some(answer) = self.floor.answer() {
            answer.model = Model::Writing(run);
        }
        None
    }

    pub(super) fn model_wait_ended(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        offer: OfferId,
    ) {
        if self.side_awaiting(offer).is_some() {
            return self.side_expired(offer);
        }
        if self.floor.answer().is_some_and(|answer| answer.model.awaits(offer)) {
            self.give_up(now, admit, Cause::expired(Stage::Model));
        }
    }

    /// The answer cannot be made any more: its turn loses the floor and the fallback speaks.
    pub(super) fn give_up(&mut self, now: Timestamp, admit: &mut dyn Admit, cause: Cause) {
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        match floor {
            Floor::Thinking(answer) => {
                self.fence(now, admit, Cancelled::Superseded);
                self.fall_back(now, admit, cause, *answer);
            }
            Floor::Speaking(mut answer) => {
                // Something of it was heard: what there is is said to its end, then it has failed.
                answer.voice = Voice::Broken(cause);
                answer.model = Model::Done(Finish::Stop);
                answer.playout.complete();
                self.floor = Floor::Speaking(answer);
                self.orphan_tools();
                self.fence(now, admit, Cancelled::Superseded);
                self.send_frames(now, admit);
            }
            Floor::FallingBack(mut prompt) => {
                let (code, message) = (cause.code(), cause.to_string());
                let listen = Afterwards::Listen { code, message };
                match std::mem::replace(&mut prompt.then, listen) {
                    Afterwards::Wait(answer) => {
                        // "You are waiting" is no longer true: it is cut, and the truth follows.
                        prompt.response = Some((answer.response, answer.usage));
                        self.floor = Floor::FallingBack(prompt);
                        self.fence(now, admit, Cancelled::Superseded);
                        self.console_again(now, cause);
                    }
                    then @ (Afterwards::Listen { .. } | Afterwards::HangUp(_)) => {
                        prompt.then = then;
                        self.floor = Floor::FallingBack(prompt);
                    }
                }
            }
            other @ (Floor::Ringing
            | Floor::Listening { .. }
            | Floor::PlayingOut(_)
            | Floor::Ended { .. }) => self.floor = other,
        }
    }

    // === the model speaks ===

    pub(super) fn on_wrote(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        text: &str,
    ) {
        if self.side_wrote(run, text) {
            return;
        }
        let Some(answer) = self.floor.answer().filter(|answer| answer.model.is_run(run)) else {
            return self.late(run, "model");
        };
        answer.written.push_str(text);
        if answer.modality == Modality::Text {
            self.open_message();
            return self.tell_words(text);
        }
        let mut phrases = Vec::new();
        answer.phraser.push(text, &mut phrases);
        for phrase in phrases {
            self.say(now, admit, phrase);
        }
    }

    /// A phrase is complete: the synthesiser is asked for, once an answer.
    fn say(&mut self, now: Timestamp, admit: &mut dyn Admit, text: String) {
        let Some(answer) = self.floor.answer() else { return };
        let index = answer.phrases;
        answer.phrases += 1;
        answer.playout.announce(index, &text);
        let turn = answer.turn;
        match &mut answer.voice {
            Voice::Unasked => self.ask_voice(now, admit, turn, index, text),
            Voice::Waiting(_, waiting) => waiting.push((index, text)),
            Voice::Open(run) => {
                let run = *run;
                self.act(Action::Say { run, phrase: index, text });
            }
            // A later round of the same answer speaks again.
            Voice::Closing(_) | Voice::Done => self.ask_voice(now, admit, turn, index, text),
            Voice::Broken(_) => {}
        }
    }

    fn ask_voice(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        turn: super::state::Turn,
        index: u32,
        text: String,
    ) {
        let voice = match self.offer(now, admit, Stage::Synthesis, turn.born, Some(turn)) {
            Verdict::Admitted(lease) => {
                let run = self.start_voice(lease, turn.id);
                self.act(Action::Say { run, phrase: index, text });
                Voice::Open(run)
            }
            Verdict::Queued(ticket) => Voice::Waiting(ticket, vec![(index, text)]),
            Verdict::Refused(refusal) => {
                return self.give_up(now, admit, Cause::refused(refusal));
            }
        };
        if let Some(answer) = self.floor.answer() {
            answer.voice = voice;
        }
    }

    fn start_voice(&mut self, lease: Lease, turn: TurnId) -> RunId {
        let voice = self.floor.answer().and_then(|answer| answer.request.voice.clone());
        let voice = voice.or_else(|| self.settings.voice.clone());
        let speed = self.settings.speed;
        let run = self.owe(Stage::Synthesis, Some(lease), Some(turn));
        self.act(Action::Voice { run, voice, speed });
        run
    }

    pub(super) fn grant_voice(&mut self, lease: Lease) -> Option<Lease> {
        let offer = lease.offer;
        let Some(answer) = self.floor.answer().filter(|answer| answer.voice.awaits(offer)) else {
            return Some(lease);
        };
        let turn = answer.turn.id;
        let written = matches!(answer.model, Model::Done(_));
        let run = self.start_voice(lease, turn);
        let answer = self.floor.answer()?;
        let voice = if written { Voice::Closing(run) } else { Voice::Open(run) };
        let waited = std::mem::replace(&mut answer.voice, voice);
        if let Voice::Waiting(_, phrases) = waited {
            for (phrase, text) in phrases {
                self.act(Action::Say { run, phrase, text });
            }
        }
        if written {
            self.close_run(run);
        }
        None
    }

    pub(super) fn voice_wait_ended(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        offer: OfferId,
    ) {
        if self.floor.answer().is_some_and(|answer| answer.voice.awaits(offer)) {
            self.give_up(now, admit, Cause::expired(Stage::Synthesis));
        }
    }

    pub(super) fn on_finished(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        finish: Finish,
        usage: Usage,
    ) {
        if self.side_finished(run, finish, usage) {
            return;
        }
        let Some(answer) = self.floor.answer().filter(|answer| answer.model.is_run(run)) else {
            return;
        };
        answer.model = Model::Done(finish);
        answer.usage.input_tokens += usage.input_tokens;
        answer.usage.output_tokens += usage.output_tokens;
        let rest = answer.phraser.finish();
        let silent = answer.written.trim().is_empty() && answer.calls.is_empty();
        if silent && !answer.opened {
            return self.give_up(now, admit, Cause::fault(Stage::Model, &Fault::Empty));
        }
        if let Some(text) = rest.filter(|_| self.modality_is_audio()) {
            self.say(now, admit, text);
        }
        if self.start_tools(now, admit) {
            return;
        }
        self.close_voice();
        self.check_complete(now, admit);
    }

    fn modality_is_audio(&mut self) -> bool {
        self.floor.answer().is_some_and(|answer| answer.modality == Modality::Audio)
    }

    /// The synthesiser has been given everything.
    pub(super) fn close_voice(&mut self) {
        let Some(answer) = self.floor.answer() else { return };
        if let Voice::Open(run) = answer.voice {
            answer.voice = Voice::Closing(run);
            self.close_run(run);
        }
    }

    /// The answer is whole when the model, the tools and the synthesiser are done.
    pub(super) fn check_complete(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Some(answer) = self.floor.answer() else { return };
        let written = matches!(answer.model, Model::Done(_)) && answer.tools_are_done();
        if !written {
            return;
        }
        let sounded = match answer.voice {
            Voice::Unasked | Voice::Done | Voice::Broken(_) => true,
            Voice::Waiting(..) | Voice::Open(_) | Voice::Closing(_) => false,
        };
        if !sounded {
            return;
        }
        if answer.playout.has_sound() {
            answer.playout.complete();
            return self.send_frames(now, admit);
        }
        self.finish_silent(now);
    }

    /// An answer without sound (in text, or only tool calls) is over.
    fn finish_silent(&mut self, now: Timestamp) {
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        let (Floor::Thinking(answer) | Floor::Speaking(answer)) = floor else {
            self.floor = floor;
            return;
        };
        let resumes = self.finish_response(now, &answer);
        self.last_activity = now;
        self.floor = Floor::Listening { resumes };
    }

    // === the synthesiser speaks ===

    pub(super) fn on_sounded(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        phrase: u32,
        samples: &[i16],
    ) {
        let prompt = matches!(&self.floor, Floor::FallingBack(prompt) if prompt.run == run);
        let playout = match (&mut self.floor, prompt) {
            (Floor::FallingBack(prompt), true) => Some(&mut prompt.playout),
            (floor, _) => {
                let answer = floor.answer().filter(|answer| answer.voice.is_run(run));
                answer.map(|answer| &mut answer.playout)
            }
        };
        let Some(playout) = playout else { return self.late(run, "synthesis") };
        if !playout.push(phrase, samples) {
            let endless = Fault::Garbled { detail: "endless sound".into() };
            return self.give_up(now, admit, Cause::fault(Stage::Synthesis, &endless));
        }
        self.send_frames(now, admit);
    }

    pub(super) fn on_phrase_sounded(&mut self, run: RunId, phrase: u32, words: Vec<WordTime>) {
        match &mut self.floor {
            Floor::FallingBack(prompt) if prompt.run == run => {
                prompt.playout.phrase_done(phrase, words);
            }
            floor => {
                if let Some(answer) = floor.answer().filter(|answer| answer.voice.is_run(run)) {
                    answer.playout.phrase_done(phrase, words);
                }
            }
        }
    }

    /// A run is over and settled: what did the answer still expect of it?
    pub(super) fn on_run_over(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        fault: Option<Fault>,
    ) {
        if self.side_over(run, fault.as_ref()) || self.prompt_over(now, admit, run) {
            return;
        }
        self.recogniser_over(now, admit, run, fault.clone());
        self.tool_run_over(now, admit, run, fault.as_ref());
        let Some(answer) = self.floor.answer() else { return };
        if answer.model.is_run(run) {
            let fault = fault.unwrap_or(Fault::Empty);
            return self.give_up(now, admit, Cause::fault(Stage::Model, &fault));
        }
        if answer.voice.is_run(run) {
            self.voice_over(now, admit, fault);
        }
    }

    fn voice_over(&mut self, now: Timestamp, admit: &mut dyn Admit, fault: Option<Fault>) {
        let Some(answer) = self.floor.answer() else { return };
        let fault = match fault {
            None if !answer.playout.has_sound() => Some(Fault::Empty),
            other => other,
        };
        match fault {
            None => {
                answer.voice = Voice::Done;
                self.check_complete(now, admit);
            }
            Some(fault) => {
                self.give_up(now, admit, Cause::fault(Stage::Synthesis, &fault));
            }
        }
    }
}
