//! The queue of ready event texts, and the writer that puts one together without a value tree.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

use super::output_buffer::Audible;

/// Size of the buffer that frames are written into and cut from; some five audio deltas.
const ARENA_BYTES: usize = 8 * 1024;
/// Bytes that may wait for a peer that reads slowly, large events apart.
const QUEUE_MAX_BYTES: usize = 256 * 1024;
/// From this size on an event is a large one: an item or a session that the client itself wrote.
const LARGE_BYTES: usize = 64 * 1024;
/// Large events that may wait. One item of the client's is shown twice, and settings whole.
const LARGE_MAX: usize = 4;

/// Events that are ready to be sent, oldest first, each one JSON text.
#[derive(Debug)]
pub struct Outbox {
    arena: BytesMut,
    frames: VecDeque<Bytes>,
    /// What is heard and not read; only where sound has a way of its own.
    audible: VecDeque<Audible>,
    queued_bytes: usize,
    /// How many large events wait, and their bytes.
    large: (usize, usize),
    ids: Ids,
}

impl Outbox {
    /// An empty queue; `id_seed` makes its event ids unlike those of any other session.
    pub fn new(id_seed: &str) -> Self {
        Outbox {
            arena: BytesMut::with_capacity(ARENA_BYTES),
            frames: VecDeque::new(),
            audible: VecDeque::new(),
            queued_bytes: 0,
            large: (0, 0),
            ids: Ids { seed: id_seed.into(), events: 0 },
        }
    }

    /// Takes the oldest event. It is valid UTF-8.
    pub fn pop(&mut self) -> Option<Bytes> {
        let frame = self.frames.pop_front()?;
        self.queued_bytes -= frame.len();
        if frame.len() >= LARGE_BYTES {
            self.large = (self.large.0 - 1, self.large.1 - frame.len());
        }
        Some(frame)
    }

    /// Puts an event that another outbox has written behind all others.
    pub fn push(&mut self, frame: Bytes) {
        self.queued_bytes += frame.len();
        if frame.len() >= LARGE_BYTES {
            self.large = (self.large.0 + 1, self.large.1 + frame.len());
        }
        self.frames.push_back(frame);
    }

    /// Takes the oldest of what is to be heard.
    pub fn pop_audible(&mut self) -> Option<Audible> {
        self.audible.pop_front()
    }

    pub(super) fn sound(&mut self, what: Audible) {
        self.audible.push_back(what);
    }

    /// The oldest event, which stays.
    pub fn peek(&self) -> Option<&Bytes> {
        self.frames.front()
    }

    /// Takes the oldest event as text: for tests and tools.
    pub fn pop_text(&mut self) -> Option<String> {
        self.pop().map(|frame| String::from_utf8_lossy(&frame).into_owned())
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// More waits than any peer that reads lets wait.
    pub fn is_overfull(&self) -> bool {
        let (large, large_bytes) = self.large;
        self.queued_bytes - large_bytes > QUEUE_MAX_BYTES || large > LARGE_MAX
    }

    /// Bytes that wait.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Events that wait.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Forgets what waits: the peer will not get it.
    pub fn discard(&mut self) {
        self.frames.clear();
        self.audible.clear();
        (self.queued_bytes, self.large) = (0, (0, 0));
    }

    /// Begins an event of this type; it is queued by [`EventWriter::queue`].
    pub(super) fn event(&mut self, kind: &'static str) -> EventWriter<'_> {
        self.arena.clear();
        self.arena.reserve(512);
        self.ids.events += 1;
        let mut event = EventWriter { outbox: self };
        event.put(b"{\"type\":\"");
        event.put(kind.as_bytes());
        event.put(b"\",\"event_id\":\"event_");
        event.put_event_number();
        event.put(b"\"");
        event
    }
}

#[derive(Debug)]
struct Ids {
    seed: Box<str>,
    events: u64,
}

/// Writes one event, field by field, in the order given.
pub(super) struct EventWriter<'a> {
    outbox: &'a mut Outbox,
}

impl EventWriter<'_> {
    /// Adds a field. The key must need no escape.
    pub fn field<T: Serialize + ?Sized>(mut self, key: &'static str, value: &T) -> Self {
        self.key(key);
        // Writing into memory cannot fail, and none of our values has a map with keys that are no
        // text.
        let written = serde_json::to_writer((&mut self.outbox.arena).writer(), value);
        debug_assert!(written.is_ok(), "an event's field is always JSON: {written:?}");
        self
    }

    /// Adds a field whose value is JSON already.
    pub fn json(mut self, key: &'static str, value: &str) -> Self {
        self.key(key);
        self.put(value.as_bytes());
        self
    }

    /// Adds a field of bytes as base64 text.
    pub fn base64(mut self, key: &'static str, bytes: &[u8]) -> Self {
        use base64::Engine as _;
        self.key(key);
        let start = self.outbox.arena.len() + 1;
        let room = bytes.len().div_ceil(3) * 4;
        self.put(b"\"");
        self.outbox.arena.resize(start + room, b'"');
        let text = &mut self.outbox.arena[start..];
        let written = base64::engine::general_purpose::STANDARD.encode_slice(bytes, text);
        debug_assert_eq!(written, Ok(room), "padded base64 has exactly this length");
        self.put(b"\"");
        self
    }

    /// Ends the event and puts it into the queue.
    pub fn queue(mut self) {
        self.put(b"}");
        let frame = self.outbox.arena.split().freeze();
        if frame.len() > ARENA_BYTES {
            // Its buffer was made for it alone and would be kept for the smaller ones that follow.
            self.outbox.arena = BytesMut::with_capacity(ARENA_BYTES);
        }
        self.outbox.push(frame);
    }

    fn key(&mut self, key: &'static str) {
        self.put(b",\"");
        self.put(key.as_bytes());
        self.put(b"\":");
    }

    fn put(&mut self, bytes: &[u8]) {
        self.outbox.arena.extend_from_slice(bytes);
    }

    fn put_event_number(&mut self) {
        use std::fmt::Write as _;
        let Ids { seed, events } = &self.outbox.ids;
        // Writing into memory cannot fail.
        let _ = write!(self.outbox.arena, "{seed}_{events}");
    }
}
