//! Taking back what was given: only on evidence, exactly once (A-113…A-123).

use super::super::ledger::Standing;
use super::super::records::{Found, NIL, Record, State};
use super::super::{
    Cancelled, Lease, OfferId, OwnerId, Release, Settled, Terminal, Ticket, Wake, mutant,
};
use super::Gate;
use crate::evidence::{Evidence, Unknown};
use crate::id::Generation;
use crate::time::Timestamp;

/// What became of a wait that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Withdrawn {
    /// It has left the queue.
    Left,
    /// A grant crossed it: the unit is on its way and must be settled `never_started`.
    Granted,
    /// It had ended before.
    Ended,
}

/// What a rotation took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rotated {
    /// Waits that ended `cancelled`.
    pub withdrawn: u32,
    /// Running work that lost its authority and keeps its units until it is settled.
    pub cancelled: u32,
}

/// What was left of an owner that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Forgotten {
    /// Waits and claims that ended `cancelled`.
    pub withdrawn: u32,
    /// Leases nobody settled: now unknown, each an anomaly.
    pub unknown: u32,
}

/// A generation only goes up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("generation {got} is not above {current}; a rotation goes to a higher one")]
pub struct NotNewer {
    /// What the owner has.
    pub current: Generation,
    /// What it was to get.
    pub got: Generation,
}

impl Gate {
    /// Gives up waiting, for a cause the owner knows.
    pub fn withdraw(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        why: Cancelled,
        wakes: &mut Vec<Wake>,
    ) -> Withdrawn {
        let now = self.clock(now);
        self.catch_up(now, wakes);
        let Found::At(at) = self.found(&ticket.slot, ticket.offer) else {
            return Withdrawn::Ended;
        };
        match self.slab[at].state {
            State::Queued => {
                self.end_waiting(now, at, Terminal::Cancelled(why), None);
                self.fill(now, wakes);
                Withdrawn::Left
            }
            State::Active | State::Quarantined(_) => {
                self.revoke(at, why);
                Withdrawn::Granted
            }
        }
    }

    /// The work behind a lease has lost its authority; its units stay taken. The first
    /// cause stays.
    pub fn cancel(&mut self, now: Timestamp, lease: &Lease, why: Cancelled) {
        self.clock(now);
        if let Found::At(at) = self.found(&lease.slot, lease.offer) {
            self.revoke(at, why);
        }
    }

    /// As [`Gate::cancel`], by name: for what has no lease in hand.
    pub(in crate::admission) fn cancel_named(
        &mut self,
        now: Timestamp,
        offer: OfferId,
        why: Cancelled,
    ) {
        self.clock(now);
        if let Some(at) = self.live(offer) {
            self.revoke(at, why);
        }
    }

    /// Gives a lease back, with proof or without.
    pub fn settle(
        &mut self,
        now: Timestamp,
        lease: Lease,
        release: Release,
        wakes: &mut Vec<Wake>,
    ) -> Settled {
        let now = self.clock(now);
        self.catch_up(now, wakes);
        let settled = match self.found(&lease.slot, lease.offer) {
            Found::At(at) => self.settle_at(now, at, release),
            Found::Ended | Found::NeverMade => self.released_before(),
        };
        self.fill(now, wakes);
        settled
    }

    /// Proof that came late for units in quarantine; `None` when none of this name are there.
    pub fn evidence(
        &mut self,
        now: Timestamp,
        offer: OfferId,
        evidence: Evidence,
        wakes: &mut Vec<Wake>,
    ) -> Option<Settled> {
        let now = self.clock(now);
        self.catch_up(now, wakes);
        self.ids.get(&offer.0)?;
        let settled = match self.live(offer).map(|at| (at, self.slab[at].state)) {
            None => self.released_before(),
            Some((at, State::Quarantined(_))) => self.release(now, at, evidence, Terminal::Failed),
            Some((_, State::Queued | State::Active)) => return None,
        };
        self.fill(now, wakes);
        Some(settled)
    }

    /// Registers an owner or moves it to a higher generation: what it has queued ends, what it has
    /// running loses its authority, its order of births begins anew. Costs what that owner has,
    /// whoever else is here.
    pub fn rotate(
        &mut self,
        now: Timestamp,
        owner: OwnerId,
        generation: Generation,
        why: Cancelled,
        wakes: &mut Vec<Wake>,
    ) -> Result<Rotated, NotNewer> {
        let now = self.clock(now);
        let Some(owner_at) = self.owners.find(owner) else {
            self.owners.add(owner, generation);
            return Ok(Rotated::default());
        };
        let current = self.owners[owner_at].generation;
        if generation <= current {
            return Err(NotNewer { current, got: generation });
        }
        self.catch_up(now, wakes);
        self.owners[owner_at].generation = generation;
        self.owners[owner_at].watermark = None;
        let mut rotated = Rotated::default();
        let mut at = self.owners[owner_at].live.first;
        while at != NIL {
            let next = self.slab[at].owned.after;
            match self.slab[at].state {
                State::Queued => {
                    self.end_waiting(now, at, Terminal::Cancelled(why), None);
                    rotated.withdrawn += 1;
                }
                State::Active | State::Quarantined(_) => {
                    rotated.cancelled += u32::from(self.revoke(at, why));
                }
            }
            at = next;
        }
        self.fill(now, wakes);
        Ok(rotated)
    }

    /// The owner is over: what waits or is only claimed ends, what is still leased becomes
    /// `unknown{dropped}` and stays counted.
    pub fn forget(&mut self, now: Timestamp, owner: OwnerId, wakes: &mut Vec<Wake>) -> Forgotten {
        let now = self.clock(now);
        let mut forgotten = Forgotten::default();
        let Some(owner_at) = self.owners.find(owner) else { return forgotten };
        self.catch_up(now, wakes);
        let mut at = self.owners[owner_at].live.first;
        while at != NIL {
            let next = self.slab[at].owned.after;
            match self.slab[at].state {
                State::Queued => {
                    self.end_waiting(now, at, Terminal::Cancelled(Cancelled::HangUp), None);
                    forgotten.withdrawn += 1;
                }
                State::Active if self.slab[at].provisional => {
                    // Nothing is ever started on a claim before it is confirmed.
                    self.ledger.released(Evidence::NeverStarted);
                    self.stop(now, at);
                    self.end(now, at, Standing::Active, Terminal::Cancelled(Cancelled::HangUp));
                    forgotten.withdrawn += 1;
                }
                State::Active => {
                    self.ledger.anomalies.dropped += 1;
                    self.quarantine(now, at, Unknown::Dropped);
                    self.disown(at);
                    forgotten.unknown += 1;
                }
                State::Quarantined(_) => self.disown(at),
            }
            at = next;
        }
        self.owners.remove(owner_at);
        self.fill(now, wakes);
        forgotten
    }

    /// What holds these units outlives its owner: they stay held when the owner is forgotten. False
    /// when the lease is not active any more.
    pub fn hand_on(&mut self, now: Timestamp, lease: &Lease) -> bool {
        self.clock(now);
        match self.slab.find(lease.slot, lease.offer) {
            Found::At(at) if self.slab[at].state == State::Active => {
                self.disown(at);
                true
            }
            Found::At(_) | Found::Ended | Found::NeverMade => false,
        }
    }

    /// The owner's current generation, if it is known here.
    pub fn generation(&self, owner: OwnerId) -> Option<Generation> {
        self.owners.find(owner).map(|at| self.owners[at].generation)
    }

    fn found(&mut self, slot: &super::super::SlotKey, offer: OfferId) -> Found {
        let found = self.slab.find(*slot, offer);
        if found == Found::NeverMade {
            self.ledger.anomalies.unknown_permit += 1;
        }
        found
    }

    /// True when this is news.
    fn revoke(&mut self, at: u32, why: Cancelled) -> bool {
        let record = &mut self.slab[at];
        let holds = matches!(record.state, State::Active | State::Quarantined(_));
        if !holds || record.cancelled.is_some() {
            return false;
        }
        record.cancelled = Some(why);
        self.cancelling += u32::from(record.state == State::Active);
        true
    }

    fn settle_at(&mut self, now: Timestamp, at: u32, release: Release) -> Settled {
        match (self.slab[at].state, release) {
            (State::Active | State::Quarantined(_), Release::Completed(evidence)) => {
                self.release(now, at, evidence, Terminal::Completed)
            }
            (State::Active | State::Quarantined(_), Release::Failed(evidence)) => {
                self.release(now, at, evidence, Terminal::Failed)
            }
            (State::Active, Release::Unknown(cause)) => self.quarantine(now, at, cause),
            (State::Quarantined(_), Release::Unknown(_)) => Settled::Quarantined,
            (State::Queued, _) => {
                debug_assert!(false, "a lease was made for {:?}, which waits", self.slab[at].offer);
                self.ledger.anomalies.unknown_permit += 1;
                Settled::AlreadyReleased
            }
        }
    }

    fn released_before(&mut self) -> Settled {
        if mutant::is("second_release_counted") {
            self.active_units = self.active_units.saturating_sub(1);
        }
        self.ledger.second_release();
        Settled::AlreadyReleased
    }

    /// The units are free: the only way back into the ceiling.
    fn release(&mut self, now: Timestamp, at: u32, by: Evidence, ran: Terminal) -> Settled {
        self.ledger.released(by);
        let terminal = self.slab[at].cancelled.map_or(ran, Terminal::Cancelled);
        let from = match self.slab[at].state {
            State::Quarantined(_) => {
                self.quarantined_units -= self.slab[at].cost;
                Standing::Quarantined
            }
            State::Active | State::Queued => {
                self.stop(now, at);
                Standing::Active
            }
        };
        self.end(now, at, from, terminal);
        Settled::Released(terminal)
    }

    /// Nothing proves that the units are free: they leave `active` and shrink the ceiling in force.
    fn quarantine(&mut self, now: Timestamp, at: u32, cause: Unknown) -> Settled {
        self.ledger.unknown(cause);
        if mutant::is("release_on_drop") {
            return self.release(now, at, Evidence::NeverStarted, Terminal::Failed);
        }
        self.stop(now, at);
        let record = &mut self.slab[at];
        record.state = State::Quarantined(cause);
        record.since = now;
        self.quarantined_units += record.cost;
        self.high.quarantined_units = self.high.quarantined_units.max(self.quarantined_units);
        let payer = Self::payer(&self.slab[at]);
        self.ledger.shift(payer, Standing::Active, Standing::Quarantined);
        Settled::Quarantined
    }

    pub(super) fn stop(&mut self, now: Timestamp, at: u32) {
        self.firm(at);
        let Record { lane, cost, cancelled, .. } = self.slab[at];
        self.lanes.stop(now, lane, cost);
        self.lanes.let_go(now, &self.slab[at]);
        self.cancelling -= u32::from(cancelled.is_some());
        match self.active_units.checked_sub(cost) {
            Some(units) => self.active_units = units,
            None => {
                self.ledger.anomalies.underflow += 1;
                self.active_units = 0;
            }
        }
    }
}
