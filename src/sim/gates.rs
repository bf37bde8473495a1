//! The gates in virtual time: no lock, no task; what they decide for others is kept until it is
//! asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::admission::gate::Gate;
use crate::admission::limits::{Limits, Mode, Slots};
use crate::admission::{
    Admit, Answer, Cancelled, Claimed, Closed, Lease, Offer, OfferId, OwnerId, Place, Refusal,
    RefusalReason, Release, Settled, Ticket, Wake,
};
use crate::evidence::Evidence;
use crate::id::{CallbackId, Generation, Stage};
use crate::time::Timestamp;

/// All gates of a simulated process.
pub(super) struct SimGates {
    pub gates: BTreeMap<Stage, Gate>,
    pub wakes: Vec<Wake>,
    /// Leases that were settled a second time: none may be.
    pub settled_twice: u32,
    /// Units of callbacks on record.
    pub promised: BTreeMap<CallbackId, Lease>,
    /// What was refused since it was last looked at.
    pub refused: Vec<RefusalReason>,
    /// Births of the work offered to the model since it was last looked at, and whose it is.
    pub births: Vec<(OwnerId, Timestamp)>,
    /// Somebody gave up waiting since it was last looked at.
    pub withdrawn: bool,
    /// Units that came back with proof since it was last looked at.
    pub returned: Vec<(OfferId, Evidence)>,
    /// Whose each offer was.
    owners: BTreeMap<OfferId, OwnerId>,
    /// Somebody has done something at a gate since the books were last looked at.
    touched: bool,
    /// Nothing waits anywhere, and nothing has been done since that was seen.
    idle: bool,
    next_offer: u64,
    /// What ran and waited when a limit was lowered below it, as far as it still does.
    grandfathered: BTreeMap<Stage, Grandfathered>,
}

/// A change of limits touches nothing that executes, and ends no wait (DESIGN section 3).
#[derive(Clone, Copy)]
struct Grandfathered {
    runs: usize,
    queued: u32,
}

impl SimGates {
    pub fn new(limits: impl IntoIterator<Item = (Stage, Limits)>) -> SimGates {
        let gates = limits.into_iter().map(|(stage, limits)| (stage, Gate::new(stage, limits)));
        SimGates {
            gates: gates.collect(),
            wakes: Vec::new(),
            settled_twice: 0,
            promised: BTreeMap::new(),
            refused: Vec::new(),
            births: Vec::new(),
            withdrawn: false,
            returned: Vec::new(),
            owners: BTreeMap::new(),
            touched: true,
            idle: false,
            next_offer: 0,
            grandfathered: BTreeMap::new(),
        }
    }

    /// Changes a gate's limits while `runs` of its runs have not ended.
    pub fn change(&mut self, now: Timestamp, stage: Stage, limits: Limits, runs: usize) {
        (self.touched, self.idle) = (true, false);
        let Some(gate) = self.gates.get_mut(&stage) else { return };
        let counts = gate.counts(now);
        let runs = runs.max(counts.active_units as usize);
        self.grandfathered.insert(stage, Grandfathered { runs, queued: counts.queued });
        gate.set_limits(now, limits, &mut self.wakes);
    }

    /// What is more than a gate's limits allow (invariants 2 and 11). `runs_at` counts the runs of
    /// a stage that have not ended, whatever the call was told of them.
    pub fn beyond_limits(
        &mut self,
        now: Timestamp,
        runs_at: impl Fn(Stage) -> usize,
    ) -> Option<String> {
        for (stage, gate) in &self.gates {
            let (counts, runs) = (gate.counts(now), runs_at(*stage));
            let old = self.grandfathered.get_mut(stage);
            let (old_runs, old_queued) = old.map_or((0, 0), |old| {
                old.runs = old.runs.min(runs.max(counts.active_units as usize));
                old.queued = old.queued.min(counts.queued);
                (old.runs, old.queued)
            });
            let limits = gate.limits();
            let enforces = limits.mode == Mode::Enforce;
            if let Slots::Units(units) = limits.slots
                && enforces
                && runs > old_runs.max(units as usize)
            {
                return Some(format!("{runs} runs at {stage}, which has {units} units"));
            }
            if enforces && counts.queued > old_queued.max(limits.queue) {
                let (queued, most) = (counts.queued, limits.queue);
                return Some(format!("{queued} wait at {stage}, where {most} may"));
            }
            if counts.queued_bytes > limits.queue_bytes {
                return Some(format!("{} bytes wait at {stage}", counts.queued_bytes));
            }
            if counts.tombstones > limits.tombstones.count {
                return Some(format!("{} ends are remembered at {stage}", counts.tombstones));
            }
        }
        None
    }

    /// Whose work was offered under this name.
    pub fn owner_of(&self, offer: OfferId) -> Option<OwnerId> {
        self.owners.get(&offer).copied()
    }

    /// Somebody could speak for this owner: a unit of synthesis is held or waited for, or may be.
    pub fn can_speak(&self, owner: OwnerId) -> bool {
        self.gates.get(&Stage::Synthesis).is_some_and(|gate| {
            let mut kept = gate.inventory().into_iter();
            let held = |place| matches!(place, Place::Active | Place::Queued);
            gate.limits().queue > 0 || kept.any(|k| k.owner == owner && held(k.place))
        })
    }

    /// Something of this owner waits at a gate.
    pub fn waits(&self, owner: OwnerId) -> bool {
        let queued = |gate: &Gate| {
            let mut kept = gate.inventory().into_iter();
            kept.any(|held| held.owner == owner && held.place == Place::Queued)
        };
        self.gates.values().any(queued)
    }

    /// What waits too long ends.
    pub fn expire(&mut self, now: Timestamp) {
        if self.idle {
            return;
        }
        for gate in self.gates.values_mut() {
            if gate.next_deadline().is_some_and(|deadline| deadline <= now) {
                gate.expire(now, &mut self.wakes);
                (self.touched, self.idle) = (true, false);
            }
        }
    }

    /// True once behind everything that was done at a gate.
    pub fn was_touched(&mut self) -> bool {
        if self.touched {
            self.idle = self.gates.values().all(|gate| gate.next_deadline().is_none());
        }
        std::mem::take(&mut self.touched)
    }

    /// Late proof for a unit of which nothing was known.
    pub fn evidence(&mut self, now: Timestamp, stage: Stage, offer: OfferId, evidence: Evidence) {
        (self.touched, self.idle) = (true, false);
        if let Some(gate) = self.gates.get_mut(&stage) {
            let _ = gate.evidence(now, offer, evidence, &mut self.wakes);
        }
    }

    /// When something that waits ends by itself: just behind its deadline.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if self.idle {
            return None;
        }
        let deadlines = self.gates.values().filter_map(Gate::next_deadline);
        deadlines.min().map(|deadline| deadline + Duration::from_millis(1))
    }

    /// What is wrong with the books right now (invariants 2 to 4).
    pub fn audit(&self) -> Option<String> {
        if self.settled_twice > 0 {
            return Some("a lease was settled twice".into());
        }
        self.gates.iter().find_map(|(stage, gate)| {
            if !gate.ledger().balances() {
                return Some(format!("the ledger of {stage} does not balance"));
            }
            gate.audit().err().map(|problem| format!("{stage}: {problem}"))
        })
    }

    /// The owners are over: what is then not as it was in the beginning (invariant 10), but for the
    /// units of runs that really go on.
    pub fn left_over(
        &mut self,
        now: Timestamp,
        owners: impl IntoIterator<Item = OwnerId>,
        runs_at: impl Fn(Stage) -> usize,
    ) -> Option<String> {
        for owner in owners {
            for (stage, gate) in &mut self.gates {
                let gone = gate.forget(now, owner, &mut self.wakes);
                if gone.unknown + gone.withdrawn > 0 {
                    return Some(format!("{stage} still holds something at the end: {gone:?}"));
                }
            }
        }
        self.gates.iter().find_map(|(stage, gate)| {
            let counts = gate.counts(now);
            let left = counts.active + u64::from(counts.queued) + counts.queued_bytes;
            let left = left + u64::from(counts.provisional) + u64::from(counts.cleanup_pending);
            if left > 0 || counts.owners > 0 || gate.next_deadline().is_some() {
                return Some(format!("{stage} is not as it began: {counts:?}"));
            }
            let runs = runs_at(*stage) as u64;
            (counts.quarantined != runs).then(|| {
                format!("{stage}: {} units are quarantined, {runs} run", counts.quarantined)
            })
        })
    }
}

impl Admit for SimGates {
    fn name_offer(&mut self) -> OfferId {
        self.next_offer += 1;
        OfferId(self.next_offer)
    }

    fn ask(&mut self, now: Timestamp, stage: Stage, offer: Offer) -> Answer {
        (self.touched, self.idle) = (true, false);
        self.owners.insert(offer.id, offer.owner);
        if stage == Stage::Model {
            self.births.push((offer.owner, offer.born));
        }
        let answer = match self.gates.get_mut(&stage) {
            Some(gate) => gate.offer(now, offer, &mut self.wakes),
            None => {
                let reason = RefusalReason::Closed(Closed::NoCapacity);
                Answer::Refused(Refusal { stage, reason, retry_after_s: None })
            }
        };
        if let Answer::Refused(refusal) = &answer {
            self.refused.push(refusal.reason);
        }
        answer
    }

    fn claim(&mut self, now: Timestamp, stage: Stage, offer: Offer) -> Claimed {
        (self.touched, self.idle) = (true, false);
        self.owners.insert(offer.id, offer.owner);
        let claimed = match self.gates.get_mut(&stage) {
            Some(gate) => gate.claim(now, offer, &mut self.wakes),
            None => {
                let reason = RefusalReason::Closed(Closed::NoCapacity);
                Claimed::Refused(Refusal { stage, reason, retry_after_s: None })
            }
        };
        if let Claimed::Refused(refusal) = &claimed {
            self.refused.push(refusal.reason);
        }
        claimed
    }

    fn confirm(&mut self, now: Timestamp, lease: &Lease) -> bool {
        (self.touched, self.idle) = (true, false);
        let wakes = &mut self.wakes;
        self.gates.get_mut(&lease.stage).is_some_and(|gate| gate.confirm(now, lease, wakes))
    }

    fn withdraw(&mut self, now: Timestamp, ticket: Ticket, why: Cancelled) {
        (self.touched, self.idle) = (true, false);
        self.withdrawn = true;
        if let Some(gate) = self.gates.get_mut(&ticket.stage) {
            // A grant that crossed this is among the wakes and goes back from there.
            let _ = gate.withdraw(now, ticket, why, &mut self.wakes);
        }
    }

    fn extend(&mut self, now: Timestamp, ticket: &Ticket) {
        (self.touched, self.idle) = (true, false);
        if let Some(gate) = self.gates.get_mut(&ticket.stage) {
            let _ = gate.extend(now, ticket);
        }
    }

    fn cancel(&mut self, now: Timestamp, lease: &Lease, why: Cancelled) {
        (self.touched, self.idle) = (true, false);
        if let Some(gate) = self.gates.get_mut(&lease.stage) {
            gate.cancel(now, lease, why);
        }
    }

    fn settle(&mut self, now: Timestamp, lease: Lease, release: Release) -> Settled {
        (self.touched, self.idle) = (true, false);
        if let Release::Completed(evidence) | Release::Failed(evidence) = release {
            self.returned.push((lease.offer, evidence));
        }
        let settled = match self.gates.get_mut(&lease.stage) {
            Some(gate) => gate.settle(now, lease, release, &mut self.wakes),
            None => Settled::AlreadyReleased,
        };
        self.settled_twice += u32::from(settled == Settled::AlreadyReleased);
        settled
    }

    fn rotate(&mut self, now: Timestamp, owner: OwnerId, generation: Generation, why: Cancelled) {
        (self.touched, self.idle) = (true, false);
        let first = generation == Generation(0);
        for (_, gate) in self.gates.iter_mut().filter(|(stage, _)| first || stage.rotates()) {
            // A repeated registration is refused by the gate and changes nothing.
            let _ = gate.rotate(now, owner, generation, why, &mut self.wakes);
        }
    }

    fn keep(&mut self, now: Timestamp, lease: Lease, callback: CallbackId) {
        // The same promise, made twice, holds one unit.
        if let Some(lease) = self.promised.insert(callback, lease) {
            let _ = self.settle(now, lease, Release::Completed(Evidence::Completed));
        }
    }

    fn max_wait(&self, stage: Stage) -> Duration {
        self.gates.get(&stage).map_or(Duration::ZERO, |gate| gate.limits().max_wait())
    }

    fn spare(&self, stage: Stage) -> u32 {
        self.gates.get(&stage).map_or(0, Gate::spare)
    }

    fn has_queue(&self, stage: Stage) -> bool {
        self.gates.get(&stage).is_some_and(|gate| gate.limits().queue > 0)
    }
}
