//! One connection: frames in, frames out, nothing waits without a bound.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::count::{Count, Counts};
use super::frame::{self, Frame, TooLong};

/// Bytes that are read at a time.
const READ_BYTES: usize = 4 * 1024;

#[derive(Debug)]
pub(super) struct Line<S> {
    io: S,
    inbox: BytesMut,
    outbox: VecDeque<Bytes>,
    /// Bytes in the outbox.
    waiting: usize,
    /// The front of the outbox is partly written.
    is_begun: bool,
    counts: Arc<Counts>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    pub fn new(io: S, counts: Arc<Counts>) -> Line<S> {
        Line {
            io,
            inbox: BytesMut::new(),
            outbox: VecDeque::new(),
            waiting: 0,
            is_begun: false,
            counts,
        }
    }

    /// The next frame, or how the connection was lost: `closed`, `reset`, `protocol`.
    pub fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frame, &'static str>> {
        loop {
            match frame::take(&mut self.inbox) {
                Ok(Some(frame)) => {
                    match frame {
                        Frame::Unknown => self.counts.add(Count::UnknownKind),
                        Frame::Malformed => self.counts.add(Count::Malformed),
                        _ => {}
                    }
                    return Poll::Ready(Ok(frame));
                }
                Ok(None) => {}
                Err(TooLong) => {
                    self.counts.add(Count::TooLong);
                    return Poll::Ready(Err("protocol"));
                }
            }
            let mut bytes = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut bytes);
            match ready!(Pin::new(&mut self.io).poll_read(cx, &mut read)) {
                Ok(()) if !read.filled().is_empty() => {
                    self.inbox.extend_from_slice(read.filled());
                }
                // Between two frames it is an end, within one it is none.
                Ok(()) if self.inbox.is_empty() => return Poll::Ready(Err("closed")),
                Ok(()) | Err(_) => return Poll::Ready(Err("reset")),
            }
        }
    }

    /// The next frame.
    pub async fn frame(&mut self) -> Result<Frame, &'static str> {
        std::future::poll_fn(|cx| self.poll_frame(cx)).await
    }

    pub fn push(&mut self, frame: Bytes) {
        self.waiting += frame.len();
        self.outbox.push_back(frame);
    }

    /// Bytes that have not been written.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Nothing of what has not begun to be written is wanted any more.
    pub fn discard(&mut self) {
        self.outbox.truncate(usize::from(self.is_begun));
        self.waiting = self.outbox.iter().map(Bytes::len).sum();
    }

    /// Ready once all is written, or the connection lost.
    pub fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        while let Some(front) = self.outbox.front_mut() {
            match ready!(Pin::new(&mut self.io).poll_write(cx, front)) {
                Ok(written) if written > 0 => {
                    front.advance(written);
                    self.waiting -= written;
                    self.is_begun = !front.is_empty();
                    if !self.is_begun {
                        self.outbox.pop_front();
                    }
                }
                Ok(_) | Err(_) => return Poll::Ready(Err("reset")),
            }
        }
        Pin::new(&mut self.io).poll_flush(cx).map_err(|_| "reset")
    }

    /// The same, and that nothing follows.
    pub fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        ready!(self.poll_write(cx))?;
        Pin::new(&mut self.io).poll_shutdown(cx).map_err(|_| "reset")
    }

    /// Reads on, unheard, until the peer has gone.
    pub fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        // Whoever does not take our last words is parted from all the same.
        let _ = self.poll_close(cx);
        loop {
            let mut bytes = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut bytes);
            let polled = ready!(Pin::new(&mut self.io).poll_read(cx, &mut read));
            if polled.is_err() || read.filled().is_empty() {
                return Poll::Ready(());
            }
        }
    }
}
