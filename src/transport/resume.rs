//! A leg that outlives its connection: its client may come back to the same call.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{Clock, Leg, LegLost};
use crate::leg::{FromCaller, Line, ToCaller};
use crate::time::Timestamp;

/// How a caller has gone whose client did not come back in time.
pub const NOT_RESUMED: &str = "not_resumed";

/// With what a client comes back, as it is told on each connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The call.
    pub call: String,
    /// The connection that it is told on; the first of a call is 1.
    pub connection: u32,
    /// Good for the next connection, once.
    pub token: String,
    /// How long the call is kept once this connection is lost.
    pub kept_for: Duration,
}

/// A leg that can go on over another connection.
pub trait Resume: Leg {
    /// What a connection is made of.
    type Wire: Send;

    /// Tells the client with what to come back.
    fn tell_ticket(&mut self, ticket: &Ticket);

    /// When something last came from the client, where the leg itself says things in between.
    fn last_sign(&self) -> Option<Timestamp> {
        None
    }

    /// The connection is lost. What the call says from now on is kept for a client that comes back,
    /// sound apart.
    fn hold(&mut self);

    /// Polled while it is lost, for what cannot wait until somebody comes back.
    fn poll_held(&mut self, _cx: &mut Context<'_>) {}

    /// Goes on over another connection, which is told of the session, its ticket, and what was
    /// kept; gives back the connection before it, where that has still to be parted from.
    fn take_up(&mut self, wire: Self::Wire, ticket: &Ticket) -> Option<Self::Wire>;

    /// Closes the connection: the call was hung up from elsewhere.
    fn hang_up(&mut self);
}

/// A client that is back.
pub struct Return<W> {
    /// Its connection.
    pub wire: W,
    /// What it is told.
    pub ticket: Ticket,
    /// Gets the connection before, if that has still to be parted from.
    pub before: oneshot::Sender<W>,
}

/// The line of a call, for its leg and for those who want to take it up.
#[derive(Clone, Debug)]
pub struct SharedLine(Arc<Mutex<Line>>);

impl SharedLine {
    /// The first connection is up.
    pub fn up(kept_for: Duration) -> SharedLine {
        SharedLine(Arc::new(Mutex::new(Line::up(kept_for))))
    }

    /// The line itself.
    pub fn lock(&self) -> MutexGuard<'_, Line> {
        // Nothing in it panics half-way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A leg whose lost connection is kept for a while.
pub struct KeptLeg<L: Resume> {
    leg: L,
    line: SharedLine,
    returns: mpsc::Receiver<Return<L::Wire>>,
    hung_up: Pin<Box<WaitForCancellationFutureOwned>>,
    clock: Arc<dyn Clock>,
    timer: Pin<Box<Sleep>>,
    /// What the call is told before anything else.
    said: VecDeque<FromCaller>,
    /// When the client last said something.
    last_said: Timestamp,
    is_up: bool,
}

impl<L: Resume> KeptLeg<L> {
    /// Keeps this leg, which is up. Cancelling `hung_up` ends its call.
    pub fn new(
        leg: L,
        line: SharedLine,
        returns: mpsc::Receiver<Return<L::Wire>>,
        hung_up: CancellationToken,
        clock: Arc<dyn Clock>,
    ) -> Self {
        KeptLeg {
            leg,
            line,
            returns,
            hung_up: Box::pin(hung_up.cancelled_owned()),
            timer: Box::pin(tokio::time::sleep_until(clock.instant(clock.now()))),
            last_said: clock.now(),
            clock,
            said: VecDeque::new(),
            is_up: true,
        }
    }

    fn take_up(&mut self, back: Return<L::Wire>) {
        let Return { wire, ticket, before } = back;
        let silent_for = self.silent_for();
        if let Some(old) = self.leg.take_up(wire, &ticket) {
            // Whoever came back parts from it, or has gone again already.
            let _ = before.send(old);
        }
        self.line.lock().arrive();
        if std::mem::replace(&mut self.is_up, true) {
            self.said.push_back(FromCaller::Lost { how: "taken_over", silent_for });
        }
        self.said.push_back(FromCaller::Back);
        self.last_said = self.clock.now();
    }

    fn silent_for(&self) -> Duration {
        self.clock.now().since(self.leg.last_sign().unwrap_or(self.last_said))
    }

    /// What the connection says; its loss is no end while somebody may come back.
    fn poll_up(&mut self, cx: &mut Context<'_>) -> Poll<FromCaller> {
        let said = ready!(self.leg.poll_recv(cx));
        Poll::Ready(match said {
            // A network that stops while the agent speaks shows first by what nobody reads.
            FromCaller::Gone { how: how @ ("reset" | "timeout" | "unread") }
                if self.line.lock().lose(self.clock.now()) =>
            {
                let silent_for = self.silent_for();
                self.leg.hold();
                self.is_up = false;
                FromCaller::Lost { how, silent_for }
            }
            FromCaller::Gone { how } => {
                self.line.lock().end();
                FromCaller::Gone { how }
            }
            said => {
                self.last_said = self.clock.now();
                self.line.lock().hear();
                said
            }
        })
    }

    /// Waits until nobody comes back any more.
    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<FromCaller> {
        self.leg.poll_held(cx);
        loop {
            let now = self.clock.now();
            let until = {
                let mut line = self.line.lock();
                if line.expire(now) {
                    return Poll::Ready(FromCaller::Gone { how: NOT_RESUMED });
                }
                if line.is_over() {
                    return Poll::Ready(FromCaller::Gone { how: "closed" });
                }
                line.kept_until()
            };
            // Without one somebody has taken it and is about to be here.
            let Some(until) = until else { return Poll::Pending };
            self.timer.as_mut().reset(self.clock.instant(until));
            ready!(self.timer.as_mut().poll(cx));
        }
    }
}

impl<L: Resume> Leg for KeptLeg<L> {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<FromCaller> {
        if self.hung_up.as_mut().poll(cx).is_ready() {
            self.line.lock().end();
            if self.is_up {
                self.leg.hang_up();
            }
            return Poll::Ready(FromCaller::Gone { how: "closed" });
        }
        if let Poll::Ready(Some(back)) = self.returns.poll_recv(cx) {
            self.take_up(back);
        }
        if let Some(said) = self.said.pop_front() {
            return Poll::Ready(said);
        }
        if self.is_up { self.poll_up(cx) } else { self.poll_lost(cx) }
    }

    fn send(&mut self, what: ToCaller) -> Result<(), LegLost> {
        if let ToCaller::HangUp { .. } = &what {
            self.line.lock().end();
        }
        // That the connection is lost is told where it is decided what follows from it.
        let _ = self.leg.send(what);
        Ok(())
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), LegLost>> {
        match self.is_up {
            true => self.leg.poll_flush(cx).map(|_| Ok(())),
            false => Poll::Ready(Ok(())),
        }
    }

    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_up { self.leg.poll_part(cx) } else { Poll::Ready(()) }
    }

    fn greets(&self) -> bool {
        self.leg.greets()
    }

    fn lead_max(&self) -> Option<Duration> {
        self.leg.lead_max()
    }

    fn far_end_delay(&self) -> Duration {
        self.leg.far_end_delay()
    }

    fn name(&self) -> &'static str {
        self.leg.name()
    }
}

impl<L: Resume> Drop for KeptLeg<L> {
    fn drop(&mut self) {
        self.line.lock().end();
    }
}
