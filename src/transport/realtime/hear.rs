//! Client events: from JSON text to what the call has to know.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::fields::Fields;
use super::items::{parse_id, parse_item};
use super::outbox::Outbox;
use super::protocol::{Medium, Protocol, reject};
use super::request::parse_request;
use super::session::Kind;
use super::wrong::Wrong;
use crate::dialogue::Item;
use crate::id::ItemId;
use crate::leg::{FromCaller, Place, ResponseRequest, Tag};
use crate::time::ms;

/// Every event that a client may send.
pub const CLIENT_EVENTS: [&str; 12] = [
    "session.update",
    APPEND,
    "input_audio_buffer.commit",
    "input_audio_buffer.clear",
    "conversation.item.create",
    "conversation.item.retrieve",
    "conversation.item.delete",
    "conversation.item.truncate",
    "response.create",
    "response.cancel",
    "output_audio_buffer.clear",
    "floorkeeper.heard",
];

const APPEND: &str = "input_audio_buffer.append";
/// Longest `event_id` that is given back, in bytes.
const TAG_MAX_BYTES: usize = 512;
/// Longest position in an item's sound that means anything.
const PLAYED_MAX_MS: u64 = 24 * 3_600_000;

/// The one event that comes fifty times a second, read without a value tree.
#[derive(Deserialize)]
struct Glance<'a> {
    #[serde(borrow)]
    r#type: Text<'a>,
    #[serde(borrow)]
    audio: Option<Text<'a>>,
    #[serde(borrow)]
    event_id: Option<Text<'a>>,
}

/// A text that is borrowed unless it has escapes. (`Option<Cow<str>>` would always be copied.)
struct Text<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

impl Protocol {
    /// Takes one message from the client: what the call has to know goes to `out`, what the client
    /// is answered at once to `replies`. Whatever is wrong gets one `error` and changes nothing.
    pub fn hear(&mut self, text: &str, out: &mut Vec<FromCaller>, replies: &mut Outbox) {
        // All that this does not understand goes to the thorough reader, which knows what is wrong.
        if let Ok(Glance { r#type, audio: Some(audio), event_id }) = serde_json::from_str(text)
            && r#type.0 == APPEND
        {
            if let Err(wrong) = self.hear_sound(&audio.0, out) {
                let tag = event_id.and_then(|id| tag_of(&id.0).ok().flatten());
                reject(&wrong, &tag, replies);
            }
            return;
        }
        let value: Value = match serde_json::from_str(text) {
            Ok(value) => value,
            Err(fault) => {
                let message = format!("The message is not valid JSON: {fault}.");
                return reject(&Wrong::whole("invalid_json", message), &None, replies);
            }
        };
        let mut tag = None;
        if let Err(wrong) = self.hear_event(&value, &mut tag, out, replies) {
            reject(&wrong, &tag, replies);
        }
    }

    /// A message that was no text.
    pub fn hear_binary(&mut self, replies: &mut Outbox) {
        let message = "Binary messages are not part of this protocol; send JSON text, and sound as \
                       base64 in input_audio_buffer.append.";
        reject(&Wrong::whole("invalid_message", message), &None, replies);
    }

    /// A channel was opened on which no events are read.
    pub fn hear_channel(&mut self, label: &str, wanted: &str, replies: &mut Outbox) {
        let shown: String = label.chars().take(64).collect();
        let message = format!("There is one channel, '{wanted}'; nothing is read on '{shown}'.");
        reject(&Wrong::at("invalid_value", "label", message), &None, replies);
    }

    /// A message was longer than is taken, and is gone.
    pub fn hear_overlong(&mut self, most: usize, replies: &mut Outbox) {
        let message = format!(
            "The message has more than {most} bytes, which are the most that are taken here \
             (a=max-message-size of the answer), and was dropped; send what it has in parts, or \
             call over WebSocket."
        );
        reject(&Wrong::whole("event_too_large", message), &None, replies);
    }

    /// An event has more bytes than the client takes: it is told so in the event's place.
    pub fn cannot_say(&mut self, event: &[u8], most: usize, replies: &mut Outbox) {
        let text = std::str::from_utf8(event).unwrap_or_default();
        // As the outbox writes it: {"type":"<kind>","event_id":"<id>"
        let mut quoted = text.split('"').skip(3).step_by(4);
        let (kind, id) = (quoted.next().unwrap_or_default(), quoted.next().unwrap_or_default());
        let message = format!(
            "The event '{kind}' ('{id}') has {} bytes and was not sent: {most} are the most that go \
             over this connection (a=max-message-size of the offer and of the answer).",
            event.len()
        );
        reject(&Wrong::whole("event_too_large", message), &None, replies);
    }

    fn hear_event(
        &mut self,
        value: &Value,
        tag: &mut Tag,
        out: &mut Vec<FromCaller>,
        replies: &mut Outbox,
    ) -> Result<(), Wrong> {
        let Value::Object(map) = value else {
            return Err(Wrong::type_of("event", "an object", value));
        };
        let fields = Fields::of(value, "", self.defaults.strict)?;
        *tag = tag_of(fields.text("event_id")?.unwrap_or_default())?;
        let tag = tag.clone();
        match fields.need_text("type")? {
            "session.update" => {
                let session = map.get("session").ok_or_else(|| Wrong::missing("session"))?;
                self.update_session(session, out, replies)?;
            }
            APPEND => {
                let audio = fields.text("audio")?.ok_or_else(|| Wrong::missing("audio"))?;
                self.hear_sound(audio, out)?;
            }
            "input_audio_buffer.commit" => out.push(FromCaller::CommitAudio { tag }),
            "input_audio_buffer.clear" => out.push(FromCaller::ClearAudio),
            "conversation.item.create" => out.push(self.item_to_add(&fields, tag)?),
            "conversation.item.retrieve" => {
                out.push(FromCaller::RetrieveItem { item: item_id(&fields)?, tag });
            }
            "conversation.item.delete" => {
                out.push(FromCaller::DeleteItem { item: item_id(&fields)?, tag });
            }
            "conversation.item.truncate" => out.push(truncation(&fields, tag)?),
            "response.create" => out.push(self.answer_wanted(&fields, tag)?),
            "response.cancel" => out.push(self.cancellation(&fields, tag)?),
            "output_audio_buffer.clear" => match self.medium {
                // The client holds the sound that was sent: there is nothing to clear here.
                Medium::Socket => {}
                Medium::Peer => {
                    let tag = Some(self.clears.clone());
                    out.push(FromCaller::Cancel { response: None, tag });
                }
            },
            "floorkeeper.heard" => {
                let played = fields.whole("played_ms", 0, PLAYED_MAX_MS)?;
                let played = ms(played.ok_or_else(|| Wrong::missing("played_ms"))?);
                out.push(FromCaller::Heard { item: item_id(&fields)?, played });
            }
            other => {
                let known = CLIENT_EVENTS.map(|event| format!("'{event}'")).join(", ");
                return Err(Wrong::value("type", other, &known));
            }
        }
        Ok(())
    }

    fn hear_sound(&mut self, audio: &str, out: &mut Vec<FromCaller>) -> Result<(), Wrong> {
        match self.medium {
            Medium::Socket => self.sound_in.hear(audio, out),
            Medium::Peer => {
                let message = "Over a peer connection sound comes on its audio track; \
                               input_audio_buffer.append is for WebSockets.";
                Err(Wrong::at("invalid_value", "type", message))
            }
        }
    }

    fn item_to_add(&mut self, fields: &Fields<'_>, tag: Tag) -> Result<FromCaller, Wrong> {
        fields.only(&["type", "event_id", "item", "previous_item_id"])?;
        let after = match parse_id(fields, "previous_item_id")?.as_deref() {
            None => Place::End,
            Some("root") => Place::Front,
            Some(id) => Place::After(ItemId::new(id)),
        };
        let written = parse_item(&fields.need_object("item")?)?;
        let id = match written.id {
            Some(id) => ItemId::new(&id),
            None => self.names.item(),
        };
        let item = Item { id, body: written.body, status: written.status };
        Ok(FromCaller::AddItem { item, after, tag })
    }

    fn answer_wanted(&self, fields: &Fields<'_>, tag: Tag) -> Result<FromCaller, Wrong> {
        fields.only(&["type", "event_id", "response"])?;
        if self.session.kind == Kind::Transcription {
            let message = "A transcription session gives no answers; use a session of type \
                           'realtime'.";
            return Err(Wrong::at("invalid_value", "type", message));
        }
        let request = match fields.object("response")? {
            None => ResponseRequest::default(),
            Some(response) => parse_request(&response, self.session.output_format)?,
        };
        Ok(FromCaller::Respond { request: Box::new(request), tag })
    }

    fn cancellation(&self, fields: &Fields<'_>, tag: Tag) -> Result<FromCaller, Wrong> {
        fields.only(&["type", "event_id", "response_id"])?;
        let response = match fields.text("response_id")? {
            None => None,
            Some(name) => Some(self.names.parse_response(name).ok_or_else(|| {
                let shown: String = name.chars().take(64).collect();
                let message =
                    format!("Cancellation failed: no active response found with id '{shown}'.");
                Wrong::at("response_cancel_not_active", "response_id", message)
            })?),
        };
        Ok(FromCaller::Cancel { response, tag })
    }
}

fn truncation(fields: &Fields<'_>, tag: Tag) -> Result<FromCaller, Wrong> {
    fields.only(&["type", "event_id", "item_id", "content_index", "audio_end_ms"])?;
    let item = item_id(fields)?;
    fields.whole("content_index", 0, 0)?;
    let played = fields.whole("audio_end_ms", 0, PLAYED_MAX_MS)?;
    let played = ms(played.ok_or_else(|| Wrong::missing("audio_end_ms"))?);
    Ok(FromCaller::Truncate { item, played, tag })
}

fn item_id(fields: &Fields<'_>) -> Result<ItemId, Wrong> {
    let id = parse_id(fields, "item_id")?.ok_or_else(|| Wrong::missing("item_id"))?;
    Ok(ItemId::new(&id))
}

/// The client's name for its event; an empty one is none.
fn tag_of(event_id: &str) -> Result<Tag, Wrong> {
    if event_id.len() > TAG_MAX_BYTES {
        let message =
            format!("'event_id' may have {TAG_MAX_BYTES} bytes, but has {}.", event_id.len());
        return Err(Wrong::at("string_above_max_length", "event_id", message));
    }
    Ok((!event_id.is_empty()).then(|| Arc::from(event_id)))
}
