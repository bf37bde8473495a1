//! The floor: a bare WebSocket server that parses, decodes, re-encodes, echoes, and no more.
//!
//! It runs in a process of its own (this benchmark's binary, started again) so that the kernel
//! counts its CPU and memory apart from the callers'.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{SinkExt, StreamExt};
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::child;
use crate::sound::{CYCLE_FRAMES, SPEECH_FRAMES, first_position};

/// Names the child's mode, and which messages it echoes.
pub const MODE: &str = "FLOORKEEPER_WIRE_FLOOR";

/// Which of the caller's messages the floor sends back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// Every one.
    All,
    /// As much as an agent that is audible 40 % of the time says.
    AgentShare,
}

impl Echo {
    pub fn name(self) -> &'static str {
        match self {
            Echo::All => "all",
            Echo::AgentShare => "agent",
        }
    }

    /// The mode this process was started in, if it was started as a floor.
    pub fn of_this_process() -> Option<Echo> {
        match std::env::var(MODE).ok()?.as_str() {
            "all" => Some(Echo::All),
            _ => Some(Echo::AgentShare),
        }
    }
}

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

/// Serves until its standard input closes: it never outlives the benchmark.
pub fn serve(echo: Echo) {
    child::end_with_parent();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        child::tell_port(listener.local_addr().expect("bound").port());
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
