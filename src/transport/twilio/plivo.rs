//! Plivo: `playAudio`, `checkpoint`, `clearAudio`; a checkpoint comes back as `playedStream`.

use std::collections::BTreeMap;

use axum::extract::ws::Message;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::{Dialect, Encoding, Said, Start, json as wire};

#[derive(Debug)]
pub(super) struct Plivo;

impl Dialect for Plivo {
    fn name(&self) -> &'static str {
        "plivo"
    }

    fn parse(&self, message: &Message) -> Option<Said> {
        let event = wire::event(message)?;
        match &*event.event {
            "media" => event.sound(),
            "start" => start(event.start.as_ref()?, event.extra_headers.as_ref()),
            "dtmf" => event.key(),
            "playedStream" => Some(Said::Mark(event.name?)),
            "stop" => Some(Said::Stop),
            _ => Some(Said::Nothing),
        }
    }

    fn media(&self, to: &Start, sound: &[u8]) -> Message {
        let kind = match to.encoding {
            Encoding::G711(_) => "audio/x-mulaw",
            Encoding::Linear(_) => "audio/x-l16",
        };
        let media = json!({
            "contentType": kind,
            "sampleRate": to.encoding.rate_hz(),
            "payload": BASE64.encode(sound),
        });
        wire::message(&json!({"event": "playAudio", "media": media}))
    }

    fn mark(&self, to: &Start, name: &str) -> Message {
        wire::message(&json!({"event": "checkpoint", "streamId": to.stream, "name": name}))
    }

    fn clear(&self, to: &Start) -> Message {
        wire::message(&json!({"event": "clearAudio", "streamId": to.stream}))
    }
}

fn start(start: &Value, headers: Option<&Value>) -> Option<Said> {
    let format = start.get("mediaFormat")?;
    let rate = wire::whole(format.get("sampleRate")).unwrap_or(8_000);
    let params = extra_headers(headers);
    let of = |key: &str| params.get(key).cloned().unwrap_or_default();
    Some(Said::Start(Box::new(Start {
        stream: wire::text(start, "streamId"),
        call: wire::text(start, "callId"),
        from: of("From"),
        to: of("To"),
        encoding: Encoding::named(&wire::text(format, "encoding"), rate)?,
        params,
    })))
}

/// `k=v,k=v`, with or without braces around it, or an object.
fn extra_headers(written: Option<&Value>) -> BTreeMap<String, String> {
    let Some(Value::String(text)) = written else { return wire::params(written) };
    let pairs = text.trim_matches(['{', '}']).split([',', ';']);
    let pairs = pairs.filter_map(|pair| pair.split_once(['=', ':']));
    let plain = |text: &str| text.trim().trim_matches('"').to_owned();
    pairs.map(|(key, value)| (plain(key), plain(value))).collect()
}
