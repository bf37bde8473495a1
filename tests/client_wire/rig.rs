//! A served floorkeeper with scripted providers, and a client that remembers every event.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

/// Nothing here takes so long unless it is broken.
const LIMIT: Duration = Duration::from_secs(30);
pub const FRAME_BYTES: usize = 960;

/// Answers of eight seconds: long enough to be interrupted.
pub const STORY: &str = "There was a king who had three sons and a garden full of pears. \
                         Every night one pear was gone.";

pub struct Server {
    child: Child,
    pub port: u16,
    folder: std::path::PathBuf,
}

impl Server {
    /// Serves with scripted providers and these further settings.
    pub fn start(settings: &[&str]) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let folder = std::env::temp_dir().join(format!("floorkeeper-rig-{port}"));
        std::fs::create_dir_all(&folder).unwrap();
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_floorkeeper"));
        command.arg("serve").stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        let own = [
            format!("listen=\"127.0.0.1:{port}\""),
            format!("store.path=\"{}\"", folder.join("store.db").display()),
            format!("llm.reply=\"{STORY}\""),
        ];
        let usual = [
            "llm.provider=scripted",
            "asr.provider=scripted",
            "asr.text=\"Wait, stop please\"",
            "tts.provider=scripted",
            "tts.word_times=true",
            "vad.detector=earshot",
            "turn.end=silence",
        ];
        let own = own.iter().map(String::as_str);
        for setting in own.chain(usual).chain(settings.iter().copied()) {
            command.args(["--set", setting]);
        }
        let mut server = Server { child: command.spawn().unwrap(), port, folder };
        server.wait_until_ready();
        server
    }

    fn wait_until_ready(&mut self) {
        for _ in 0..600 {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("floorkeeper serve ended with {status}:\n{}", self.log());
            }
            if self.get("/readyz").is_some_and(|(status, _)| status == 200) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("floorkeeper serve is not ready:\n{}", self.log());
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    pub fn url(&self) -> String {
        format!("ws://127.0.0.1:{}/v1/realtime", self.port)
    }

    /// GET over HTTP: the status and the JSON body.
    pub fn get(&self, path: &str) -> Option<(u16, Value)> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.split_whitespace().nth(1)?.parse().ok()?;
        let body = answer.split_once("\r\n\r\n")?.1;
        Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
    }

    /// One gate of `/v1/ledger`.
    pub fn ledger(&self, gate: &str) -> Value {
        let (status, ledger) = self.get("/v1/ledger").expect("the ledger");
        assert_eq!((status, &ledger["balances"]), (200, &json!(true)), "{ledger:#}");
        let gates = ledger["gates"].as_array().unwrap();
        gates.iter().find(|entry| entry["gate"] == gate).expect("the gate").clone()
    }

    /// Waits until no gate has anything active, queued or quarantined, and nothing was miscounted.
    pub fn assert_quiescent(&self) {
        let busy = |gate: &Value| {
            ["active", "queued", "quarantined"].iter().any(|key| gate[*key] != json!(0))
        };
        let mut last = Value::Null;
        for _ in 0..200 {
            last = self.get("/v1/ledger").expect("the ledger").1;
            assert_eq!(last["balances"], true, "{last:#}");
            if !last["gates"].as_array().unwrap().iter().any(busy) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("after ten seconds something is still held:\n{last:#}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A Realtime client with extra events on.
pub struct Client {
    pub socket: WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>,
    pub events: Vec<Value>,
}

impl Client {
    /// Connects and asks for the extra events.
    pub async fn connect(server: &Server) -> Client {
        let (socket, _) = tokio_tungstenite::connect_async(server.url()).await.unwrap();
        let mut client = Client { socket, events: Vec::new() };
        client.until("session.created").await;
        let session = json!({
            "type": "realtime",
            "audio": {"input": {"transcription": {"model": "default"}}},
            "floorkeeper": {"events": true},
        });
        client.send(json!({"type": "session.update", "session": session})).await;
        client.until("session.updated").await;
        client
    }

    pub async fn send(&mut self, event: Value) {
        self.socket.send(Message::text(event.to_string())).await.unwrap();
    }

    /// A written question that is to be answered aloud.
    pub async fn ask(&mut self, text: &str) {
        let content = json!([{"type": "input_text", "text": text}]);
        let item = json!({"type": "message", "role": "user", "content": content});
        self.send(json!({"type": "conversation.item.create", "item": item})).await;
        self.send(json!({"type": "response.create"})).await;
    }

    /// 20 ms of the microphone.
    pub async fn append(&mut self, pcm: &[u8]) {
        let audio = BASE64.encode(pcm);
        self.send(json!({"type": "input_audio_buffer.append", "audio": audio})).await;
    }

    /// The next event.
    pub async fn next(&mut self) -> Value {
        loop {
            let message = tokio::time::timeout(LIMIT, self.socket.next()).await;
            let message = message.unwrap_or_else(|_| panic!("silence; had {:#?}", self.kinds()));
            match message {
                Some(Ok(Message::Text(text))) => {
                    let event: Value = serde_json::from_str(&text).unwrap();
                    self.events.push(event.clone());
                    return event;
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                other => panic!("{other:?} behind {:#?}", self.kinds()),
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

    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events.iter().filter(move |event| event["type"] == kind)
    }

    /// The agent's sound so far, in milliseconds.
    pub fn audio_ms(&self) -> usize {
        self.of("response.output_audio.delta").map(audio_ms).sum()
    }

    /// What a gate said, in order: `admitted`, `closed{no_capacity}`, …
    pub fn said_by(&self, gate: &str) -> Vec<String> {
        self.of("floorkeeper.admission")
            .filter(|event| event["gate"] == gate)
            .map(|event| match event["reason"].as_str() {
                None | Some("") => event["disposition"].as_str().unwrap().to_owned(),
                Some(reason) => format!("{}{{{reason}}}", event["disposition"].as_str().unwrap()),
            })
            .collect()
    }

    pub async fn hang_up(mut self) {
        let _ = self.socket.close(None).await;
        while let Ok(Some(Ok(_))) = tokio::time::timeout(LIMIT, self.socket.next()).await {}
    }

    fn kinds(&self) -> Vec<&str> {
        let last = self.events.len().saturating_sub(12);
        self.events[last..].iter().filter_map(|event| event["type"].as_str()).collect()
    }
}

pub fn audio_ms(delta: &Value) -> usize {
    BASE64.decode(delta["delta"].as_str().unwrap()).unwrap().len() / 48
}

/// Somebody saying `words`, in frames of 20 ms of 24 kHz PCM.
pub fn spoken(words: &str) -> Vec<Vec<u8>> {
    let unique = format!("floorkeeper-says-{}-{}.wav", std::process::id(), words.len());
    let path = std::env::temp_dir().join(unique);
    let status = Command::new("espeak-ng").arg("-w").arg(&path).arg(words).status();
    assert!(status.is_ok_and(|status| status.success()), "espeak-ng is needed (apt package)");
    let recording = floorkeeper::cli::wav::read(&path, 24_000).unwrap();
    std::fs::remove_file(&path).unwrap();
    let bytes: Vec<u8> = recording.pcm.samples.iter().flat_map(|s| s.to_le_bytes()).collect();
    bytes.chunks_exact(FRAME_BYTES).map(<[u8]>::to_vec).collect()
}
