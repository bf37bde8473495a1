//! A Realtime session over one WebSocket, as the call's task polls it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes};
use futures_util::{Sink, Stream};

use super::outbox::Outbox;
use super::protocol::Protocol;
use super::session::Defaults;
use crate::leg::{FromCaller, HangUp, ToCaller};
use crate::transport::resume::{Resume, Ticket};
use crate::transport::websocket::{self, close_frame, how_lost};
use crate::transport::{Leg, LegLost};

/// The close code of one that goes away (RFC 6455, 7.4.1).
const CLOSE_AWAY: u16 = 1001;
/// Room that is kept for what one message says to the call.
const HEARD_KEPT: usize = 16;

/// The Realtime events over a stream of WebSocket messages (axum's `WebSocket`, in the server).
///
/// *Heard* is what was sent, by the call's own paced clock, corrected by the client's
/// `conversation.item.truncate` or `floorkeeper.heard`: over WebSocket nobody else knows.
///
/// The server bounds messages and the socket's own write buffer; that buffer has to take the
/// largest event (the largest message and some room), the bound on what waits is kept here.
#[derive(Debug)]
pub struct RealtimeLeg<S> {
    /// `None`: it is lost, and its client may come back; events wait.
    socket: Option<S>,
    protocol: Protocol,
    outbox: Outbox,
    heard: VecDeque<FromCaller>,
    /// Filled by the protocol and emptied at once: kept for its memory.
    fresh: Vec<FromCaller>,
    /// The socket may hold bytes that it has not written.
    unflushed: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    Open,
    /// A close frame is to follow what is queued.
    Closing(CloseFrame),
    /// Our close frame was handed over; the peer's is awaited.
    Closed,
    /// The connection is over.
    Gone(&'static str),
}

fn silent_close(code: u16) -> CloseFrame {
    CloseFrame { code, reason: Utf8Bytes::from_static("") }
}

impl<S> RealtimeLeg<S>
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
{
    /// A session over a connection that was just upgraded; its first words are queued.
    pub fn new(socket: S, defaults: Defaults) -> Self {
        let mut outbox = Outbox::new(&defaults.id_seed);
        let mut protocol = Protocol::new(defaults);
        let mut fresh = Vec::new();
        protocol.begin(&mut fresh, &mut outbox);
        let heard = fresh.drain(..).collect();
        let (socket, state) = (Some(socket), State::Open);
        RealtimeLeg { socket, protocol, outbox, heard, fresh, unflushed: false, state }
    }

    /// The session's protocol, to look at.
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Text(text) => {
                if matches!(self.state, State::Open) {
                    self.protocol.hear(text.as_str(), &mut self.fresh, &mut self.outbox);
                    self.heard.extend(self.fresh.drain(..));
                }
            }
            Message::Binary(_) => {
                if matches!(self.state, State::Open) {
                    self.protocol.hear_binary(&mut self.outbox);
                }
            }
            // The socket has queued the pong by itself; it only has to be flushed.
            Message::Ping(_) | Message::Pong(_) => self.unflushed = true,
            Message::Close(_) => {
                self.unflushed = true;
                self.outbox.discard();
                self.state = State::Gone("closed");
            }
        }
        if self.outbox.is_overfull() {
            self.outbox.discard();
            self.state = State::Gone("unread");
        }
    }

    /// The connection failed: says why to the peer, where it can still hear it.
    fn fail(&mut self, fault: axum::Error) {
        let (how, code) = how_lost(fault);
        self.outbox.discard();
        self.state = State::Gone(how);
        if let (Some(code), Some(socket)) = (code, &mut self.socket) {
            let close = Message::Close(Some(silent_close(code)));
            self.unflushed |= Pin::new(socket).start_send(close).is_ok();
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        let Some(socket) = &mut self.socket else { return Poll::Ready(Ok(())) };
        while !self.outbox.is_empty() {
            ready!(Pin::new(&mut *socket).poll_ready(cx))?;
            let Some(frame) = self.outbox.pop() else { break };
            // Every frame was written as JSON text, which is UTF-8.
            let text = Utf8Bytes::try_from(frame).map_err(axum::Error::new)?;
            self.unflushed = true;
            Pin::new(&mut *socket).start_send(Message::Text(text))?;
        }
        if let State::Closing(close) = &self.state {
            ready!(Pin::new(&mut *socket).poll_ready(cx))?;
            let close = Message::Close(Some(close.clone()));
            self.state = State::Closed;
            self.unflushed = true;
            Pin::new(&mut *socket).start_send(close)?;
        }
        if self.unflushed {
            ready!(Pin::new(&mut *socket).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S> Leg for RealtimeLeg<S>
where
    S: Stream<Item = Result<Message, axum::Error>>
        + Sink<Message, Error = axum::Error>
        + Unpin
        + Send,
{
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<FromCaller> {
        loop {
            if let Some(what) = self.heard.pop_front() {
                return Poll::Ready(what);
            }
            // After a message of minutes of sound these are large, and may never be so again.
            self.heard.shrink_to(HEARD_KEPT);
            self.fresh.shrink_to(HEARD_KEPT);
            if let State::Gone(how) = self.state {
                // One try for the close frame or the pong; whoever waits for it waits in
                // poll_flush.
                let _ = self.poll_write(cx);
                return Poll::Ready(FromCaller::Gone { how });
            }
            // Whoever comes back wakes the call.
            let Some(socket) = &mut self.socket else { return Poll::Pending };
            match ready!(Pin::new(socket).poll_next(cx)) {
                Some(Ok(message)) => self.take(message),
                Some(Err(fault)) => self.fail(fault),
                None => {
                    let how = if matches!(self.state, State::Closed) { "closed" } else { "reset" };
                    self.state = State::Gone(how);
                }
            }
            // What the client is answered at once goes out at once, whatever the call does next.
            if let Poll::Ready(Err(fault)) = self.poll_write(cx)
                && !matches!(self.state, State::Gone(_))
            {
                self.fail(fault);
            }
        }
    }

    fn send(&mut self, what: ToCaller) -> Result<(), LegLost> {
        match self.state {
            State::Open => {}
            State::Gone(_) => return Err(LegLost),
            // Behind the hang-up nobody is told any more; what was said before still goes out.
            State::Closing(_) | State::Closed => return Ok(()),
        }
        let goodbye = if let ToCaller::HangUp { why } = &what { Some(*why) } else { None };
        self.protocol.say(what, &mut self.outbox);
        if let Some(why) = goodbye {
            self.state = State::Closing(close_frame(why));
        }
        if self.outbox.is_overfull() {
            self.outbox.discard();
            self.state = State::Gone("unread");
            return Err(LegLost);
        }
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LegLost>> {
        match ready!(self.poll_write(cx)) {
            Ok(()) => Poll::Ready(Ok(())),
            Err(fault) => {
                if !matches!(self.state, State::Gone(_)) {
                    self.fail(fault);
                }
                Poll::Ready(Err(LegLost))
            }
        }
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !matches!(ready!(self.poll_recv(cx)), FromCaller::Gone { .. }) {}
        match &mut self.socket {
            Some(socket) => websocket::poll_part(socket, cx),
            None => Poll::Ready(()),
        }
    }

    fn name(&self) -> &'static str {
        "realtime"
    }
}

impl<S> Resume for RealtimeLeg<S>
where
    S: Stream<Item = Result<Message, axum::Error>>
        + Sink<Message, Error = axum::Error>
        + Unpin
        + Send,
{
    type Wire = S;

    fn tell_ticket(&mut self, ticket: &Ticket) {
        self.protocol.tell_ticket(ticket, &mut self.outbox);
    }

    fn hold(&mut self) {
        self.outbox.discard();
        self.unflushed = false;
        self.state = State::Open;
        // Who lives and was only silent learns of it, and comes back.
        if let Some(mut lost) = self.socket.take() {
            let mut cx = Context::from_waker(Waker::noop());
            let close = Message::Close(Some(silent_close(CLOSE_AWAY)));
            if Pin::new(&mut lost).start_send(close).is_ok() {
                let _ = Pin::new(&mut lost).poll_flush(&mut cx);
            }
        }
    }

    fn take_up(&mut self, socket: S, ticket: &Ticket) -> Option<S> {
        let before = self.socket.replace(socket);
        if before.is_some() {
            self.outbox.discard();
        }
        self.state = State::Open;
        self.heard.clear();
        self.unflushed = false;
        self.protocol.introduce_again(ticket, &mut self.outbox);
        before
    }

    fn hang_up(&mut self) {
        self.outbox.discard();
        self.state = State::Closing(close_frame(HangUp::CallerGone));
        // What cannot be written now is left.
        let _ = self.poll_write(&mut Context::from_waker(Waker::noop()));
    }
}
