//! The gates shared by all calls: one lock a gate, held for one ask; what was decided for others is
//! delivered after it is let go, each into a slot that was reserved when it was queued.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc;

use super::clock::Clock;
use crate::admission::gate::Gate;
use crate::admission::limits::{CloseMode, Limits};
use crate::admission::{
    Admit, Answer, Cancelled, Claimed, Closed, Lease, Offer, OfferId, Overload, OwnerId,
    RefusalReason, Release, Settled, Ticket, Wake,
};
use crate::evidence::Evidence;
use crate::id::{Generation, Stage};
use crate::time::Timestamp;

/// Where a call hears what gates decided for it. Its capacity is more than a call can ever wait
/// for.
pub type Control = mpsc::Sender<Wake>;
/// What one call can wait for at once, with room to spare.
pub const WAITS_MAX: usize = 32;

/// How long a grant may take from its gate to whom it is for.
const CROSSING_MAX: Duration = Duration::from_secs(1);

/// All gates of a process.
#[derive(Clone)]
pub struct Gates {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Clock,
    cells: BTreeMap<Stage, Mutex<Cell>>,
    next_offer: AtomicU64,
    /// Something waits with a deadline that the timer task does not know yet.
    queued: Notify,
}

struct Cell {
    gate: Gate,
    reserved: BTreeMap<OfferId, (OwnerId, mpsc::OwnedPermit<Wake>)>,
}

/// A wake with the slot it goes into; none when whoever waited has gone.
type Delivery = (Option<mpsc::OwnedPermit<Wake>>, Wake);

impl Gates {
    /// Gates with these limits.
    pub fn new(clock: Clock, limits: impl IntoIterator<Item = (Stage, Limits)>) -> Gates {
        let cell =
            |stage, limits| Cell { gate: Gate::new(stage, limits), reserved: BTreeMap::new() };
        let cells = limits.into_iter().map(|(stage, l)| (stage, Mutex::new(cell(stage, l))));
        Gates {
            shared: Arc::new(Shared {
                clock,
                cells: cells.collect(),
                next_offer: AtomicU64::new(1),
                queued: Notify::new(),
            }),
        }
    }

    /// The stages there are gates for.
    pub fn stages(&self) -> impl Iterator<Item = Stage> + '_ {
        self.shared.cells.keys().copied()
    }

    /// Now, on the clock these gates are told.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Looks at a gate without changing it.
    pub fn look<T>(&self, stage: Stage, look: impl FnOnce(&Gate) -> T) -> Option<T> {
        let cell = self.shared.cells.get(&stage)?;
        Some(look(&lock(cell).gate))
    }

    /// Changes a gate and delivers what that decided for others.
    fn change<T>(
        &self,
        stage: Stage,
        change: impl FnOnce(&mut Cell, &mut Vec<Wake>) -> T,
    ) -> Option<T> {
        let cell = self.shared.cells.get(&stage)?;
        let mut wakes = Vec::new();
        let mut guard = lock(cell);
        let result = change(&mut guard, &mut wakes);
        let deliveries = guard.address(wakes);
        drop(guard);
        self.deliver(deliveries);
        Some(result)
    }

    fn deliver(&self, deliveries: Vec<Delivery>) {
        for (permit, wake) in deliveries {
            match (permit, wake) {
                // A receiver that goes away now leaves the lease to its supervisor's `forget`.
                (Some(permit), wake) => drop(permit.send(wake)),
                (None, Wake::Granted { lease, .. }) => self.settle_unused(lease),
                (None, Wake::Ended { .. }) => {}
            }
        }
    }

    /// A unit granted to nobody goes straight back: nothing was started on it.
    pub fn settle_unused(&self, lease: Lease) {
        let now = self.now();
        let stage = lease.stage;
        let release = Release::Completed(Evidence::NeverStarted);
        self.change(stage, |cell, wakes| cell.gate.settle(now, lease, release, wakes));
    }

    /// Grants that were on their way to somebody who is gone go back unused. Every sender but those
    /// of grants that are being delivered has to be gone.
    pub async fn settle_crossed(&self, mut wakes: mpsc::Receiver<Wake>) {
        while let Ok(Some(wake)) = tokio::time::timeout(CROSSING_MAX, wakes.recv()).await {
            if let Wake::Granted { lease, .. } = wake {
                self.settle_unused(lease);
            }
        }
    }

    /// Gives a lease back.
    pub fn settle(&self, lease: Lease, release: Release) -> Settled {
        let now = self.now();
        let stage = lease.stage;
        let settled =
            self.change(stage, |cell, wakes| cell.gate.settle(now, lease, release, wakes));
        settled.unwrap_or(Settled::AlreadyReleased)
    }

    /// Proof came late for a unit in quarantine.
    pub fn late_evidence(&self, stage: Stage, offer: OfferId, evidence: Evidence) {
        let now = self.now();
        self.change(stage, |cell, wakes| cell.gate.evidence(now, offer, evidence, wakes));
    }

    /// An owner is over at every gate: its waits end, what it still holds becomes unknown.
    pub fn forget(&self, owner: OwnerId) {
        let now = self.now();
        for stage in self.shared.cells.keys() {
            self.change(*stage, |cell, wakes| {
                let forgotten = cell.gate.forget(now, owner, wakes);
                cell.drop_waits_of(owner, forgotten.withdrawn + forgotten.unknown);
            });
        }
    }

    /// Changes a gate's limits in place; waiters let through are woken at once.
    pub fn set_limits(&self, stage: Stage, limits: Limits) {
        let now = self.now();
        self.change(stage, |cell, wakes| cell.gate.set_limits(now, limits, wakes));
    }

    /// Closes a gate's intake.
    pub fn close(&self, stage: Stage, why: Closed, mode: CloseMode) {
        let now = self.now();
        self.change(stage, |cell, wakes| cell.gate.close(now, why, mode, wakes));
    }

    /// Opens a gate's intake again: an explicit act.
    pub fn open(&self, stage: Stage) {
        self.change(stage, |cell, _| cell.gate.open());
    }

    /// The gates as the owner of `control` sees them.
    pub fn for_owner(&self, control: Control) -> OwnerGates {
        OwnerGates { gates: self.clone(), control }
    }

    /// Expires what waits, at its own time, for as long as the process lives.
    pub async fn keep_time(self) {
        loop {
            let now = self.now();
            let mut next = now + Duration::from_secs(1);
            for stage in self.shared.cells.keys() {
                let deadline = self.change(*stage, |cell, wakes| {
                    cell.gate.expire(now, wakes);
                    cell.gate.next_deadline()
                });
                next = deadline.flatten().map_or(next, |deadline| next.min(deadline));
            }
            // Strictly later than the deadline expires.
            let wake_at = self.shared.clock.instant(next + Duration::from_millis(1));
            tokio::select! {
                () = tokio::time::sleep_until(wake_at) => {}
                () = self.shared.queued.notified() => {}
            }
        }
    }
}

fn lock(cell: &Mutex<Cell>) -> MutexGuard<'_, Cell> {
    // A gate's operations do not panic half-way through a change; a poisoned lock is still whole.
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cell {
    fn address(&mut self, wakes: Vec<Wake>) -> Vec<Delivery> {
        if wakes.is_empty() {
            return Vec::new();
        }
        let slot = |reserved: &mut BTreeMap<_, (OwnerId, _)>, wake: &Wake| {
            reserved.remove(&offer_of(wake)).map(|(_, permit)| permit)
        };
        wakes.into_iter().map(|wake| (slot(&mut self.reserved, &wake), wake)).collect()
    }

    /// Slots of waits that ended without a wake, because their owner knows.
    fn drop_waits_of(&mut self, owner: OwnerId, withdrawn: u32) {
        if withdrawn > 0 {
            self.reserved.retain(|_, (waiting, _)| *waiting != owner);
        }
    }
}

fn offer_of(wake: &Wake) -> OfferId {
    match wake {
        Wake::Granted { lease, .. } => lease.offer,
        Wake::Ended { offer, .. } => *offer,
    }
}

/// The gates as one owner sees them.
pub struct OwnerGates {
    gates: Gates,
    control: Control,
}

impl Admit for OwnerGates {
    fn name_offer(&mut self) -> OfferId {
        OfferId(self.gates.shared.next_offer.fetch_add(1, Ordering::Relaxed))
    }

    fn ask(&mut self, now: Timestamp, stage: Stage, offer: Offer) -> Answer {
        let (id, owner) = (offer.id, offer.owner);
        let Ok(slot) = self.control.clone().try_reserve_owned() else {
            // More waits than a call can have: refused like any other full queue.
            let reason = RefusalReason::Overloaded(Overload::QueueFull);
            return Answer::Refused(crate::admission::Refusal {
                stage,
                reason,
                retry_after_s: None,
            });
        };
        let answer = self.gates.change(stage, |cell, wakes| {
            let answer = cell.gate.offer(now, offer, wakes);
            if let Answer::Queued(_) = answer {
                cell.reserved.insert(id, (owner, slot));
            }
            answer
        });
        if let Some(Answer::Queued(_)) = answer {
            self.gates.shared.queued.notify_one();
        }
        answer.unwrap_or_else(|| {
            let reason = RefusalReason::Closed(Closed::NoCapacity);
            Answer::Refused(crate::admission::Refusal { stage, reason, retry_after_s: None })
        })
    }

    fn claim(&mut self, now: Timestamp, stage: Stage, offer: Offer) -> Claimed {
        let (id, owner) = (offer.id, offer.owner);
        // Whoever cannot be told that a claim has lapsed makes none.
        let Ok(slot) = self.control.clone().try_reserve_owned() else { return Claimed::MayWait };
        let claimed = self.gates.change(stage, |cell, wakes| {
            if cell.gate.may_wait_instead(now, &offer) {
                return Claimed::MayWait;
            }
            let answer = cell.gate.claim(now, offer, wakes);
            if let Answer::Admitted(_) = answer {
                cell.reserved.insert(id, (owner, slot));
            }
            Claimed::of(answer, cell.gate.limits().queue)
        });
        if let Some(Claimed::Held(_)) = claimed {
            self.gates.shared.queued.notify_one();
        }
        claimed.unwrap_or_else(|| {
            let reason = RefusalReason::Closed(Closed::NoCapacity);
            Claimed::Refused(crate::admission::Refusal { stage, reason, retry_after_s: None })
        })
    }

    fn confirm(&mut self, now: Timestamp, lease: &Lease) -> bool {
        let firm = self.gates.change(lease.stage, |cell, wakes| {
            // The owner hears it from here, whichever it is.
            cell.reserved.remove(&lease.offer);
            cell.gate.confirm(now, lease, wakes)
        });
        firm.unwrap_or(false)
    }

    fn withdraw(&mut self, now: Timestamp, ticket: Ticket, why: Cancelled) {
        let (stage, offer) = (ticket.stage, ticket.offer);
        self.gates.change(stage, |cell, wakes| {
            cell.reserved.remove(&offer);
            // A grant that crossed this is already in the owner's control lane and settled there.
            let _ = cell.gate.withdraw(now, ticket, why, wakes);
        });
    }

    fn extend(&mut self, now: Timestamp, ticket: &Ticket) {
        self.gates.change(ticket.stage, |cell, _| {
            // A wait that has ended, or was extended before, stays as it is.
            let _ = cell.gate.extend(now, ticket);
        });
        self.gates.shared.queued.notify_one();
    }

    fn cancel(&mut self, now: Timestamp, lease: &Lease, why: Cancelled) {
        self.gates.change(lease.stage, |cell, _| cell.gate.cancel(now, lease, why));
    }

    fn settle(&mut self, now: Timestamp, lease: Lease, release: Release) -> Settled {
        let stage = lease.stage;
        let settled =
            self.gates.change(stage, |cell, wakes| cell.gate.settle(now, lease, release, wakes));
        settled.unwrap_or(Settled::AlreadyReleased)
    }

    fn rotate(&mut self, now: Timestamp, owner: OwnerId, generation: Generation, why: Cancelled) {
        // At generation 0 the owner is registered at every gate; later only work that rotates is
        // touched.
        let first = generation == Generation(0);
        for stage in self.gates.shared.cells.keys().filter(|stage| first || stage.rotates()) {
            self.gates.change(*stage, |cell, wakes| {
                // A repeated registration is refused by the gate and changes nothing.
                if let Ok(rotated) = cell.gate.rotate(now, owner, generation, why, wakes) {
                    cell.drop_waits_of(owner, rotated.withdrawn);
                }
            });
        }
    }

    fn max_wait(&self, stage: Stage) -> Duration {
        self.gates.look(stage, |gate| gate.limits().max_wait()).unwrap_or_default()
    }
}
