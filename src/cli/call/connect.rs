//! Reaching a Realtime server: the URL, the handshake, and a writer that never blocks the clock.

use std::io::ErrorKind;
use std::time::Duration;

use futures_util::stream::SplitStream;
use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use url::Url;

use super::socket::{self, Io, ROOTS_VARIABLE};
use super::wire::{self, ServerEvent};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const SETTLE_LIMIT: Duration = Duration::from_secs(5);
const SEND_LIMIT: Duration = Duration::from_secs(5);
/// Two and a half seconds of frames: a server that is so far behind does not read.
const UNSENT_MESSAGES: usize = 128;

/// The reading half of a connection.
pub(crate) type Incoming = SplitStream<WebSocketStream<Box<dyn Io>>>;

/// Where to call, checked.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The whole address, agent included.
    pub(crate) url: Url,
    key: Option<String>,
}

/// A session that has been created.
pub(crate) struct Line {
    /// What the server says.
    pub(crate) incoming: Incoming,
    /// What we say; full means that the server does not read.
    pub(crate) outgoing: mpsc::Sender<String>,
    writer: JoinHandle<()>,
}

impl Line {
    /// Hangs up properly: everything said goes out, then a close.
    pub(crate) async fn hang_up(self) {
        let Line { incoming, outgoing, writer } = self;
        drop(outgoing);
        let _ = tokio::time::timeout(SEND_LIMIT, writer).await;
        drop(incoming);
    }
}

impl Target {
    /// Checks an address; the error says what would be right.
    pub(crate) fn new(
        address: &str,
        agent: Option<&str>,
        key: Option<String>,
    ) -> Result<Target, String> {
        let example = "an address like ws://127.0.0.1:8080/v1/realtime is right";
        let mut url =
            Url::parse(address).map_err(|error| format!("`{address}`: {error}; {example}"))?;
        match url.scheme() {
            "ws" | "wss" => {}
            other => return Err(format!("`{address}` begins with {other}://; {example}")),
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(format!("`{address}` names no host; {example}"));
        }
        if url.path() == "/" {
            url.set_path("/v1/realtime");
        }
        if let Some(agent) = agent {
            url.query_pairs_mut().append_pair("agent", agent).append_pair("model", agent);
        }
        if let Some(key) = &key
            && HeaderValue::from_str(key).is_err()
        {
            return Err("--key holds characters that no HTTP header may hold".to_owned());
        }
        Ok(Target { url, key })
    }

    /// Whether the host is this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        match self.url.host() {
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            Some(url::Host::Domain(name)) => name == "localhost",
            None => false,
        }
    }

    /// Connects, waits for the session and configures it.
    ///
    /// An error of the server about the settings goes to `complain` and does not end the call.
    pub(crate) async fn dial(&self, mut complain: impl FnMut(&str)) -> Result<Line, String> {
        let stream = self.connect().await?;
        let (mut sink, mut incoming) = stream.split();
        let (outgoing, mut to_send) = mpsc::channel::<String>(UNSENT_MESSAGES);
        let writer = tokio::spawn(async move {
            while let Some(message) = to_send.recv().await {
                let sent =
                    tokio::time::timeout(SEND_LIMIT, sink.send(Message::text(message))).await;
                if !matches!(sent, Ok(Ok(()))) {
                    return;
                }
            }
            let _ = tokio::time::timeout(SEND_LIMIT, sink.close()).await;
        });
        let settled = async {
            expect_created(&mut incoming).await?;
            let update = wire::session_update();
            outgoing.send(update).await.map_err(|_| "the server hung up at once".to_owned())?;
            expect_updated(&mut incoming, &mut complain).await
        };
        tokio::time::timeout(SETTLE_LIMIT, settled)
            .await
            .map_err(|_| format!("no session within {} s", SETTLE_LIMIT.as_secs()))??;
        Ok(Line { incoming, outgoing, writer })
    }

    async fn connect(&self) -> Result<WebSocketStream<Box<dyn Io>>, String> {
        let mut request = self
            .url
            .as_str()
            .into_client_request()
            .map_err(|error| format!("{}: {error}", self.url))?;
        if let Some(key) = &self.key {
            let value = HeaderValue::from_str(&format!("Bearer {key}"))
                .map_err(|error| format!("--key: {error}"))?;
            request.headers_mut().insert("Authorization", value);
        }
        let buffers = WebSocketConfig::default().read_buffer_size(16 << 10).write_buffer_size(0);
        let connecting = async {
            let stream = socket::connect(&self.url).await.map_err(tungstenite::Error::Io)?;
            tokio_tungstenite::client_async_with_config(request, stream, Some(buffers)).await
        };
        match tokio::time::timeout(CONNECT_LIMIT, connecting).await {
            Err(_) => Err(format!("{} did not answer within 10 s", self.url)),
            Ok(Err(error)) => Err(self.refusal(error)),
            Ok(Ok((stream, _))) => Ok(stream),
        }
    }

    fn refusal(&self, error: tungstenite::Error) -> String {
        match error {
            tungstenite::Error::Http(response) => {
                let body = response.body().as_deref().unwrap_or_default();
                format!("{} answered HTTP {}: {}", self.url, response.status(), gist(body))
            }
            tungstenite::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
                format!("cannot reach {}: {error}; is `floorkeeper serve` running?", self.url)
            }
            tungstenite::Error::Io(error)
                if self.url.scheme() == "wss" && error.kind() == ErrorKind::InvalidData =>
            {
                format!(
                    "{}: no TLS could be agreed on: {error}; ws:// is right where there is none, \
                     {ROOTS_VARIABLE} names roots of your own",
                    self.url
                )
            }
            tungstenite::Error::Io(error) => format!("cannot reach {}: {error}", self.url),
            other => format!("{} is no Realtime server: {other}", self.url),
        }
    }
}

/// Code and message of an error's JSON body; another body as it is.
fn gist(body: &[u8]) -> String {
    let json: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    match (json["error"]["code"].as_str(), json["error"]["message"].as_str()) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (None, Some(message)) => message.to_owned(),
        _ => String::from_utf8_lossy(body).trim().to_owned(),
    }
}

/// The next event, or how the connection ended.
pub(crate) async fn next_event(incoming: &mut Incoming) -> Result<ServerEvent, String> {
    loop {
        match incoming.next().await {
            None => return Err("the server closed the connection".to_owned()),
            Some(Err(error)) => return Err(format!("the connection broke: {error}")),
            Some(Ok(Message::Text(text))) => return wire::parse(&text),
            Some(Ok(Message::Close(Some(close)))) => {
                let code = u16::from(close.code);
                return Err(format!("the server closed the call: {code} {}", close.reason));
            }
            Some(Ok(Message::Close(None))) => return Err("the server closed the call".to_owned()),
            Some(Ok(Message::Binary(_))) => {
                return Err("the server sent a binary message; Realtime events are text".to_owned());
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
        }
    }
}

async fn expect_created(incoming: &mut Incoming) -> Result<(), String> {
    match next_event(incoming).await? {
        ServerEvent::SessionCreated => Ok(()),
        ServerEvent::Error { code, message } => {
            let how = next_event(incoming).await.err();
            let how = how.map(|end| format!("; {end}")).unwrap_or_default();
            Err(format!("the server refused the call: {code}: {message}{how}"))
        }
        _ => Err("the server's first event was not session.created".to_owned()),
    }
}

async fn expect_updated(
    incoming: &mut Incoming,
    complain: &mut impl FnMut(&str),
) -> Result<(), String> {
    loop {
        match next_event(incoming).await? {
            ServerEvent::SessionUpdated => return Ok(()),
            ServerEvent::Error { code, message } => {
                complain(&format!(
                    "the server did not take the session's settings: {code}: {message}"
                ));
                return Ok(());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_addresses_say_what_would_be_right() {
        for wrong in ["127.0.0.1:8080", "http://127.0.0.1:8080/", "wss:///", "nonsense"] {
            let error = Target::new(wrong, None, None).unwrap_err();
            assert!(error.contains("ws://127.0.0.1:8080/v1/realtime is right"), "{error}");
        }
    }

    #[test]
    fn a_refusals_body_is_told_without_what_differs_from_call_to_call() {
        let body = br#"{"error":{"code":"draining","message":"Later."},"jitter_hint_ms":522}"#;
        assert_eq!(gist(body), "draining: Later.");
        assert_eq!(gist(br#"{"error":{"code":null,"message":"No."}}"#), "No.");
        assert_eq!(gist(b"<html> "), "<html>");
    }

    #[test]
    fn the_usual_path_and_the_agent_are_filled_in() {
        let target = Target::new("ws://127.0.0.1:8080", Some("night desk"), None).unwrap();
        let expected = "ws://127.0.0.1:8080/v1/realtime?agent=night+desk&model=night+desk";
        assert_eq!(target.url.as_str(), expected);
        assert!(target.is_loopback());
        assert!(!Target::new("ws://192.0.2.1/", None, None).unwrap().is_loopback());
    }
}
