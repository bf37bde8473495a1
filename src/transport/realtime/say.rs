//! What the call says: from [`ToCaller`] to server events, in the protocol's order.

use super::answers::{Answer, Around};
use super::items::ItemObject;
use super::outbox::Outbox;
use super::protocol::Protocol;
use super::turns::millis;
use super::wrong::report;
use crate::audio::Pcm;
use crate::dialogue::{Item, ItemStatus, Usage};
use crate::id::{ItemId, ResponseId};
use crate::leg::{AdmissionNote, HangUp, PlayoutState, ResponseEnd, ToCaller};

impl Protocol {
    /// Turns one word of the call into the events that say it.
    pub fn say(&mut self, what: ToCaller, replies: &mut Outbox) {
        match what {
            ToCaller::Audio { response, item, pcm, .. } => {
                self.say_audio(response, item, &pcm, replies);
            }
            ToCaller::Text { response, item, delta } => {
                let said =
                    self.answer(response).is_some_and(|answer| answer.text(&item, &delta, replies));
                self.count_late(said);
            }
            ToCaller::ResponseStarted(head) => {
                self.end_announcements(&ResponseEnd::Completed, None, replies);
                self.past.answered = true;
                let answer = Answer::begin(head, self.around(), replies);
                self.answers.push(answer);
            }
            ToCaller::MessageStarted { response, item, after, modality } => {
                let found = self.answer(response);
                let said = found.map(|answer| {
                    answer.message_started(item, after, modality, replies);
                });
                self.count_late(said.is_some());
            }
            ToCaller::MessageEnded { response, item, completed, text } => {
                let said = self
                    .answer(response)
                    .is_some_and(|answer| answer.message_ended(&item, completed, &text, replies));
                self.count_late(said);
            }
            ToCaller::FunctionCalled { response, item, after, call } => {
                let found = self.answer(response);
                let said = found.map(|answer| {
                    answer.function_called(item, after, call, replies);
                });
                self.count_late(said.is_some());
            }
            ToCaller::ResponseEnded { response, end, usage } => {
                let at = self.answers.iter().position(|answer| answer.is(response));
                if let Some(at) = at {
                    let answer = self.answers.remove(at);
                    answer.end(&end, usage, self.around(), replies);
                }
                self.count_late(at.is_some());
            }
            ToCaller::Rejected { code, message, param, tag } => {
                report(replies, code, &message, param, tag.as_deref());
            }
            ToCaller::HangUp { why } => self.say_goodbye(why, replies),
            ToCaller::ClearFarEnd { item, .. } => {
                // The client clears by itself on speech_started; only an announcement needs an end.
                self.end_announcements(&ResponseEnd::TurnDetected, Some(&item), replies);
            }
            heard @ (ToCaller::SpeechStarted { .. }
            | ToCaller::SpeechStopped { .. }
            | ToCaller::IdleTimeout { .. }
            | ToCaller::Committed { .. }
            | ToCaller::AudioCleared
            | ToCaller::Transcribed { .. }
            | ToCaller::TranscriptionFailed { .. }) => self.say_heard(heard, replies),
            kept @ (ToCaller::ItemAdded { .. }
            | ToCaller::Retrieved(_)
            | ToCaller::Deleted { .. }
            | ToCaller::Truncated { .. }) => say_item(kept, replies),
            extra @ (ToCaller::Playout { .. }
            | ToCaller::Admission(_)
            | ToCaller::Turn { .. }
            | ToCaller::LateOutput { .. }
            | ToCaller::Fallback { .. }) => {
                if self.session.extra_events {
                    say_extra(extra, replies);
                }
            }
        }
    }

    fn answer(&mut self, id: ResponseId) -> Option<&mut Answer> {
        self.answers.iter_mut().find(|answer| answer.is(id))
    }

    /// Nothing of a response may follow its end (1.9): what comes anyway is counted and not sent.
    fn count_late(&mut self, said: bool) {
        self.late += u64::from(!said);
    }

    fn say_audio(
        &mut self,
        response: Option<ResponseId>,
        item: ItemId,
        pcm: &Pcm,
        replies: &mut Outbox,
    ) {
        if response.is_none() && !self.announces(&item) {
            self.end_announcements(&ResponseEnd::Completed, None, replies);
            self.announcements += 1;
            let answer = Answer::announce(self.announcements, item.clone(), self.around(), replies);
            self.answers.push(answer);
        }
        let wanted = |answer: &&Answer| match response {
            Some(id) => answer.is(id),
            None => answer.is_announcement(),
        };
        let said = match self.answers.iter().find(wanted) {
            Some(answer) => answer.audio(&item, pcm, &mut self.sound_out, replies),
            None => false,
        };
        self.past.spoken |= said;
        self.count_late(said);
    }

    fn announces(&self, item: &ItemId) -> bool {
        self.answers.iter().any(|answer| answer.is_announcement() && answer.has(item))
    }

    /// Ends what is spoken outside any answer: all of it, or only this item.
    fn end_announcements(
        &mut self,
        end: &ResponseEnd,
        only: Option<&ItemId>,
        replies: &mut Outbox,
    ) {
        let over =
            |answer: &Answer| answer.is_announcement() && only.is_none_or(|item| answer.has(item));
        while let Some(at) = self.answers.iter().position(over) {
            let answer = self.answers.remove(at);
            answer.end(end, Usage::default(), self.around(), replies);
        }
    }

    fn say_heard(&self, what: ToCaller, replies: &mut Outbox) {
        let (started, stopped) =
            ("input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped");
        match what {
            ToCaller::SpeechStarted { item, at } => replies
                .event(started)
                .field("audio_start_ms", &millis(at))
                .field("item_id", item.as_str())
                .queue(),
            ToCaller::SpeechStopped { item, at } => replies
                .event(stopped)
                .field("audio_end_ms", &millis(at))
                .field("item_id", item.as_str())
                .queue(),
            ToCaller::IdleTimeout { item, from, to } => replies
                .event("input_audio_buffer.timeout_triggered")
                .field("audio_start_ms", &millis(from))
                .field("audio_end_ms", &millis(to))
                .field("item_id", item.as_str())
                .queue(),
            ToCaller::Committed { item, after } => replies
                .event("input_audio_buffer.committed")
                .field("previous_item_id", &after.as_ref().map(ItemId::as_str))
                .field("item_id", item.as_str())
                .queue(),
            ToCaller::AudioCleared => replies.event("input_audio_buffer.cleared").queue(),
            transcription if self.session.transcription.is_some() => {
                say_transcription(transcription, replies);
            }
            // A client that asked for no transcripts gets none, and no word of their failure.
            _ => {}
        }
    }

    /// The last words. Closing the connection is the leg's business.
    fn say_goodbye(&mut self, why: HangUp, replies: &mut Outbox) {
        let cut = match why {
            HangUp::Goodbye => ResponseEnd::Completed,
            HangUp::CallerGone | HangUp::Misbehaved => ResponseEnd::ClientCancelled,
            HangUp::Drained | HangUp::TooLong | HangUp::Broken => ResponseEnd::Failed {
                code: reason(why).map_or("internal_error", |(code, _)| code),
                message: "The session ended.".to_owned(),
            },
        };
        let around = Around { session: &self.session, names: &self.names };
        for answer in self.answers.drain(..) {
            answer.end(&cut, Usage::default(), around, replies);
        }
        if let Some((code, message)) = reason(why) {
            report(replies, code, message, None, None);
        }
    }
}

/// The error that a client is told before the connection closes.
fn reason(why: HangUp) -> Option<(&'static str, &'static str)> {
    match why {
        HangUp::CallerGone | HangUp::Goodbye => None,
        HangUp::Drained => Some(("draining", "The server is shutting down; connect again.")),
        HangUp::TooLong => {
            Some(("session_expired", "The session reached its longest time; connect again."))
        }
        HangUp::Misbehaved => {
            Some(("policy_violation", "The session ended because its client broke the protocol."))
        }
        HangUp::Broken => {
            Some(("internal_error", "The session ended because of a fault of the server's own."))
        }
    }
}

fn say_transcription(what: ToCaller, replies: &mut Outbox) {
    match what {
        ToCaller::Transcribed { item, transcript, spoken, .. } => {
            if !transcript.text.is_empty() {
                replies
                    .event("conversation.item.input_audio_transcription.delta")
                    .field("item_id", item.as_str())
                    .field("content_index", &0)
                    .field("delta", &transcript.text)
                    .queue();
            }
            let usage = Duration { r#type: "duration", seconds: millis(spoken) as f64 / 1_000.0 };
            replies
                .event("conversation.item.input_audio_transcription.completed")
                .field("item_id", item.as_str())
                .field("content_index", &0)
                .field("transcript", &transcript.text)
                .field("usage", &usage)
                .queue();
        }
        ToCaller::TranscriptionFailed { item, code, message } => {
            // No null here: a strict client drops the event for it (T7).
            let error = TranscriptionError { r#type: "transcription_error", code, message };
            replies
                .event("conversation.item.input_audio_transcription.failed")
                .field("item_id", item.as_str())
                .field("content_index", &0)
                .field("error", &error)
                .queue();
        }
        _ => {}
    }
}

#[derive(serde::Serialize)]
struct Duration {
    r#type: &'static str,
    seconds: f64,
}

#[derive(serde::Serialize)]
struct TranscriptionError {
    r#type: &'static str,
    code: &'static str,
    message: String,
}

fn say_item(what: ToCaller, replies: &mut Outbox) {
    match what {
        ToCaller::ItemAdded { item, after } => say_added(&item, after.as_ref(), replies),
        ToCaller::Retrieved(item) => replies
            .event("conversation.item.retrieved")
            .field("item", &ItemObject::of(&item))
            .queue(),
        ToCaller::Deleted { item } => {
            replies.event("conversation.item.deleted").field("item_id", item.as_str()).queue()
        }
        ToCaller::Truncated { item, played } => replies
            .event("conversation.item.truncated")
            .field("item_id", item.as_str())
            .field("content_index", &0)
            .field("audio_end_ms", &millis(played))
            .queue(),
        _ => {}
    }
}

fn say_added(item: &Item, after: Option<&ItemId>, replies: &mut Outbox) {
    let whole = item.status != ItemStatus::InProgress;
    for (kind, due) in [("conversation.item.added", true), ("conversation.item.done", whole)] {
        if due {
            replies
                .event(kind)
                .field("previous_item_id", &after.map(ItemId::as_str))
                .field("item", &ItemObject::of(item))
                .queue();
        }
    }
}

/// What the protocol has no word for (DESIGN section 6).
fn say_extra(what: ToCaller, replies: &mut Outbox) {
    match what {
        ToCaller::Playout { state, item, played } => replies
            .event("floorkeeper.playout")
            .field("state", playout_word(state))
            .field("item_id", item.as_str())
            .field("played_ms", &millis(played))
            .queue(),
        ToCaller::Admission(AdmissionNote { gate, disposition, reason, turn, generation }) => {
            replies
                .event("floorkeeper.admission")
                .field("gate", &gate)
                .field("disposition", disposition)
                .field("reason", &Some(reason).filter(|reason| !reason.is_empty()))
                .field("turn", &turn.map(|turn| turn.0))
                .field("generation", &generation.0)
                .queue();
        }
        ToCaller::Turn { turn, state, generation } => replies
            .event("floorkeeper.turn")
            .field("turn", &turn.0)
            .field("state", state)
            .field("generation", &generation.0)
            .queue(),
        ToCaller::LateOutput { stage, generation } => replies
            .event("floorkeeper.late_output")
            .field("stage", stage)
            .field("generation", &generation.0)
            .queue(),
        ToCaller::Fallback { rung, outcome, prompt } => replies
            .event("floorkeeper.fallback")
            .field("rung", rung)
            .field("outcome", outcome)
            .field("prompt", &prompt)
            .queue(),
        _ => {}
    }
}

fn playout_word(state: PlayoutState) -> &'static str {
    match state {
        PlayoutState::Paused => "paused",
        PlayoutState::Resumed => "resumed",
        PlayoutState::Cleared => "cleared",
    }
}
