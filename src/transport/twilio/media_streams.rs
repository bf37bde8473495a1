//! Twilio Media Streams: JSON texts, mu-law at 8 kHz. A clear returns the marks that waited.

use serde_json::Value;

use super::json::Events;
use super::{Encoding, Start, json as wire};

pub(super) const TWILIO: Events = Events { name: "twilio", stream_key: Some("streamSid"), start };

fn start(start: &Value, stream: Option<String>) -> Option<Start> {
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
    Some(Start {
        stream: stream.unwrap_or_else(|| wire::text(start, "streamSid")),
        call: wire::text(start, "callSid"),
        from: of("From"),
        to: of("To"),
        params,
        encoding,
    })
}
