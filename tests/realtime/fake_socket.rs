//! A socket made of queues, and a leg over it polled by hand.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use axum::extract::ws::{CloseFrame, Message};
use floorkeeper::leg::FromCaller;
use floorkeeper::transport::{Leg, LegLost};
use futures_util::{Sink, Stream};

/// Both ends of a socket, and how much it takes before it blocks.
#[derive(Default)]
pub struct Wire {
    pub incoming: VecDeque<Result<Message, axum::Error>>,
    pub ended: bool,
    pub sent: Vec<Message>,
    pub flushes: usize,
    pub blocked: bool,
}

#[derive(Clone, Default)]
pub struct FakeSocket(Arc<Mutex<Wire>>);

impl FakeSocket {
    pub fn wire<T>(&self, look: impl FnOnce(&mut Wire) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    pub fn arrives(&self, message: Message) {
        self.wire(|wire| wire.incoming.push_back(Ok(message)));
    }

    /// Types of the events that were sent, and `close N`.
    pub fn sent(&self) -> Vec<String> {
        self.wire(|wire| wire.sent.drain(..).map(|message| named(&message)).collect())
    }
}

pub fn named(message: &Message) -> String {
    match message {
        Message::Text(text) => {
            let event: serde_json::Value = serde_json::from_str(text.as_str()).unwrap();
            event["type"].as_str().unwrap().to_owned()
        }
        Message::Close(Some(CloseFrame { code, reason })) => {
            format!("close {code} {}", reason.as_str()).trim_end().to_owned()
        }
        other => panic!("a leg sends text only: {other:?}"),
    }
}

impl Stream for FakeSocket {
    type Item = Result<Message, axum::Error>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.wire(|wire| match wire.incoming.pop_front() {
            Some(message) => Poll::Ready(Some(message)),
            None if wire.ended => Poll::Ready(None),
            None => Poll::Pending,
        })
    }
}

impl Sink<Message> for FakeSocket {
    type Error = axum::Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        self.wire(|wire| if wire.blocked { Poll::Pending } else { Poll::Ready(Ok(())) })
    }

    fn start_send(self: Pin<&mut Self>, message: Message) -> Result<(), axum::Error> {
        self.wire(|wire| wire.sent.push(message));
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        self.wire(|wire| {
            wire.flushes += 1;
            if wire.blocked { Poll::Pending } else { Poll::Ready(Ok(())) }
        })
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        Poll::Ready(Ok(()))
    }
}

pub fn recv<L: Leg>(leg: &mut L) -> Poll<FromCaller> {
    leg.poll_recv(&mut Context::from_waker(Waker::noop()))
}

pub fn flush<L: Leg>(leg: &mut L) -> Poll<Result<(), LegLost>> {
    leg.poll_flush(&mut Context::from_waker(Waker::noop()))
}

pub fn part<L: Leg>(leg: &mut L) -> Poll<()> {
    leg.poll_part(&mut Context::from_waker(Waker::noop()))
}
