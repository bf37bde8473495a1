//! What the call says: from [`ToCaller`] to server events, in the protocol's order.

use std::sync::Arc;
use std::time::Duration;

use super::answers::{Answer, Around};
use super::items::ItemObject;
use super::outbox::{EventWriter, Outbox};
use super::output_buffer::Audible;
use super::protocol::{Medium, Protocol};
use super::turns::millis;
use super::wrong::report;
use crate::audio::Pcm;
use crate::dialogue::{Item, ItemStatus, Usage};
use crate::id::{ItemId, ResponseId};
use crate::leg::{AdmissionNote, HangUp, PlayoutState, ResponseEnd, ResponseHead, ToCaller};

impl Protocol {
    /// Turns one word of the call into the events that say it.
    pub fn say(&mut self, what: ToCaller, out: &mut Outbox) {
        match what {
            ToCaller::Audio { response, item, pcm, .. } => {
                self.say_audio(response, item, pcm, out);
            }
            ToCaller::Text { response, item, delta } => {
                self.within(response, |answer| answer.text(&item, &delta, out));
            }
            ToCaller::ResponseStarted(head) => self.begin_answer(head, out),
            ToCaller::MessageStarted { response, item, after, modality } => {
                self.within(response, |answer| answer.message_started(item, after, modality, out));
            }
            ToCaller::MessageEnded { response, item, completed, text } => {
                self.within(response, |answer| answer.message_ended(&item, completed, &text, out));
            }
            ToCaller::FunctionCalled { response, item, after, call } => {
                self.within(response, |answer| answer.function_called(item, after, call, out));
            }
            ToCaller::ResponseEnded { response, end, usage } => {
                self.end_answer(response, &end, usage, out);
            }
            ToCaller::SpeechStarted { item, at } => {
                about(out, "input_audio_buffer.speech_started", &item).at("audio_start_ms", at);
            }
            ToCaller::SpeechStopped { item, at } => {
                about(out, "input_audio_buffer.speech_stopped", &item).at("audio_end_ms", at);
            }
            ToCaller::IdleTimeout { item, from, to } => {
                about(out, "input_audio_buffer.timeout_triggered", &item)
                    .field("audio_start_ms", &millis(from))
                    .at("audio_end_ms", to);
            }
            ToCaller::Committed { item, after } => {
                about(out, "input_audio_buffer.committed", &item).after(after.as_ref()).queue();
            }
            ToCaller::AudioCleared => out.event("input_audio_buffer.cleared").queue(),
            ToCaller::Transcribed { item, transcript, spoken, .. } => {
                self.say_transcript(&item, &transcript.text, spoken, out);
            }
            ToCaller::TranscriptionFailed { item, code, message } => {
                self.say_no_transcript(&item, code, &message, out);
            }
            ToCaller::ItemAdded { item, after } => say_added(&item, after.as_ref(), out),
            ToCaller::Truncated { item, played } => say_truncated(&item, played, out),
            ToCaller::Retrieved(item) => say_retrieved(&item, out),
            ToCaller::Deleted { item } => about(out, "conversation.item.deleted", &item).queue(),
            ToCaller::Rejected { tag: Some(tag), .. } if Arc::ptr_eq(&tag, &self.clears) => {}
            ToCaller::Rejected { code, message, param, tag } => {
                report(out, code, &message, param, tag.as_deref());
            }
            ToCaller::ClearFarEnd { item, played } => self.clear_far_end(item, played, out),
            extra @ (ToCaller::Playout { .. }
            | ToCaller::Heard { .. }
            | ToCaller::Admission(_)
            | ToCaller::Turn { .. }
            | ToCaller::LateOutput { .. }
            | ToCaller::Fallback { .. }) => {
                if self.session.extra_events {
                    say_extra(extra, out);
                }
            }
            // The protocol has no word for it.
            ToCaller::Key(_) => {}
            ToCaller::HangUp { why } => self.say_goodbye(why, out),
        }
    }

    /// Over a WebSocket the client clears by itself on speech_started; only an announcement needs
    /// an end.
    fn clear_far_end(&mut self, item: ItemId, played: Duration, out: &mut Outbox) {
        self.end_announcements(&ResponseEnd::TurnDetected, Some(&item), out);
        if self.medium == Medium::Peer {
            out.sound(Audible::Clear { item, played });
        }
    }

    /// Says something of an answer. Nothing of it may follow its end (1.9): what comes anyway, or
    /// for a message that is closed, is counted and not sent.
    fn within(&mut self, response: ResponseId, say: impl FnOnce(&mut Answer) -> bool) {
        let answer = self.answers.iter_mut().find(|answer| answer.is(response));
        self.late += u64::from(!answer.is_some_and(say));
    }

    fn begin_answer(&mut self, head: ResponseHead, out: &mut Outbox) {
        self.end_announcements(&ResponseEnd::Completed, None, out);
        self.past.answered = true;
        let answer = Answer::begin(head, self.around(), out);
        self.answers.push(answer);
    }

    fn end_answer(&mut self, id: ResponseId, end: &ResponseEnd, usage: Usage, out: &mut Outbox) {
        match self.answers.iter().position(|answer| answer.is(id)) {
            Some(at) => {
                let answer = self.answers.remove(at);
                self.end_one(answer, end, usage, out);
            }
            None => self.late += 1,
        }
    }

    fn say_audio(
        &mut self,
        response: Option<ResponseId>,
        item: ItemId,
        pcm: Pcm,
        out: &mut Outbox,
    ) {
        if response.is_none() && !self.announces(&item) {
            self.end_announcements(&ResponseEnd::Completed, None, out);
            self.announcements += 1;
            let answer = Answer::announce(self.announcements, item.clone(), self.around(), out);
            self.answers.push(answer);
        }
        let wanted = |answer: &&Answer| match response {
            Some(id) => answer.is(id),
            None => answer.is_announcement(),
        };
        let said = match (self.answers.iter().find(wanted), self.medium) {
            (Some(answer), Medium::Socket) => answer.audio(&item, &pcm, &mut self.sound_out, out),
            (Some(answer), Medium::Peer) => answer.audible(item, pcm, out),
            (None, _) => false,
        };
        self.past.spoken |= said;
        self.late += u64::from(!said);
    }

    fn announces(&self, item: &ItemId) -> bool {
        self.answers.iter().any(|answer| answer.is_announcement() && answer.has(item))
    }

    /// Ends what is spoken outside any answer: all of it, or only this item.
    fn end_announcements(&mut self, end: &ResponseEnd, only: Option<&ItemId>, out: &mut Outbox) {
        let over =
            |answer: &Answer| answer.is_announcement() && only.is_none_or(|item| answer.has(item));
        while let Some(at) = self.answers.iter().position(over) {
            let answer = self.answers.remove(at);
            self.end_one(answer, end, Usage::default(), out);
        }
    }

    fn end_one(&self, answer: Answer, end: &ResponseEnd, usage: Usage, out: &mut Outbox) {
        let response = answer.name().to_owned();
        answer.end(end, usage, self.around(), out);
        if self.medium == Medium::Peer {
            out.sound(Audible::Over { response });
        }
    }

    /// A client that asked for no transcripts gets none, and no word of their failure.
    fn say_transcript(&self, item: &ItemId, text: &str, spoken: Duration, out: &mut Outbox) {
        if self.session.transcription.is_none() {
            return;
        }
        if !text.is_empty() {
            about(out, "conversation.item.input_audio_transcription.delta", item)
                .field("content_index", &0)
                .field("delta", text)
                .queue();
        }
        let usage = SpokenUsage { r#type: "duration", seconds: millis(spoken) as f64 / 1_000.0 };
        about(out, "conversation.item.input_audio_transcription.completed", item)
            .field("content_index", &0)
            .field("transcript", text)
            .field("usage", &usage)
            .queue();
    }

    fn say_no_transcript(&self, item: &ItemId, code: &str, message: &str, out: &mut Outbox) {
        if self.session.transcription.is_none() {
            return;
        }
        let error = TranscriptionError { r#type: "transcription_error", code, message };
        about(out, "conversation.item.input_audio_transcription.failed", item)
            .field("content_index", &0)
            .field("error", &error)
            .queue();
    }

    /// The last words. Closing the connection is the leg's business.
    fn say_goodbye(&mut self, why: HangUp, out: &mut Outbox) {
        let cut = match why {
            HangUp::Goodbye | HangUp::HandedOver | HangUp::Idle => ResponseEnd::Completed,
            HangUp::CallerGone | HangUp::Misbehaved => ResponseEnd::ClientCancelled,
            HangUp::Drained | HangUp::TooLong | HangUp::Broken => ResponseEnd::Failed {
                code: last_error(why).map_or("internal_error", |(code, _)| code),
                message: "The session ended.".to_owned(),
            },
        };
        let around = Around { session: &self.session, names: &self.names };
        for answer in self.answers.drain(..) {
            answer.end(&cut, Usage::default(), around, out);
        }
        if let Some((code, message)) = last_error(why) {
            report(out, code, message, None, None);
        }
    }
}

/// The error that a client is told before the connection closes.
fn last_error(why: HangUp) -> Option<(&'static str, &'static str)> {
    match why {
        HangUp::CallerGone | HangUp::Goodbye | HangUp::HandedOver | HangUp::Idle => None,
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

/// Begins an event about one item.
fn about<'o>(out: &'o mut Outbox, kind: &'static str, item: &ItemId) -> EventWriter<'o> {
    out.event(kind).field("item_id", item.as_str())
}

impl EventWriter<'_> {
    /// Ends the event with a position in some sound.
    fn at(self, key: &'static str, position: Duration) {
        self.field(key, &millis(position)).queue();
    }

    /// Adds the item before the one that the event is about.
    fn after(self, item: Option<&ItemId>) -> Self {
        self.field("previous_item_id", &item.map(ItemId::as_str))
    }
}

/// The length of what was transcribed: a transcript's usage.
#[derive(serde::Serialize)]
struct SpokenUsage {
    r#type: &'static str,
    seconds: f64,
}

/// No null in it: a strict client drops the event for it (T7).
#[derive(serde::Serialize)]
struct TranscriptionError<'a> {
    r#type: &'static str,
    code: &'a str,
    message: &'a str,
}

fn say_added(item: &Item, after: Option<&ItemId>, out: &mut Outbox) {
    let object = ItemObject::of(item);
    out.event("conversation.item.added").after(after).field("item", &object).queue();
    if item.status != ItemStatus::InProgress {
        out.event("conversation.item.done").after(after).field("item", &object).queue();
    }
}

/// An agent's item was cut to what was heard.
pub(super) fn say_truncated(item: &ItemId, played: Duration, out: &mut Outbox) {
    about(out, "conversation.item.truncated", item)
        .field("content_index", &0)
        .at("audio_end_ms", played);
}

fn say_retrieved(item: &Item, out: &mut Outbox) {
    out.event("conversation.item.retrieved").field("item", &ItemObject::of(item)).queue();
}

/// What the protocol has no word for (DESIGN section 6); of other words it says nothing.
fn say_extra(what: ToCaller, out: &mut Outbox) {
    match what {
        ToCaller::Playout { state, item, played } => about(out, "floorkeeper.playout", &item)
            .field("state", playout_word(state))
            .at("played_ms", played),
        ToCaller::Heard { item, played, words } => {
            about(out, "floorkeeper.heard", &item).field("words", &words).at("played_ms", played)
        }
        ToCaller::Admission(AdmissionNote { gate, disposition, reason, turn, generation }) => out
            .event("floorkeeper.admission")
            .field("gate", &gate)
            .field("disposition", disposition)
            .field("reason", &Some(reason).filter(|reason| !reason.is_empty()))
            .field("turn", &turn.map(|turn| turn.0))
            .field("generation", &generation.0)
            .queue(),
        ToCaller::Turn { turn, state, generation } => out
            .event("floorkeeper.turn")
            .field("turn", &turn.0)
            .field("state", state)
            .field("generation", &generation.0)
            .queue(),
        ToCaller::LateOutput { stage, generation } => out
            .event("floorkeeper.late_output")
            .field("stage", stage)
            .field("generation", &generation.0)
            .queue(),
        ToCaller::Fallback { rung, outcome, prompt } => out
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
