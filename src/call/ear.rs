//! The caller's speech: utterances, suspected barge-ins, the end of a turn and its words.

use std::time::Duration;

use super::fallback::Cause;
use super::state::{Ear, Floor, Pause, Recognition, Then, Utterance};
use super::{Action, Call, FINAL_WORDS_MAX};
use crate::admission::{Admit, Answer as Verdict, Cancelled, Lease, OfferId};
use crate::dialogue::{ItemBody, ItemStatus, Transcript};
use crate::fault::Fault;
use crate::id::{RunId, Stage, UtteranceId};
use crate::leg::{ServerTurns, Tag, ToCaller, TurnDetection};
use crate::time::{Timestamp, ms};
use crate::turn::bargein::{self, Evidence};
use crate::turn::end;
use crate::turn::speech::Edge;

impl Call {
    pub(super) fn on_speech(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        probability: f32,
        span: Duration,
    ) {
        let TurnDetection::Server(turns) = self.settings.turn_detection else { return };
        if matches!(self.floor, Floor::Ringing | Floor::Ended { .. }) {
            return;
        }
        let edge = self.speech.hear(probability, span);
        let (silence, at) = (self.speech.silence(), self.sound_at);
        if let Some(utterance) = self.ear.utterance()
            && silence.is_zero()
        {
            (utterance.last_speech, utterance.last_speech_at) = (now, at);
        }
        match &self.ear {
            Ear::Quiet if edge == Some(Edge::Started) => self.speech_began(now, admit, turns),
            Ear::Quiet => {}
            Ear::Suspect(_) => self.suspect_heard(now, admit, edge),
            Ear::Hearing(_) => self.turn_heard(now, admit, turns, edge),
            // The next utterance begins when the words of this one are known.
            Ear::Settling { .. } => {}
        }
    }

    fn speech_began(&mut self, now: Timestamp, admit: &mut dyn Admit, turns: ServerTurns) {
        self.last_activity = now;
        let speech = self.speech.speech();
        let from = self.sound_at.saturating_sub(speech + turns.prefix);
        let utterance = self.begin_utterance(now, admit, now - speech, from);
        if self.floor.is_audible() && turns.interrupt_response {
            self.pause_playout(now);
            self.ear = Ear::Suspect(Box::new(utterance));
            return;
        }
        let (item, at) = (utterance.item.clone(), utterance.from);
        self.ear = Ear::Hearing(Box::new(utterance));
        self.tell(ToCaller::SpeechStarted { item, at });
    }

    fn begin_utterance(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        born: Timestamp,
        from: Duration,
    ) -> Utterance {
        self.counters.utterance += 1;
        let recognition = self.open_recogniser(now, admit, born, from);
        Utterance {
            id: UtteranceId(self.counters.utterance),
            item: self.next_item(),
            from,
            last_speech: now,
            last_speech_at: self.sound_at,
            recognition,
            partial: None,
            partial_due: now + self.profile.barge_in.partial_every,
            pause: None,
        }
    }

    fn open_recogniser(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        born: Timestamp,
        from: Duration,
    ) -> Recognition {
        match self.offer(now, admit, Stage::Recognition, born, None) {
            Verdict::Admitted(lease) => Recognition::Open(self.start_recogniser(lease, from)),
            Verdict::Queued(ticket) => Recognition::Waiting(ticket),
            Verdict::Refused(refusal) => Recognition::Refused(refusal),
        }
    }

    fn start_recogniser(&mut self, lease: Lease, from: Duration) -> RunId {
        let run = self.owe(Stage::Recognition, Some(lease), None);
        self.act(Action::Recognise { run, from });
        run
    }

    /// A unit for the recogniser came: it hears the utterance from its start.
    pub(super) fn grant_recognition(&mut self, now: Timestamp, lease: Lease) -> Option<Lease> {
        let offer = lease.offer;
        let waiting = self.ear.utterance().filter(|u| u.recognition.awaits(offer));
        let Some(from) = waiting.map(|utterance| utterance.from) else { return Some(lease) };
        let run = self.start_recogniser(lease, from);
        let settling = matches!(self.ear, Ear::Settling { .. });
        if let Some(utterance) = self.ear.utterance() {
            utterance.recognition = Recognition::Open(run);
            let pause = utterance.pause.as_ref().map(|pause| pause.seq);
            if let Some(seq) = pause {
                self.act(Action::Decode { run, seq, is_final: true });
            }
        }
        if let (true, Ear::Settling { by, .. }) = (settling, &mut self.ear) {
            *by = now + FINAL_WORDS_MAX;
        }
        None
    }

    pub(super) fn recognition_wait_ended(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        offer: OfferId,
    ) {
        let waiting = self.ear.utterance().filter(|u| u.recognition.awaits(offer));
        let Some(utterance) = waiting else { return };
        utterance.recognition = Recognition::Expired;
        self.look_again(now, admit);
    }

    /// The recogniser's run is over; before its words came that is a fault.
    pub(super) fn recogniser_over(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        fault: Option<Fault>,
    ) {
        let Some(utterance) = self.ear.utterance() else { return };
        if matches!(utterance.recognition, Recognition::Open(own) if own == run) {
            utterance.recognition = Recognition::Failed(fault.unwrap_or(Fault::Empty));
            self.look_again(now, admit);
        }
    }

    pub(super) fn on_recognised(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        run: RunId,
        seq: u32,
        is_final: bool,
        transcript: Transcript,
    ) {
        let Some(utterance) = self.ear.utterance() else { return };
        if !matches!(utterance.recognition, Recognition::Open(own) if own == run) {
            return;
        }
        match &mut utterance.pause {
            Some(pause) if is_final && pause.seq == seq => pause.words = Some(transcript),
            Some(_) | None if !is_final => utterance.partial = Some(transcript.text),
            // The caller went on speaking after this was asked.
            Some(_) | None => {}
        }
        self.look_again(now, admit);
    }

    pub(super) fn on_turn_judged(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        id: UtteranceId,
        seq: u32,
        probability: f32,
    ) {
        if let Some(utterance) = self.ear.utterance()
            && utterance.id == id
            && let Some(pause) = &mut utterance.pause
            && pause.seq == seq
        {
            pause.judged = Some(probability);
            self.look_again(now, admit);
        }
    }

    /// Something new is known of the present utterance.
    fn look_again(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        match &self.ear {
            Ear::Quiet => {}
            Ear::Suspect(_) => self.judge_suspect(now, admit),
            Ear::Hearing(_) => self.judge_end(now, admit),
            Ear::Settling { .. } => self.settle_words(now, admit),
        }
    }

    // === a suspected barge-in ===

    fn suspect_heard(&mut self, now: Timestamp, admit: &mut dyn Admit, edge: Option<Edge>) {
        match edge {
            Some(Edge::Paused) => self.ask_for_words(false),
            Some(Edge::Resumed) => self.pause_is_over(),
            Some(Edge::Started) | None => {}
        }
        self.judge_suspect(now, admit);
    }

    fn judge_suspect(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let after_question = self.asked_something(now);
        let speech = self.speech.speech();
        let Ear::Suspect(utterance) = &self.ear else { return };
        let words = utterance.pause.as_ref().and_then(|pause| pause.words.as_ref());
        let verdict = self.profile.barge_in.judge(Evidence {
            speech,
            paused: utterance.pause.is_some(),
            words: words.map(|w| w.text.as_str()).or(utterance.partial.as_deref()),
            words_are_final: words.is_some(),
            recogniser: matches!(utterance.recognition, Recognition::Open(_)),
            after_question,
        });
        match verdict {
            bargein::Verdict::Wait => {}
            bargein::Verdict::Confirm(_) => self.confirm_barge_in(now, admit),
            bargein::Verdict::Reject(_) => self.reject_barge_in(now, admit),
        }
    }

    fn confirm_barge_in(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Ear::Suspect(mut utterance) = std::mem::replace(&mut self.ear, Ear::Quiet) else {
            return;
        };
        let (item, at) = (utterance.item.clone(), utterance.from);
        // The turn's own pause asks anew, this time also the end-of-turn model.
        utterance.pause = None;
        self.ear = Ear::Hearing(utterance);
        self.take_floor(now, admit, item, at);
        self.judge_end(now, admit);
    }

    /// It was nothing: the utterance is forgotten and the answer goes on where it stopped.
    pub(super) fn reject_barge_in(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Ear::Suspect(utterance) = std::mem::replace(&mut self.ear, Ear::Quiet) else { return };
        self.close_recogniser(now, admit, utterance.recognition, Cancelled::Superseded);
        self.speech.reset();
        self.resume_playout(now);
    }

    // === a turn ===

    fn turn_heard(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        turns: ServerTurns,
        edge: Option<Edge>,
    ) {
        self.last_activity = now;
        if edge == Some(Edge::Resumed) {
            self.pause_is_over();
        }
        let asked = self.ear.utterance().is_some_and(|utterance| utterance.pause.is_some());
        let ask_after = match turns.end {
            crate::leg::EndOfTurn::Silence(limit) => limit.min(end::ASK_AFTER),
            crate::leg::EndOfTurn::Model { .. } => end::ASK_AFTER,
        };
        if !asked && self.speech.silence() >= ask_after {
            self.ask_for_words(true);
        }
        self.judge_end(now, admit);
    }

    /// The caller pauses: what was said so far, and (behind a turn) was that all?
    fn ask_for_words(&mut self, judge: bool) {
        let judge = judge && self.profile.judges_turns && self.uses_turn_model();
        self.counters.decode += 1;
        let seq = self.counters.decode;
        let Some(utterance) = self.ear.utterance() else { return };
        utterance.pause = Some(Pause { seq, words: None, judged: None });
        let (id, run) = (utterance.id, open_run(&utterance.recognition));
        if let Some(run) = run {
            self.act(Action::Decode { run, seq, is_final: true });
        }
        if judge {
            self.act(Action::JudgeTurn { utterance: id, seq });
        }
    }

    fn pause_is_over(&mut self) {
        if let Some(utterance) = self.ear.utterance() {
            utterance.pause = None;
        }
    }

    fn uses_turn_model(&self) -> bool {
        match self.settings.turn_detection {
            TurnDetection::Manual => false,
            TurnDetection::Server(turns) => {
                matches!(turns.end, crate::leg::EndOfTurn::Model { .. })
            }
        }
    }

    fn judge_end(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let TurnDetection::Server(turns) = self.settings.turn_detection else { return };
        let Ear::Hearing(utterance) = &self.ear else { return };
        let Some(pause) = &utterance.pause else { return };
        let verdict = end::judge(turns.end, self.speech.silence(), pause.judged);
        if verdict == end::Verdict::Ended {
            let then = if turns.create_response { Then::Answer } else { Then::Nothing };
            let then = if self.settings.transcription_only { Then::Nothing } else { then };
            let (item, at) = (utterance.item.clone(), self.sound_at);
            self.tell(ToCaller::SpeechStopped { item, at });
            self.end_utterance(now, admit, then);
        }
    }

    /// The utterance becomes an item of the conversation; its words may still be missing.
    fn end_utterance(&mut self, now: Timestamp, admit: &mut dyn Admit, then: Then) {
        let Ear::Hearing(utterance) = std::mem::replace(&mut self.ear, Ear::Quiet) else { return };
        let item = utterance.item.clone();
        let body = ItemBody::Speech { transcript: None };
        let after = self.append(&item, body.clone(), ItemStatus::Completed);
        self.tell(ToCaller::Committed { item: item.clone(), after: after.clone() });
        let item = crate::dialogue::Item { id: item, body, status: ItemStatus::Completed };
        self.tell(ToCaller::ItemAdded { item, after });
        self.ear = Ear::Settling { utterance, by: now + FINAL_WORDS_MAX, then };
        self.settle_words(now, admit);
    }

    /// Goes on once the words of an ended utterance are known, or will never be.
    fn settle_words(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Ear::Settling { utterance, .. } = &mut self.ear else { return };
        let words = utterance.pause.as_mut().and_then(|pause| pause.words.take());
        let cause = match (&words, &utterance.recognition) {
            (Some(_), _) => None,
            (None, Recognition::Open(_) | Recognition::Waiting(_)) => return,
            (None, Recognition::Refused(refusal)) => Some(Cause::refused(*refusal)),
            (None, Recognition::Expired) => Some(Cause::expired(Stage::Recognition)),
            (None, Recognition::Failed(fault)) => Some(Cause::fault(Stage::Recognition, fault)),
        };
        let Ear::Settling { utterance, then, .. } = std::mem::replace(&mut self.ear, Ear::Quiet)
        else {
            return;
        };
        self.finish_utterance(now, admit, *utterance, then, words, cause);
    }

    fn finish_utterance(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        utterance: Utterance,
        then: Then,
        words: Option<Transcript>,
        cause: Option<Cause>,
    ) {
        let (item, born) = (utterance.item.clone(), utterance.last_speech);
        let spoken = utterance.last_speech_at.saturating_sub(utterance.from);
        self.close_recogniser(now, admit, utterance.recognition, Cancelled::Superseded);
        self.speech.reset();
        let Some(transcript) = words else {
            let Some(cause) = cause else { return };
            let message = cause.to_string();
            self.tell(ToCaller::TranscriptionFailed { item, code: cause.code(), message });
            return self.commit_wordless(now, admit, born, then, cause);
        };
        self.history.set_transcript(&item, &transcript.text);
        let text = transcript.text.trim().to_owned();
        let (utterance, item) = (utterance.id, item);
        self.tell(ToCaller::Transcribed { item, utterance, transcript, spoken });
        self.commit_words(now, admit, born, then, &text);
    }

    // === the client's own turn taking ===

    pub(super) fn on_commit(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        buffered: Duration,
        at: Duration,
        tag: Tag,
    ) {
        if matches!(self.floor, Floor::Ringing | Floor::Ended { .. }) {
            return;
        }
        self.sound_at = at;
        match &self.ear {
            Ear::Hearing(_) => {}
            Ear::Suspect(_) => self.confirm_barge_in(now, admit),
            Ear::Quiet | Ear::Settling { .. } if buffered < ms(100) => {
                return self.reject_commit(buffered, tag);
            }
            Ear::Quiet => {
                let from = at.saturating_sub(buffered);
                let utterance = self.begin_utterance(now, admit, now, from);
                self.ear = Ear::Hearing(Box::new(utterance));
            }
            // Words of the utterance before are still missing: the client will hear of them first.
            Ear::Settling { .. } => return self.reject_commit(Duration::ZERO, tag),
        }
        self.ask_for_words(false);
        self.act(Action::ForgetSound);
        self.end_utterance(now, admit, Then::Nothing);
    }

    fn reject_commit(&mut self, buffered: Duration, tag: Tag) {
        let message = format!(
            "Error committing input audio buffer: buffer too small. Expected at least 100ms of audio, \
             but buffer only has {:.2}ms of audio.",
            buffered.as_secs_f64() * 1_000.0
        );
        let code = "input_audio_buffer_commit_empty";
        self.tell(ToCaller::Rejected { code, message, param: None, tag });
    }

    pub(super) fn on_clear_audio(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        match std::mem::replace(&mut self.ear, Ear::Quiet) {
            Ear::Quiet => {}
            Ear::Suspect(utterance) => {
                self.close_recogniser(now, admit, utterance.recognition, Cancelled::Client);
                self.resume_playout(now);
            }
            Ear::Hearing(utterance) => {
                self.close_recogniser(now, admit, utterance.recognition, Cancelled::Client);
            }
            settling @ Ear::Settling { .. } => self.ear = settling,
        }
        self.speech.reset();
        self.act(Action::ForgetSound);
        self.tell(ToCaller::AudioCleared);
    }

    /// Nobody has spoken for the idle time: the silence is a turn of its own.
    pub(super) fn answer_silence(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let item = self.next_item();
        let at = self.sound_at;
        self.tell(ToCaller::IdleTimeout { item: item.clone(), from: at, to: at });
        let body = ItemBody::Speech { transcript: Some(String::new()) };
        let after = self.append(&item, body.clone(), ItemStatus::Completed);
        self.tell(ToCaller::Committed { item: item.clone(), after: after.clone() });
        let item = crate::dialogue::Item { id: item, body, status: ItemStatus::Completed };
        self.tell(ToCaller::ItemAdded { item, after });
        let turn = self.commit_turn(now, admit);
        self.start_answer(now, admit, turn, now, crate::leg::ResponseRequest::default());
    }

    // === the recogniser's unit ===

    fn close_recogniser(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        recognition: Recognition,
        why: Cancelled,
    ) {
        match recognition {
            Recognition::Open(run) => self.act(Action::Close { run }),
            Recognition::Waiting(ticket) => admit.withdraw(now, ticket, why),
            Recognition::Refused(_) | Recognition::Expired | Recognition::Failed(_) => {}
        }
    }

    /// The call ends: a recogniser that still waits waits no longer.
    pub(super) fn withdraw_recognition(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        why: Cancelled,
    ) {
        if let Some(utterance) = self.ear.utterance()
            && let Recognition::Waiting(_) = utterance.recognition
        {
            let waiting = std::mem::replace(&mut utterance.recognition, Recognition::Expired);
            self.close_recogniser(now, admit, waiting, why);
        }
    }

    // === timers of the ear ===

    /// Asks for the words of a suspected barge-in so far.
    pub(super) fn on_partial_due(&mut self, now: Timestamp) {
        let every = self.profile.barge_in.partial_every;
        self.counters.decode += 1;
        let seq = self.counters.decode;
        let Ear::Suspect(utterance) = &mut self.ear else { return };
        utterance.partial_due = now + every;
        if let Some(run) = open_run(&utterance.recognition) {
            self.act(Action::Decode { run, seq, is_final: false });
        }
    }

    /// The words of an ended utterance did not come in time.
    pub(super) fn on_words_overdue(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let Ear::Settling { utterance, .. } = &mut self.ear else { return };
        let slow = Recognition::Failed(Fault::Slow { deadline: "final_words" });
        let overdue = std::mem::replace(&mut utterance.recognition, slow);
        match overdue {
            Recognition::Open(run) => self.cancel_run(now, admit, run, Cancelled::Superseded),
            waiting => self.close_recogniser(now, admit, waiting, Cancelled::Superseded),
        }
        self.settle_words(now, admit);
    }
}

fn open_run(recognition: &Recognition) -> Option<RunId> {
    match recognition {
        Recognition::Open(run) => Some(*run),
        Recognition::Waiting(_)
        | Recognition::Refused(_)
        | Recognition::Expired
        | Recognition::Failed(_) => None,
    }
}
