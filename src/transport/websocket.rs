//! What all legs over a WebSocket tell a peer when they end, how they were lost, and how they part.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes};
use futures_util::{Sink, SinkExt, Stream};
use tokio_tungstenite::tungstenite;

use crate::leg::HangUp;

/// How long a peer that has no call has to take its close frame, and to answer it.
const PARTING_MAX: Duration = Duration::from_secs(2);

/// The close frame that says why the call is over.
pub(super) fn close_frame(why: HangUp) -> CloseFrame {
    let code = match why {
        HangUp::CallerGone
        | HangUp::Goodbye
        | HangUp::HandedOver
        | HangUp::Idle
        | HangUp::TooLong => 1000,
        HangUp::Drained => 1012,
        HangUp::Misbehaved => 1008,
        HangUp::Broken => 1011,
    };
    CloseFrame { code, reason: Utf8Bytes::from_static(why.label()) }
}

/// The word for a broken connection, and the close code that tells the peer, where one can.
pub(super) fn how_lost(fault: axum::Error) -> (&'static str, Option<u16>) {
    use tungstenite::error::{CapacityError, Error, ProtocolError};
    let fault = fault.into_inner();
    match fault.downcast_ref::<Error>() {
        Some(Error::Capacity(CapacityError::MessageTooLong { .. })) => ("protocol", Some(1009)),
        Some(Error::Utf8(_)) => ("protocol", Some(1007)),
        Some(Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => ("reset", None),
        Some(Error::Protocol(_)) => ("protocol", Some(1002)),
        Some(Error::WriteBufferFull(_)) => ("unread", None),
        _ => ("reset", None),
    }
}

/// Pushes out what the socket still holds and reads on, unheard, until the peer has gone.
pub fn poll_part<S>(socket: &mut S, cx: &mut Context<'_>) -> Poll<()>
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
{
    let flushed = Pin::new(&mut *socket).poll_flush(cx);
    loop {
        match Pin::new(&mut *socket).poll_next(cx) {
            Poll::Ready(Some(Ok(_))) => {}
            // Nobody reads any more, or nothing follows: then only our own words are waited for.
            Poll::Ready(Some(Err(_)) | None) => return flushed.map(drop),
            Poll::Pending => return Poll::Pending,
        }
    }
}

/// The last words to a peer that has no call: an event, where there is one, and why it is closed.
pub async fn part<S>(socket: &mut S, event: Option<String>, code: u16, reason: &'static str)
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
{
    let parting = async {
        if let Some(event) = event {
            socket.feed(Message::Text(event.into())).await?;
        }
        let reason = Utf8Bytes::from_static(reason);
        socket.send(Message::Close(Some(CloseFrame { code, reason }))).await?;
        std::future::poll_fn(|cx| poll_part(socket, cx)).await;
        Ok::<(), axum::Error>(())
    };
    // Whoever is gone does not hear it.
    let _ = tokio::time::timeout(PARTING_MAX, parting).await;
}
