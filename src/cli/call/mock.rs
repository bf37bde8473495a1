//! A small Realtime server for tests of the client: it counts frames, so it needs no clock.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// Silent frames that end a turn.
const END_OF_TURN_FRAMES: u32 = 10;
/// Frames of speech over the agent that pause it, and that clear it.
const PAUSE_FRAMES: u32 = 3;
const CLEAR_FRAMES: u32 = 6;
/// Length of an answer: one second and a half.
const ANSWER_FRAMES: u32 = 75;

/// How the mock behaves.
#[derive(Clone, Copy, Default)]
pub(crate) struct Manners {
    /// Goes on sending sound of an answer after it was cleared.
    pub(crate) late_frames: u32,
    /// Refuses every answer at the model's gate.
    pub(crate) refuses: bool,
    /// Closes the connection in mid-answer.
    pub(crate) breaks: bool,
}

/// Starts a server on a free port; gives its address.
pub(crate) async fn serve(manners: Manners) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let socket = tokio_tungstenite::accept_async(stream).await.unwrap();
                Mock { socket, manners, turn: 0, speech: 0, silence: 0, answer_left: 0 }
                    .converse()
                    .await;
            });
        }
    });
    format!("ws://{address}/v1/realtime")
}

struct Mock {
    socket: WebSocketStream<TcpStream>,
    manners: Manners,
    turn: u32,
    /// Frames of speech in the utterance so far.
    speech: u32,
    silence: u32,
    /// Frames of the running answer that are still to be heard.
    answer_left: u32,
}

impl Mock {
    async fn converse(mut self) {
        self.send(json!({"type": "session.created", "session": {}})).await;
        while let Some(Ok(message)) = self.socket.next().await {
            let Message::Text(text) = message else { continue };
            let event: Value = serde_json::from_str(&text).unwrap();
            match event["type"].as_str().unwrap() {
                "session.update" => {
                    assert_eq!(event["session"]["floorkeeper"]["events"], true);
                    self.send(json!({"type": "session.updated", "session": {}})).await;
                }
                "input_audio_buffer.append" => {
                    if self.on_frame(is_loud(&event)).await.is_break() {
                        return;
                    }
                }
                "conversation.item.create" => self.commit().await,
                "response.create" => self.answer().await,
                "conversation.item.truncate" => {
                    let item = &event["item_id"];
                    self.send(json!({"type": "conversation.item.truncated", "item_id": item}))
                        .await;
                }
                "conversation.item.retrieve" => {
                    let item = json!({"id": event["item_id"], "content": [
                        {"type": "output_audio", "transcript": "There was"}]});
                    self.send(json!({"type": "conversation.item.retrieved", "item": item})).await;
                }
                "floorkeeper.heard" => {}
                other => panic!("the mock does not know {other}"),
            }
        }
    }

    async fn on_frame(&mut self, loud: bool) -> std::ops::ControlFlow<()> {
        let audible = self.answer_left > 0;
        self.answer_left = self.answer_left.saturating_sub(1);
        if audible && self.answer_left == 0 && !self.manners.refuses {
            self.response_done("completed", Value::Null).await;
        }
        if loud {
            self.silence = 0;
            self.speech += 1;
            match (audible, self.speech) {
                (true, PAUSE_FRAMES) => self.playout("paused").await,
                (true, CLEAR_FRAMES) => {
                    self.playout("cleared").await;
                    self.send(json!({"type": "input_audio_buffer.speech_started"})).await;
                    self.audio(self.manners.late_frames).await;
                    self.response_done("cancelled", Value::Null).await;
                    self.answer_left = 0;
                }
                _ => {}
            }
        } else if self.speech > 0 {
            self.silence += 1;
            if self.silence == END_OF_TURN_FRAMES {
                (self.speech, self.silence) = (0, 0);
                self.commit().await;
                self.answer().await;
                if self.manners.breaks {
                    return std::ops::ControlFlow::Break(());
                }
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    async fn commit(&mut self) {
        self.turn += 1;
        let item = format!("user_{}", self.turn);
        self.send(json!({"type": "input_audio_buffer.committed", "item_id": item})).await;
        self.send(json!({"type": "floorkeeper.turn", "turn": self.turn, "state": "committed"}))
            .await;
        self.send(json!({
            "type": "conversation.item.input_audio_transcription.completed",
            "item_id": item,
            "transcript": format!("question {}", self.turn),
        }))
        .await;
    }

    async fn answer(&mut self) {
        let response = format!("resp_{}", self.turn);
        if self.manners.refuses {
            self.admission("closed", "no_capacity").await;
            self.send(json!({"type": "floorkeeper.fallback", "rung": "goodbye",
                "outcome": "established", "prompt": "model_closed"}))
                .await;
        } else {
            self.admission("admitted", "").await;
        }
        self.send(json!({"type": "response.created", "response": {"id": response}})).await;
        self.answer_left = ANSWER_FRAMES;
        self.audio(ANSWER_FRAMES).await;
        self.send(
            json!({"type": "response.output_audio_transcript.delta", "response_id": response,
            "item_id": self.item(), "delta": "There was a king."}),
        )
        .await;
        if self.manners.refuses {
            self.response_done("failed", json!({"error": {"code": "admission_no_capacity"}})).await;
        } else {
            self.admission("completed", "").await;
        }
    }

    async fn audio(&mut self, frames: u32) {
        let frame: Vec<u8> = [0xE8, 0x03].repeat(480);
        for _ in 0..frames {
            self.send(json!({"type": "response.output_audio.delta",
                "response_id": format!("resp_{}", self.turn), "item_id": self.item(),
                "delta": BASE64.encode(&frame)}))
                .await;
        }
    }

    async fn response_done(&mut self, status: &str, details: Value) {
        self.send(json!({"type": "response.done", "response": {
            "id": format!("resp_{}", self.turn), "status": status, "status_details": details}}))
            .await;
    }

    async fn admission(&mut self, disposition: &str, reason: &str) {
        self.send(json!({"type": "floorkeeper.admission", "gate": "model",
            "disposition": disposition, "reason": reason, "turn": self.turn, "generation": 1}))
            .await;
    }

    async fn playout(&mut self, state: &str) {
        let item = self.item();
        self.send(json!({"type": "floorkeeper.playout", "state": state, "item_id": item,
            "played_ms": 0}))
            .await;
    }

    fn item(&self) -> String {
        format!("agent_{}", self.turn)
    }

    async fn send(&mut self, event: Value) {
        // A client that has hung up is no concern of the mock's.
        let _ = self.socket.send(Message::text(event.to_string())).await;
    }
}

fn is_loud(append: &Value) -> bool {
    let bytes = BASE64.decode(append["audio"].as_str().unwrap()).unwrap();
    assert_eq!(bytes.len(), 960, "20 ms of 24 kHz PCM");
    bytes.chunks_exact(2).any(|pair| i16::from_le_bytes([pair[0], pair[1]]).abs() > 1_000)
}
