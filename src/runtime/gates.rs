//! The gates shared by all calls: one lock a gate, held for one ask; what was decided for others is
//! delivered after it is let go, each into a slot that was reserved when it was queued.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc;

use super::audit;
use super::clock::Clock;
use crate::admission::adaptive::{Adaptive, Law, Sign};
use crate::admission::gate::{Gate, Pressure};
use crate::admission::limits::{CloseMode, Limits};
use crate::admission::log::Line;
use crate::admission::rates::Sampled;
use crate::admission::trial::Criterion;
use crate::admission::{
    Admit, Answer, Cancelled, Claimed, Closed, Lease, Offer, OfferId, Overload, OwnerId,
    RefusalReason, Release, Settled, Ticket, Wake, Watched,
};
use crate::evidence::Evidence;
use crate::id::{CallbackId, Generation, Stage};
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
    pub(super) shared: Arc<Shared>,
}

impl std::fmt::Debug for Gates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.shared.cells.keys()).finish()
    }
}

pub(super) struct Shared {
    clock: Clock,
    cells: BTreeMap<Stage, Mutex<Cell>>,
    pub(super) next_offer: AtomicU64,
    /// Units of callbacks on record: they come back when the promise is kept.
    pub(super) promised: Mutex<BTreeMap<CallbackId, Lease>>,
    /// Something waits with a deadline that the timer task does not know yet.
    queued: Notify,
}

pub(super) struct Cell {
    pub(super) gate: Watched,
    law: Adaptive,
    sampled: Sampled,
    reserved: BTreeMap<OfferId, (OwnerId, mpsc::OwnedPermit<Wake>)>,
}

/// What a gate begins with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Its limits.
    pub limits: Limits,
    /// What moves its ceiling, while it adapts.
    pub law: Law,
    /// Decisions that are kept; 0 keeps none.
    pub log_lines: usize,
}

impl From<Limits> for Setup {
    fn from(limits: Limits) -> Setup {
        Setup { limits, law: Law::default(), log_lines: 0 }
    }
}

/// What is seen of a gate from outside, beside its decisions.
pub struct Seen<'a> {
    /// The gate and what watches it.
    pub gate: &'a Watched,
    /// How its ceiling moves.
    pub law: &'a Adaptive,
    /// How much it does.
    pub sampled: &'a Sampled,
}

/// A wake with the slot it goes into; none when whoever waited has gone.
type Delivery = (Option<mpsc::OwnedPermit<Wake>>, Wake);

impl Gates {
    /// Gates with these limits.
    pub fn new<S: Into<Setup>>(
        clock: Clock,
        setups: impl IntoIterator<Item = (Stage, S)>,
    ) -> Gates {
        let setups = setups.into_iter();
        let cells =
            setups.map(|(stage, setup)| (stage, Mutex::new(Cell::new(stage, setup.into()))));
        Gates {
            shared: Arc::new(Shared {
                clock,
                cells: cells.collect(),
                next_offer: AtomicU64::new(1),
                promised: Mutex::default(),
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
        self.see(stage, |seen| look(seen.gate))
    }

    /// Looks at a gate and at what watches it.
    pub fn see<T>(&self, stage: Stage, see: impl FnOnce(Seen<'_>) -> T) -> Option<T> {
        let cell = lock(self.shared.cells.get(&stage)?);
        Some(see(Seen { gate: &cell.gate, law: &cell.law, sampled: &cell.sampled }))
    }

    /// Changes a gate and delivers what that decided for others.
    pub(super) fn change<T>(
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
                (Some(permit), wake) => {
                    audit::ended(&wake);
                    drop(permit.send(wake));
                }
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

    /// Proof came late for a unit in quarantine; `None` when none of this name is there.
    pub fn late_evidence(
        &self,
        stage: Stage,
        offer: OfferId,
        evidence: Evidence,
    ) -> Option<Settled> {
        let now = self.now();
        self.change(stage, |cell, wakes| cell.gate.evidence(now, offer, evidence, wakes)).flatten()
    }

    /// A stage's backend let something be seen of itself.
    pub fn saw(&self, stage: Stage, sign: Sign) {
        /// Until stages have pools each has one endpoint.
        const ENDPOINT: u16 = 0;
        let now = self.now();
        self.change(stage, |cell, _| cell.law.saw(now, ENDPOINT, sign));
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

    /// Changes a gate's limits in place; waiters let through are woken at once. With a criterion
    /// the change is on trial and undone by itself when it breaks it.
    pub fn set_limits(&self, stage: Stage, limits: Limits, law: Law, trial: Option<Criterion>) {
        let now = self.now();
        self.change(stage, |cell, wakes| {
            cell.law.set_law(law);
            match trial {
                Some(criterion) => cell.gate.try_limits(now, limits, criterion, wakes),
                None => cell.gate.set_limits(now, limits, wakes),
            }
            cell.adapt(now, wakes);
        });
    }

    /// What moves a gate's ceiling from now on.
    pub fn set_law(&self, stage: Stage, law: Law) {
        self.change(stage, |cell, _| cell.law.set_law(law));
    }

    /// Begins a shadow of a gate; false when it has as many as it may have.
    pub fn add_shadow(&self, stage: Stage, limits: Limits) -> bool {
        self.change(stage, |cell, _| cell.gate.add_shadow(limits)).unwrap_or(false)
    }

    /// Ends a gate's shadows.
    pub fn drop_shadows(&self, stage: Stage) {
        self.change(stage, |cell, _| cell.gate.drop_shadows());
    }

    /// The decisions of a gate from this one on that are still kept.
    pub fn decisions_since(&self, stage: Stage, seq: u64) -> Vec<Line> {
        let lines = |seen: Seen<'_>| {
            seen.gate.log().map(|log| log.since(seq).cloned().collect::<Vec<Line>>())
        };
        self.see(stage, lines).flatten().unwrap_or_default()
    }

    /// How hard the stages behind a gate are pressed.
    pub fn set_pressure(&self, stage: Stage, pressure: Pressure) {
        let now = self.now();
        self.change(stage, |cell, wakes| cell.gate.set_pressure(now, pressure, wakes));
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

    /// Ends what is due at a gate and lets through what fits (B-036); says when something is due
    /// next.
    pub fn expire(&self, stage: Stage) -> Option<Timestamp> {
        let now = self.now();
        let next = self.change(stage, |cell, wakes| {
            cell.gate.expire(now, wakes);
            cell.gate.next_deadline()
        });
        next.flatten()
    }

    /// What is done with every gate once a second.
    pub(super) fn second(&self, stage: Stage) {
        let now = self.now();
        self.change(stage, |cell, wakes| {
            cell.adapt(now, wakes);
            let Cell { gate, sampled, .. } = cell;
            sampled.take(now, gate.ledger().total());
        });
    }

    /// Waits until something waits whose deadline nobody knows yet.
    pub(super) async fn queued(&self) {
        self.shared.queued.notified().await;
    }
}

fn lock(cell: &Mutex<Cell>) -> MutexGuard<'_, Cell> {
    // A gate's operations do not panic half-way through a change; a poisoned lock is still whole.
    cell.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cell {
    fn new(stage: Stage, setup: Setup) -> Cell {
        let Setup { limits, law, log_lines } = setup;
        let mut gate = Watched::new(stage, limits);
        gate.keep_log(log_lines);
        let (law, sampled) = (Adaptive::new(law), Sampled::default());
        Cell { gate, law, sampled, reserved: BTreeMap::new() }
    }

    fn adapt(&mut self, now: Timestamp, wakes: &mut Vec<Wake>) {
        self.gate.adapt(now, &mut self.law, wakes);
    }

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
        let (id, owner, tenant) = (offer.id, offer.owner, offer.tenant);
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
        match &answer {
            Some(Answer::Queued(_)) => self.gates.shared.queued.notify_one(),
            Some(Answer::Refused(refusal)) => audit::refused(stage, tenant, refusal),
            Some(Answer::Admitted(_)) | None => {}
        }
        answer.unwrap_or_else(|| {
            let reason = RefusalReason::Closed(Closed::NoCapacity);
            Answer::Refused(crate::admission::Refusal { stage, reason, retry_after_s: None })
        })
    }

    fn claim(&mut self, now: Timestamp, stage: Stage, offer: Offer) -> Claimed {
        let (id, owner, tenant) = (offer.id, offer.owner, offer.tenant);
        // Whoever cannot be told that a claim has lapsed makes none.
        let Ok(slot) = self.control.clone().try_reserve_owned() else { return Claimed::MayWait };
        let claimed = self.gates.change(stage, |cell, wakes| {
            let claimed = cell.gate.claim(now, offer, wakes);
            if let Claimed::Held(_) = claimed {
                cell.reserved.insert(id, (owner, slot));
            }
            claimed
        });
        match &claimed {
            Some(Claimed::Held(_)) => self.gates.shared.queued.notify_one(),
            Some(Claimed::Refused(refusal)) => audit::refused(stage, tenant, refusal),
            Some(Claimed::MayWait) | None => {}
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

    fn keep(&mut self, _: Timestamp, lease: Lease, callback: CallbackId) {
        self.gates.keep_promise(callback, lease);
    }

    fn max_wait(&self, stage: Stage) -> Duration {
        self.gates.look(stage, |gate| gate.limits().max_wait()).unwrap_or_default()
    }

    fn spare(&self, stage: Stage) -> u32 {
        self.gates.look(stage, Gate::spare).unwrap_or_default()
    }

    fn has_queue(&self, stage: Stage) -> bool {
        self.gates.look(stage, |gate| gate.limits().queue > 0).unwrap_or_default()
    }
}
