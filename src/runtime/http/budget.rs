//! What all clients together may be sending in large messages: a reader that follows the frames of
//! one WebSocket and stops reading until the process has room for what a frame announces.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// Messages up to this size need no room of their own.
const FREE_BYTES: u64 = 1 << 20;
/// Room of all larger ones together.
const ALL_BYTES: usize = 64 << 20;
/// Room is counted in pieces of this many bytes.
const PIECE_BYTES: u64 = 1 << 10;

/// The room that all connections share.
pub(super) fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(ALL_BYTES / PIECE_BYTES as usize))
}

/// A client's bytes, behind the handshake.
///
/// Two that wait for each other's room are let go by the deadline for silence ([`super::kept`]).
pub(super) struct Budgeted<S> {
    stream: S,
    frames: Frames,
    room: PollSemaphore,
    held: Option<OwnedSemaphorePermit>,
    /// The largest message; nothing beyond it is ever kept.
    message_max: u64,
}

impl<S> Budgeted<S> {
    pub fn new(stream: S, room: Arc<Semaphore>, message_max: u64) -> Self {
        let room = PollSemaphore::new(room);
        Budgeted { stream, frames: Frames::default(), room, held: None, message_max }
    }

    /// Ready once there is room for the message that is being read.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let bytes = self.frames.message_bytes.min(self.message_max);
        if bytes <= FREE_BYTES {
            self.held = None;
            return Poll::Ready(());
        }
        let wanted = bytes.div_ceil(PIECE_BYTES) as usize;
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if held < wanted {
            let more = u32::try_from(wanted - held).unwrap_or(u32::MAX);
            // The room is never closed; if it were, nobody would be held up.
            let Some(more) = ready!(self.room.poll_acquire_many(cx, more)) else {
                return Poll::Ready(());
            };
            match &mut self.held {
                Some(held) => held.merge(more),
                None => self.held = Some(more),
            }
        }
        Poll::Ready(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Budgeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_room(cx));
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        self.frames.follow(&into.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Budgeted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Follows frames by their heads (RFC 6455, section 5.2). What is wrong with them others say.
#[derive(Debug, Default)]
struct Frames {
    head: [u8; 14],
    head_bytes: usize,
    /// Bytes of the present frame's payload that are still to come.
    payload_left: u64,
    /// The message ends with the present frame.
    last: bool,
    /// What the present message's frames have announced so far.
    message_bytes: u64,
}

impl Frames {
    fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let here = self.payload_left.min(bytes.len() as u64);
                self.payload_left -= here;
                bytes = &bytes[here as usize..];
            } else {
                self.begin_message_behind_last();
                self.head[self.head_bytes] = bytes[0];
                self.head_bytes += 1;
                bytes = &bytes[1..];
                if self.head_bytes == self.head_length() {
                    self.take_head();
                }
            }
        }
        if self.payload_left == 0 {
            self.begin_message_behind_last();
        }
    }

    fn begin_message_behind_last(&mut self) {
        if std::mem::take(&mut self.last) {
            self.message_bytes = 0;
        }
    }

    /// How long the present head is, as far as it is known: at least one byte more than there is.
    fn head_length(&self) -> usize {
        if self.head_bytes < 2 {
            return 2;
        }
        let length = match self.head[1] & 0x7f {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length + if self.head[1] & 0x80 == 0 { 0 } else { 4 }
    }

    fn take_head(&mut self) {
        self.head_bytes = 0;
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        self.payload_left = match self.head[1] & 0x7f {
            126 => number(&self.head[2..4]),
            127 => number(&self.head[2..10]),
            short => u64::from(short),
        };
        let is_control = self.head[0] & 0x08 != 0;
        if !is_control {
            self.message_bytes = self.message_bytes.saturating_add(self.payload_left);
            self.last = self.head[0] & 0x80 != 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn frame(first: u8, length: usize) -> Vec<u8> {
        let mut bytes = vec![first, 0x80 | 127];
        bytes.extend((length as u64).to_be_bytes());
        bytes.extend([0; 4]);
        bytes.resize(bytes.len() + length, b'x');
        bytes
    }

    #[test]
    fn frames_are_followed_however_they_are_cut() {
        let mut bytes = frame(0x01, 300);
        bytes.extend([0x89, 0x81, 0, 0, 0, 0, 7]);
        bytes.extend([0x80, 0x80 | 126, 1, 0, 0, 0, 0, 0]);
        bytes.extend([b'y'; 256]);
        bytes.extend([0x81, 0x80, 0, 0, 0, 0]);
        bytes.extend([0x81, 0x82, 0, 0, 0, 0, b'{']);
        for step in [1, 2, 3, 7, 64, bytes.len()] {
            let mut frames = Frames::default();
            let mut most = 0;
            for piece in bytes.chunks(step) {
                frames.follow(piece);
                most = most.max(frames.message_bytes);
            }
            assert_eq!((frames.message_bytes, frames.payload_left), (2, 1), "in steps of {step}");
            assert!(step > 64 || most == 556, "a ping between fragments is no part: {most}");
        }
    }

    /// Takes this many bytes as the server does, eight KiB at a time, or says that they do not
    /// come.
    async fn take<S: AsyncRead + Unpin>(from: &mut S, bytes: usize) -> bool {
        let mut taken = [0; 8 * 1024];
        let mut left = bytes;
        while left > 0 {
            let most = left.min(taken.len());
            let read = from.read(&mut taken[..most]);
            match tokio::time::timeout(std::time::Duration::from_secs(1), read).await {
                Ok(read) => left -= read.unwrap(),
                Err(_) => return false,
            }
        }
        true
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_message_waits_for_room_and_gives_it_back() {
        let room = Arc::new(Semaphore::new(3 << 10));
        let large = frame(0x81, 2 << 20);
        let pair = || tokio::io::duplex(8 << 20);
        let ((mut first, one), (mut second, two)) = (pair(), pair());
        let mut one = Budgeted::new(one, room.clone(), 4 << 20);
        let mut two = Budgeted::new(two, room.clone(), 4 << 20);
        first.write_all(&large).await.unwrap();
        second.write_all(&large).await.unwrap();
        assert!(take(&mut one, 1 << 20).await, "there is room for one");
        assert!(!take(&mut two, 1 << 20).await, "and for one only");
        assert!(take(&mut one, large.len() - (1 << 20)).await);
        assert!(!take(&mut one, 1).await, "nothing follows");
        assert!(take(&mut two, 1 << 20).await, "the room came back");
        drop(two);
        assert_eq!(room.available_permits(), 3 << 10);
    }

    #[tokio::test]
    async fn small_messages_need_no_room() {
        let (mut client, server) = tokio::io::duplex(4 << 20);
        let mut server = Budgeted::new(server, Arc::new(Semaphore::new(0)), 4 << 20);
        for _ in 0..3 {
            let small = frame(0x81, 1 << 20);
            client.write_all(&small).await.unwrap();
            assert!(take(&mut server, small.len()).await);
        }
    }
}
