//! Calls that an Asterisk brings: over its WebSocket channel driver, which is one more stream of
//! media ([`Control`]), or over AudioSocket.

pub mod audiosocket;
mod control;

pub use control::{Control, NoCall, begin};
