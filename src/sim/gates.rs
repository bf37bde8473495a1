//! The gates in virtual time: no lock, no task; what they decide for others is kept until it is
//! asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::admission::gate::Gate;
use crate::admission::limits::Limits;
use crate::admission::{
    Admit, Answer, Cancelled, Claimed, Closed, Lease, Offer, OfferId, OwnerId, Refusal,
    RefusalReason, Release, Settled, Ticket, Wake,
};
use crate::id::{CallbackId, Generation, Stage};
use crate::time::Timestamp;

/// All gates of a simulated process.
pub(super) struct SimGates {
    pub gates: BTreeMap<Stage, Gate>,
    pub wakes: Vec<Wake>,
    /// Leases that were settled a second time: none may be.
    pub settled_twice: u32,
    /// Units of callbacks on record.
    pub promised: Vec<Lease>,
    next_offer: u64,
}

impl SimGates {
    pub fn new(limits: impl IntoIterator<Item = (Stage, Limits)>) -> SimGates {
        let gates = limits.into_iter().map(|(stage, limits)| (stage, Gate::new(stage, limits)));
        SimGates {
            gates: gates.collect(),
            wakes: Vec::new(),
            settled_twice: 0,
            promised: Vec::new(),
            next_offer: 0,
        }
    }

    /// What waits too long ends.
    pub fn expire(&mut self, now: Timestamp) {
        for gate in self.gates.values_mut() {
            gate.expire(now, &mut self.wakes);
        }
    }

    /// When something that waits ends by itself: just behind its deadline.
    pub fn next_deadline(&self) -> Option<Timestamp> {
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

    /// What is not as it was in the beginning (invariant 10).
    pub fn left_over(&self, now: Timestamp) -> Option<String> {
        self.gates.iter().find_map(|(stage, gate)| {
            let counts = gate.counts(now);
            let left = counts.active + u64::from(counts.queued);
            (left > 0).then(|| format!("{stage} still holds {left} at the end"))
        })
    }
}

impl Admit for SimGates {
    fn name_offer(&mut self) -> OfferId {
        self.next_offer += 1;
        OfferId(self.next_offer)
    }

    fn ask(&mut self, now: Timestamp, stage: Stage, offer: Offer) -> Answer {
        match self.gates.get_mut(&stage) {
            Some(gate) => gate.offer(now, offer, &mut self.wakes),
            None => {
                let reason = RefusalReason::Closed(Closed::NoCapacity);
                Answer::Refused(Refusal { stage, reason, retry_after_s: None })
            }
        }
    }

    fn claim(&mut self, now: Timestamp, stage: Stage, offer: Offer) -> Claimed {
        match self.gates.get_mut(&stage) {
            Some(gate) => gate.claim(now, offer, &mut self.wakes),
            None => {
                let reason = RefusalReason::Closed(Closed::NoCapacity);
                Claimed::Refused(Refusal { stage, reason, retry_after_s: None })
            }
        }
    }

    fn confirm(&mut self, now: Timestamp, lease: &Lease) -> bool {
        let wakes = &mut self.wakes;
        self.gates.get_mut(&lease.stage).is_some_and(|gate| gate.confirm(now, lease, wakes))
    }

    fn withdraw(&mut self, now: Timestamp, ticket: Ticket, why: Cancelled) {
        if let Some(gate) = self.gates.get_mut(&ticket.stage) {
            // A grant that crossed this is among the wakes and goes back from there.
            let _ = gate.withdraw(now, ticket, why, &mut self.wakes);
        }
    }

    fn extend(&mut self, now: Timestamp, ticket: &Ticket) {
        if let Some(gate) = self.gates.get_mut(&ticket.stage) {
            let _ = gate.extend(now, ticket);
        }
    }

    fn cancel(&mut self, now: Timestamp, lease: &Lease, why: Cancelled) {
        if let Some(gate) = self.gates.get_mut(&lease.stage) {
            gate.cancel(now, lease, why);
        }
    }

    fn settle(&mut self, now: Timestamp, lease: Lease, release: Release) -> Settled {
        let settled = match self.gates.get_mut(&lease.stage) {
            Some(gate) => gate.settle(now, lease, release, &mut self.wakes),
            None => Settled::AlreadyReleased,
        };
        self.settled_twice += u32::from(settled == Settled::AlreadyReleased);
        settled
    }

    fn rotate(&mut self, now: Timestamp, owner: OwnerId, generation: Generation, why: Cancelled) {
        let first = generation == Generation(0);
        for (_, gate) in self.gates.iter_mut().filter(|(stage, _)| first || stage.rotates()) {
            // A repeated registration is refused by the gate and changes nothing.
            let _ = gate.rotate(now, owner, generation, why, &mut self.wakes);
        }
    }

    fn keep(&mut self, _: Timestamp, lease: Lease, _: CallbackId) {
        self.promised.push(lease);
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
