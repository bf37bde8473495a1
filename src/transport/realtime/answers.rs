//! The answers that are being given: their output indexes, parts, and order of events (1.8, 1.9).

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::format::SoundOut;
use super::items::{ItemObject, status_word};
use super::names::Names;
use super::outbox::{EventWriter, Outbox};
use super::output_buffer::Audible;
use super::session::{MaxTokens, OutputObject, Session, modality_word};
use super::wrong::class_of;
use crate::audio::Pcm;
use crate::dialogue::{Item, ItemBody, ItemStatus, Role, ToolCall, Usage};
use crate::id::{ItemId, ResponseId};
use crate::leg::{Modality, ResponseEnd, ResponseHead};

/// What an answer's events need to know of the session around it.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub session: &'a Session,
    pub names: &'a Names,
}

/// One answer, from `response.created` to `response.done`.
#[derive(Debug)]
pub(super) struct Answer {
    /// `None` for something spoken outside any answer of the call's.
    id: Option<ResponseId>,
    name: String,
    out_of_band: bool,
    modality: Modality,
    voice: Option<String>,
    max_tokens: Option<u32>,
    metadata: Option<Value>,
    outputs: Vec<Output>,
}

/// One of an answer's items; its place in the list is its `output_index`.
#[derive(Debug)]
struct Output {
    item: ItemId,
    /// Its item's previous one, told twice.
    after: Option<ItemId>,
    modality: Modality,
    /// What was sent of it, while it is open.
    text: String,
    /// The item as it ended.
    done: Option<Box<RawValue>>,
}

impl Answer {
    /// Begins an answer and says so.
    pub fn begin(head: ResponseHead, around: Around<'_>, outbox: &mut Outbox) -> Self {
        let name = around.names.response(head.response);
        let answer = Answer {
            id: Some(head.response),
            name,
            out_of_band: head.out_of_band,
            modality: head.modality,
            voice: head.voice,
            max_tokens: head.max_tokens,
            metadata: head.metadata,
            outputs: Vec::new(),
        };
        answer.tell("response.created", "in_progress", None, None, around, outbox);
        answer
    }

    /// Begins something spoken outside any answer: the wire knows no sound but that of a response,
    /// so it becomes one that writes to no conversation.
    pub fn announce(number: u32, item: ItemId, around: Around<'_>, outbox: &mut Outbox) -> Self {
        let mut answer = Answer {
            id: None,
            name: around.names.announcement(number),
            out_of_band: true,
            modality: Modality::Audio,
            voice: None,
            max_tokens: None,
            metadata: None,
            outputs: Vec::new(),
        };
        answer.tell("response.created", "in_progress", None, None, around, outbox);
        answer.message_started(item, None, Modality::Audio, outbox);
        answer
    }

    /// It is this answer of the call's.
    pub fn is(&self, id: ResponseId) -> bool {
        self.id == Some(id)
    }

    /// It is something spoken outside any answer.
    pub fn is_announcement(&self) -> bool {
        self.id.is_none()
    }

    /// It has this item.
    pub fn has(&self, item: &ItemId) -> bool {
        self.outputs.iter().any(|output| output.item == *item)
    }

    /// Opens a message and its one content part; always `true`.
    pub fn message_started(
        &mut self,
        item: ItemId,
        after: Option<ItemId>,
        modality: Modality,
        outbox: &mut Outbox,
    ) -> bool {
        let object = ItemObject::begun(item.as_str());
        let index = self.outputs.len();
        self.tell_item_added(&object, after.as_ref(), outbox);
        self.part(outbox, "response.content_part.added", &item, index)
            .field("part", &Part::of(modality, ""))
            .queue();
        self.outputs.push(Output { item, after, modality, text: String::new(), done: None });
        true
    }

    /// More words. `false`: there is no such open message.
    pub fn text(&mut self, item: &ItemId, delta: &str, outbox: &mut Outbox) -> bool {
        let Some(index) = self.open(item) else { return false };
        let output = &mut self.outputs[index];
        output.text.push_str(delta);
        let kind = match output.modality {
            Modality::Audio => "response.output_audio_transcript.delta",
            Modality::Text => "response.output_text.delta",
        };
        self.part(outbox, kind, item, index).field("delta", delta).queue();
        true
    }

    /// More sound. `false`: there is no such open message.
    pub fn audio(
        &self,
        item: &ItemId,
        pcm: &Pcm,
        sound: &mut SoundOut,
        outbox: &mut Outbox,
    ) -> bool {
        let Some(index) = self.open(item) else { return false };
        let bytes = sound.encode(pcm);
        if !bytes.is_empty() {
            self.part(outbox, "response.output_audio.delta", item, index)
                .base64("delta", bytes)
                .queue();
        }
        true
    }

    /// The same where sound has a way of its own.
    pub fn audible(&self, item: ItemId, pcm: Pcm, outbox: &mut Outbox) -> bool {
        let is_open = self.open(&item).is_some();
        if is_open {
            let (response, kept) = (self.name.clone(), !self.out_of_band);
            outbox.sound(Audible::Sound { response, item, kept, pcm });
        }
        is_open
    }

    /// Its name on the wire.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Closes a message. `false`: there is no such open message.
    pub fn message_ended(
        &mut self,
        item: &ItemId,
        completed: bool,
        text: &str,
        outbox: &mut Outbox,
    ) -> bool {
        let Some(index) = self.open(item) else { return false };
        let modality = self.outputs[index].modality;
        match modality {
            Modality::Audio => {
                self.part(outbox, "response.output_audio.done", item, index).queue();
                self.part(outbox, "response.output_audio_transcript.done", item, index)
                    .field("transcript", text)
                    .queue();
            }
            Modality::Text => self
                .part(outbox, "response.output_text.done", item, index)
                .field("text", text)
                .queue(),
        }
        self.part(outbox, "response.content_part.done", item, index)
            .field("part", &Part::of(modality, text))
            .queue();
        let text = text.to_owned();
        let body = match modality {
            Modality::Audio => ItemBody::Spoken { transcript: text },
            Modality::Text => ItemBody::Text { role: Role::Assistant, text },
        };
        let status = if completed { ItemStatus::Completed } else { ItemStatus::Incomplete };
        self.tell_item_done(index, &Item { id: item.clone(), body, status }, outbox);
        true
    }

    /// A whole function call; always `true`.
    pub fn function_called(
        &mut self,
        item: ItemId,
        after: Option<ItemId>,
        call: ToolCall,
        outbox: &mut Outbox,
    ) -> bool {
        let index = self.outputs.len();
        let begun = status_word(ItemStatus::InProgress);
        let object = ItemObject::function_call(item.as_str(), begun, &call);
        self.tell_item_added(&object, after.as_ref(), outbox);
        self.output(outbox, "response.function_call_arguments.delta", &item, index)
            .field("call_id", &call.call_id)
            .field("delta", &call.arguments)
            .queue();
        self.output(outbox, "response.function_call_arguments.done", &item, index)
            .field("call_id", &call.call_id)
            .field("name", &call.name)
            .field("arguments", &call.arguments)
            .queue();
        let modality = Modality::Text;
        let text = String::new();
        self.outputs.push(Output { item: item.clone(), after, modality, text, done: None });
        let body = ItemBody::FunctionCall(call);
        let whole = Item { id: item, body, status: ItemStatus::Completed };
        self.tell_item_done(index, &whole, outbox);
        true
    }

    /// Closes what is open and says how it ended. Nothing of this answer may follow.
    pub fn end(mut self, end: &ResponseEnd, usage: Usage, around: Around<'_>, outbox: &mut Outbox) {
        let completed = *end == ResponseEnd::Completed;
        for index in 0..self.outputs.len() {
            if self.outputs[index].done.is_none() {
                let item = self.outputs[index].item.clone();
                let text = std::mem::take(&mut self.outputs[index].text);
                self.message_ended(&item, completed, &text, outbox);
            }
        }
        let (status, details) = how(end);
        self.tell("response.done", status, details, Some(usage), around, outbox);
    }

    fn open(&self, item: &ItemId) -> Option<usize> {
        self.outputs.iter().rposition(|output| output.item == *item && output.done.is_none())
    }

    fn tell_item_added(
        &self,
        object: &ItemObject<'_>,
        after: Option<&ItemId>,
        outbox: &mut Outbox,
    ) {
        outbox
            .event("response.output_item.added")
            .field("response_id", &self.name)
            .field("output_index", &self.outputs.len())
            .field("item", object)
            .queue();
        if !self.out_of_band {
            outbox
                .event("conversation.item.added")
                .field("previous_item_id", &after.map(ItemId::as_str))
                .field("item", object)
                .queue();
        }
    }

    fn tell_item_done(&mut self, index: usize, item: &Item, outbox: &mut Outbox) {
        // An item holds texts only, so it is always JSON; an empty object would be seen by any
        // client.
        let Ok(raw) = to_raw_value(&ItemObject::of(item)) else { return };
        if !self.out_of_band {
            outbox
                .event("conversation.item.done")
                .field("previous_item_id", &self.outputs[index].after.as_ref().map(ItemId::as_str))
                .json("item", raw.get())
                .queue();
        }
        outbox
            .event("response.output_item.done")
            .field("response_id", &self.name)
            .field("output_index", &index)
            .json("item", raw.get())
            .queue();
        self.outputs[index].text = String::new();
        self.outputs[index].done = Some(raw);
    }

    /// Begins an event about one output.
    fn output<'o>(
        &self,
        outbox: &'o mut Outbox,
        kind: &'static str,
        item: &ItemId,
        index: usize,
    ) -> EventWriter<'o> {
        outbox
            .event(kind)
            .field("response_id", &self.name)
            .field("item_id", item.as_str())
            .field("output_index", &index)
    }

    /// Begins an event about a message's content part.
    fn part<'o>(
        &self,
        outbox: &'o mut Outbox,
        kind: &'static str,
        item: &ItemId,
        index: usize,
    ) -> EventWriter<'o> {
        self.output(outbox, kind, item, index).field("content_index", &0)
    }

    fn tell(
        &self,
        kind: &'static str,
        status: &'static str,
        status_details: Option<Details<'_>>,
        usage: Option<Usage>,
        around: Around<'_>,
        outbox: &mut Outbox,
    ) {
        let voice = self.voice.as_deref().unwrap_or(&around.session.voice);
        let format = around.session.output_format.object();
        let response = ResponseObject {
            object: "realtime.response",
            id: &self.name,
            status,
            status_details,
            output: self.outputs.iter().filter_map(|output| output.done.as_deref()).collect(),
            conversation_id: (!self.out_of_band).then(|| around.names.conversation()),
            output_modalities: [modality_word(self.modality)],
            max_output_tokens: MaxTokens::of(self.max_tokens),
            audio: ResponseAudio { output: OutputObject { format, voice, speed: None } },
            usage: usage.map(UsageObject::of),
            metadata: self.metadata.as_ref(),
        };
        outbox.event(kind).field("response", &response).queue();
    }
}

/// The status and its details for an end.
fn how(end: &ResponseEnd) -> (&'static str, Option<Details<'_>>) {
    let reason = |status, reason| (status, Some(Details::Reason { r#type: status, reason }));
    match end {
        ResponseEnd::Completed => ("completed", None),
        ResponseEnd::TurnDetected => reason("cancelled", "turn_detected"),
        ResponseEnd::ClientCancelled => reason("cancelled", "client_cancelled"),
        ResponseEnd::MaxTokens => reason("incomplete", "max_output_tokens"),
        ResponseEnd::ContentFilter => reason("incomplete", "content_filter"),
        ResponseEnd::Failed { code, message } => {
            let error = Failure { r#type: class_of(code), code, message };
            ("failed", Some(Details::Failed { r#type: "failed", error }))
        }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Details<'a> {
    Reason { r#type: &'static str, reason: &'static str },
    Failed { r#type: &'static str, error: Failure<'a> },
}

#[derive(Serialize)]
struct Failure<'a> {
    r#type: &'static str,
    code: &'static str,
    message: &'a str,
}

#[derive(Serialize)]
struct ResponseObject<'a> {
    object: &'static str,
    id: &'a str,
    status: &'static str,
    status_details: Option<Details<'a>>,
    output: Vec<&'a RawValue>,
    conversation_id: Option<&'a str>,
    output_modalities: [&'static str; 1],
    max_output_tokens: MaxTokens,
    audio: ResponseAudio<'a>,
    usage: Option<UsageObject>,
    metadata: Option<&'a Value>,
}

#[derive(Serialize)]
struct ResponseAudio<'a> {
    output: OutputObject<'a>,
}

/// A part's own words for its type: not those of an item's content (T3).
#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Audio { r#type: &'static str, transcript: &'a str },
    Text { r#type: &'static str, text: &'a str },
}

impl<'a> Part<'a> {
    fn of(modality: Modality, text: &'a str) -> Self {
        match modality {
            Modality::Audio => Part::Audio { r#type: "audio", transcript: text },
            Modality::Text => Part::Text { r#type: "text", text },
        }
    }
}

/// Our models read and write text on both sides, so all tokens are text tokens.
#[derive(Serialize)]
struct UsageObject {
    total_tokens: u32,
    input_tokens: u32,
    output_tokens: u32,
    input_token_details: InputTokens,
    output_token_details: TokenKinds,
}

#[derive(Serialize)]
struct InputTokens {
    text_tokens: u32,
    audio_tokens: u32,
    image_tokens: u32,
    cached_tokens: u32,
    cached_tokens_details: CachedTokens,
}

#[derive(Serialize)]
struct CachedTokens {
    text_tokens: u32,
    audio_tokens: u32,
    image_tokens: u32,
}

#[derive(Serialize)]
struct TokenKinds {
    text_tokens: u32,
    audio_tokens: u32,
}

impl UsageObject {
    fn of(usage: Usage) -> Self {
        let Usage { input_tokens, output_tokens } = usage;
        let cached = CachedTokens { text_tokens: 0, audio_tokens: 0, image_tokens: 0 };
        UsageObject {
            total_tokens: input_tokens.saturating_add(output_tokens),
            input_tokens,
            output_tokens,
            input_token_details: InputTokens {
                text_tokens: input_tokens,
                audio_tokens: 0,
                image_tokens: 0,
                cached_tokens: 0,
                cached_tokens_details: cached,
            },
            output_token_details: TokenKinds { text_tokens: output_tokens, audio_tokens: 0 },
        }
    }
}
