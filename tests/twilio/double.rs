//! A double of the provider: it has a caller who speaks and listens, and a buffer of ten seconds.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use floorkeeper::codec::g711::Law;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::rig::{LIMIT, Rig};

/// What the provider buffers at most.
const BUFFER_MAX_BYTES: usize = 80_000;
/// Of mu-law, 20 ms.
const FRAME_BYTES: usize = 160;

/// What the server has sent, as it came.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    /// So many bytes of sound.
    Sound(usize),
    Mark(String),
    Clear,
    Closed(u16),
}

/// What waits to be played.
enum Waiting {
    Sound(u8),
    Mark(String),
}

pub struct Double {
    pub socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub came: Vec<Came>,
    /// What the caller has heard.
    pub played: Vec<u8>,
    waiting: VecDeque<Waiting>,
    /// What the caller says next, frame by frame; silence behind it.
    mouth: VecDeque<Vec<u8>>,
    /// What the server sends reaches the telephone so much later, and marks come back so late.
    pub way: Duration,
    on_the_way: VecDeque<(Instant, Value)>,
    pub returns_marks: bool,
    chunk: u64,
    sequence: u64,
}

impl Double {
    /// A call that has begun, with these parameters.
    pub async fn call(rig: &Rig, params: Value) -> Double {
        Double::at(&format!("ws://{}/v1/twilio", rig.serving.address), params).await
    }

    pub async fn at(url: &str, params: Value) -> Double {
        let mut double = Double::connected(url).await;
        let format = json!({"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1});
        let start = json!({
            "streamSid": "MZ1", "accountSid": "AC1", "callSid": "CA1", "tracks": ["inbound"],
            "customParameters": params, "mediaFormat": format,
        });
        double.send(json!({"event": "start", "start": start})).await;
        double
    }

    /// A stream that has not said its start.
    pub async fn connected(url: &str) -> Double {
        let (socket, _) = connect_async(url).await.unwrap_or_else(|e| panic!("{url}: {e}"));
        let mut double = Double {
            socket,
            came: Vec::new(),
            played: Vec::new(),
            waiting: VecDeque::new(),
            mouth: VecDeque::new(),
            way: Duration::ZERO,
            on_the_way: VecDeque::new(),
            returns_marks: true,
            chunk: 0,
            sequence: 0,
        };
        let connected = json!({"event": "connected", "protocol": "Call", "version": "1.0.0"});
        double.socket.send(Message::text(connected.to_string())).await.unwrap();
        double
    }

    /// Sends an event, numbered as the provider does; whoever is gone does not get it.
    pub async fn send(&mut self, mut event: Value) {
        self.sequence += 1;
        event["sequenceNumber"] = json!(self.sequence.to_string());
        if event["streamSid"].is_null() {
            event["streamSid"] = json!("MZ1");
        }
        let sent = timeout(LIMIT, self.socket.send(Message::text(event.to_string()))).await;
        let _ = sent.expect("the server reads in time");
    }

    pub async fn press(&mut self, key: char) {
        let dtmf = json!({"track": "inbound_track", "digit": key.to_string()});
        self.send(json!({"event": "dtmf", "dtmf": dtmf})).await;
    }

    pub async fn stop(&mut self) {
        let stop = json!({"accountSid": "AC1", "callSid": "CA1"});
        self.send(json!({"event": "stop", "stop": stop})).await;
    }

    /// The caller says something for so long.
    pub fn speak(&mut self, speech_ms: usize) {
        for _ in 0..speech_ms / 20 {
            let wave = |at: usize| if at % 16 < 8 { 8_000_i16 } else { -8_000 };
            let samples: Vec<i16> = (0..FRAME_BYTES).map(wave).collect();
            let mut sound = Vec::new();
            Law::Mu.encode(&samples, &mut sound);
            self.mouth.push_back(sound);
        }
    }

    pub async fn send_sound(&mut self, sound: &[u8]) {
        self.chunk += 1;
        let media = json!({
            "track": "inbound", "chunk": self.chunk.to_string(),
            "timestamp": (self.chunk * 20).to_string(), "payload": BASE64.encode(sound),
        });
        self.send(json!({"event": "media", "media": media})).await;
    }

    /// Lets the call go on, in real time, until this is so.
    pub async fn until(&mut self, what: &str, mut is_so: impl FnMut(&Double) -> bool) {
        let mut ticks = interval(Duration::from_millis(20));
        // A telephone never plays faster than real time, however busy this machine is.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < LIMIT, "not in time: {what}: {:?}", self.last());
            tokio::select! {
                message = self.socket.next() => self.take(message),
                _ = ticks.tick() => self.tick().await,
            }
        }
    }

    /// The same until the server closes the stream; gives the code.
    pub async fn until_closed(&mut self) -> u16 {
        let closed = |double: &Double| matches!(double.came.last(), Some(Came::Closed(_)));
        self.until("the stream is closed", closed).await;
        match self.came.last() {
            Some(Came::Closed(code)) => *code,
            other => panic!("{other:?}"),
        }
    }

    fn take(&mut self, message: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>) {
        match message {
            Some(Ok(Message::Text(text))) => {
                let event: Value = serde_json::from_str(&text).unwrap();
                assert_eq!(event["streamSid"], "MZ1", "{event}");
                self.note(&event);
                self.on_the_way.push_back((Instant::now() + self.way, event));
                self.arrive();
            }
            Some(Ok(Message::Close(frame))) => {
                let code = frame.map_or(0, |frame| frame.code.into());
                self.came.push(Came::Closed(code));
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Err(_)) | None => self.came.push(Came::Closed(0)),
            other => panic!("{other:?}"),
        }
    }

    fn note(&mut self, event: &Value) {
        self.came.push(match event["event"].as_str().unwrap() {
            "media" => Came::Sound(sound_of(event).len()),
            "mark" => Came::Mark(event["mark"]["name"].as_str().unwrap().to_owned()),
            "clear" => Came::Clear,
            other => panic!("{other} is nothing that the provider takes"),
        });
    }

    /// What has come the whole way is buffered, or empties the buffer.
    fn arrive(&mut self) {
        while self.on_the_way.front().is_some_and(|(when, _)| *when <= Instant::now()) {
            let Some((_, event)) = self.on_the_way.pop_front() else { return };
            match event["event"].as_str().unwrap() {
                "media" => self.waiting.extend(sound_of(&event).into_iter().map(Waiting::Sound)),
                "mark" => {
                    let name = event["mark"]["name"].as_str().unwrap().to_owned();
                    self.waiting.push_back(Waiting::Mark(name));
                }
                _ => self.waiting.retain(|waiting| matches!(waiting, Waiting::Mark(_))),
            }
            assert!(self.buffered() <= BUFFER_MAX_BYTES, "more than the provider buffers");
        }
    }

    /// Sound that waits, in bytes.
    pub fn buffered(&self) -> usize {
        self.waiting.iter().filter(|waiting| matches!(waiting, Waiting::Sound(_))).count()
    }

    /// 20 ms: the caller says a frame and hears one; marks that are reached go back.
    async fn tick(&mut self) {
        self.arrive();
        let sound = self.mouth.pop_front().unwrap_or(vec![0xff; FRAME_BYTES]);
        self.send_sound(&sound).await;
        let mut left = FRAME_BYTES;
        let mut reached = Vec::new();
        while let Some(waiting) = self.waiting.pop_front() {
            match waiting {
                Waiting::Mark(name) => reached.push(name),
                Waiting::Sound(byte) if left > 0 => {
                    self.played.push(byte);
                    left -= 1;
                }
                sound => {
                    self.waiting.push_front(sound);
                    break;
                }
            }
        }
        if !self.returns_marks {
            reached.clear();
        }
        for name in reached {
            self.send(json!({"event": "mark", "mark": {"name": name}})).await;
        }
    }

    /// Sound that was sent and neither heard nor cleared, in bytes.
    pub fn unheard(&self) -> usize {
        let coming = self.on_the_way.iter().filter(|(_, event)| event["event"] == "media");
        self.buffered() + coming.map(|(_, event)| sound_of(event).len()).sum::<usize>()
    }

    /// How much the caller has heard, in milliseconds.
    pub fn played_ms(&self) -> usize {
        self.played.len() / 8
    }

    /// Where the last clear stands in what came.
    pub fn last_clear(&self) -> Option<usize> {
        self.came.iter().rposition(|came| *came == Came::Clear)
    }

    fn last(&self) -> &[Came] {
        &self.came[self.came.len().saturating_sub(12)..]
    }
}

fn sound_of(event: &Value) -> Vec<u8> {
    BASE64.decode(event["media"]["payload"].as_str().unwrap()).unwrap()
}
