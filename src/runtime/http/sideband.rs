//! `/v1/realtime?call_id=`: a server of the tenant's own beside a WebRTC call, with its events.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::{SinkExt, StreamExt};

use super::accept::Place;
use super::auth::{self, Caller};
use super::kept::Kept;
use super::peers::NoCall;
use super::upgrade::{Handshake, Wire};
use super::{Site, answer};
use crate::transport::webrtc::{NoEntry, Sideband};

/// Its last words may take this long.
const PARTING_MAX: Duration = Duration::from_secs(2);

/// Lets one in who may know of the call, or says why not.
pub(super) fn attach(
    site: &Site,
    call: &str,
    caller: &Caller,
    place: Arc<Place>,
    headers: &HeaderMap,
    handshake: Handshake,
) -> Response {
    if caller.session.is_some() {
        let message = "A client secret is for a browser's own call; attach with the tenant's key.";
        return answer::error(StatusCode::FORBIDDEN, "client_secret", message, None);
    }
    let entered = site.peers.door(call, caller.tenant).and_then(|door| {
        door.enter().map_err(|none| match none {
            NoEntry::Full => NoCall::Full,
            NoEntry::Over => NoCall::Over,
        })
    });
    let sideband = match entered {
        Ok(sideband) => sideband,
        Err(none) => return none.answer("call_id"),
    };
    let message_max = site.service.config.realtime.message_max as usize;
    let subprotocol = auth::subprotocol(headers);
    handshake.switch(site, place, subprotocol, message_max, |socket| run(sideband, socket))
}

/// Carries events both ways until one end is gone; the call goes on without it.
async fn run(mut sideband: Sideband, socket: Kept<Wire>) {
    let (mut sink, mut stream) = socket.split();
    let (voice, cut) = (sideband.voice(), sideband.cut());
    let listen = async {
        while let Some(Ok(message)) = stream.next().await {
            let said = match message {
                Message::Text(text) => voice.say(Some(text.as_str().to_owned())).await,
                Message::Binary(_) => voice.say(None).await,
                Message::Ping(_) | Message::Pong(_) => true,
                Message::Close(_) => return,
            };
            // Behind the last event of a call nothing is heard; its end is told below.
            if !said {
                std::future::pending::<()>().await;
            }
        }
    };
    let tell = async {
        while let Some(event) = sideband.event().await {
            // Every event was written as JSON text, which is UTF-8.
            let Ok(text) = Utf8Bytes::try_from(event) else { break };
            if sink.send(Message::Text(text)).await.is_err() {
                return None;
            }
        }
        Some((1000, "the call is over"))
    };
    let parting = tokio::select! {
        () = listen => None,
        parting = tell => parting,
        () = cut.cancelled() => Some((1008, "events were not read")),
    };
    if let Some((code, reason)) = parting {
        let reason = Utf8Bytes::from_static(reason);
        let close = Message::Close(Some(CloseFrame { code, reason }));
        let _ = tokio::time::timeout(PARTING_MAX, sink.send(close)).await;
    }
}
