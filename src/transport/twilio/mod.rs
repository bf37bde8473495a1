//! Telephone calls as a WebSocket of media: Twilio Media Streams and its relatives.
//!
//! What they share is [`StreamLeg`]: a far end that buffers what it is sent, can be cleared, and
//! says by marks what it has played. How each writes that is a [`Dialect`]: one file here and one
//! line in [`DIALECTS`].

use std::collections::BTreeMap;

use axum::extract::ws::Message;

mod exotel;
mod far_end;
pub(super) mod json;
mod leg;
mod media_streams;
mod order;
mod plivo;
pub mod rest;
pub mod signature;
mod sound;
mod telnyx;
pub mod twiml;
mod vonage;

pub use leg::{BEFORE_START_MAX, StreamLeg, begin};
pub use sound::Encoding;

/// Every dialect there is; each is served at `/v1/` and its name.
pub const DIALECTS: &[&dyn Dialect] =
    &[&media_streams::TWILIO, &telnyx::TELNYX, &plivo::Plivo, &vonage::Vonage, &exotel::EXOTEL];

/// How one provider writes a media stream.
pub trait Dialect: Send + Sync + std::fmt::Debug {
    /// Its name in paths, traces and records.
    fn name(&self) -> &'static str;

    /// Reads one message; `None` is none of this dialect's.
    fn parse(&self, message: &Message) -> Option<Said>;

    /// A message is sound, as far as can be told without decoding it.
    fn is_sound(&self, message: &Message) -> bool {
        json::event(message).is_some_and(|event| event.event == "media")
    }

    /// Its far end plays a frame that is shorter than 20 ms as a whole one.
    fn wants_whole_frames(&self) -> bool {
        false
    }

    /// The agent's sound, encoded as the stream's start said.
    fn media(&self, to: &Start, sound: &[u8]) -> Message;

    /// What is said before anything else, once the call listens.
    fn opening(&self, _to: &Start) -> Option<Message> {
        None
    }

    /// A mark that comes back once all before it has been played. It may also come back because of
    /// a clear, or then not at all: both are understood.
    fn mark(&self, to: &Start, name: &str) -> Message;

    /// Throws away what the far end has buffered.
    fn clear(&self, to: &Start) -> Message;
}

/// What the provider's end says.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The stream begins: who calls, and how sound is encoded.
    Start(Box<Start>),
    /// The caller's sound.
    Media {
        /// Of which stream, where that is said.
        stream: Option<String>,
        /// Its number in the stream, where there is one.
        chunk: Option<u64>,
        /// The encoded sound.
        sound: Vec<u8>,
    },
    /// A key was pressed.
    Key(char),
    /// The far end's buffer is full: nothing more is sent until it has room.
    Full,
    /// It has room again.
    HasRoom,
    /// All in front of this mark was played, or thrown away.
    Mark(String),
    /// The caller has hung up.
    Stop,
    /// Nothing that a call has to know.
    Nothing,
}

/// What is known of a stream at its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// The stream's own name, which some want to see in all they are sent.
    pub stream: String,
    /// The provider's name for the telephone call.
    pub call: String,
    /// Who calls, where the provider says so by itself.
    pub from: String,
    /// Whom they called.
    pub to: String,
    /// What the answer to the webhook gave the stream.
    pub params: BTreeMap<String, String>,
    /// How sound is encoded, both ways.
    pub encoding: Encoding,
}
