//! A fake backend for the OpenAI-compatible providers: each connection does what a test scripts.
#![allow(dead_code, reason = "every test binary uses its own part of this")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use floorkeeper::provider::{Cancel, Ended, Surroundings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Longest that any test waits for anything; only a broken program reaches it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running fake backend.
pub struct Server {
    pub address: String,
    accepted: Arc<AtomicUsize>,
}

/// One connection of it.
pub struct Conn {
    /// Which connection this is, from 0.
    pub nth: usize,
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    pub head: String,
    pub body: Vec<u8>,
}

type Script = dyn Fn(Conn) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

impl Server {
    /// Serves every connection with `script`.
    pub async fn start<F, S>(script: F) -> Server
    where
        F: Fn(Conn) -> S + Send + Sync + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let script: Arc<Script> = Arc::new(move |conn| Box::pin(script(conn)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = accepted.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let nth = count.fetch_add(1, Ordering::SeqCst);
                let conn = Conn { nth, stream, buffer: Vec::new() };
                tokio::spawn(tokio::time::timeout(PATIENCE, script(conn)));
            }
        });
        Server { address, accepted }
    }

    /// A server that answers every request on a connection with the same bytes, then closes.
    pub async fn answering(answer: impl Into<Vec<u8>>) -> Server {
        let answer: Arc<Vec<u8>> = Arc::new(answer.into());
        Server::start(move |mut conn| {
            let answer = answer.clone();
            async move {
                conn.request().await;
                conn.write(answer.as_slice()).await;
            }
        })
        .await
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// A provider's table for this server, with these further lines.
    pub fn table(&self, more: &str) -> toml::Table {
        let text = format!("base_url = \"http://{}/v1\"\nmodel = \"m\"\n{more}", self.address);
        text.parse().unwrap()
    }
}

impl Conn {
    /// Reads one request; `None` at end of file.
    pub async fn try_request(&mut self) -> Option<Received> {
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            self.fill().await?;
        };
        let head = String::from_utf8(self.buffer.drain(..end).collect()).unwrap();
        let length = head
            .lines()
            .find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned)
            })
            .map_or(0, |value| value.trim().parse().unwrap());
        while self.buffer.len() < length {
            self.fill().await?;
        }
        let body = self.buffer.drain(..length).collect();
        Some(Received { head, body })
    }

    /// Reads one request that must come.
    pub async fn request(&mut self) -> Received {
        self.try_request().await.expect("a request")
    }

    async fn fill(&mut self) -> Option<()> {
        let mut piece = [0_u8; 4_096];
        let count = self.stream.read(&mut piece).await.ok().filter(|&count| count > 0)?;
        self.buffer.extend_from_slice(&piece[..count]);
        Some(())
    }

    /// Writes bytes; a client that has gone is no error here.
    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok()
    }

    /// Writes one chunk of a chunked body.
    pub async fn chunk(&mut self, data: &str) -> bool {
        self.write(chunked(data)).await
    }

    /// Waits until the client shuts its write half.
    pub async fn end_of_file(&mut self) {
        while self.fill().await.is_some() {}
    }

    /// Closes with a reset.
    pub fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

/// One chunk of a chunked body.
pub fn chunked(data: &str) -> String {
    format!("{:x}\r\n{data}\r\n", data.len())
}

/// The head of a streamed answer.
pub const SSE_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";

/// One event with words in it.
pub fn words(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

/// The event that ends an answer, and the end mark.
pub const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n";

/// A whole streamed answer.
pub fn whole_answer(text: &str) -> String {
    format!("{SSE_HEAD}{}{}0\r\n\r\n", chunked(&words(text)), chunked(FINISH))
}

/// An answer with a length.
pub fn plain(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// What providers are built with.
pub fn surroundings() -> Surroundings {
    Surroundings { models_dir: "models".into(), language: "en".into() }
}

/// A run that is under way, with what it said.
pub struct Running<S> {
    pub cancel: Cancel,
    pub signals: mpsc::Receiver<S>,
    pub run: tokio::task::JoinHandle<Ended>,
}

impl<S> Running<S> {
    /// The next signal, which must come.
    pub async fn next(&mut self) -> S {
        tokio::time::timeout(PATIENCE, self.signals.recv()).await.unwrap().expect("a signal")
    }

    /// Everything it still says, and its end.
    pub async fn end(mut self) -> (Vec<S>, Ended) {
        let reading = async {
            let mut signals = Vec::new();
            while let Some(signal) = self.signals.recv().await {
                signals.push(signal);
            }
            signals
        };
        let signals = tokio::time::timeout(PATIENCE, reading).await.expect("the run ends");
        (signals, self.run.await.unwrap())
    }
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
