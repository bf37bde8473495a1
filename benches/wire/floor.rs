//! The floor: a bare WebSocket server that parses, decodes, re-encodes, echoes, and no more.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{SinkExt, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::bare::{self, Echo, Floor};
use crate::sound::{CYCLE_FRAMES, SPEECH_FRAMES, first_position};

pub const FLOOR: Floor = Floor { variable: "FLOORKEEPER_WIRE_FLOOR", share: "agent" };

#[derive(Deserialize)]
struct Append<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    audio: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct Delta<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    event_id: &'a str,
    response_id: &'a str,
    item_id: &'a str,
    output_index: u32,
    content_index: u32,
    delta: &'a str,
}

/// Serves as long as the benchmark runs.
pub fn serve(echo: Echo) {
    bare::serve(async |listener| {
        let mut accepted = 0;
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, echo, first_position(accepted)));
            accepted += 1;
        }
    });
}

async fn converse(stream: TcpStream, echo: Echo, mut frame: usize) {
    let _ = stream.set_nodelay(true);
    // The same buffers as the real server: the library's own are 256 KiB a connection.
    let config = WebSocketConfig::default().read_buffer_size(8 << 10).write_buffer_size(0);
    let accepted = tokio_tungstenite::accept_async_with_config(stream, Some(config)).await;
    let Ok(mut socket) = accepted else { return };
    let hello = r#"{"type":"session.created","event_id":"event_0","session":{}}"#;
    if socket.send(Message::text(hello)).await.is_err() {
        return;
    }
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let Some(pcm) = decode(&text) else { continue };
        let position = frame % CYCLE_FRAMES;
        frame += 1;
        let agent = SPEECH_FRAMES..2 * SPEECH_FRAMES;
        if echo == Echo::AgentShare && !agent.contains(&position) {
            continue;
        }
        if socket.send(Message::text(encode(&pcm))).await.is_err() {
            return;
        }
    }
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let append: Append<'_> = serde_json::from_str(text).ok()?;
    if append.kind != "input_audio_buffer.append" {
        return None;
    }
    BASE64.decode(append.audio?.as_bytes()).ok()
}

fn encode(pcm: &[u8]) -> String {
    let delta = Delta {
        kind: "response.output_audio.delta",
        event_id: "event_000000000000000000001",
        response_id: "resp_000000000000000000001",
        item_id: "item_000000000000000000001",
        output_index: 0,
        content_index: 0,
        delta: &BASE64.encode(pcm),
    };
    serde_json::to_string(&delta).unwrap_or_default()
}
