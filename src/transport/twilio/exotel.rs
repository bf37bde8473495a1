//! Exotel: as Twilio, in snake case, 16-bit samples at 8 kHz.

use axum::extract::ws::Message;
use serde_json::{Value, json};

use super::{Dialect, Encoding, Said, Start, json as wire};

#[derive(Debug)]
pub(super) struct Exotel;

impl Dialect for Exotel {
    fn name(&self) -> &'static str {
        "exotel"
    }

    fn parse(&self, message: &Message) -> Option<Said> {
        let event = wire::event(message)?;
        match &*event.event {
            "media" => event.sound(),
            "start" => start(event.start.as_ref()?, event.stream),
            "dtmf" => event.key(),
            "mark" => Some(Said::Mark(event.mark?.name)),
            "stop" => Some(Said::Stop),
            _ => Some(Said::Nothing),
        }
    }

    fn media(&self, to: &Start, sound: &[u8]) -> Message {
        wire::media(Some(("stream_sid", &to.stream)), sound)
    }

    fn mark(&self, to: &Start, name: &str) -> Message {
        wire::message(&json!({"event": "mark", "stream_sid": to.stream, "mark": {"name": name}}))
    }

    fn clear(&self, to: &Start) -> Message {
        wire::message(&json!({"event": "clear", "stream_sid": to.stream}))
    }
}

fn start(start: &Value, stream: Option<String>) -> Option<Said> {
    let rate = start.get("media_format").and_then(|format| wire::whole(format.get("sample_rate")));
    Some(Said::Start(Box::new(Start {
        stream: stream.unwrap_or_else(|| wire::text(start, "stream_sid")),
        call: wire::text(start, "call_sid"),
        from: wire::text(start, "from"),
        to: wire::text(start, "to"),
        params: wire::params(start.get("custom_parameters")),
        encoding: Encoding::named("l16", rate.unwrap_or(8_000))?,
    })))
}
