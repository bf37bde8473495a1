//! The real server, and what is left in it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::child::Server;
use crate::scripted;

/// What is over is forgotten by then, and nothing may be left behind.
const QUIET_MAX: Duration = Duration::from_secs(12);

/// A server with a SIP port.
pub struct Phones {
    pub server: Server,
    pub address: SocketAddr,
}

/// What calls leave behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    pub sockets: usize,
    pub tasks: u64,
    pub calls: u64,
    /// Dialogs that live, and that are over and remembered.
    pub dialogs: u64,
    pub over: u64,
}

/// `binary serve` without voice activity detection, and with these further settings.
pub fn start(
    binary: Option<&PathBuf>,
    name: &str,
    greeting: &str,
    further: &[&str],
) -> Result<Phones, String> {
    let address = free_address().map_err(|error| error.to_string())?;
    let usual = [
        "vad.detector=off".to_owned(),
        format!("sip.listen=\"{address}\""),
        format!("agent.default.greeting={greeting:?}"),
    ];
    let settings: Vec<&str> =
        usual.iter().map(String::as_str).chain(further.iter().copied()).collect();
    let server = scripted::start(binary, name, &settings)?;
    Ok(Phones { server, address })
}

/// UDP and TCP are free there, or were.
fn free_address() -> std::io::Result<SocketAddr> {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0")?;
    let address = tcp.local_addr()?;
    std::net::UdpSocket::bind(address).map(|_| address)
}

impl Phones {
    /// What is there now.
    pub async fn look(&self) -> Result<Left, String> {
        let page = self.ask("GET", "/metrics", "").await?;
        let value = |name: &str| -> u64 {
            let line = page.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim().parse::<f64>().ok()).map_or(u64::MAX, |n| n as u64)
        };
        Ok(Left {
            sockets: sockets(self.server.pid()),
            tasks: value("floorkeeper_tasks "),
            calls: value("floorkeeper_calls "),
            dialogs: value("floorkeeper_sip_dialogs{state=\"living\"} "),
            over: value("floorkeeper_sip_dialogs{state=\"over\"} "),
        })
    }

    /// Waits until no more is left than there was; what is, if that never comes, and how long it
    /// took.
    pub async fn until_quiet(&self, before: Left) -> Result<(Left, Duration), String> {
        let began = Instant::now();
        loop {
            let left = self.look().await?;
            if left.is_at_most(&before) || began.elapsed() > QUIET_MAX {
                return Ok((left, began.elapsed()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// From now on it takes no new calls.
    pub async fn drain(&self) -> Result<(), String> {
        self.ask("PUT", "/v1/drain", r#"{"enabled":true}"#).await.map(drop)
    }

    async fn ask(&self, method: &str, path: &str, body: &str) -> Result<String, String> {
        let refuse = |error: std::io::Error| format!("{path}: {error}");
        let port = self.server.port;
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.map_err(refuse)?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.map_err(refuse)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map_err(refuse)?;
        match answer.starts_with("HTTP/1.1 2") {
            true => Ok(answer),
            false => Err(format!("{path}: {answer}")),
        }
    }
}

impl Left {
    pub fn is_at_most(&self, before: &Left) -> bool {
        self.sockets <= before.sockets
            && self.tasks <= before.tasks
            && (self.calls, self.dialogs, self.over) == (0, 0, 0)
    }

    pub fn line(&self) -> String {
        let Left { sockets, tasks, calls, dialogs, over } = self;
        format!(
            "{sockets} sockets, {tasks} tasks, {calls} calls, {dialogs} dialogs living and {over} \
             over"
        )
    }
}

/// Open sockets of a process.
fn sockets(pid: u32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let files = files.into_iter().flatten().filter_map(Result::ok);
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}
