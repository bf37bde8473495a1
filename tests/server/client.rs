//! A Realtime client that remembers every event.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::rig::{LIMIT, Rig};

pub struct Client {
    pub socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub events: Vec<Value>,
}

impl Client {
    /// Connects and asks for the extra events.
    pub async fn connect(rig: &Rig) -> Client {
        Client::with_session(rig, json!({})).await
    }

    /// Connects to a server of this address and asks for nothing.
    pub async fn at(url: &str) -> Client {
        let (socket, _) = connect_async(url).await.unwrap();
        let mut client = Client { socket, events: Vec::new() };
        client.until("session.created").await;
        client
    }

    /// The same with more in its session.
    pub async fn with_session(rig: &Rig, more: Value) -> Client {
        let mut client = Client::at(&rig.url()).await;
        let mut session = json!({"type": "realtime", "floorkeeper": {"events": true}});
        session.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.send(json!({"type": "session.update", "session": session})).await;
        client.until("session.updated").await;
        client
    }

    pub async fn send(&mut self, event: Value) {
        let sent = self.socket.send(Message::text(event.to_string()));
        let sent = tokio::time::timeout(LIMIT, sent).await;
        sent.expect("the server reads in time").unwrap();
    }

    /// A written question that is to be answered aloud.
    pub async fn ask(&mut self, text: &str) {
        self.write(text).await;
        self.send(json!({"type": "response.create"})).await;
    }

    /// Something written that nobody has to answer.
    pub async fn write(&mut self, text: &str) {
        let content = json!([{"type": "input_text", "text": text}]);
        let item = json!({"type": "message", "role": "user", "content": content});
        self.send(json!({"type": "conversation.item.create", "item": item})).await;
    }

    /// Speaks for so long and is silent for as long as ends a turn.
    pub async fn speak(&mut self, speech_ms: usize) {
        for frame in 0..speech_ms / 20 + 50 {
            let level = if frame < speech_ms / 20 { 8_000_i16 } else { 0 };
            let samples = (0..480_i16).map(|at| if at % 48 < 24 { level } else { -level });
            let pcm: Vec<u8> = samples.flat_map(i16::to_le_bytes).collect();
            let audio = BASE64.encode(pcm);
            self.send(json!({"type": "input_audio_buffer.append", "audio": audio})).await;
        }
    }

    /// The next message; `None` is the end.
    pub async fn message(&mut self) -> Option<Result<Message, Error>> {
        let message = tokio::time::timeout(LIMIT, self.socket.next()).await;
        message.unwrap_or_else(|_| panic!("silence behind {:#?}", self.last_events()))
    }

    /// The next event.
    pub async fn next(&mut self) -> Value {
        loop {
            match self.message().await {
                Some(Ok(Message::Text(text))) => {
                    let event: Value = serde_json::from_str(&text).unwrap();
                    self.events.push(event.clone());
                    return event;
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("{other:?} behind {:#?}", self.last_events()),
            }
        }
    }

    /// The next event of this type; all in between are remembered.
    pub async fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await;
            assert!(event["type"] != "error" || kind == "error", "{event:#}");
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// Hears an answer to its end and gives its `response`.
    pub async fn answered(&mut self) -> Value {
        self.until("response.done").await["response"].clone()
    }

    /// Reads to the server's close frame and gives its code; everything before is remembered.
    pub async fn close_code(&mut self) -> u16 {
        loop {
            match self.message().await {
                Some(Ok(Message::Text(text))) => {
                    self.events.push(serde_json::from_str(&text).unwrap());
                }
                Some(Ok(Message::Close(Some(frame)))) => return frame.code.into(),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("{other:?} behind {:#?}", self.last_events()),
            }
        }
    }

    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["type"] == kind)
    }

    /// Where the first event that is so stands among all.
    pub fn place(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> usize {
        let found = self.events.iter().position(is_it);
        found.unwrap_or_else(|| panic!("no {what} in {:#?}", self.events))
    }

    /// The sound of a response so far, in milliseconds.
    pub fn audio_ms(&self, response: &Value) -> usize {
        let own = |event: &&Value| event["response_id"] == *response;
        self.of("response.output_audio.delta").filter(own).map(audio_ms).sum()
    }

    /// What a gate said, in order: `admitted`, `closed{no_capacity}`, …
    pub fn said_by(&self, gate: &str) -> Vec<String> {
        let told = self.of("floorkeeper.admission").filter(|event| event["gate"] == gate);
        told.map(disposition).collect()
    }

    pub async fn hang_up(mut self) {
        let _ = self.socket.close(None).await;
        while let Ok(Some(Ok(_))) = tokio::time::timeout(LIMIT, self.socket.next()).await {}
    }

    fn last_events(&self) -> &[Value] {
        &self.events[self.events.len().saturating_sub(12)..]
    }
}

/// An admission event as `disposition{reason}`.
pub fn disposition(event: &Value) -> String {
    let label = event["disposition"].as_str().unwrap();
    match event["reason"].as_str() {
        None | Some("") => label.to_owned(),
        Some(reason) => format!("{label}{{{reason}}}"),
    }
}

fn audio_ms(delta: &Value) -> usize {
    BASE64.decode(delta["delta"].as_str().unwrap()).unwrap().len() / 48
}
