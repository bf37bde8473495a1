//! One answer in the making: the model's words become phrases, the phrases sound.

use super::fallback::Cause;
use super::state::{Floor, Model, Voice};
use super::{Action, Call};
use crate::admission::{Admit, Answer as Verdict, Cancelled, Lease, OfferId};
use crate::dialogue::{Finish, ModelRequest, Usage, WordTime};
use crate::fault::Fault;
use crate::id::{RunId, Stage, TurnId};
use crate::leg::{InputItem, Modality, ResponseRequest, ToCaller};
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
        self.floor = Floor::Thinking(Box::new(answer));
        self.ask_model(now, admit);
    }

    /// Offers the present answer's next round to the model's gate.
    pub(super) fn ask_model(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Some(turn) = self.floor.answer().map(|answer| answer.turn) else { return };
        if self.is_behind_itself(admit) {
            if let Some(answer) = self.floor.answer() {
                answer.model = Model::Behind;
            }
            return;
        }
        let model = match self.offer(now, admit, Stage::Model, turn.born, Some(turn)) {
            Verdict::Admitted(lease) => return self.think(now, admit, lease),
            Verdict::Queued(ticket) => Model::Waiting(ticket),
            Verdict::Refused(refusal) => return self.give_up(now, admit, Cause::refused(refusal)),
        };
        if let Some(answer) = self.floor.answer() {
            answer.model = model;
        }
    }

    /// Starts the model for the present answer, unless nothing can speak what it would write.
    fn think(&mut self, now: Timestamp, admit: &mut dyn Admit, lease: Lease) {
        if let Err(refusal) = self.claim_voice(now, admit) {
            return self.not_started(now, admit, lease, Cause::refused(refusal));
        }
        self.settle_heard(now);
        let Some(answer) = self.floor.answer() else { return };
        let (request, turn) = (answer.request.clone(), answer.turn.id);
        answer.progress = now;
        let request = Box::new(self.model_request(&request));
        let run = self.owe(Stage::Model, Some(lease), Some(turn));
        self.act(Action::Think { run, request });
        if let Some(answer) = self.floor.answer() {
            answer.model = Model::Writing(run);
        }
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

    pub(super) fn grant_model(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        lease: Lease,
    ) -> Option<Lease> {
        let offer = lease.offer;
        if let Some(side) = self.side_awaiting(offer) {
            self.grant_side(now, side, lease);
            return None;
        }
        let answer = self.floor.answer().filter(|answer| answer.model.awaits(offer));
        let Some(turn) = answer.map(|answer| answer.turn.id) else { return Some(lease) };
        self.note(Stage::Model, "admitted", "", Some(turn));
        self.wait_is_over(now);
        self.think(now, admit, lease);
        None
    }

    /// A wait that the caller was told of has ended well: from here on silence counts anew.
    fn wait_is_over(&mut self, now: Timestamp) {
        let by = now + self.quiet_max();
        if let Some(answer) = self.floor.answer()
            && answer.turn.heard
            && let Some(audible_by) = &mut answer.turn.audible_by
        {
            *audible_by = by;
        }
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

    /// The answer cannot be made any more: what works for it loses its authority and the fallback
    /// speaks.
    pub(super) fn give_up(&mut self, now: Timestamp, admit: &mut dyn Admit, cause: Cause) {
        self.orphan_tools();
        self.drop_claim(now, admit);
        if self.has_work() {
            self.fence(now, admit, Cancelled::Superseded);
        }
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        match floor {
            Floor::Thinking(answer) => self.fall_back(now, admit, cause, *answer),
            Floor::Speaking(mut answer) => {
                // Something of it was heard: what there is is said to its end, then the truth
                // follows.
                answer.voice = Voice::Broken(cause);
                answer.model = Model::Done(Finish::Stop);
                answer.calls.clear();
                answer.playout.complete();
                self.floor = Floor::Speaking(answer);
                self.send_frames(now, admit);
            }
            Floor::FallingBack(prompt) => self.break_promise(now, admit, cause, *prompt),
            other @ (Floor::Ringing
            | Floor::Arranging(_)
            | Floor::Listening { .. }
            | Floor::PlayingOut(_)
            | Floor::Ended { .. }) => self.floor = other,
        }
    }

    /// Something works or waits for the present answer.
    fn has_work(&mut self) -> bool {
        let waits = self.floor.answer().is_some_and(|answer| answer.is_queued());
        waits
            || self.owed.iter().any(|(run, owed)| {
                owed.generation == self.generation
                    && owed.stage.rotates()
                    && owed.lease.is_some()
                    && !self.is_side_run(*run)
            })
    }

    // === the model speaks ===

    pub(super) fn on_wrote(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        text: &str,
    ) {
        if self.side_wrote(now, run, text) || self.guess_wrote(run, text) {
            return;
        }
        let Some(answer) = self.floor.answer().filter(|answer| answer.model.is_run(run)) else {
            return self.late(run, "model");
        };
        answer.written.push_str(text);
        answer.progress = now;
        if answer.modality == Modality::Text {
            self.open_message(now);
            return self.tell_words(text);
        }
        let mut phrases = Vec::new();
        answer.phraser.push(text, &mut phrases);
        for phrase in phrases {
            self.say(now, admit, phrase);
        }
    }

    /// A phrase is complete: the synthesiser is asked for, once a round.
    fn say(&mut self, now: Timestamp, admit: &mut dyn Admit, text: String) {
        let Some(answer) = self.floor.answer() else { return };
        // Words of another round follow those of the one before.
        let joins = answer.phrases > 0 && answer.playout.ends_bare();
        let text = if joins && !text.starts_with(' ') { format!(" {text}") } else { text };
        let index = answer.phrases;
        answer.phrases += 1;
        answer.playout.announce(index, &text);
        match &mut answer.voice {
            Voice::Unasked | Voice::Claimed(_) => self.ask_voice(now, admit, vec![(index, text)]),
            Voice::Waiting(_, waiting) | Voice::Closing(_, waiting) => waiting.push((index, text)),
            Voice::Open(run) => {
                let run = *run;
                self.act(Action::Say { run, phrase: index, text });
            }
            Voice::Broken(_) => {}
        }
    }

    /// These phrases sound on the unit that was claimed for them, or are offered to the gate.
    pub(super) fn ask_voice(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        phrases: Vec<(u32, String)>,
    ) {
        let Some(turn) = self.floor.answer().map(|answer| answer.turn) else { return };
        if let Some(lease) = self.confirm_claim(now, admit) {
            return self.start_voice(lease, turn.id, phrases);
        }
        match self.offer(now, admit, Stage::Synthesis, turn.born, Some(turn)) {
            Verdict::Admitted(lease) => self.start_voice(lease, turn.id, phrases),
            Verdict::Queued(ticket) => {
                if let Some(answer) = self.floor.answer() {
                    answer.voice = Voice::Waiting(ticket, phrases);
                }
            }
            Verdict::Refused(refusal) => self.give_up(now, admit, Cause::refused(refusal)),
        }
    }

    /// Starts the synthesiser on these phrases; it is closed when the round has no more of them.
    fn start_voice(&mut self, lease: Lease, turn: TurnId, phrases: Vec<(u32, String)>) {
        let voice = self.floor.answer().and_then(|answer| answer.request.voice.clone());
        let voice = voice.or_else(|| self.settings.voice.clone());
        let speed = self.settings.speed;
        let run = self.owe(Stage::Synthesis, Some(lease), Some(turn));
        self.act(Action::Voice { run, voice, speed });
        for (phrase, text) in phrases {
            self.act(Action::Say { run, phrase, text });
        }
        let Some(answer) = self.floor.answer() else { return };
        answer.voice = Voice::Open(run);
        if matches!(answer.model, Model::Done(_)) {
            self.close_voice();
        }
    }

    pub(super) fn grant_voice(&mut self, now: Timestamp, lease: Lease) -> Option<Lease> {
        let offer = lease.offer;
        let Some(answer) = self.floor.answer().filter(|answer| answer.voice.awaits(offer)) else {
            return Some(lease);
        };
        let turn = answer.turn.id;
        let waited = std::mem::replace(&mut answer.voice, Voice::Unasked);
        self.note(Stage::Synthesis, "admitted", "", Some(turn));
        self.wait_is_over(now);
        if let Voice::Waiting(_, phrases) = waited {
            self.start_voice(lease, turn, phrases);
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
        if self.side_finished(run, finish, usage) || self.guess_finished(run, finish, usage) {
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
        // A unit is not held while tools run.
        self.drop_claim(now, admit);
        self.close_voice();
        if !self.start_tools(now, admit) {
            self.check_complete(now, admit);
        }
    }

    fn modality_is_audio(&mut self) -> bool {
        self.floor.answer().is_some_and(|answer| answer.modality == Modality::Audio)
    }

    /// The synthesiser has been given everything.
    pub(super) fn close_voice(&mut self) {
        let Some(answer) = self.floor.answer() else { return };
        if let Voice::Open(run) = answer.voice {
            answer.voice = Voice::Closing(run, Vec::new());
            self.act(Action::Close { run });
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
            Voice::Unasked | Voice::Broken(_) => true,
            Voice::Claimed(_) | Voice::Waiting(..) | Voice::Open(_) | Voice::Closing(..) => false,
        };
        if !sounded {
            return;
        }
        if answer.playout.has_sound() {
            answer.playout.complete();
            return self.send_frames(now, admit);
        }
        self.finish_silent(now, admit);
    }

    /// An answer without sound (in text, or only tool calls) is over.
    fn finish_silent(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let floor = std::mem::replace(&mut self.floor, Floor::Listening { resumes: None });
        let (Floor::Thinking(answer) | Floor::Speaking(answer)) = floor else {
            // A "please wait" is still heard: it is over behind that.
            self.floor = floor;
            return;
        };
        let resumes = self.finish_response(now, &answer);
        self.last_activity = now;
        self.floor = Floor::Listening { resumes };
        self.floor_is_free(now, admit);
    }

    // === the synthesiser speaks ===

    pub(super) fn on_sounded(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        phrase: u32,
        samples: Vec<i16>,
    ) {
        let prompt = matches!(&self.floor, Floor::FallingBack(prompt) if prompt.run == run);
        let playout = match (&mut self.floor, prompt) {
            (Floor::FallingBack(prompt), true) => Some(&mut prompt.playout),
            (floor, _) => {
                let answer = floor.answer().filter(|answer| answer.voice.is_run(run));
                answer.map(|answer| &mut answer.playout)
            }
        };
        let Some(playout) = playout else { return self.late_sound(run, samples) };
        if !playout.push(phrase, samples) {
            let endless = Fault::Garbled { detail: "endless sound".into() };
            return self.give_up(now, admit, Cause::fault(Stage::Synthesis, &endless));
        }
        self.send_frames(now, admit);
    }

    /// Sound of an answer that has lost the floor reaches nobody.
    fn late_sound(&mut self, run: RunId, samples: Vec<i16>) {
        if crate::admission::mutant::is("fence_only_before_synthesis")
            && let Some(generation) = self.owed.get(&run).map(|owed| owed.generation)
        {
            let rate_hz = self.settings.out_rate_hz;
            let (pcm, item) = (crate::audio::Pcm { rate_hz, samples }, self.next_item());
            self.tell(ToCaller::Audio { response: None, item, generation, pcm });
        }
        self.late(run, "synthesis");
    }

    pub(super) fn on_phrase_sounded(&mut self, run: RunId, phrase: u32, words: Vec<WordTime>) {
        match &mut self.floor {
            Floor::FallingBack(prompt) if prompt.run == run => {
                prompt.playout.phrase_done(phrase, words);
            }
            floor => {
                if let Some(answer) = floor.answer().filter(|answer| answer.voice.is_run(run)) {
                    answer.playout.phrase_done(phrase, words);
                    self.pace = answer.playout.pace();
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
        let beside = self.side_over(run, fault.as_ref())
            || self.guess_over(run)
            || self.rung_over(now, admit, run);
        if beside || self.prompt_over(now, admit, run) {
            return;
        }
        self.recogniser_over(now, admit, run, fault.clone());
        let Some(answer) = self.floor.answer() else { return };
        if answer.model.is_run(run) {
            let half = Fault::Garbled { detail: "it ended before it had finished".into() };
            let ended = if answer.written.is_empty() { Fault::Empty } else { half };
            let fault = fault.unwrap_or(ended);
            return self.give_up(now, admit, Cause::fault(Stage::Model, &fault));
        }
        if answer.voice.is_run(run) {
            self.voice_over(now, admit, fault);
        }
    }

    fn voice_over(&mut self, now: Timestamp, admit: &mut dyn Admit, fault: Option<Fault>) {
        let Some(answer) = self.floor.answer() else { return };
        let later = match std::mem::replace(&mut answer.voice, Voice::Unasked) {
            Voice::Closing(_, later) => later,
            Voice::Unasked
            | Voice::Claimed(_)
            | Voice::Waiting(..)
            | Voice::Open(_)
            | Voice::Broken(_) => Vec::new(),
        };
        // Words that were taken and never sounded were not said (B30).
        let first_later = later.first().map_or(u32::MAX, |(index, _)| *index);
        let ended = match answer.playout.has_sound() {
            true => Fault::Garbled { detail: "it ended before all words had sounded".into() },
            false => Fault::Empty,
        };
        let unsaid = answer.playout.has_unspoken(first_later).then_some(ended);
        match fault.or(unsaid) {
            Some(fault) => self.give_up(now, admit, Cause::fault(Stage::Synthesis, &fault)),
            None if later.is_empty() => {
                answer.playout.fill_frame();
                self.send_frames(now, admit);
                self.check_complete(now, admit);
                self.claim_next_round(now, admit);
            }
            None => self.ask_voice(now, admit, later),
        }
    }
}
