//! The Realtime event protocol, and its leg over WebSocket.
//!
//! [`Protocol`] is the session's protocol as a pure machine: client events in, server events out,
//! in the order that the protocol promises, whatever [`Medium`] is beneath. [`RealtimeLeg`] runs it
//! over a WebSocket, [`super::webrtc`] over a peer connection, where [`OutputBuffer`] says what of
//! the sound is played. [`handshake`] and [`secrets`] are what comes before: which subprotocol,
//! whose key, and keys for browsers.
//!
//! A new client event is one line in `hear.rs`; a new server event one arm in `say.rs`; a new
//! setting a field in `session.rs` and its merge in `update.rs`.

mod answers;
mod fields;
mod format;
pub mod handshake;
mod hear;
mod items;
mod leg;
mod names;
mod outbox;
mod output_buffer;
mod protocol;
mod request;
mod say;
pub mod secrets;
mod session;
mod tools;
mod turns;
mod update;
mod wrong;

pub use format::PCM_RATE_HZ;
pub use hear::CLIENT_EVENTS;
pub use leg::RealtimeLeg;
pub use outbox::Outbox;
pub use output_buffer::{Audible, OutputBuffer};
pub use protocol::{Medium, Protocol, preview_session};
pub use session::Defaults;
pub use wrong::{Wrong, error_event};
