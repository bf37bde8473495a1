//! Telnyx: as Twilio, in snake case; media may come out of order. Our answers need no stream name.
//!
//! The call has to be streamed with `stream_bidirectional_mode = "rtp"` and a codec; otherwise
//! Telnyx drops what it is sent.

use serde_json::Value;

use super::json::Events;
use super::{Encoding, Start, json as wire};

pub(super) const TELNYX: Events = Events { name: "telnyx", stream_key: None, start };

fn start(start: &Value, stream: Option<String>) -> Option<Start> {
    let format = start.get("media_format")?;
    let rate = wire::whole(format.get("sample_rate")).unwrap_or(8_000);
    Some(Start {
        stream: stream.unwrap_or_default(),
        call: wire::text(start, "call_control_id"),
        from: wire::text(start, "from"),
        to: wire::text(start, "to"),
        params: wire::params(start.get("custom_parameters")),
        encoding: Encoding::named(&wire::text(format, "encoding"), rate)?,
    })
}
