//! What a server sends, taken apart just enough to count it.

use std::time::Duration;

/// One message of the server, as far as the benchmark cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The agent's sound, of this length.
    Audio(Duration),
    /// An answer began.
    AnswerBegun,
    /// An answer ended; the message, when it did not end well.
    AnswerOver(Option<String>),
    /// The caller was heard to begin.
    SpeechStarted,
    SessionReady,
    Error(String),
    Ping(Vec<u8>),
    Close,
    Other,
}

/// Cuts a byte stream into WebSocket frames.
#[derive(Default)]
pub struct Reader {
    /// The beginning of a frame whose rest has not come.
    rest: Vec<u8>,
}

impl Reader {
    /// Takes in bytes and calls `on` for each whole message.
    pub fn read(&mut self, bytes: &[u8], mut on: impl FnMut(Seen)) {
        let joined;
        let mut bytes = if self.rest.is_empty() {
            bytes
        } else {
            self.rest.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.rest);
            &joined
        };
        while let Some((opcode, payload, used)) = frame(bytes) {
            on(classify(opcode, payload));
            bytes = &bytes[used..];
        }
        self.rest.extend_from_slice(bytes);
    }
}

/// The first whole frame: its kind, its payload, its length on the wire.
fn frame(bytes: &[u8]) -> Option<(u8, &[u8], usize)> {
    let [first, second, ..] = *bytes else { return None };
    let (header, length) = match second & 0x7F {
        126 => (4, u64::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?))),
        127 => (10, u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)),
        short => (2, u64::from(short)),
    };
    let end = header + usize::try_from(length).ok()?;
    Some((first & 0x0F, bytes.get(header..end)?, end))
}

fn classify(opcode: u8, payload: &[u8]) -> Seen {
    match opcode {
        0x1 => {}
        0x8 => return Seen::Close,
        0x9 => return Seen::Ping(payload.to_vec()),
        _ => return Seen::Other,
    }
    let Some(kind) = value_of(payload, b"\"type\":\"") else { return Seen::Other };
    match kind {
        b"response.output_audio.delta" => {
            let base64 = value_of(payload, b"\"delta\":\"").unwrap_or_default();
            let padding = base64.iter().rev().take_while(|&&byte| byte == b'=').count();
            let bytes = base64.len() / 4 * 3 - padding.min(2);
            Seen::Audio(Duration::from_micros(bytes as u64 * 1_000 / 48))
        }
        b"response.created" => Seen::AnswerBegun,
        b"response.done" => {
            let status = value_of(payload, b"\"status\":\"");
            let bad = status != Some(b"completed");
            Seen::AnswerOver(bad.then(|| gist(payload, &["status", "reason", "code"])))
        }
        b"input_audio_buffer.speech_started" => Seen::SpeechStarted,
        b"session.updated" => Seen::SessionReady,
        b"error" => Seen::Error(gist(payload, &["code", "message"])),
        _ => Seen::Other,
    }
}

/// These values of a message, without the names that differ from call to call.
fn gist(payload: &[u8], keys: &[&str]) -> String {
    let values: Vec<String> = keys
        .iter()
        .filter_map(|key| value_of(payload, format!("\"{key}\":\"").as_bytes()))
        .map(|value| String::from_utf8_lossy(value).into_owned())
        .collect();
    values.join(": ")
}

/// The string behind the first occurrence of `key`.
fn value_of<'a>(payload: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = payload.windows(key.len()).position(|window| window == key)? + key.len();
    let end = payload[at..].iter().position(|&byte| byte == b'"')?;
    Some(&payload[at..at + end])
}
