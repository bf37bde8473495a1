//! What all legs over a WebSocket tell a peer when they end, and how they were lost.

use axum::extract::ws::{CloseFrame, Utf8Bytes};
use tokio_tungstenite::tungstenite;

use crate::leg::HangUp;

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
        Some(Error::WriteBufferFull(_)) => ("protocol", None),
        _ => ("reset", None),
    }
}
