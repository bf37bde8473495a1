//! A second configuration fed the same offers and the same work: what it would have refused, and
//! how long it would have made people wait, with a queue and leases of its own that nobody runs on.
//!
//! Observe-mode counts are not this: there no queue existed. Work that the real gate refused and
//! the shadow takes is held for the mean of what was seen; work that the shadow starts later ends
//! as much later.

use std::collections::{BTreeMap, BTreeSet};

use super::gate::Gate;
use super::ledger::Account;
use super::limits::Limits;
use super::waits::Waits;
use super::{Answer, Cancelled, Lease, Offer, OfferId, OwnerId, Release, Ticket, Wake};
use crate::evidence::Evidence;
use crate::id::{Generation, Stage};
use crate::time::Timestamp;
use std::time::Duration;

/// What became of an offer at the real gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Real {
    /// It runs.
    Admitted,
    /// It waits.
    Queued,
    /// It was refused.
    Refused,
}

/// What a shadow has seen so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShadowReport {
    /// Its account: refusals by reason, expiries, everything.
    pub account: Account,
    /// How long its grants waited.
    pub waits: Waits,
    /// What waits in it now.
    pub queued: u32,
    /// Units its virtual leases hold now.
    pub active_units: u32,
}

/// One offer as the shadow has it.
#[derive(Debug)]
struct Virtual {
    owner: OwnerId,
    ticket: Option<Ticket>,
    lease: Option<Lease>,
    offered: Timestamp,
    /// When it began in the shadow.
    began: Option<Timestamp>,
    /// When it began in truth.
    truly_began: Option<Timestamp>,
    /// How long it holds its unit and how it ends, once that is known.
    over: Option<(Duration, Release)>,
}

/// The second configuration.
#[derive(Debug)]
pub struct Shadow {
    gate: Gate,
    offers: BTreeMap<OfferId, Virtual>,
    /// Ends of virtual work, in order.
    ends: BTreeSet<(Timestamp, OfferId)>,
    mean_hold_us: u64,
    waits: Waits,
}

impl Shadow {
    /// A shadow with these limits, for the work of this stage.
    pub fn new(stage: Stage, limits: Limits) -> Self {
        Shadow {
            gate: Gate::new(stage, limits),
            offers: BTreeMap::new(),
            ends: BTreeSet::new(),
            mean_hold_us: 0,
            waits: Waits::default(),
        }
    }

    /// What it has seen so far.
    pub fn report(&self) -> ShadowReport {
        let counts = self.gate.counts(self.gate.now());
        ShadowReport {
            account: self.gate.ledger().total().clone(),
            waits: self.waits.clone(),
            queued: counts.queued,
            active_units: counts.active_units,
        }
    }

    /// An offer, with what the real gate said.
    pub fn offered(&mut self, now: Timestamp, offer: &Offer, real: Real) {
        self.end_due(now);
        // Who was known before the shadow began is registered by its first offer.
        if self.gate.generation(offer.owner).is_none() {
            self.rotate(now, offer.owner, offer.generation, Cancelled::Client);
        }
        let mut wakes = Vec::new();
        let answer = self.gate.offer(now, offer.clone(), &mut wakes);
        let (ticket, lease) = match answer {
            Answer::Admitted(lease) => (None, Some(lease)),
            Answer::Queued(ticket) => (Some(ticket), None),
            Answer::Refused(_) => return self.woken(now, wakes),
        };
        let began = lease.is_some().then_some(now);
        if began.is_some() {
            self.waits.add(Duration::ZERO);
        }
        let (owner, offered) = (offer.owner, now);
        let truly_began = (real == Real::Admitted).then_some(now);
        let entry = Virtual { owner, ticket, lease, offered, began, truly_began, over: None };
        self.offers.insert(offer.id, entry);
        if real == Real::Refused {
            self.ends_by_guess(offer.id);
        }
        self.woken(now, wakes);
    }

    /// The real gate granted a wait.
    pub fn started(&mut self, now: Timestamp, offer: OfferId) {
        self.end_due(now);
        if let Some(entry) = self.offers.get_mut(&offer) {
            entry.truly_began = Some(now);
        }
    }

    /// The real lease was settled.
    pub fn settled(&mut self, now: Timestamp, offer: OfferId, release: Release) {
        self.end_due(now);
        let Some(entry) = self.offers.get_mut(&offer) else { return };
        let hold = entry.truly_began.map_or(Duration::ZERO, |began| now.since(began));
        entry.over = Some((hold, release));
        let hold_us = hold.as_micros() as u64;
        self.mean_hold_us = match self.mean_hold_us {
            0 => hold_us,
            mean => (mean * 7 + hold_us) / 8,
        };
        self.schedule(now, offer);
        self.end_due(now);
    }

    /// A real wait ended without a unit, in a way that need not be so here.
    pub fn wait_ended(&mut self, now: Timestamp, offer: OfferId) {
        self.end_due(now);
        self.ends_by_guess(offer);
    }

    /// Whoever offered it has given up: it ends here too, wherever it stands.
    pub fn given_up(&mut self, now: Timestamp, offer: OfferId, why: Cancelled) {
        self.end_due(now);
        self.give_up(now, offer, why);
    }

    /// Real work lost its authority.
    pub fn cancelled(&mut self, now: Timestamp, offer: OfferId, why: Cancelled) {
        self.end_due(now);
        self.gate.cancel_named(now, offer, why);
    }

    /// Proof came late for a unit in quarantine.
    pub fn proven(&mut self, now: Timestamp, offer: OfferId, evidence: Evidence) {
        self.end_due(now);
        let mut wakes = Vec::new();
        self.gate.evidence(now, offer, evidence, &mut wakes);
        self.woken(now, wakes);
    }

    /// An owner's generation rotated.
    pub fn rotate(
        &mut self,
        now: Timestamp,
        owner: OwnerId,
        generation: Generation,
        why: Cancelled,
    ) {
        self.end_due(now);
        let mut wakes = Vec::new();
        // A rotation the real gate refused is refused here.
        let _ = self.gate.rotate(now, owner, generation, why, &mut wakes);
        self.woken(now, wakes);
        self.offers.retain(|_, entry| entry.owner != owner || entry.ticket.is_none());
    }

    /// An owner is over.
    pub fn forget(&mut self, now: Timestamp, owner: OwnerId) {
        self.end_due(now);
        let mut wakes = Vec::new();
        let _ = self.gate.forget(now, owner, &mut wakes);
        self.woken(now, wakes);
        self.offers.retain(|_, entry| entry.owner != owner || entry.lease.is_some());
    }

    /// Time has passed.
    pub fn advance(&mut self, now: Timestamp) {
        self.end_due(now);
        let mut wakes = Vec::new();
        self.gate.expire(now, &mut wakes);
        self.woken(now, wakes);
    }

    /// Ends the virtual work that is over by now. The gate itself catches up when it is asked
    /// something.
    fn end_due(&mut self, now: Timestamp) {
        while let Some(&(at, offer)) = self.ends.first() {
            if at > now {
                break;
            }
            self.ends.pop_first();
            let Some(entry) = self.offers.remove(&offer) else { continue };
            let (Some(lease), Some((_, release))) = (entry.lease, entry.over) else { continue };
            let mut wakes = Vec::new();
            let _ = self.gate.settle(at, lease, release, &mut wakes);
            self.woken(at, wakes);
        }
    }

    fn woken(&mut self, now: Timestamp, wakes: Vec<Wake>) {
        for wake in wakes {
            match wake {
                Wake::Granted { lease, .. } => {
                    let offer = lease.offer;
                    let Some(entry) = self.offers.get_mut(&offer) else { continue };
                    entry.ticket = None;
                    entry.lease = Some(lease);
                    entry.began = Some(now);
                    self.waits.add(now.since(entry.offered));
                    self.schedule(now, offer);
                }
                Wake::Ended { offer, .. } => {
                    self.offers.remove(&offer);
                }
            }
        }
    }

    /// Nobody will say how long this would have run: as long as the mean of what was seen.
    fn ends_by_guess(&mut self, offer: OfferId) {
        let hold = Duration::from_micros(self.mean_hold_us);
        let Some(entry) = self.offers.get_mut(&offer) else { return };
        entry.over = Some((hold, Release::Completed(Evidence::Completed)));
        self.schedule(self.gate.now(), offer);
    }

    fn schedule(&mut self, now: Timestamp, offer: OfferId) {
        let Some(entry) = self.offers.get(&offer) else { return };
        if let (Some(began), Some((hold, _))) = (entry.began, entry.over) {
            self.ends.insert(((began + hold).max(now), offer));
        }
    }

    fn give_up(&mut self, now: Timestamp, offer: OfferId, why: Cancelled) {
        let Some(entry) = self.offers.remove(&offer) else { return };
        let mut wakes = Vec::new();
        if let Some(ticket) = entry.ticket {
            let _ = self.gate.withdraw(now, ticket, why, &mut wakes);
        }
        if let Some(lease) = entry.lease {
            self.gate.cancel(now, &lease, why);
            let release = Release::Failed(Evidence::NeverStarted);
            let _ = self.gate.settle(now, lease, release, &mut wakes);
        }
        self.woken(now, wakes);
    }
}
