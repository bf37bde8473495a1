//! Others at a peer's session: each sees its events and may say some, and none holds it up.
//!
//! The leg stays the session's one writer. A [`Door`] lets somebody in from outside; a [`Sideband`]
//! is what they hold; [`Sidebands`] is the leg's end of it all. What waits for a reader is bounded,
//! and one that lets more wait is cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// Most that may be at one call.
pub const SIDEBANDS_MAX: usize = 4;
/// Events that may wait for one of them, …
const WAITING_MAX: usize = 1_024;
/// … and their bytes, the newest apart.
const WAITING_MAX_BYTES: usize = 512 * 1024;
/// What they have said and the leg has not heard yet.
const SAID_MAX: usize = 16;

/// Where one goes in.
#[derive(Clone, Debug)]
pub struct Door {
    places: Arc<Semaphore>,
    attached: mpsc::Sender<Route>,
    said: mpsc::Sender<Said>,
}

/// Why nobody is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoEntry {
    /// As many as may be are there.
    #[error("{SIDEBANDS_MAX} sidebands are at this call, as many as may be; close one of them.")]
    Full,
    /// The call is over.
    #[error("This call is over.")]
    Over,
}

/// One who is let in. Dropped, it is gone, and the call goes on.
#[derive(Debug)]
pub struct Sideband {
    key: Arc<()>,
    events: mpsc::Receiver<Bytes>,
    waiting: Arc<AtomicUsize>,
    cut: CancellationToken,
    said: mpsc::Sender<Said>,
    _place: OwnedSemaphorePermit,
}

/// What somebody at the session says.
#[derive(Debug)]
pub(super) struct Said {
    from: Arc<()>,
    /// `None`: something that is no text.
    pub text: Option<String>,
}

/// The leg's way to one of them.
#[derive(Debug)]
struct Route {
    key: Arc<()>,
    events: mpsc::Sender<Bytes>,
    waiting: Arc<AtomicUsize>,
    cut: CancellationToken,
}

/// The leg's end: all that are there.
#[derive(Debug)]
pub(super) struct Sidebands {
    door: Door,
    attached: mpsc::Receiver<Route>,
    said: mpsc::Receiver<Said>,
    routes: Vec<Route>,
}

impl Door {
    /// Goes in; the session's first event follows.
    pub fn enter(&self) -> Result<Sideband, NoEntry> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| NoEntry::Full)?;
        let (events_out, events) = mpsc::channel(WAITING_MAX);
        let (key, waiting) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
        let cut = CancellationToken::new();
        let route = Route {
            key: key.clone(),
            events: events_out,
            waiting: waiting.clone(),
            cut: cut.clone(),
        };
        // There is room for as many as there are places.
        self.attached.try_send(route).map_err(|_| NoEntry::Over)?;
        let said = self.said.clone();
        Ok(Sideband { key, events, waiting, cut, said, _place: place })
    }
}

impl Sideband {
    /// The next event of the session; `None` when it is over.
    pub async fn event(&mut self) -> Option<Bytes> {
        let event = self.events.recv().await?;
        self.waiting.fetch_sub(event.len(), Ordering::Relaxed);
        Some(event)
    }

    /// Where to say something once there is room for it.
    pub fn voice(&self) -> Voice {
        Voice { key: self.key.clone(), said: self.said.clone() }
    }

    /// Cancelled when it has not read for too long.
    pub fn cut(&self) -> CancellationToken {
        self.cut.clone()
    }
}

/// What one says to the session.
#[derive(Clone, Debug)]
pub struct Voice {
    key: Arc<()>,
    said: mpsc::Sender<Said>,
}

impl Voice {
    /// Says an event, or, with `None`, something that is no text. `false`: the session is over.
    pub async fn say(&self, text: Option<String>) -> bool {
        self.said.send(Said { from: self.key.clone(), text }).await.is_ok()
    }
}

impl Sidebands {
    pub fn new() -> Sidebands {
        let (attached_in, attached) = mpsc::channel(SIDEBANDS_MAX);
        let (said_in, said) = mpsc::channel(SAID_MAX);
        let places = Arc::new(Semaphore::new(SIDEBANDS_MAX));
        let door = Door { places, attached: attached_in, said: said_in };
        Sidebands { door, attached, said, routes: Vec::new() }
    }

    /// The way in.
    pub fn door(&self) -> Door {
        self.door.clone()
    }

    /// Somebody new, who is told this first.
    pub fn poll_attached(&mut self, cx: &mut Context<'_>, mut first: impl FnMut() -> Bytes) {
        while let Poll::Ready(Some(route)) = self.attached.poll_recv(cx) {
            self.routes.retain(|route| !route.events.is_closed());
            if route.offer(&first()) {
                self.routes.push(route);
            }
        }
    }

    /// The next thing that one of them says.
    pub fn poll_said(&mut self, cx: &mut Context<'_>) -> Poll<Said> {
        // The door holds a sender: the channel does not close.
        self.said.poll_recv(cx).map(|said| said.unwrap_or(Said { from: Arc::new(()), text: None }))
    }

    /// All of them are told; those that do not read are cut off.
    pub fn tell(&mut self, event: &Bytes) {
        self.routes.retain(|route| route.offer(event));
    }

    /// Only the one who said this is told.
    pub fn answer(&mut self, said: &Said, event: &Bytes) {
        self.routes.retain(|route| !Arc::ptr_eq(&route.key, &said.from) || route.offer(event));
    }
}

impl Route {
    /// `false`: it is gone, or is cut off now.
    fn offer(&self, event: &Bytes) -> bool {
        let before = self.waiting.fetch_add(event.len(), Ordering::Relaxed);
        let taken = before <= WAITING_MAX_BYTES && self.events.try_send(event.clone()).is_ok();
        if !taken {
            self.cut.cancel();
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn event(length: usize) -> Bytes {
        Bytes::from(vec![b'x'; length])
    }

    fn attach(sidebands: &mut Sidebands) -> Sideband {
        let sideband = sidebands.door().enter().unwrap();
        sidebands.poll_attached(&mut Context::from_waker(Waker::noop()), || event(1));
        sideband
    }

    #[tokio::test]
    async fn one_that_does_not_read_is_cut_off_and_the_others_are_told_on() {
        let mut sidebands = Sidebands::new();
        let (mut reads, stuck) = (attach(&mut sidebands), attach(&mut sidebands));
        for _ in 0..10 {
            sidebands.tell(&event(100_000));
            while !reads.events.is_empty() {
                assert!(reads.event().await.is_some());
            }
        }
        assert!(stuck.cut().is_cancelled() && !reads.cut().is_cancelled());
        assert_eq!((stuck.events.len(), sidebands.routes.len()), (7, 1));
    }

    #[tokio::test]
    async fn an_answer_is_for_one_of_them_alone_and_the_end_is_told_to_all() {
        let mut sidebands = Sidebands::new();
        let (mut one, mut other) = (attach(&mut sidebands), attach(&mut sidebands));
        assert!(one.voice().say(Some("hello".to_owned())).await);
        let mut cx = Context::from_waker(Waker::noop());
        let Poll::Ready(said) = sidebands.poll_said(&mut cx) else { panic!("nobody spoke") };
        assert_eq!(said.text.as_deref(), Some("hello"));
        sidebands.answer(&said, &event(2));
        let (door, voice) = (sidebands.door(), one.voice());
        drop(sidebands);
        assert_eq!((one.event().await, one.event().await), (Some(event(1)), Some(event(2))));
        assert_eq!(one.event().await, None);
        assert_eq!((other.event().await, other.event().await), (Some(event(1)), None));
        assert_eq!(door.enter().err(), Some(NoEntry::Over));
        assert!(!voice.say(None).await);
    }

    #[test]
    fn places_are_counted_and_come_back() {
        let mut sidebands = Sidebands::new();
        let mut all: Vec<_> = (0..SIDEBANDS_MAX).map(|_| attach(&mut sidebands)).collect();
        assert_eq!(sidebands.door().enter().err(), Some(NoEntry::Full));
        all.pop();
        all.push(attach(&mut sidebands));
        assert_eq!(sidebands.routes.len(), SIDEBANDS_MAX, "the one that left is forgotten");
    }
}
