//! Telnyx: as Twilio, in snake case; media may come out of order. Our answers need no stream name.
//!
//! The call has to be streamed with `stream_bidirectional_mode = "rtp"` and a codec; otherwise
//! Telnyx drops what it is sent.

use axum::extract::ws::Message;
use serde_json::{Value, json};

use super::{Dialect, Encoding, Said, Start, json as wire};

#[derive(Debug)]
pub(super) struct Telnyx;

impl Dialect for Telnyx {
    fn name(&self) -> &'static str {
        "telnyx"
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

    fn media(&self, _: &Start, sound: &[u8]) -> Message {
        wire::media(None, sound)
    }

    fn mark(&self, _: &Start, name: &str) -> Message {
        wire::message(&json!({"event": "mark", "mark": {"name": name}}))
    }

    fn clear(&self, _: &Start) -> Message {
        wire::message(&json!({"event": "clear"}))
    }
}

fn start(start: &Value, stream: Option<String>) -> Option<Said> {
    let format = start.get("media_format")?;
    let rate = wire::whole(format.get("sample_rate")).unwrap_or(8_000);
    Some(Said::Start(Box::new(Start {
        stream: stream.unwrap_or_default(),
        call: wire::text(start, "call_control_id"),
        from: wire::text(start, "from"),
        to: wire::text(start, "to"),
        params: wire::params(start.get("custom_parameters")),
        encoding: Encoding::named(&wire::text(format, "encoding"), rate)?,
    })))
}
