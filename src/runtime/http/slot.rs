//! A call slot, from its offer to the call that uses it. Whoever is waited for may go away at any
//! moment; what it held or waited for then goes back, on proof that nothing was started.

use tokio::sync::mpsc;

use crate::admission::disposition::Disposition;
use crate::admission::{
    Admit, Answer, Cancelled, Lease, Offer, OwnerId, Refusal, Terminal, Ticket, Wake,
};
use crate::id::{Generation, Stage};
use crate::runtime::callers::Present;
use crate::runtime::gates::{Gates, OwnerGates};

/// Why there is no slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSlot {
    /// It was refused at once.
    Refused(Refusal),
    /// It waited, and the wait ended so.
    Ended(Terminal),
}

impl NoSlot {
    /// What it is on every wire, and when to try again.
    pub fn told(&self, gates: &Gates, stage: Stage) -> (&'static Disposition, Option<u32>) {
        match self {
            NoSlot::Refused(refusal) => (refusal.reason.disposition(), refusal.retry_after_s),
            NoSlot::Ended(terminal) => {
                let mean = gates.look(stage, |gate| gate.counts(gates.now()).mean_wait_ms);
                let row = terminal.disposition();
                (row, row.retry.seconds(mean.unwrap_or(0)))
            }
        }
    }
}

/// Offers a call to its gate and waits for as long as the gate lets it. Dropping the future is a
/// client that leaves.
pub async fn take(
    gates: &Gates,
    owner: OwnerId,
    of_whom: impl FnOnce(Offer) -> Offer,
) -> Result<Slot, NoSlot> {
    take_at(gates, Stage::Call, owner, of_whom).await
}

/// The same at another gate.
pub async fn take_at(
    gates: &Gates,
    stage: Stage,
    owner: OwnerId,
    of_whom: impl FnOnce(Offer) -> Offer,
) -> Result<Slot, NoSlot> {
    let (control, wakes) = mpsc::channel(2);
    let mut own = gates.for_owner(control);
    let now = gates.now();
    own.rotate(now, owner, Generation(0), Cancelled::Superseded);
    let deadline = now + own.max_wait(stage);
    let offer = of_whom(Offer::plain(own.name_offer(), owner, now, deadline));
    let ticket = match own.ask(now, stage, offer) {
        Answer::Admitted(lease) => return Ok(Slot::of(gates.clone(), lease, owner)),
        Answer::Refused(refusal) => {
            gates.forget(owner);
            return Err(NoSlot::Refused(refusal));
        }
        Answer::Queued(ticket) => ticket,
    };
    let waiting = Some(Waiting { gates: own, ticket, wakes });
    let mut parked = Parked { waiting, owner, shared: gates.clone() };
    match parked.wait().await {
        Some(Wake::Granted { lease, .. }) => Ok(Slot::of(gates.clone(), lease, owner)),
        Some(Wake::Ended { terminal, .. }) => Err(NoSlot::Ended(terminal)),
        // The gates outlive every handler; a wait that nobody ends is a call that was given up.
        None => Err(NoSlot::Ended(Terminal::Cancelled(Cancelled::HangUp))),
    }
}

/// A parked handshake. When its client goes away the wait is withdrawn; a waiter holds no unit.
struct Parked {
    waiting: Option<Waiting>,
    owner: OwnerId,
    shared: Gates,
}

/// What a wait is made of, until it is over.
struct Waiting {
    gates: OwnerGates,
    ticket: Ticket,
    wakes: mpsc::Receiver<Wake>,
}

impl Parked {
    async fn wait(&mut self) -> Option<Wake> {
        let woken = self.waiting.as_mut()?.wakes.recv().await;
        self.waiting = None;
        if let Some(Wake::Ended { .. }) = woken {
            self.shared.forget(self.owner);
        }
        woken
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let Some(Waiting { mut gates, ticket, wakes }) = self.waiting.take() else { return };
        gates.withdraw(self.shared.now(), ticket, Cancelled::HangUp);
        drop(gates);
        let (shared, owner) = (self.shared.clone(), self.owner);
        // A grant may be on its way to us: nothing was started on it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                shared.settle_crossed(wakes).await;
                shared.forget(owner);
            });
        }
    }
}

/// A call slot between its grant and the call. When the upgrade fails nothing was started on it.
#[derive(Debug)]
pub struct Slot {
    gates: Gates,
    lease: Option<Lease>,
    owner: OwnerId,
    /// The caller whose slot it is: there until the slot is dropped, behind the call's last word.
    present: Option<Present>,
}

impl Slot {
    fn of(gates: Gates, lease: Lease, owner: OwnerId) -> Slot {
        Slot { gates, lease: Some(lease), owner, present: None }
    }

    /// The slot of a caller whom a drain has to wait for.
    pub fn of_caller(mut self, present: Present) -> Slot {
        self.present = Some(present.with_slot());
        self
    }

    /// The unit, for the call that now begins; once.
    pub fn use_it(&mut self) -> Option<Lease> {
        self.lease.take()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take() {
            // Proof, not a guess: the call's task takes the lease out before it does anything.
            self.gates.settle_unused(lease);
        }
        self.gates.forget(self.owner);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::admission::limits::Limits;
    use crate::admission::{Closed, RefusalReason};
    use crate::runtime::clock::Clock;

    /// One slot, four places to wait.
    fn gates() -> Gates {
        let limits = Limits { max_wait_ms: 60_000, ..Limits::of(1, 4) };
        Gates::new(Clock::start(), [(Stage::Call, limits)])
    }

    type Taking<'a> = Pin<Box<dyn Future<Output = Result<Slot, NoSlot>> + 'a>>;

    fn taking(gates: &Gates, owner: u64) -> Taking<'_> {
        Box::pin(take(gates, OwnerId(owner), |offer| offer))
    }

    fn poll(taking: &mut Taking<'_>) -> Poll<Result<Slot, NoSlot>> {
        taking.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn taken(gates: &Gates, owner: u64) -> Slot {
        match poll(&mut taking(gates, owner)) {
            Poll::Ready(Ok(slot)) => slot,
            other => panic!("{other:?}"),
        }
    }

    /// Nothing is held, waited for or unknown, and nobody is remembered.
    async fn is_as_it_began(gates: &Gates, case: &str) {
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
        gates.look(Stage::Call, |gate| {
            let counts = gate.counts(gates.now());
            let held = (counts.active, counts.queued, counts.quarantined, counts.owners);
            assert_eq!(held, (0, 0, 0, 0), "{case}");
            assert_eq!(gate.ledger().anomalies().dropped, 0, "{case}");
            gate.audit().unwrap();
        });
        drop(taken(gates, 99));
    }

    /// a client may leave at every point where it is waited for.
    #[tokio::test]
    async fn whenever_a_client_leaves_its_slot_and_its_place_come_back() {
        let gates = gates();
        drop(taking(&gates, 1));
        is_as_it_began(&gates, "before it asked").await;
        drop(taken(&gates, 1));
        is_as_it_began(&gates, "with its slot, before the call").await;

        let holder = taken(&gates, 1);
        let mut waits = taking(&gates, 2);
        assert!(poll(&mut waits).is_pending());
        drop(waits);
        drop(holder);
        is_as_it_began(&gates, "while it waited").await;

        let holder = taken(&gates, 1);
        let mut waits = taking(&gates, 2);
        assert!(poll(&mut waits).is_pending());
        drop(holder);
        drop(waits);
        is_as_it_began(&gates, "at the grant, before it looked (A-096)").await;

        let holder = taken(&gates, 1);
        let mut waits = taking(&gates, 2);
        assert!(poll(&mut waits).is_pending());
        drop(holder);
        let Poll::Ready(Ok(slot)) = poll(&mut waits) else { panic!("it was granted") };
        drop((slot, waits));
        is_as_it_began(&gates, "after the grant, before the call").await;
    }

    /// Three wait behind one another and leave in every order: the unit passes on or comes back.
    #[tokio::test]
    async fn a_unit_passes_by_who_has_left() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let gates = gates();
            let mut holder = Some(taken(&gates, 1));
            let mut waiting: Vec<Option<Taking<'_>>> =
                (2..5).map(|owner| Some(taking(&gates, owner))).collect();
            for taking in waiting.iter_mut().flatten() {
                assert!(poll(taking).is_pending());
            }
            for (nth, leaves) in order.into_iter().enumerate() {
                waiting[leaves] = None;
                if nth == 1 {
                    holder = None;
                }
            }
            assert!(holder.is_none());
            is_as_it_began(&gates, &format!("{order:?}")).await;
        }
    }

    /// A wait that is ended from outside tells why, and leaves nothing behind.
    #[tokio::test]
    async fn a_wait_that_a_drain_ends_tells_so() {
        use crate::admission::limits::CloseMode;
        let gates = gates();
        let holder = taken(&gates, 1);
        let mut waits = taking(&gates, 2);
        assert!(poll(&mut waits).is_pending());
        gates.close(Stage::Call, Closed::Draining, CloseMode::EndQueue);
        let ended = NoSlot::Ended(Terminal::Cancelled(Cancelled::Drain));
        assert!(matches!(poll(&mut waits), Poll::Ready(Err(how)) if how == ended));
        let refused = poll(&mut taking(&gates, 3));
        let draining = RefusalReason::Closed(Closed::Draining);
        assert!(matches!(
            refused,
            Poll::Ready(Err(NoSlot::Refused(refusal))) if refusal.reason == draining
        ));
        drop((waits, holder));
        gates.open(Stage::Call);
        is_as_it_began(&gates, "behind a drain").await;
    }
}
