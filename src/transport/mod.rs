//! The ports to the caller: a transport turns bytes into [`FromCaller`] and [`ToCaller`] into
//! bytes.
//!
//! A leg is polled by the one task that drives its call. It never spawns, never blocks, and decides
//! nothing about the conversation. Its doc comment says what its *heard* evidence is.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::leg::{FromCaller, ToCaller};
use crate::time::Timestamp;

pub mod asterisk;
mod jitter;
pub mod moving;
pub mod places;
pub mod realtime;
pub mod resume;
pub mod sip;
pub mod twilio;
mod voice;
pub mod webrtc;
pub mod websocket;

/// Rates of the agent's sound on a leg, in Hz: prompts are brought to them before the first call.
pub const LEG_RATES_HZ: [u32; 3] = [24_000, 16_000, 8_000];

/// One connected caller.
pub trait Leg: Send {
    /// The next thing the caller's end says. [`FromCaller::Gone`] is the last one. Cancel-safe.
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<FromCaller>;

    /// Encodes and buffers; never waits. A peer that does not read fills the bounded buffer and is
    /// lost. What comes behind a hang-up goes nowhere, and loses nothing that came before it.
    fn send(&mut self, what: ToCaller) -> Result<(), LegLost>;

    /// Pushes buffered bytes towards the peer. Ready when nothing is buffered. Cancel-safe.
    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LegLost>>;

    /// Reads on, unheard, until the peer has answered our last words, also behind
    /// [`FromCaller::Gone`]: a connection that is dropped with something unread is reset, and the
    /// reset overtakes the last words. Cancel-safe.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while !matches!(ready!(self.poll_recv(cx)), FromCaller::Gone { .. }) {}
        Poll::Ready(())
    }

    /// Its callers expect to be greeted (phones and media streams); clients of a protocol speak
    /// first or ask for it.
    fn greets(&self) -> bool {
        false
    }

    /// The most that this transport may be sent ahead of its own time, where that is less than the
    /// configuration allows. The far end's delay comes on top of it.
    fn lead_max(&self) -> Option<Duration> {
        None
    }

    /// The caller hears what was sent so much later, as far as we can know.
    fn far_end_delay(&self) -> Duration {
        Duration::ZERO
    }

    /// How its caller can be sent to somebody else, where the transport can do that.
    fn transfer(&self) -> Option<Box<dyn Transfer>> {
        None
    }

    /// The transport's name in traces and records: `realtime`, `twilio`, …
    fn name(&self) -> &'static str;
}

/// Sends a caller to somebody else, beside their call, which goes on until they are there.
pub trait Transfer: Send {
    /// Where it can have them go; none: to any SIP address.
    fn target(&self) -> Option<String> {
        None
    }

    /// Has them go there; resolves when it is known what came of it.
    fn to(self: Box<Self>, target: String) -> Pin<Box<dyn Future<Output = Transferred> + Send>>;
}

/// What came of sending a caller to somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transferred {
    /// They speak with each other.
    Connected,
    /// The other end was busy.
    Busy,
    /// Nobody answered there, or nobody knows.
    NoAnswer,
    /// They, or the caller's own telephone, said no.
    Declined,
    /// The call has ended meanwhile.
    Lost,
}

/// The connection is gone, or the peer does not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the caller's connection is lost")]
pub struct LegLost;

/// The process's clock: a transport reads none of its own.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;

    /// The instant at which this clock shows `at`.
    fn instant(&self, at: Timestamp) -> tokio::time::Instant;

    /// What this clock shows at that instant.
    fn at(&self, instant: std::time::Instant) -> Timestamp;
}
