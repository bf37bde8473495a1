//! HTTP/1.1 by hand: exactly these bytes go out, exactly one answer comes back.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::rig::LIMIT;

/// What makes a GET a WebSocket handshake.
pub const HANDSHAKE: [(&str, &str); 4] = [
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// By name in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {} {text}", self.status))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    /// The stable code of the error that this is.
    pub fn code(&self) -> String {
        let body = self.json();
        let error = &body["error"];
        assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "{body:#}");
        error["code"].as_str().unwrap_or_else(|| panic!("no code: {body:#}")).to_owned()
    }
}

/// A request and its answer, on a connection of its own.
pub async fn ask(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {to}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        head += &format!("Content-Length: {}\r\n", body.len());
    }
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
    answer(&mut stream).await
}

/// Sends a WebSocket handshake with these further headers and leaves the answer to be read.
pub async fn knock(to: SocketAddr, headers: &[(&str, &str)]) -> TcpStream {
    knock_at(to, "/v1/realtime", headers).await
}

/// The same at another path, or with a query.
pub async fn knock_at(to: SocketAddr, path: &str, headers: &[(&str, &str)]) -> TcpStream {
    let mut head = format!("GET {path} HTTP/1.1\r\nHost: {to}\r\n");
    for (name, value) in HANDSHAKE.iter().chain(headers) {
        head += &format!("{name}: {value}\r\n");
    }
    let mut stream = TcpStream::connect(to).await.unwrap();
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    stream
}

/// The answer to a handshake.
pub async fn knocked(to: SocketAddr, headers: &[(&str, &str)]) -> Answer {
    answer(&mut knock(to, headers).await).await
}

/// Reads one answer; of what follows it nothing is taken.
pub async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> Answer {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(LIMIT, stream.read_u8()).await.expect("an answer in time");
        head.push(
            byte.unwrap_or_else(|e| panic!("{e} after {:?}", String::from_utf8_lossy(&head))),
        );
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap().parse().unwrap();
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    timeout(LIMIT, stream.read_exact(&mut body)).await.expect("a body in time").unwrap();
    Answer { status, headers, body }
}

/// The server has closed the connection, with or without more to say.
pub async fn closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let read = timeout(LIMIT, stream.read_to_end(&mut rest)).await;
    // A reset is an end as well.
    let _ = read.expect("the connection is closed in time");
    rest
}
