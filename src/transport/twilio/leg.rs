//! A media stream over one WebSocket, as the call's task polls it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes};
use futures_util::{Sink, Stream, StreamExt};
use tokio::time::Sleep;

use super::far_end::FarEnd;
use super::order::Order;
use super::sound::SoundIn;
use super::{Dialect, Said, Start};
use crate::audio::Pcm;
use crate::id::ItemId;
use crate::leg::{FromCaller, HangUp, PlayoutState, ToCaller};
use crate::time::ms;
use crate::transport::moving::{self, Leaving, Mover};
use crate::transport::websocket::{self, close_frame, how_lost};
use crate::transport::{Leg, LegLost, Transfer};

/// Frames of sound that may wait for a peer that reads slowly: ten seconds.
const QUEUE_MAX_FRAMES: usize = 500;
/// Messages of one stream that may make no sense; one that says more nonsense is ended.
const WRONG_MAX: u32 = 50;
/// The goodbye is heard to its end for so long at most.
const LINGER_MAX: Duration = ms(1_500);
/// Most messages before the stream's start.
pub const BEFORE_START_MAX: usize = 16;

/// Waits for the stream's start; what comes before it is nobody's. The reason why there is none
/// is told to the peer.
pub async fn begin<S>(socket: &mut S, dialect: &dyn Dialect) -> Result<Start, &'static str>
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
{
    for _ in 0..BEFORE_START_MAX {
        match socket.next().await {
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Close(_))) | None => return Err("closed"),
            Some(Err(_)) => return Err("reset"),
            Some(Ok(message)) => match dialect.parse(&message) {
                Some(Said::Start(start)) => return Ok(*start),
                Some(Said::Stop) => return Err("closed"),
                Some(_) | None => {}
            },
        }
    }
    Err("protocol")
}

/// One stream of media between a telephone call and ours.
///
/// *Heard* are the far end's marks: behind the first frame, every 200 ms and behind each phrase one
/// is sent, and what comes back corrects the call's paced clock. A clear forgets the marks that are
/// out: those that it returns are no evidence.
///
/// A pause clears the far end at once. What was not heard is kept and sent again when the agent
/// goes on.
pub struct StreamLeg<S> {
    socket: S,
    dialect: &'static dyn Dialect,
    start: Start,
    sound_in: SoundIn,
    order: Order,
    far_end: FarEnd,
    out: VecDeque<Message>,
    queued_bytes: usize,
    /// Bytes that [`QUEUE_MAX_FRAMES`] have as this dialect writes them.
    queue_max_bytes: usize,
    heard: VecDeque<FromCaller>,
    /// Messages that made no sense.
    wrong: u32,
    /// The socket may hold bytes that it has not written.
    unflushed: bool,
    /// The far end wants nothing more for now.
    held: bool,
    state: State,
    /// Who can move the caller to somebody else.
    mover: Option<Arc<dyn Mover>>,
    leaving: Leaving,
}

#[derive(Debug)]
enum State {
    Open,
    /// Hung up; what the caller still hears of the goodbye is waited for.
    Lingering(CloseFrame, Pin<Box<Sleep>>),
    /// A close frame is to follow what is queued.
    Closing(CloseFrame),
    /// Our close frame was handed over.
    Closed,
    /// The stream has ended so, and its caller is on their way to somebody else.
    Leaving(&'static str),
    /// The connection is over.
    Gone(&'static str),
}

impl<S> StreamLeg<S>
where
    S: Stream<Item = Result<Message, axum::Error>> + Sink<Message, Error = axum::Error> + Unpin,
{
    /// A stream that has begun.
    pub fn new(socket: S, dialect: &'static dyn Dialect, start: Start) -> Self {
        let frame = dialect.media(&start, &vec![0; start.encoding.frame_bytes()]);
        let opening = dialect.opening(&start);
        let mut leg = StreamLeg {
            queue_max_bytes: bytes(&frame) * QUEUE_MAX_FRAMES,
            sound_in: SoundIn::new(start.encoding),
            far_end: FarEnd::new(start.encoding),
            socket,
            dialect,
            start,
            order: Order::default(),
            out: VecDeque::new(),
            queued_bytes: 0,
            heard: VecDeque::new(),
            wrong: 0,
            unflushed: false,
            held: false,
            state: State::Open,
            mover: None,
            leaving: Leaving::default(),
        };
        opening.into_iter().for_each(|message| leg.push(message));
        leg
    }

    /// The same, whose caller can be moved to somebody else.
    pub fn movable(mut self, mover: Option<Arc<dyn Mover>>) -> Self {
        self.mover = mover;
        self
    }

    fn take(&mut self, message: Message) {
        match message {
            // The socket has queued the pong by itself; it only has to be flushed.
            Message::Ping(_) | Message::Pong(_) => self.unflushed = true,
            Message::Close(_) => {
                self.unflushed = true;
                self.be_gone("closed", None);
            }
            Message::Text(_) | Message::Binary(_) => match self.state {
                State::Open => self.hear(&message),
                State::Lingering(..) => self.hear_last(&message),
                State::Closing(_) | State::Closed | State::Leaving(_) | State::Gone(_) => {}
            },
        }
    }

    fn hear(&mut self, message: &Message) {
        match self.dialect.parse(message) {
            Some(Said::Media { stream, chunk, sound }) => {
                if stream.is_some_and(|stream| stream != self.start.stream) {
                    return self.hear_nonsense();
                }
                for sound in self.order.take(chunk, sound) {
                    let samples = self.sound_in.hear(&sound);
                    self.heard.push_back(FromCaller::Audio(samples));
                }
            }
            Some(Said::Key(key)) => self.heard.push_back(FromCaller::Dtmf(key)),
            Some(Said::Mark(name)) => self.hear_mark(&name),
            Some(Said::Full) => self.held = true,
            Some(Said::HasRoom) => self.held = false,
            Some(Said::Stop) => self.be_gone("closed", Some(1000)),
            Some(Said::Nothing) => {}
            Some(Said::Start(_)) | None => self.hear_nonsense(),
        }
    }

    /// The call is over, and nobody meters what still comes: sound is not even decoded.
    fn hear_last(&mut self, message: &Message) {
        if self.dialect.is_sound(message) {
            return;
        }
        match self.dialect.parse(message) {
            Some(Said::Mark(name)) => self.hear_mark(&name),
            Some(Said::Full) => self.held = true,
            Some(Said::HasRoom) => self.held = false,
            Some(Said::Stop) => self.be_gone("closed", Some(1000)),
            Some(Said::Media { .. } | Said::Key(_) | Said::Nothing) => {}
            Some(Said::Start(_)) | None => self.hear_nonsense(),
        }
    }

    fn hear_mark(&mut self, name: &str) {
        if let Some((item, played)) = self.far_end.played(name) {
            self.heard.push_back(FromCaller::Heard { item, played });
        }
    }

    /// It changes nothing; who goes on like that is no telephone network.
    fn hear_nonsense(&mut self) {
        self.wrong += 1;
        if self.wrong > WRONG_MAX {
            self.be_gone("protocol", Some(1008));
        }
    }

    /// The connection is over; the peer is told where it can still hear it.
    fn be_gone(&mut self, how: &'static str, close_code: Option<u16>) {
        self.discard();
        self.state = match self.leaving.stream_ends() {
            true => State::Leaving(how),
            false => self.gone(how),
        };
        if let Some(code) = close_code {
            let close = CloseFrame { code, reason: Utf8Bytes::from_static(how) };
            let sent = Pin::new(&mut self.socket).start_send(Message::Close(Some(close)));
            self.unflushed |= sent.is_ok();
        }
    }

    fn gone(&self, how: &'static str) -> State {
        self.leaving.has_gone();
        State::Gone(how)
    }

    /// The connection failed: says why to the peer, where it can still hear it.
    fn fail(&mut self, fault: axum::Error) {
        let (how, close_code) = how_lost(fault);
        self.be_gone(how, close_code);
    }

    fn discard(&mut self) {
        self.out.clear();
        self.queued_bytes = 0;
    }

    fn push(&mut self, message: Message) {
        self.queued_bytes += bytes(&message);
        self.out.push_back(message);
    }

    /// A mark behind what was sent, unless one stands there.
    fn push_mark(&mut self) {
        if let Some(name) = self.far_end.mark() {
            self.push(self.dialect.mark(&self.start, &name));
        }
    }

    fn say(&mut self, what: ToCaller) {
        match what {
            ToCaller::Audio { item, pcm, .. } => self.say_sound(&item, &pcm),
            // A phrase begins here: what was sent so far is one to its end.
            ToCaller::Text { .. } => self.push_mark(),
            ToCaller::MessageEnded { item, .. } if self.far_end.is_of_another(&item) => {}
            ToCaller::MessageEnded { .. } => self.end_item(),
            ToCaller::ClearFarEnd { .. } => self.clear(),
            ToCaller::Playout { state, item, played } => match state {
                PlayoutState::Paused => self.clear(),
                PlayoutState::Resumed => self.say_again(&item, played),
                PlayoutState::Cleared => {}
            },
            ToCaller::HangUp { why } => self.hang_up(why),
            // The rest is for clients that show it.
            _ => {}
        }
    }

    fn say_sound(&mut self, item: &ItemId, pcm: &Pcm) {
        if self.far_end.is_of_another(item) {
            self.end_item();
        }
        self.far_end.give(item, &self.start.encoding.encode(&pcm.samples));
        self.push_sound();
    }

    fn push_sound(&mut self) {
        while let Some(mut sound) = self.far_end.send() {
            if self.dialect.wants_whole_frames() {
                self.start.encoding.fill_frame(&mut sound);
            }
            self.push(self.dialect.media(&self.start, &sound));
            if self.far_end.mark_is_due() {
                self.push_mark();
            }
        }
    }

    /// Nothing follows of what sounds: the rest of it goes out, and is marked.
    fn end_item(&mut self) {
        self.far_end.end();
        self.push_sound();
        self.push_mark();
    }

    /// What is queued here goes as well: nothing of it may follow the clear.
    fn clear(&mut self) {
        self.discard();
        // Cleared, the far end has room.
        self.held = false;
        self.far_end.clear();
        self.push(self.dialect.clear(&self.start));
    }

    fn say_again(&mut self, item: &ItemId, heard: Duration) {
        self.far_end.rewind(item, heard);
        self.push_sound();
        self.push_mark();
    }

    /// The provider ends the telephone call when the stream is closed.
    fn hang_up(&mut self, why: HangUp) {
        let close = close_frame(why);
        let last_words = why.lets_finish();
        if last_words {
            self.end_item();
        }
        self.state = match last_words && self.far_end.is_playing() {
            true => State::Lingering(close, Box::pin(tokio::time::sleep(LINGER_MAX))),
            false => State::Closing(close),
        };
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), axum::Error>> {
        while !self.held && !self.out.is_empty() {
            ready!(Pin::new(&mut self.socket).poll_ready(cx))?;
            let Some(message) = self.out.pop_front() else { break };
            self.queued_bytes -= bytes(&message);
            self.unflushed = true;
            Pin::new(&mut self.socket).start_send(message)?;
        }
        if let State::Closing(close) = &self.state {
            let close = Message::Close(Some(close.clone()));
            ready!(Pin::new(&mut self.socket).poll_ready(cx))?;
            self.state = State::Closed;
            self.unflushed = true;
            Pin::new(&mut self.socket).start_send(close)?;
        }
        if self.unflushed {
            ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Ready once a message was taken or the connection is over.
    fn poll_take(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let was_held = self.held;
        match ready!(Pin::new(&mut self.socket).poll_next(cx)) {
            Some(Ok(message)) => {
                self.take(message);
                if was_held && !self.held {
                    // What was held back is for poll_flush, and nothing else need wake it.
                    cx.waker().wake_by_ref();
                }
            }
            Some(Err(fault)) => self.fail(fault),
            None => {
                let how = if matches!(self.state, State::Closed) { "closed" } else { "reset" };
                self.be_gone(how, None);
            }
        }
        Poll::Ready(())
    }

    /// The goodbye was heard, or had its time: now the stream is closed.
    fn poll_lingered(&mut self, cx: &mut Context<'_>) -> bool {
        let State::Lingering(close, sleep) = &mut self.state else { return false };
        let is_over = !self.far_end.is_playing() || sleep.as_mut().poll(cx).is_ready();
        if is_over {
            self.state = State::Closing(close.clone());
        }
        is_over
    }
}

impl<S> Leg for StreamLeg<S>
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
            if let State::Leaving(how) = self.state {
                ready!(self.leaving.poll_given_up(cx));
                self.state = self.gone(how);
            }
            if let State::Gone(how) = self.state {
                // One try for the close frame; whoever waits for it waits in poll_flush.
                let _ = self.poll_write(cx);
                return Poll::Ready(FromCaller::Gone { how });
            }
            ready!(self.poll_take(cx));
        }
    }

    fn send(&mut self, what: ToCaller) -> Result<(), LegLost> {
        match self.state {
            State::Open => {}
            State::Gone(_) => return Err(LegLost),
            // Nobody is told anything, and the caller has not gone.
            State::Leaving(how) if matches!(what, ToCaller::HangUp { .. }) => {
                self.state = self.gone(how);
                return Ok(());
            }
            // Behind the hang-up nobody is told any more; what was said before still goes out.
            _ => return Ok(()),
        }
        self.say(what);
        if self.queued_bytes > self.queue_max_bytes {
            self.be_gone("protocol", None);
            return Err(LegLost);
        }
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LegLost>> {
        loop {
            if let Err(fault) = ready!(self.poll_write(cx)) {
                if matches!(self.state, State::Leaving(_)) {
                    return Poll::Ready(Ok(()));
                }
                if !matches!(self.state, State::Gone(_)) {
                    self.fail(fault);
                }
                return Poll::Ready(Err(LegLost));
            }
            if !matches!(self.state, State::Lingering(..)) {
                return Poll::Ready(Ok(()));
            }
            if !self.poll_lingered(cx) {
                ready!(self.poll_take(cx));
            }
        }
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !matches!(ready!(self.poll_recv(cx)), FromCaller::Gone { .. }) {}
        websocket::poll_part(&mut self.socket, cx)
    }

    fn greets(&self) -> bool {
        true
    }

    fn transfer(&self) -> Option<Box<dyn Transfer>> {
        let mover = self.mover.clone()?;
        Some(moving::transfer(mover, self.leaving.clone()))
    }

    fn name(&self) -> &'static str {
        self.dialect.name()
    }
}

impl<S> Drop for StreamLeg<S> {
    fn drop(&mut self) {
        self.leaving.has_gone();
    }
}

fn bytes(message: &Message) -> usize {
    match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
        Message::Close(_) => 0,
    }
}
