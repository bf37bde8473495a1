//! Callers from their handshake to the last word to them: what a drain waits for.

use tokio::sync::watch;

/// How many callers there are.
#[derive(Debug, Default)]
pub struct Callers {
    here: watch::Sender<Here>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Here {
    all: usize,
    /// Those that have a slot: before their stream, in their call, or parting from it.
    with_slot: usize,
}

/// A caller, for as long as it is kept.
#[derive(Debug)]
pub struct Present {
    here: watch::Sender<Here>,
    has_slot: bool,
}

impl Callers {
    /// A caller who has no slot yet. Counted before one is asked for: nobody can slip in between a
    /// grant and a look at who is there.
    pub fn arrive(&self) -> Present {
        self.here.send_modify(|here| here.all += 1);
        Present { here: self.here.clone(), has_slot: false }
    }

    /// How many have a slot.
    pub fn with_slot(&self) -> usize {
        self.here.borrow().with_slot
    }

    /// Resolves once nobody is left.
    pub async fn gone(&self) {
        // The sender is ours: it cannot be dropped meanwhile.
        let _ = self.here.subscribe().wait_for(|here| here.all == 0).await;
    }
}

impl Present {
    /// The caller has a slot.
    pub fn with_slot(mut self) -> Present {
        if !std::mem::replace(&mut self.has_slot, true) {
            self.here.send_modify(|here| here.with_slot += 1);
        }
        self
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.here.send_modify(|here| {
            here.all -= 1;
            here.with_slot -= usize::from(self.has_slot);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn nobody_is_forgotten_whether_with_a_slot_or_not() {
        let callers = Callers::default();
        callers.gone().await;
        let (first, second) = (callers.arrive(), callers.arrive().with_slot());
        assert_eq!(callers.with_slot(), 1);
        let mut gone = std::pin::pin!(callers.gone());
        let mut waits = || gone.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending();
        assert!(waits());
        drop(second);
        assert!(waits(), "one still waits for a slot");
        assert_eq!(callers.with_slot(), 0);
        drop(first);
        gone.await;
    }
}
