//! The Realtime events a terminal client says and hears, as types.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

/// Rate of PCM on this protocol's wire, in Hz.
pub(crate) const WIRE_RATE_HZ: u32 = 24_000;
/// Samples in 20 ms of it.
pub(crate) const WIRE_FRAME_SAMPLES: usize = 480;

/// What the server said, as far as a client that talks and listens needs it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ServerEvent {
    SessionCreated,
    SessionUpdated,
    SpeechStarted {
        item: String,
    },
    SpeechStopped {
        item: String,
    },
    Committed {
        item: String,
    },
    Transcribed {
        item: String,
        text: String,
    },
    TranscriptionFailed {
        item: String,
        message: String,
    },
    ResponseCreated {
        response: String,
    },
    Audio {
        response: String,
        item: String,
        samples: Vec<i16>,
    },
    Words {
        response: String,
        item: String,
        text: String,
    },
    WordsDone {
        response: String,
        item: String,
        text: String,
    },
    FunctionCalled {
        name: String,
        arguments: String,
    },
    ResponseDone {
        response: String,
        status: String,
        code: Option<String>,
    },
    Truncated {
        item: String,
    },
    Retrieved {
        item: String,
        text: String,
    },
    Error {
        code: String,
        message: String,
    },
    Admission(Admission),
    Playout {
        state: String,
        item: String,
        played_ms: u64,
    },
    Turn {
        turn: String,
        state: String,
    },
    LateOutput {
        stage: String,
    },
    Fallback {
        rung: String,
        outcome: String,
        prompt: String,
    },
    /// An event this client has no use for.
    Other,
}

/// `floorkeeper.admission`: what a gate decided about this call's work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) gate: String,
    pub(crate) disposition: String,
    pub(crate) reason: String,
    pub(crate) turn: Option<String>,
    pub(crate) generation: String,
}

impl Admission {
    /// Whether the gate said no.
    pub(crate) fn is_refusal(&self) -> bool {
        let refusals = ["overloaded", "expired", "stale", "out_of_order", "closed", "duplicate"];
        refusals.contains(&self.disposition.as_str()) && !self.is_claim()
    }

    /// It is about a unit that is held for words yet to come; one that lapses refused nothing.
    pub(crate) fn is_claim(&self) -> bool {
        self.reason == "claim"
    }

    /// Gate, disposition and reason as the design writes them: `model overloaded{no_queue}`.
    pub(crate) fn verdict(&self) -> String {
        match self.reason.as_str() {
            "" => format!("{} {}", self.gate, self.disposition),
            reason => format!("{} {}{{{reason}}}", self.gate, self.disposition),
        }
    }
}

/// Reads one message; the error says what was wrong with it.
pub(crate) fn parse(message: &str) -> Result<ServerEvent, String> {
    let event: Value =
        serde_json::from_str(message).map_err(|error| format!("not JSON: {error}"))?;
    let Some(kind) = event["type"].as_str() else {
        return Err("an event without a type".to_owned());
    };
    Ok(match kind {
        "session.created" => ServerEvent::SessionCreated,
        "session.updated" => ServerEvent::SessionUpdated,
        "error" => ServerEvent::Error {
            code: text(&event["error"], "code"),
            message: text(&event["error"], "message"),
        },
        _ if kind.starts_with("floorkeeper.") => extra(kind, &event),
        _ if kind.starts_with("response.") => response(kind, &event)?,
        _ => item(kind, &event),
    })
}

fn item(kind: &str, event: &Value) -> ServerEvent {
    let item = text(event, "item_id");
    match kind {
        "input_audio_buffer.speech_started" => ServerEvent::SpeechStarted { item },
        "input_audio_buffer.speech_stopped" => ServerEvent::SpeechStopped { item },
        "input_audio_buffer.committed" => ServerEvent::Committed { item },
        "conversation.item.input_audio_transcription.completed" => {
            ServerEvent::Transcribed { item, text: text(event, "transcript") }
        }
        "conversation.item.input_audio_transcription.failed" => {
            ServerEvent::TranscriptionFailed { item, message: text(&event["error"], "message") }
        }
        "conversation.item.truncated" => ServerEvent::Truncated { item },
        "conversation.item.retrieved" => ServerEvent::Retrieved {
            item: text(&event["item"], "id"),
            text: item_words(&event["item"]),
        },
        _ => ServerEvent::Other,
    }
}

fn response(kind: &str, event: &Value) -> Result<ServerEvent, String> {
    let response = text(event, "response_id");
    let item = text(event, "item_id");
    Ok(match kind {
        "response.created" => {
            ServerEvent::ResponseCreated { response: text(&event["response"], "id") }
        }
        "response.output_audio.delta" => {
            ServerEvent::Audio { response, item, samples: pcm(&text(event, "delta"))? }
        }
        "response.output_audio_transcript.delta" | "response.output_text.delta" => {
            ServerEvent::Words { response, item, text: text(event, "delta") }
        }
        "response.output_audio_transcript.done" => {
            ServerEvent::WordsDone { response, item, text: text(event, "transcript") }
        }
        "response.output_text.done" => {
            ServerEvent::WordsDone { response, item, text: text(event, "text") }
        }
        "response.function_call_arguments.done" => ServerEvent::FunctionCalled {
            name: text(event, "name"),
            arguments: text(event, "arguments"),
        },
        "response.done" => ServerEvent::ResponseDone {
            response: text(&event["response"], "id"),
            status: text(&event["response"], "status"),
            code: event["response"]["status_details"]["error"]["code"].as_str().map(str::to_owned),
        },
        _ => ServerEvent::Other,
    })
}

fn extra(kind: &str, event: &Value) -> ServerEvent {
    match kind {
        "floorkeeper.admission" => ServerEvent::Admission(Admission {
            gate: text(event, "gate"),
            disposition: text(event, "disposition"),
            reason: text(event, "reason"),
            turn: Some(text(event, "turn")).filter(|turn| !turn.is_empty()),
            generation: text(event, "generation"),
        }),
        "floorkeeper.playout" => ServerEvent::Playout {
            state: text(event, "state"),
            item: text(event, "item_id"),
            played_ms: event["played_ms"].as_u64().unwrap_or(0),
        },
        "floorkeeper.turn" => {
            ServerEvent::Turn { turn: text(event, "turn"), state: text(event, "state") }
        }
        "floorkeeper.late_output" => ServerEvent::LateOutput { stage: text(event, "stage") },
        "floorkeeper.fallback" => ServerEvent::Fallback {
            rung: text(event, "rung"),
            outcome: text(event, "outcome"),
            prompt: text(event, "prompt"),
        },
        _ => ServerEvent::Other,
    }
}

/// A field as text, whether the server writes a string or a number; absent and null are empty.
fn text(object: &Value, key: &str) -> String {
    match &object[key] {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

/// The words of an item, spoken or written.
fn item_words(item: &Value) -> String {
    let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let words = |part: &Value| {
        part["transcript"].as_str().or_else(|| part["text"].as_str()).unwrap_or("").to_owned()
    };
    parts.iter().map(words).collect::<Vec<_>>().join(" ")
}

pub(crate) fn pcm(base64: &str) -> Result<Vec<i16>, String> {
    let bytes = BASE64.decode(base64).map_err(|error| format!("audio is not base64: {error}"))?;
    if bytes.len() % 2 != 0 {
        return Err(format!("audio of odd length: {} bytes", bytes.len()));
    }
    Ok(bytes.chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect())
}

/// The session this client wants: spoken answers, transcripts, and the extra events.
pub(crate) fn session_update() -> String {
    json!({
        "type": "session.update",
        "session": {
            "type": "realtime",
            "output_modalities": ["audio"],
            "audio": {
                "input": {
                    "format": {"type": "audio/pcm", "rate": WIRE_RATE_HZ},
                    "transcription": {"model": "default"},
                },
                "output": {"format": {"type": "audio/pcm", "rate": WIRE_RATE_HZ}},
            },
            "floorkeeper": {"events": true},
        },
    })
    .to_string()
}

/// `input_audio_buffer.append` of these samples.
pub(crate) fn append(samples: &[i16]) -> String {
    let bytes: Vec<u8> = samples.iter().flat_map(|sample| sample.to_le_bytes()).collect();
    let mut message = String::with_capacity(64 + bytes.len() * 4 / 3);
    message.push_str(r#"{"type":"input_audio_buffer.append","audio":""#);
    BASE64.encode_string(&bytes, &mut message);
    message.push_str("\"}");
    message
}

/// The caller heard `played_ms` of the item and will hear no more of it.
pub(crate) fn truncate(item: &str, played_ms: u64) -> String {
    json!({
        "type": "conversation.item.truncate",
        "item_id": item,
        "content_index": 0,
        "audio_end_ms": played_ms,
    })
    .to_string()
}

/// The caller has heard `played_ms` of the item so far.
pub(crate) fn heard(item: &str, played_ms: u64) -> String {
    json!({"type": "floorkeeper.heard", "item_id": item, "played_ms": played_ms}).to_string()
}

/// Asks for an item as the server now has it.
pub(crate) fn retrieve(item: &str) -> String {
    json!({"type": "conversation.item.retrieve", "item_id": item}).to_string()
}

/// A written line of the caller's, and the request to answer it.
pub(crate) fn say(line: &str) -> [String; 2] {
    let item = json!({
        "type": "conversation.item.create",
        "item": {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": line}],
        },
    });
    [item.to_string(), json!({"type": "response.create"}).to_string()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sound_survives_the_wire() {
        let sent = [0, 1, -1, i16::MAX, i16::MIN];
        let append: Value = serde_json::from_str(&append(&sent)).unwrap();
        let delta = json!({
            "type": "response.output_audio.delta",
            "response_id": "resp_1",
            "item_id": "item_1",
            "delta": append["audio"],
        });
        assert_eq!(
            parse(&delta.to_string()).unwrap(),
            ServerEvent::Audio {
                response: "resp_1".into(),
                item: "item_1".into(),
                samples: sent.to_vec()
            }
        );
    }

    #[test]
    fn numbers_and_strings_name_a_turn_alike() {
        let by_number = json!({"type": "floorkeeper.turn", "turn": 3, "state": "committed"});
        let by_name = json!({"type": "floorkeeper.turn", "turn": "3", "state": "committed"});
        assert_eq!(parse(&by_number.to_string()), parse(&by_name.to_string()));
    }

    #[test]
    fn broken_messages_are_named() {
        assert!(parse("{").unwrap_err().starts_with("not JSON"));
        assert_eq!(parse("{}").unwrap_err(), "an event without a type");
        let odd = json!({"type": "response.output_audio.delta", "delta": BASE64.encode([1])});
        assert_eq!(parse(&odd.to_string()).unwrap_err(), "audio of odd length: 1 bytes");
    }
}
