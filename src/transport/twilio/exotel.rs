//! Exotel: as Twilio, in snake case, 16-bit samples at 8 kHz.

use serde_json::Value;

use super::json::Events;
use super::{Encoding, Start, json as wire};

pub(super) const EXOTEL: Events = Events { name: "exotel", stream_key: Some("stream_sid"), start };

fn start(start: &Value, stream: Option<String>) -> Option<Start> {
    let rate = start.get("media_format").and_then(|format| wire::whole(format.get("sample_rate")));
    Some(Start {
        stream: stream.unwrap_or_else(|| wire::text(start, "stream_sid")),
        call: wire::text(start, "call_sid"),
        from: wire::text(start, "from"),
        to: wire::text(start, "to"),
        params: wire::params(start.get("custom_parameters")),
        encoding: Encoding::named("l16", rate.unwrap_or(8_000))?,
    })
}
