//! Vonage: sound as binary messages of 16-bit samples; `notify` comes back as
//! `websocket:notify`.

use axum::extract::ws::Message;
use serde_json::{Value, json};

use super::{Dialect, Encoding, Said, Start, json as wire};

#[derive(Debug)]
pub(super) struct Vonage;

impl Dialect for Vonage {
    fn name(&self) -> &'static str {
        "vonage"
    }

    fn parse(&self, message: &Message) -> Option<Said> {
        let text = match message {
            Message::Binary(sound) => {
                let sound = sound.to_vec();
                return Some(Said::Media { stream: None, chunk: None, sound });
            }
            Message::Text(text) => text,
            Message::Ping(_) | Message::Pong(_) | Message::Close(_) => return None,
        };
        let value: Value = serde_json::from_str(text.as_str()).ok()?;
        match value.get("event")?.as_str()? {
            "websocket:connected" => start(&value),
            "websocket:dtmf" => wire::key(value.get("digit")?.as_str()?),
            "websocket:notify" => {
                let name = value.get("payload")?.get("mark")?.as_str()?;
                Some(Said::Mark(name.to_owned()))
            }
            _ => Some(Said::Nothing),
        }
    }

    fn is_sound(&self, message: &Message) -> bool {
        matches!(message, Message::Binary(_))
    }

    fn wants_whole_frames(&self) -> bool {
        true
    }

    fn media(&self, _: &Start, sound: &[u8]) -> Message {
        Message::Binary(sound.to_vec().into())
    }

    fn mark(&self, _: &Start, name: &str) -> Message {
        wire::message(&json!({"action": "notify", "payload": {"mark": name}}))
    }

    fn clear(&self, _: &Start) -> Message {
        wire::message(&json!({"action": "clear"}))
    }
}

/// The endpoint's `headers` stand beside the event.
fn start(value: &Value) -> Option<Said> {
    let encoding = Encoding::typed(value.get("content-type")?.as_str()?)?;
    let mut params = wire::params(Some(value));
    params.retain(|key, _| key != "event" && key != "content-type");
    let of = |key: &str| params.get(key).cloned().unwrap_or_default();
    Some(Said::Start(Box::new(Start {
        stream: String::new(),
        call: of("uuid"),
        from: of("from"),
        to: of("to"),
        params,
        encoding,
    })))
}
