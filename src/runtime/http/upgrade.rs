//! From a request to a WebSocket of ours: bounded buffers, and a share in the room for large
//! messages.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use axum::response::Response;
use futures_util::{Sink, Stream};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, protocol};

use super::accept::Place;
use super::budget::Budgeted;
use super::kept::Kept;
use super::{Site, answer};
use crate::id::Stage;

/// Bytes tungstenite may buffer towards one peer beyond the largest event. It is handed one event
/// at a time; what waits behind that one is bounded by the leg.
const WRITE_BUFFER_MAX: usize = 256 * 1024;

/// A request that asks for a WebSocket as RFC 6455 wants it.
pub(super) struct Handshake {
    accept: HeaderValue,
    upgrade: OnUpgrade,
}

impl<S: Send + Sync> FromRequestParts<S> for Handshake {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let accept = accept(parts).filter(|_| parts.method == Method::GET);
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        match (accept, upgrade) {
            (Some(accept), Some(upgrade)) => Ok(Handshake { accept, upgrade }),
            _ => {
                let message = "This is a WebSocket: GET with Upgrade: websocket, version 13.";
                let status = StatusCode::UPGRADE_REQUIRED;
                Err(answer::error(status, "upgrade_required", message, None))
            }
        }
    }
}

fn accept(parts: &Parts) -> Option<HeaderValue> {
    let headers = &parts.headers;
    let asked = parts.version == Version::HTTP_11
        && names(headers, header::CONNECTION, "upgrade")
        && names(headers, header::UPGRADE, "websocket")
        && headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
    let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| asked)?;
    HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()
}

fn names(headers: &HeaderMap, header: header::HeaderName, word: &str) -> bool {
    let values = headers.get_all(header);
    values
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.split(',').any(|name| name.trim().eq_ignore_ascii_case(word)))
}

impl Handshake {
    /// Answers with the upgrade, and runs a call over what the connection turns into. A client that
    /// left before it was upgraded never had a call: what `call` holds goes back unused.
    pub fn switch<Calling>(
        self,
        site: &Site,
        place: Arc<Place>,
        subprotocol: Option<&'static str>,
        message_max: usize,
        call: impl FnOnce(Kept<Wire>) -> Calling + Send + 'static,
    ) -> Response
    where
        Calling: Future<Output = ()> + Send + 'static,
    {
        let large = site.large.clone();
        let realtime = &site.service.config.realtime;
        let (ping, dead_after) = (realtime.ping, realtime.dead_after);
        let upgrade = self.upgrade;
        tokio::spawn(async move {
            if let Ok(upgraded) = upgrade.await {
                let stream = Budgeted::new(TokioIo::new(upgraded), large, message_max as u64);
                let socket = Wire::new(stream, bounds(message_max), place).await;
                call(Kept::new(socket, ping, dead_after)).await;
            }
        });
        let mut response = switching(self.accept, subprotocol);
        if site.service.config.admission.expose_headers {
            answer::expose(&site.service, Stage::Call, response.headers_mut());
        }
        response
    }
}

fn switching(accept: HeaderValue, subprotocol: Option<&'static str>) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(name) = subprotocol {
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name));
    }
    response
}

/// The library's defaults bound next to nothing.
fn bounds(message_max: usize) -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(8 * 1024)
        .write_buffer_size(0)
        .max_write_buffer_size(message_max + WRITE_BUFFER_MAX)
        .max_message_size(Some(message_max))
        .max_frame_size(Some(message_max))
}

/// Bytes behind a broken frame that are thrown away at a time.
const THROWN_BYTES: usize = 4 * 1024;

/// A client's messages, in axum's words.
pub(super) struct Wire {
    socket: WebSocketStream<Budgeted<TokioIo<Upgraded>>>,
    /// Its frames cannot be followed any more.
    is_broken: bool,
    /// Held as long as the connection itself is, whichever call it goes to.
    _place: Arc<Place>,
}

impl Wire {
    async fn new(
        stream: Budgeted<TokioIo<Upgraded>>,
        config: WebSocketConfig,
        place: Arc<Place>,
    ) -> Wire {
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config));
        Wire { socket: socket.await, is_broken: false, _place: place }
    }

    /// What follows a broken frame is no message, but has to be read all the same: left unread it
    /// would have the connection reset, and the close frame with it.
    fn poll_throw_away(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut bytes = [0; THROWN_BYTES];
        loop {
            let mut into = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(self.socket.get_mut()).poll_read(cx, &mut into));
            if read.is_err() || into.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }
}

impl Stream for Wire {
    type Item = Result<Message, axum::Error>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Message, axum::Error>>> {
        if self.is_broken {
            return self.poll_throw_away(cx).map(|()| None);
        }
        loop {
            match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
                Some(Ok(message)) => {
                    if let Some(message) = heard(message) {
                        return Poll::Ready(Some(Ok(message)));
                    }
                }
                Some(Err(fault)) => {
                    self.is_broken = true;
                    return Poll::Ready(Some(Err(axum::Error::new(fault))));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Sink<Message> for Wire {
    type Error = axum::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        Pin::new(&mut self.socket).poll_ready(cx).map_err(axum::Error::new)
    }

    fn start_send(mut self: Pin<&mut Self>, message: Message) -> Result<(), axum::Error> {
        let message = said(message)?;
        Pin::new(&mut self.socket).start_send(message).map_err(axum::Error::new)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        Pin::new(&mut self.socket).poll_flush(cx).map_err(axum::Error::new)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        Pin::new(&mut self.socket).poll_close(cx).map_err(axum::Error::new)
    }
}

fn heard(message: tungstenite::Message) -> Option<Message> {
    Some(match message {
        // Its UTF-8 was looked at already; what would not be is no text of anybody's.
        tungstenite::Message::Text(text) => {
            Message::Text(Utf8Bytes::try_from(bytes::Bytes::from(text)).ok()?)
        }
        tungstenite::Message::Binary(bytes) => Message::Binary(bytes),
        tungstenite::Message::Ping(bytes) => Message::Ping(bytes),
        tungstenite::Message::Pong(bytes) => Message::Pong(bytes),
        tungstenite::Message::Close(frame) => Message::Close(frame.map(|frame| CloseFrame {
            code: frame.code.into(),
            reason: Utf8Bytes::from(frame.reason.as_str()),
        })),
        // A reader is never given a bare frame.
        tungstenite::Message::Frame(_) => return None,
    })
}

fn said(message: Message) -> Result<tungstenite::Message, axum::Error> {
    let text = |text: Utf8Bytes| {
        tungstenite::Utf8Bytes::try_from(bytes::Bytes::from(text)).map_err(axum::Error::new)
    };
    Ok(match message {
        Message::Text(words) => tungstenite::Message::Text(text(words)?),
        Message::Binary(bytes) => tungstenite::Message::Binary(bytes),
        Message::Ping(bytes) => tungstenite::Message::Ping(bytes),
        Message::Pong(bytes) => tungstenite::Message::Pong(bytes),
        Message::Close(None) => tungstenite::Message::Close(None),
        Message::Close(Some(frame)) => tungstenite::Message::Close(Some(protocol::CloseFrame {
            code: frame.code.into(),
            reason: text(frame.reason)?,
        })),
    })
}
