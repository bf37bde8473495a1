//! Asterisk's WebSocket channel (`chan_websocket`): sound as binary messages, control as texts.
//!
//! Asterisk plays what it is sent by its own clock. A mark comes back (`MEDIA_MARK_PROCESSED`) when
//! what is before it was played; a flush throws marks away with the sound, and none of them comes
//! back.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::extract::ws::{Message, Utf8Bytes};
use futures_util::{Sink, Stream, StreamExt};
use serde_json::{Value, json};

use crate::codec::g711::Law;
use crate::transport::twilio::{BEFORE_START_MAX, Dialect, Encoding, Said, Start, json as wire};

/// How control is written; Asterisk is configured with one of them and says which by using it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// A line: `NAME key:value key:value`.
    Text,
    /// An object with `event` or `command`.
    Json,
}

/// The formats that a call can be spoken in, as Asterisk names them.
const FORMATS: [(&str, Encoding); 5] = [
    ("ulaw", Encoding::G711(Law::Mu)),
    ("alaw", Encoding::G711(Law::A)),
    ("slin", Encoding::Linear(8_000)),
    ("slin16", Encoding::Linear(16_000)),
    ("slin24", Encoding::Linear(24_000)),
];

/// Why a connection is no call.
#[derive(Debug, PartialEq, Eq)]
pub enum NoCall {
    /// It is over, or made no sense: `closed`, `reset`, `protocol`.
    Lost(&'static str),
    /// It cannot be spoken as it asks to be; Asterisk is told to hang up.
    Refused {
        /// What tells it to.
        hang_up: String,
        /// What is wrong and what would be right.
        why: String,
    },
}

/// Waits for the channel's start, which says how control is written.
pub async fn begin<S>(socket: &mut S) -> Result<(&'static dyn Dialect, Start), NoCall>
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
{
    for _ in 0..BEFORE_START_MAX {
        let text = match socket.next().await {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(_))) | None => return Err(NoCall::Lost("closed")),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_))) => continue,
            Some(Err(_)) => return Err(NoCall::Lost("reset")),
        };
        let control = Control::of(&text);
        let Some(event) = control.event(&text).filter(|event| event.name == "MEDIA_START") else {
            continue;
        };
        return match event.start() {
            Ok(start) => Ok((control.dialect(), start)),
            Err(why) => {
                let hang_up = control.written("HANGUP", None);
                Err(NoCall::Refused { hang_up, why })
            }
        };
    }
    Err(NoCall::Lost("protocol"))
}

impl Control {
    fn of(text: &Utf8Bytes) -> Control {
        if text.as_str().starts_with('{') { Control::Json } else { Control::Text }
    }

    fn dialect(self) -> &'static dyn Dialect {
        match self {
            Control::Text => &Control::Text,
            Control::Json => &Control::Json,
        }
    }

    fn event(self, text: &Utf8Bytes) -> Option<Event<'_>> {
        match self {
            Control::Text => Event::of_line(text.as_str()),
            Control::Json => Event::of_json(text.as_str()),
        }
    }

    fn command(self, name: &str, id: Option<&str>) -> Message {
        Message::Text(Utf8Bytes::from(self.written(name, id)))
    }

    fn written(self, name: &str, id: Option<&str>) -> String {
        match (self, id) {
            (Control::Text, None) => name.to_owned(),
            (Control::Text, Some(id)) => format!("{name} {id}"),
            (Control::Json, None) => json!({"command": name}).to_string(),
            (Control::Json, Some(id)) => json!({"command": name, "correlation_id": id}).to_string(),
        }
    }
}

impl Dialect for Control {
    fn name(&self) -> &'static str {
        "asterisk"
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
        let event = self.event(text)?;
        Some(match &*event.name {
            "MEDIA_START" => Said::Start(Box::new(event.start().ok()?)),
            "DTMF_END" => wire::key(event.fields.get("digit")?)?,
            "MEDIA_MARK_PROCESSED" => Said::Mark(event.fields.get("correlation_id")?.to_string()),
            "MEDIA_XOFF" => Said::Full,
            "MEDIA_XON" => Said::HasRoom,
            "ERROR" => {
                let told = event.fields.get("error_text").map_or("", Cow::as_ref);
                tracing::debug!("asterisk says: {told:?}");
                Said::Nothing
            }
            "STATUS" | "QUEUE_DRAINED" | "MEDIA_BUFFERING_COMPLETED" => Said::Nothing,
            name if is_name(name) => Said::Nothing,
            _ => return None,
        })
    }

    fn is_sound(&self, message: &Message) -> bool {
        matches!(message, Message::Binary(_))
    }

    /// What is no whole frame Asterisk drops.
    fn wants_whole_frames(&self) -> bool {
        true
    }

    fn media(&self, _: &Start, sound: &[u8]) -> Message {
        Message::Binary(sound.to_vec().into())
    }

    /// Asterisk has answered already, unless it was told not to (`n`); then saying so is nothing.
    fn opening(&self, _: &Start) -> Option<Message> {
        Some(self.command("ANSWER", None))
    }

    fn mark(&self, _: &Start, name: &str) -> Message {
        self.command("MARK_MEDIA", Some(name))
    }

    fn clear(&self, _: &Start) -> Message {
        self.command("FLUSH_MEDIA", None)
    }
}

/// The name of an event that may be new to us.
fn is_name(name: &str) -> bool {
    name.len() <= 64 && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
}

/// One text of Asterisk's.
struct Event<'a> {
    name: Cow<'a, str>,
    fields: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    /// Only JSON has them.
    variables: BTreeMap<String, String>,
}

impl<'a> Event<'a> {
    /// A mark's name stands there without a key; an error's text may have blanks, and is the last.
    fn of_line(line: &'a str) -> Option<Event<'a>> {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut fields = BTreeMap::new();
        let (rest, told) = match rest.split_once("error_text:") {
            Some((rest, told)) => (rest, Some(told)),
            None => (rest, None),
        };
        for word in rest.split_ascii_whitespace() {
            let (key, value) = word.split_once(':').unwrap_or(("correlation_id", word));
            fields.insert(key.into(), value.into());
        }
        fields.extend(told.map(|told| ("error_text".into(), told.into())));
        (!name.is_empty()).then(|| Event { name: name.into(), fields, variables: BTreeMap::new() })
    }

    fn of_json(text: &str) -> Option<Event<'static>> {
        let value: Value = serde_json::from_str(text).ok()?;
        let name = value.get("event")?.as_str()?.to_owned();
        let variables = wire::params(value.get("channel_variables"));
        let fields = wire::params(Some(&value)).into_iter();
        let fields = fields.map(|(key, value)| (key.into(), value.into())).collect();
        Some(Event { name: name.into(), fields, variables })
    }

    /// What begins, or what is wrong with it.
    fn start(self) -> Result<Start, String> {
        let of = |key: &str| self.fields.get(key).map_or("", Cow::as_ref).to_owned();
        let format = of("format");
        let spoken = FORMATS.iter().find(|(name, _)| *name == format);
        let Some((_, encoding)) = spoken else {
            let names: Vec<&str> = FORMATS.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            return Err(format!("format {format:?} is none of {names}: Dial(…/c(slin16))"));
        };
        let frame = encoding.frame_bytes();
        let wanted = of("optimal_frame_size");
        let fits = |size: usize| size > 0 && frame.is_multiple_of(size);
        if !wanted.is_empty() && !wanted.parse().is_ok_and(fits) {
            return Err(format!("{frame} bytes of {format} are no whole frames of {wanted:?}"));
        }
        let mut params = self.variables.clone();
        for key in ["connection_id", "channel", "channel_id"] {
            params.insert(key.to_owned(), of(key));
        }
        let known = |key: &str| params.get(key).cloned().unwrap_or_default();
        Ok(Start {
            stream: String::new(),
            call: of("channel_id"),
            from: known("from"),
            to: known("to"),
            params,
            encoding: *encoding,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT_START: &str = "MEDIA_START connection_id:agent channel:WebSocket/agent/0x7f \
         channel_id:1796010721.2 format:ulaw optimal_frame_size:160 ptime:20";

    fn text(of: impl Into<Utf8Bytes>) -> Message {
        Message::Text(of.into())
    }

    fn started(control: Control, written: &str) -> Start {
        match control.parse(&text(written)) {
            Some(Said::Start(start)) => *start,
            other => panic!("{written}: {other:?}"),
        }
    }

    #[test]
    fn a_start_is_read_in_both_ways_of_writing_it() {
        let start = started(Control::Text, TEXT_START);
        assert_eq!((start.call.as_str(), start.encoding.frame_bytes()), ("1796010721.2", 160));
        assert_eq!(start.params["channel"], "WebSocket/agent/0x7f");
        let written = json!({
            "event": "MEDIA_START", "connection_id": "agent", "channel": "WebSocket/agent/0x7f",
            "channel_id": "1796010721.2", "format": "slin16", "optimal_frame_size": 640,
            "ptime": 20, "channel_variables": {"from": "+15550100", "town": "Ulm", "n": 4},
        });
        let start = started(Control::Json, &written.to_string());
        assert_eq!((start.from.as_str(), start.encoding), ("+15550100", Encoding::Linear(16_000)));
        assert_eq!((start.params["town"].as_str(), start.params["n"].as_str()), ("Ulm", "4"));
    }

    #[test]
    fn what_cannot_be_spoken_says_what_can() {
        for (format, size, told) in [
            ("opus", "", "format \"opus\" is none of ulaw, alaw, slin, slin16, slin24"),
            ("", "", "format \"\" is none of"),
            ("ulaw", "240", "160 bytes of ulaw are no whole frames of \"240\""),
            ("slin", "0", "320 bytes of slin are no whole frames of \"0\""),
        ] {
            let line = format!("MEDIA_START format:{format} optimal_frame_size:{size}");
            let line = line.trim_end_matches("optimal_frame_size:");
            let why = Event::of_line(line).unwrap().start().unwrap_err();
            assert!(why.starts_with(told), "{why}");
        }
    }

    /// Asterisk ignores a text of more than 128 bytes.
    #[test]
    fn no_text_is_longer_than_asterisk_reads() {
        let start = started(Control::Text, TEXT_START);
        let longest = format!("item_{:8}{:x}_{}.{}", "incarnat", u64::MAX, u32::MAX, u32::MAX);
        for control in [Control::Text, Control::Json] {
            let opening = control.opening(&start).unwrap();
            for message in [control.mark(&start, &longest), control.clear(&start), opening] {
                let Message::Text(text) = message else { panic!("{message:?}") };
                assert!(text.len() <= 128, "{} bytes: {text}", text.len());
            }
        }
    }

    #[test]
    fn what_else_asterisk_says_is_understood() {
        let said = |line: &str| Control::Text.parse(&text(line));
        assert_eq!(said("DTMF_END digit:5 channel_id:1.2"), Some(Said::Key('5')));
        assert_eq!(said("MEDIA_MARK_PROCESSED item_1.3"), Some(Said::Mark("item_1.3".into())));
        assert_eq!(said("MEDIA_XOFF"), Some(Said::Full));
        assert_eq!(said("MEDIA_XON"), Some(Said::HasRoom));
        assert_eq!(said("STATUS channel_id:1.2 queue_length:3"), Some(Said::Nothing));
        assert_eq!(said("ERROR channel_id:1.2 error_text:it is so: no"), Some(Said::Nothing));
        for wrong in ["", "hello there", "DTMF_END", "DTMF_END digit:55", "MEDIA_MARK_PROCESSED"] {
            assert_eq!(said(wrong), None, "{wrong:?}");
        }
        let said = |value: Value| Control::Json.parse(&text(value.to_string()));
        let key = json!({"event": "DTMF_END", "channel_id": "1.2", "digit": "#"});
        assert_eq!(said(key), Some(Said::Key('#')));
        let mark = json!({"event": "MEDIA_MARK_PROCESSED", "correlation_id": "item_1.3"});
        assert_eq!(said(mark), Some(Said::Mark("item_1.3".into())));
        assert_eq!(said(json!({"event": "MEDIA_XOFF"})), Some(Said::Full));
        assert_eq!(said(json!({"command": "HANGUP"})), None);
    }
}
