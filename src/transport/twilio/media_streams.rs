//! Twilio Media Streams: JSON texts, mu-law at 8 kHz. A clear returns the marks that waited.

use axum::extract::ws::Message;
use serde_json::{Value, json};

use super::{Dialect, Encoding, Said, Start, json as wire};

#[derive(Debug)]
pub(super) struct Twilio;

impl Dialect for Twilio {
    fn name(&self) -> &'static str {
        "twilio"
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
        wire::media(Some(("streamSid", &to.stream)), sound)
    }

    fn mark(&self, to: &Start, name: &str) -> Message {
        wire::message(&json!({"event": "mark", "streamSid": to.stream, "mark": {"name": name}}))
    }

    fn clear(&self, to: &Start) -> Message {
        wire::message(&json!({"event": "clear", "streamSid": to.stream}))
    }
}

fn start(start: &Value, stream: Option<String>) -> Option<Said> {
    let format = start.get("mediaFormat");
    let encoding = match format {
        None => Encoding::named("audio/x-mulaw", 8_000)?,
        Some(format) => {
            let rate = wire::whole(format.get("sampleRate")).unwrap_or(8_000);
            Encoding::named(&wire::text(format, "encoding"), rate)?
        }
    };
    let params = wire::params(start.get("customParameters"));
    let of = |key: &str| params.get(key).cloned().unwrap_or_default();
    Some(Said::Start(Box::new(Start {
        stream: stream.unwrap_or_else(|| wire::text(start, "streamSid")),
        call: wire::text(start, "callSid"),
        from: of("From"),
        to: of("To"),
        params,
        encoding,
    })))
}
