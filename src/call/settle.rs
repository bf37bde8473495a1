//! Utterances that have ended: their words awaited, in the order in which they were said.

use std::time::Duration;

use super::fallback::Cause;
use super::floor::Beside;
use super::state::{Ear, Floor, Recognition, Settling, Then};
use super::{Action, Call, FINAL_WORDS_MAX, SETTLING_MAX};
use crate::admission::{Admit, Cancelled};
use crate::dialogue::{Item, ItemBody, ItemStatus, Transcript};
use crate::fault::Fault;
use crate::id::{ItemId, Stage};
use crate::leg::{Modality, Tag, ToCaller};
use crate::time::{Timestamp, ms};

impl Call {
    /// The utterance becomes an item of the conversation; its words may still be missing. The
    /// caller may say the next one meanwhile: it is heard from its first syllable on.
    pub(super) fn end_utterance(&mut self, now: Timestamp, admit: &mut dyn Admit, then: Then) {
        let utterance = match std::mem::replace(&mut self.ear, Ear::Quiet) {
            Ear::Hearing(utterance) => *utterance,
            other @ (Ear::Quiet | Ear::Suspect(_)) => {
                self.ear = other;
                return;
            }
        };
        self.taken_to = self.sound_at;
        self.speech.reset();
        self.commit_item(utterance.item.clone(), None);
        let by = self.words_due(now, utterance.last_speech, &then);
        self.settling.push_back(Settling { utterance, by, then });
        if self.settling.len() > SETTLING_MAX
            && let Some(oldest) = self.settling.front_mut()
        {
            oldest.by = now;
            return self.on_words_overdue(now, admit);
        }
        self.settle_words(now, admit);
    }

    /// The caller's item is in the conversation.
    fn commit_item(&mut self, id: ItemId, transcript: Option<String>) {
        let body = ItemBody::Speech { transcript };
        let after = self.append(&id, body.clone(), ItemStatus::Completed);
        self.tell(ToCaller::Committed { item: id.clone(), after: after.clone() });
        let item = Item { id, body, status: ItemStatus::Completed };
        self.tell(ToCaller::ItemAdded { item, after });
    }

    /// An answer that follows by itself must be audible within the turn's budget, also when the
    /// words never come.
    fn words_due(&self, now: Timestamp, last_speech: Timestamp, then: &Then) -> Timestamp {
        let most = now + FINAL_WORDS_MAX;
        match (then, self.settings.modality) {
            (Then::Answer, Modality::Audio) => most.min(last_speech + self.quiet_max()).max(now),
            (Then::Answer, Modality::Text) | (Then::Nothing | Then::Respond(..), _) => most,
        }
    }

    /// A unit for the recogniser of an ended utterance came: its words may take their time from now
    /// on.
    pub(super) fn words_restart(&mut self, now: Timestamp) {
        let mut settling = std::mem::take(&mut self.settling);
        for waiting in &mut settling {
            if matches!(waiting.utterance.recognition, Recognition::Open(_)) {
                let due = self.words_due(now, waiting.utterance.last_speech, &waiting.then);
                waiting.by = waiting.by.max(due);
            }
        }
        self.settling = settling;
    }

    /// Goes on once the words of an ended utterance are known, or will never be.
    pub(super) fn settle_words(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        while let Some(settling) = self.settling.front_mut() {
            let utterance = &mut settling.utterance;
            let words = utterance.pause.as_mut().and_then(|pause| pause.words.take());
            let cause = match (&words, &utterance.recognition) {
                (Some(_), _) => None,
                (None, Recognition::Open(_) | Recognition::Waiting(_)) => return,
                (None, Recognition::Refused(refusal)) => Some(Cause::refused(*refusal)),
                (None, Recognition::Expired) => Some(Cause::expired(Stage::Recognition)),
                (None, Recognition::Failed(fault)) => Some(Cause::fault(Stage::Recognition, fault)),
            };
            if let Some(settling) = self.settling.pop_front() {
                self.finish_utterance(now, admit, settling, words, cause);
            }
        }
    }

    fn finish_utterance(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        settling: Settling,
        words: Option<Transcript>,
        cause: Option<Cause>,
    ) {
        let Settling { utterance, then, .. } = settling;
        let (item, born) = (utterance.item.clone(), utterance.last_speech);
        let spoken = utterance.last_speech_at.saturating_sub(utterance.from);
        self.close_recogniser(now, admit, utterance.recognition, Cancelled::Superseded);
        let Some(transcript) = words else {
            let Some(cause) = cause else { return };
            let message = cause.to_string();
            self.tell(ToCaller::TranscriptionFailed { item, code: cause.code(), message });
            return self.commit_wordless(now, admit, born, then, cause);
        };
        self.history.set_transcript(&item, &transcript.text);
        let text = transcript.text.trim().to_owned();
        let id = utterance.id;
        self.tell(ToCaller::Transcribed { item, utterance: id, transcript, spoken });
        let beside =
            Beside { took_floor: utterance.took_floor, over_statement: utterance.over_statement };
        self.commit_words(now, admit, born, beside, then, &text);
    }

    /// The words of an ended utterance did not come in time.
    pub(super) fn on_words_overdue(&mut self, now: Timestamp, admit: &mut dyn Admit) {
        let mut gone = Vec::new();
        for settling in self.settling.iter_mut().filter(|s| s.by <= now && s.is_open()) {
            let recognition = &mut settling.utterance.recognition;
            let known = match recognition {
                Recognition::Waiting(_) => Recognition::Expired,
                _ => Recognition::Failed(Fault::Slow { deadline: "final_words" }),
            };
            gone.push(std::mem::replace(recognition, known));
        }
        for recognition in gone {
            match recognition {
                Recognition::Open(run) => self.cancel_run(now, admit, run, Cancelled::Superseded),
                waiting => self.close_recogniser(now, admit, waiting, Cancelled::Superseded),
            }
        }
        self.settle_words(now, admit);
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
        if matches!(self.floor, Floor::Ringing | Floor::Ended { .. }) || self.is_leaving() {
            return;
        }
        self.sound_at = at;
        let buffered = buffered.min(at.saturating_sub(self.taken_to));
        match &self.ear {
            Ear::Hearing(_) => {}
            Ear::Suspect(_) => self.confirm_barge_in(now, admit),
            Ear::Quiet if buffered < COMMIT_MIN => return self.reject_commit(buffered, tag),
            Ear::Quiet => {
                let from = at.saturating_sub(buffered);
                let utterance = self.begin_utterance(now, admit, now, from);
                self.ear = Ear::Hearing(Box::new(utterance));
            }
        }
        self.ask_for_words(false);
        let waits = self.ear.utterance().is_some_and(|utterance| utterance.recognition.waits());
        if !waits {
            // A recogniser that waits for a unit will want this sound.
            self.act(Action::ForgetSound);
        }
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
        }
        self.speech.reset();
        self.act(Action::ForgetSound);
        self.tell(ToCaller::AudioCleared);
        // An answer that was held back while the caller spoke is free.
        self.send_frames(now, admit);
    }

    /// Nobody has spoken for the idle time: the silence is a turn of its own.
    pub(super) fn answer_silence(
        &mut self,
        now: Timestamp,
        admit: &mut dyn Admit,
        silence: Duration,
    ) {
        let item = self.next_item();
        let to = self.sound_at;
        let from = to.saturating_sub(silence).max(self.taken_to);
        self.tell(ToCaller::IdleTimeout { item: item.clone(), from, to });
        self.commit_item(item, Some(String::new()));
        let turn = self.commit_turn(now, admit);
        self.start_answer(now, admit, turn, now, crate::leg::ResponseRequest::default());
    }
}

/// The least sound that a client may commit.
const COMMIT_MIN: Duration = ms(100);
