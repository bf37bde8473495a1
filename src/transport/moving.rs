//! A caller who is moved out of their stream, to somebody else: by whoever can have the provider do
//! it, while the stream goes on.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio_util::sync::CancellationToken;

use crate::transport::{Transfer, Transferred};

/// What comes of a move, in the end.
pub type Moving = Pin<Box<dyn Future<Output = Transferred> + Send>>;

/// Can have the provider move one call.
pub trait Mover: Send + Sync {
    /// Where it is moved.
    fn target(&self) -> String;
    /// Moves it there.
    fn move_to(&self, target: String, leaving: Leaving) -> Moving;
}

/// What a stream and whoever moves its call know of each other.
#[derive(Clone, Debug, Default)]
pub struct Leaving {
    inner: Arc<Mutex<Inner>>,
    gone: CancellationToken,
}

#[derive(Debug, Default)]
struct Inner {
    is_leaving: bool,
    has_ended: bool,
    waker: Option<Waker>,
}

impl Leaving {
    /// From now on the stream's end is none of the caller's: they are on their way.
    pub fn begin(&self) {
        self.inner().is_leaving = true;
    }

    /// They are not: a stream that has ended meanwhile has ended.
    pub fn give_up(&self) {
        let mut inner = self.inner();
        inner.is_leaving = false;
        if let Some(waker) = inner.waker.take() {
            waker.wake();
        }
    }

    /// Resolves when the caller has gone.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Their stream has ended since they were on their way.
    pub fn stream_has_ended(&self) -> bool {
        self.inner().has_ended
    }

    /// The stream has ended. True when they are on their way.
    pub(super) fn stream_ends(&self) -> bool {
        let mut inner = self.inner();
        inner.has_ended = inner.is_leaving;
        inner.is_leaving
    }

    /// Ready once the caller is not on their way any more.
    pub(super) fn poll_given_up(&self, cx: &Context<'_>) -> Poll<()> {
        let mut inner = self.inner();
        if !inner.is_leaving {
            return Poll::Ready(());
        }
        inner.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(super) fn has_gone(&self) {
        self.gone.cancel();
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call, and whoever can move it.
struct Move {
    mover: Arc<dyn Mover>,
    leaving: Leaving,
}

/// How the caller of this call is moved.
pub(super) fn transfer(mover: Arc<dyn Mover>, leaving: Leaving) -> Box<dyn Transfer> {
    Box::new(Move { mover, leaving })
}

impl Transfer for Move {
    fn target(&self) -> Option<String> {
        Some(self.mover.target())
    }

    fn to(self: Box<Self>, target: String) -> Moving {
        self.mover.move_to(target, self.leaving)
    }
}
