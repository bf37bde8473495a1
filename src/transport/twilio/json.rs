//! The JSON that most dialects share: `event`, `start`, `media`, `mark`, `dtmf`, `stop`; and the
//! dialect of those that share all of it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::extract::ws::{Message, Utf8Bytes};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Dialect, Said, Start};

/// A dialect that has Twilio's events: what differs is how a stream is named in what it is sent,
/// and what its start says.
#[derive(Debug)]
pub(super) struct Events {
    pub name: &'static str,
    /// The key of the stream's name, where one is wanted.
    pub stream_key: Option<&'static str>,
    /// Reads `start`, with the name of the stream where that stands beside it.
    pub start: fn(&Value, Option<String>) -> Option<Start>,
}

impl Dialect for Events {
    fn name(&self) -> &'static str {
        self.name
    }

    fn parse(&self, message: &Message) -> Option<Said> {
        let event = event(message)?;
        match &*event.event {
            "media" => event.sound(),
            "start" => (self.start)(event.start.as_ref()?, event.stream)
                .map(|start| Said::Start(Box::new(start))),
            "dtmf" => event.key(),
            "mark" => Some(Said::Mark(event.mark?.name)),
            "stop" => Some(Said::Stop),
            _ => Some(Said::Nothing),
        }
    }

    fn media(&self, to: &Start, sound: &[u8]) -> Message {
        media(self.stream_key.map(|key| (key, to.stream.as_str())), sound)
    }

    fn mark(&self, to: &Start, name: &str) -> Message {
        self.message(to, json!({"event": "mark", "mark": {"name": name}}))
    }

    fn clear(&self, to: &Start) -> Message {
        self.message(to, json!({"event": "clear"}))
    }
}

impl Events {
    fn message(&self, to: &Start, mut event: Value) -> Message {
        if let Some(key) = self.stream_key {
            event[key] = to.stream.as_str().into();
        }
        message(&event)
    }
}

/// One message; the names that a dialect writes differently are all here.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow)]
    pub event: Cow<'a, str>,
    #[serde(alias = "streamSid", alias = "stream_id", alias = "streamId", alias = "stream_sid")]
    pub stream: Option<String>,
    #[serde(borrow)]
    pub media: Option<Media<'a>>,
    pub start: Option<Value>,
    pub mark: Option<Mark>,
    pub dtmf: Option<Key>,
    /// Plivo's mark has its name here.
    pub name: Option<String>,
    #[serde(alias = "extraHeaders")]
    pub extra_headers: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Media<'a> {
    #[serde(borrow)]
    pub payload: Cow<'a, str>,
    #[serde(default)]
    pub track: Option<Cow<'a, str>>,
    /// A number, or a number as a text.
    pub chunk: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct Mark {
    pub name: String,
}

#[derive(Deserialize)]
pub(super) struct Key {
    pub digit: String,
}

/// Reads a text message.
pub(super) fn event(message: &Message) -> Option<Event<'_>> {
    let Message::Text(text) = message else { return None };
    serde_json::from_str(text.as_str()).ok()
}

impl Event<'_> {
    /// The caller's sound; what we ourselves have sent (Twilio's `outbound`) is not heard.
    pub fn sound(self) -> Option<Said> {
        let media = self.media?;
        if media.track.is_some_and(|track| track.starts_with("outbound")) {
            return Some(Said::Nothing);
        }
        let sound = BASE64.decode(media.payload.as_bytes()).ok()?;
        Some(Said::Media { stream: self.stream, chunk: whole(media.chunk.as_ref()), sound })
    }

    /// The key that was pressed.
    pub fn key(self) -> Option<Said> {
        let digit = self.dtmf?.digit;
        key(&digit)
    }
}

/// A key of a telephone.
pub(in crate::transport) fn key(digit: &str) -> Option<Said> {
    let mut letters = digit.chars();
    let key = letters.next().filter(|_| letters.next().is_none())?.to_ascii_uppercase();
    matches!(key, '0'..='9' | '*' | '#' | 'A'..='D').then_some(Said::Key(key))
}

/// A whole number, also where it is written as a text.
pub(super) fn whole(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// A field that is a text, or nothing.
pub(super) fn text(of: &Value, key: &str) -> String {
    of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Parameters that a stream was given: texts, and what else is simple as text.
pub(in crate::transport) fn params(of: Option<&Value>) -> BTreeMap<String, String> {
    let Some(Value::Object(map)) = of else { return BTreeMap::new() };
    map.iter()
        .filter_map(|(key, value)| match value {
            Value::String(text) => Some((key.clone(), text.clone())),
            Value::Number(_) | Value::Bool(_) => Some((key.clone(), value.to_string())),
            _ => None,
        })
        .collect()
}

pub(super) fn message(value: &Value) -> Message {
    Message::Text(Utf8Bytes::from(value.to_string()))
}

/// `{"event":"media"` with the stream's name, where one is wanted, and the sound.
pub(super) fn media(stream: Option<(&str, &str)>, sound: &[u8]) -> Message {
    let mut text = String::with_capacity(sound.len() * 4 / 3 + 128);
    text.push_str("{\"event\":\"media\"");
    push_stream(&mut text, stream);
    text.push_str(",\"media\":{\"payload\":\"");
    BASE64.encode_string(sound, &mut text);
    text.push_str("\"}}");
    Message::Text(Utf8Bytes::from(text))
}

fn push_stream(text: &mut String, stream: Option<(&str, &str)>) {
    if let Some((key, name)) = stream {
        text.push_str(",\"");
        text.push_str(key);
        text.push_str("\":");
        text.push_str(&Value::from(name).to_string());
    }
}
