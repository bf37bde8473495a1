//! A double of Asterisk's WebSocket channel: a queue of frames, one played every 20 ms, marks that
//! are said when they are reached, a flush that throws both away, and flow control.

use std::collections::VecDeque;
use std::time::Duration;

use floorkeeper::codec::g711::Law;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::rig::{LIMIT, Rig};

/// Longer texts Asterisk ignores.
const TEXT_MAX_BYTES: usize = 128;
/// Longer sound ends the call.
const SOUND_MAX_BYTES: usize = 65_500;

/// How a channel is dialled and spoken to.
#[derive(Clone, Copy, Debug)]
pub struct Dialled {
    pub json: bool,
    pub format: &'static str,
    pub frame_bytes: usize,
    /// Behind the path.
    pub query: &'static str,
}

pub const TEXT: Dialled = Dialled { json: false, format: "ulaw", frame_bytes: 160, query: "" };
pub const JSON: Dialled = Dialled { json: true, format: "slin16", frame_bytes: 640, query: "" };

/// What the server has sent, as it came.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    /// So many bytes of sound.
    Sound(usize),
    /// A command, and its correlation id.
    Command(String, String),
    Closed(u16),
}

enum Waiting {
    Frame,
    Mark(String),
}

pub struct Channel {
    pub socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub dialled: Dialled,
    pub came: Vec<Came>,
    waiting: VecDeque<Waiting>,
    mouth: VecDeque<Vec<u8>>,
    frames_played: usize,
    /// Frames in the queue at which the server is told to stop, and to go on.
    pub levels: (usize, usize),
    is_full: bool,
    /// Nobody takes what is queued.
    pub is_stalled: bool,
    /// Sound that came although the queue was full, in bytes.
    pub beyond: usize,
}

impl Channel {
    /// A channel that was dialled and has said its start.
    pub async fn dial(rig: &Rig, dialled: Dialled) -> Channel {
        let mut channel = Channel::connect(rig, dialled).await;
        let start = channel.start(json!({}));
        channel.say(start).await;
        channel
    }

    /// A channel that has said nothing.
    pub async fn connect(rig: &Rig, dialled: Dialled) -> Channel {
        let url = format!("ws://{}/v1/asterisk{}", rig.serving.address, dialled.query);
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("Sec-WebSocket-Protocol", "media".parse().unwrap());
        let (socket, answer) = connect_async(request).await.unwrap();
        let chosen = answer.headers().get("Sec-WebSocket-Protocol");
        assert_eq!(chosen.and_then(|name| name.to_str().ok()), Some("media"));
        Channel {
            socket,
            dialled,
            came: Vec::new(),
            waiting: VecDeque::new(),
            mouth: VecDeque::new(),
            frames_played: 0,
            levels: (900, 800),
            is_full: false,
            is_stalled: false,
            beyond: 0,
        }
    }

    /// What Asterisk says first, with these channel variables where control is JSON.
    pub fn start(&self, variables: Value) -> String {
        let Dialled { json, format, frame_bytes, .. } = self.dialled;
        let channel = "WebSocket/agent/0x7f2a";
        if json {
            return json!({
                "event": "MEDIA_START", "connection_id": "agent", "channel": channel,
                "channel_id": "1796010721.2", "format": format,
                "optimal_frame_size": frame_bytes, "ptime": 20, "channel_variables": variables,
            })
            .to_string();
        }
        format!(
            "MEDIA_START connection_id:agent channel:{channel} channel_id:1796010721.2 \
             format:{format} optimal_frame_size:{frame_bytes} ptime:20"
        )
    }

    /// An event with one field.
    pub fn event(&self, name: &str, key: &str, value: &str) -> String {
        match (self.dialled.json, key) {
            (true, _) => json!({"event": name, "channel_id": "1.2", key: value}).to_string(),
            (false, "") => name.to_owned(),
            (false, "correlation_id") => format!("{name} {value}"),
            (false, key) => format!("{name} {key}:{value} channel_id:1796010721.2"),
        }
    }

    /// Whoever is gone does not get it.
    pub async fn say(&mut self, text: String) {
        let sent = timeout(LIMIT, self.socket.send(Message::text(text))).await;
        let _ = sent.expect("the server reads in time");
    }

    pub async fn send_sound(&mut self, sound: Vec<u8>) {
        let sent = timeout(LIMIT, self.socket.send(Message::binary(sound))).await;
        let _ = sent.expect("the server reads in time");
    }

    pub async fn press(&mut self, key: char) {
        let event = self.event("DTMF_END", "digit", &key.to_string());
        self.say(event).await;
    }

    /// The caller hangs up.
    pub async fn hang_up(&mut self) {
        let _ = self.socket.close(None).await;
    }

    /// The caller says something for so long.
    pub fn speak(&mut self, speech_ms: usize) {
        for _ in 0..speech_ms / 20 {
            let sound = self.frame(8_000);
            self.mouth.push_back(sound);
        }
    }

    /// 20 ms of a square wave.
    pub fn frame(&self, level: i16) -> Vec<u8> {
        let wave = |at: usize| if at % 16 < 8 { level } else { -level };
        let frame_bytes = self.dialled.frame_bytes;
        match self.dialled.format {
            "ulaw" => {
                let mut sound = Vec::new();
                let samples: Vec<i16> = (0..frame_bytes).map(wave).collect();
                Law::Mu.encode(&samples, &mut sound);
                sound
            }
            _ => (0..frame_bytes / 2).flat_map(|at| wave(at).to_le_bytes()).collect(),
        }
    }

    /// Lets the call go on, in real time, until this is so.
    pub async fn until(&mut self, what: &str, mut is_so: impl FnMut(&Channel) -> bool) {
        let mut ticks = interval(Duration::from_millis(20));
        // A telephone never plays faster than real time, however busy this machine is.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < LIMIT, "not in time: {what}: {:?}", self.last());
            tokio::select! {
                message = self.socket.next() => self.take(message).await,
                _ = ticks.tick() => self.tick().await,
            }
        }
    }

    /// The same until the server closes; gives the code.
    pub async fn until_closed(&mut self) -> u16 {
        let closed = |channel: &Channel| matches!(channel.came.last(), Some(Came::Closed(_)));
        self.until("the connection is closed", closed).await;
        match self.came.last() {
            Some(Came::Closed(code)) => *code,
            other => panic!("{other:?}"),
        }
    }

    async fn take(
        &mut self,
        message: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
    ) {
        match message {
            Some(Ok(Message::Text(text))) => {
                assert!(text.len() <= TEXT_MAX_BYTES, "Asterisk ignores it: {text}");
                let (name, id) = self.command(&text);
                self.obey(&name, &id);
                self.came.push(Came::Command(name, id));
            }
            Some(Ok(Message::Binary(sound))) => self.queue(&sound).await,
            Some(Ok(Message::Close(frame))) => {
                self.came.push(Came::Closed(frame.map_or(0, |frame| frame.code.into())));
                // Asterisk answers it at once.
                let _ = self.socket.close(None).await;
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Err(_)) | None => self.came.push(Came::Closed(0)),
            other => panic!("{other:?}"),
        }
    }

    fn command(&self, text: &str) -> (String, String) {
        if self.dialled.json {
            let value: Value = serde_json::from_str(text).unwrap();
            let of = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            return (of("command"), of("correlation_id"));
        }
        let (name, id) = text.split_once(' ').unwrap_or((text, ""));
        (name.to_owned(), id.to_owned())
    }

    fn obey(&mut self, name: &str, id: &str) {
        match name {
            "ANSWER" | "HANGUP" => {}
            "MARK_MEDIA" => self.waiting.push_back(Waiting::Mark(id.to_owned())),
            "FLUSH_MEDIA" => self.waiting.clear(),
            other => panic!("{other:?} is nothing that Asterisk is told here"),
        }
    }

    async fn queue(&mut self, sound: &[u8]) {
        let frame = self.dialled.frame_bytes;
        assert_eq!(sound.len() % frame, 0, "the rest of {} would be dropped", sound.len());
        assert!(sound.len() <= SOUND_MAX_BYTES, "{} bytes end the call", sound.len());
        self.came.push(Came::Sound(sound.len()));
        if self.is_full {
            self.beyond += sound.len();
        }
        self.waiting.extend((0..sound.len() / frame).map(|_| Waiting::Frame));
        if !self.is_full && self.queued() >= self.levels.0 {
            self.is_full = true;
            let event = self.event("MEDIA_XOFF", "", "");
            self.say(event).await;
        }
    }

    /// Frames in the queue.
    pub fn queued(&self) -> usize {
        self.waiting.iter().filter(|waiting| matches!(waiting, Waiting::Frame)).count()
    }

    /// 20 ms: the caller says a frame and hears one.
    async fn tick(&mut self) {
        let sound = self.mouth.pop_front().unwrap_or_else(|| self.frame(0));
        self.send_sound(sound).await;
        if self.is_stalled {
            return;
        }
        if self.is_full && self.queued() < self.levels.1 {
            self.is_full = false;
            let event = self.event("MEDIA_XON", "", "");
            self.say(event).await;
        }
        // Marks take no time of their own: what stands behind them is played in the same tick.
        while let Some(Waiting::Mark(id)) = self.waiting.front() {
            let id = id.clone();
            self.waiting.pop_front();
            let event = self.event("MEDIA_MARK_PROCESSED", "correlation_id", &id);
            self.say(event).await;
        }
        if self.waiting.pop_front().is_some() {
            self.frames_played += 1;
        }
    }

    /// How much the caller has heard, in milliseconds.
    pub fn played_ms(&self) -> usize {
        self.frames_played * 20
    }

    /// How often this command came.
    pub fn told(&self, name: &str) -> usize {
        self.came.iter().filter(|came| matches!(came, Came::Command(n, _) if n == name)).count()
    }

    fn last(&self) -> &[Came] {
        &self.came[self.came.len().saturating_sub(12)..]
    }
}
