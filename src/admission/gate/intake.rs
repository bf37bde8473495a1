//! Answering an offer: the order of checks, and what each answer keeps.

use super::super::lanes::TENANTS_MAX;
use super::super::ledger::{Payer, Standing};
use super::super::limits::{Fairness, Intake, Mode, Overflow, Slots, share_of};
use super::super::records::{Link, Record, State};
use super::super::{
    Answer, Lease, Offer, OfferId, Overload, Refusal, RefusalReason, ShedRule, Terminal, Ticket,
    Wake, mutant,
};
use super::{Gate, Pressure};
use crate::time::Timestamp;

use RefusalReason::{Duplicate, Expired, OutOfOrder, Overloaded, Stale};

/// Arguments that no offer can have: a bug of whoever made it, never a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// Time does not run backwards.
    #[error("born {born}, after now ({now}); an offer is born at or before the moment it is made")]
    BornInTheFuture {
        /// When it says it was born.
        born: Timestamp,
        /// When it was offered.
        now: Timestamp,
    },
    /// Work that takes nothing needs no gate.
    #[error("cost is 0; an offer costs at least 1 unit")]
    NoCost,
}

impl Offer {
    /// Says what is impossible about this offer at this time.
    pub fn check(&self, now: Timestamp) -> Result<(), OfferError> {
        if self.born > now {
            return Err(OfferError::BornInTheFuture { born: self.born, now });
        }
        if self.cost == 0 {
            return Err(OfferError::NoCost);
        }
        Ok(())
    }
}

/// What policy says of an offer whose ownership is right.
pub(super) enum Verdict {
    Admit,
    /// Wait, after these have made room.
    Queue(Vec<u32>),
    Refuse(RefusalReason),
}

impl Gate {
    /// Answers an offer. A refusal consumes nothing: no watermark, no share, no identity.
    pub fn offer(&mut self, now: Timestamp, offer: Offer, wakes: &mut Vec<Wake>) -> Answer {
        let now = self.clock(now);
        let offer = self.sound(now, offer);
        match self.judge(now, &offer, wakes) {
            Ok((owner_at, Verdict::Admit)) => Answer::Admitted(self.admit(now, &offer, owner_at)),
            Ok((owner_at, Verdict::Queue(displaced))) => {
                Answer::Queued(self.enqueue(now, &offer, owner_at, displaced, wakes))
            }
            Ok((_, Verdict::Refuse(reason))) | Err(reason) => {
                Answer::Refused(self.refuse(&offer, reason))
            }
        }
    }

    /// Where the owner of an offer is kept, and what is to become of the offer; the error is an
    /// offer that its owner may not make.
    #[inline]
    pub(super) fn judge(
        &mut self,
        now: Timestamp,
        offer: &Offer,
        wakes: &mut Vec<Wake>,
    ) -> Result<(u32, Verdict), RefusalReason> {
        let payer = Payer::of(offer);
        if offer.retry_of.is_some() {
            self.ledger.retry(payer);
        }
        if mutant::is("generation_after_expiry") && now > offer.deadline {
            return Err(Expired);
        }
        let owner_at = self.ownership(offer)?;
        if self.limits.intake == Intake::AtOnce {
            self.catch_up(now, wakes);
        }
        let verdict = match self.limits.mode {
            Mode::Off => Verdict::Admit,
            Mode::Observe => {
                let verdict = self.verdict(now, offer);
                self.note(payer, &verdict);
                Verdict::Admit
            }
            Mode::Enforce => self.verdict(now, offer),
        };
        Ok((owner_at, verdict))
    }

    /// The offer with impossible arguments made possible; the bug is counted, and asserted where
    /// that is on.
    pub(super) fn sound(&mut self, now: Timestamp, mut offer: Offer) -> Offer {
        if let Err(bug) = offer.check(now) {
            debug_assert!(false, "{}: {:?}: {bug}", self.stage, offer.id);
            self.ledger.anomalies.invalid_offer += 1;
            offer.born = offer.born.min(now);
            offer.cost = offer.cost.max(1);
        }
        if let Some((born, deadline)) = offer.retry_of.and_then(|earlier| self.times_of(earlier)) {
            // A retry never makes its work younger.
            offer.born = offer.born.min(born);
            offer.deadline = offer.deadline.min(deadline);
        }
        offer
    }

    fn times_of(&self, offer: OfferId) -> Option<(Timestamp, Timestamp)> {
        if let Some(at) = self.live(offer) {
            return Some((self.slab[at].born, self.slab[at].deadline));
        }
        self.ids.get(&offer.0)?;
        self.tombstones.find(offer).map(|ended| (ended.born, ended.deadline))
    }

    /// Where the owner is kept, whose current generation this offer is of.
    fn ownership(&self, offer: &Offer) -> Result<u32, RefusalReason> {
        if self.ids.contains_key(&offer.id.0) {
            return Err(Duplicate);
        }
        let owner_at = self.owners.find(offer.owner).ok_or(Stale)?;
        let owner = &self.owners[owner_at];
        if owner.generation != offer.generation {
            return Err(Stale);
        }
        match owner.watermark {
            Some(watermark) if offer.born < watermark => Err(OutOfOrder),
            Some(_) | None => Ok(owner_at),
        }
    }

    fn verdict(&mut self, now: Timestamp, offer: &Offer) -> Verdict {
        if now > offer.deadline {
            return Verdict::Refuse(Expired);
        }
        if let Some(why) = self.closed {
            return Verdict::Refuse(RefusalReason::Closed(why));
        }
        if self.has_no_capacity_for(offer.cost) {
            return Verdict::Refuse(RefusalReason::Closed(super::Closed::NoCapacity));
        }
        if self.pressure == Pressure::Refuse {
            return Verdict::Refuse(Overloaded(Overload::UpstreamPressure));
        }
        let at_share = self.tenant_is_at_share(offer);
        if !at_share && !self.must_wait(now, offer) {
            return Verdict::Admit;
        }
        self.reached = true;
        if self.limits.queue == 0 {
            return Verdict::Refuse(Overloaded(self.why_no_wait(at_share)));
        }
        match self.room_to_wait(now, offer) {
            Ok(displaced) => Verdict::Queue(displaced),
            Err(reason) => Verdict::Refuse(reason),
        }
    }

    fn tenant_is_at_share(&self, offer: &Offer) -> bool {
        let Fairness::HardCap { tenant_share_pct } = self.limits.fairness else { return false };
        let Some(ceiling) = self.ceiling_in_force() else { return false };
        let held = self.lanes.share(offer.tenant).map_or(0, |share| share.units);
        held + offer.cost > share_of(ceiling, tenant_share_pct).max(offer.cost)
    }

    /// No unit is free for it, or somebody who could run waits already: a newcomer never jumps.
    fn must_wait(&mut self, now: Timestamp, offer: &Offer) -> bool {
        let room = self.room();
        let reserved = self.lanes.reserved_from(offer.class);
        if self.limits.intake == Intake::QueueFirst || self.pressure == Pressure::Queue {
            return true;
        }
        if room.free.saturating_sub(reserved) < offer.cost {
            return true;
        }
        // Of its own lane even one who cannot go now: small ones would starve a large one.
        !mutant::is("newcomer_jumps")
            && self.lanes.waiting() > 0
            && (self.lanes.own_waits(offer.tenant, offer.class)
                || self.lanes.next(&self.slab, now, room).is_some())
    }

    fn why_no_wait(&self, at_share: bool) -> Overload {
        match (at_share, self.pressure) {
            (true, _) => Overload::TenantShare,
            (false, Pressure::Queue) => Overload::UpstreamPressure,
            (false, Pressure::Open | Pressure::Refuse) => Overload::NoQueue,
        }
    }

    /// Which of the waiting must go to make room for it; an error when there is none.
    fn room_to_wait(&self, now: Timestamp, offer: &Offer) -> Result<Vec<u32>, RefusalReason> {
        if now > self.waits_until(offer) {
            return Err(Expired);
        }
        let displaced = match self.limits.overflow {
            Overflow::Reject => Vec::new(),
            Overflow::Replace => self.older_of_its_key(offer).into_iter().collect(),
            Overflow::Shed => self.superseded_for(offer),
        };
        let same = displaced.iter().filter(|&&at| self.slab[at].tenant == offer.tenant).count();
        self.tenant_may_wait(offer, same as u32)?;
        if self.lanes.waiting() - displaced.len() as u32 >= self.limits.queue {
            return Err(Overloaded(Overload::QueueFull));
        }
        let freed: u64 = displaced.iter().map(|&at| self.slab[at].bytes).sum();
        if (self.queued_bytes - freed).saturating_add(offer.bytes) > self.limits.queue_bytes {
            return Err(Overloaded(Overload::Bytes));
        }
        Ok(displaced)
    }

    fn waits_until(&self, offer: &Offer) -> Timestamp {
        offer.deadline.min(offer.born.plus_ms(self.limits.max_wait_ms))
    }

    fn tenant_may_wait(&self, offer: &Offer, displaced: u32) -> Result<(), RefusalReason> {
        let queued = self.lanes.share(offer.tenant).map_or(0, |share| share.queued);
        let queued = queued.saturating_sub(displaced);
        let most = match self.limits.fairness {
            Fairness::Fifo => return Ok(()),
            Fairness::HardCap { tenant_share_pct } => share_of(self.limits.queue, tenant_share_pct),
            // The last quarter of the queue is for tenants of which nobody waits.
            Fairness::Fair if queued == 0 => return Ok(()),
            Fairness::Fair => {
                let others = self.lanes.waiting() - queued;
                let kept = self.limits.queue / 4;
                self.limits.queue.saturating_sub(others).saturating_sub(kept).max(1)
            }
        };
        if queued < most { Ok(()) } else { Err(Overloaded(Overload::TenantShare)) }
    }

    fn older_of_its_key(&self, offer: &Offer) -> Option<u32> {
        let key = offer.supersedes?;
        self.keys.get(&(offer.tenant.0, key)).copied()
    }

    /// The oldest superseded of the waiting, as many as the newcomer needs; all of them if that is
    /// not enough.
    fn superseded_for(&self, offer: &Offer) -> Vec<u32> {
        let full = self.lanes.waiting() >= self.limits.queue;
        let excess = self.queued_bytes.saturating_add(offer.bytes);
        let excess = excess.saturating_sub(self.limits.queue_bytes);
        if !full && excess == 0 {
            return Vec::new();
        }
        let newest = self.older_of_its_key(offer);
        let mut superseded: Vec<(u64, u32)> = self
            .slab
            .live()
            .filter(|(_, record)| record.state == State::Queued)
            .filter(|(at, record)| Some(*at) == newest || self.is_superseded(*at, record))
            .map(|(at, record)| (record.arrival, at))
            .collect();
        superseded.sort_unstable();
        let mut freed = 0;
        let mut enough = Vec::new();
        for (_, at) in superseded {
            if !enough.is_empty() && freed >= excess {
                break;
            }
            freed += self.slab[at].bytes;
            enough.push(at);
        }
        enough
    }

    fn is_superseded(&self, at: u32, record: &Record) -> bool {
        Self::key_of(record).is_some_and(|key| self.keys.get(&key) != Some(&at))
    }

    fn note(&mut self, payer: Payer, verdict: &Verdict) {
        match verdict {
            Verdict::Admit => {}
            Verdict::Queue(_) => self.ledger.would_queue(payer),
            Verdict::Refuse(reason) => self.ledger.would_refuse(payer, *reason),
        }
    }

    pub(super) fn refuse(&mut self, offer: &Offer, reason: RefusalReason) -> Refusal {
        if mutant::is("watermark_moved_by_refusal")
            && let Some(owner) = self.owners.find(offer.owner)
        {
            let watermark = &mut self.owners[owner].watermark;
            *watermark = (*watermark).max(Some(offer.born));
        }
        self.ledger.shift(Payer::of(offer), Standing::Offered, Standing::Refused(reason));
        self.refusal(reason)
    }

    /// A refusal for this reason, with the hint that goes with it.
    pub fn refusal(&self, reason: RefusalReason) -> Refusal {
        let retry_after_s = reason.disposition().retry.seconds(self.mean_wait_us / 1_000);
        Refusal { stage: self.stage, reason, retry_after_s }
    }

    pub(super) fn admit(&mut self, now: Timestamp, offer: &Offer, owner_at: u32) -> Lease {
        let at = self.keep(now, offer, owner_at, State::Active);
        self.ledger.shift(self.payer_at(at), Standing::Offered, Standing::Active);
        self.start(now, at);
        Lease { stage: self.stage, offer: offer.id, slot: self.slab.key(at) }
    }

    /// Work that was under way before this gate: it holds its units whatever the limits say, and is
    /// the ledger's opening.
    pub fn inherit(&mut self, now: Timestamp, offer: Offer) -> Lease {
        let now = self.clock(now);
        let owner_at = match self.owners.find(offer.owner) {
            Some(at) => at,
            None => self.owners.add(offer.owner, offer.generation),
        };
        let at = self.keep(now, &offer, owner_at, State::Active);
        self.ledger.shift(self.payer_at(at), Standing::Opening, Standing::Active);
        self.start(now, at);
        Lease { stage: self.stage, offer: offer.id, slot: self.slab.key(at) }
    }

    fn enqueue(
        &mut self,
        now: Timestamp,
        offer: &Offer,
        owner_at: u32,
        displaced: Vec<u32>,
        wakes: &mut Vec<Wake>,
    ) -> Ticket {
        for at in displaced {
            let terminal = match self.limits.overflow {
                Overflow::Shed => Terminal::Shed { rule: ShedRule::Superseded },
                Overflow::Replace | Overflow::Reject => Terminal::Replaced { by: offer.id },
            };
            self.end_waiting(now, at, terminal, Some(wakes));
        }
        let at = self.keep(now, offer, owner_at, State::Queued);
        self.ledger.shift(self.payer_at(at), Standing::Offered, Standing::Queued);
        self.slab[at].deadline = self.waits_until(offer);
        self.lanes.push(&mut self.slab, at);
        let Record { deadline, arrival, .. } = self.slab[at];
        self.deadlines.add(at, deadline, arrival);
        self.queued_bytes += offer.bytes;
        if let Some(key) = Self::key_of(&self.slab[at]) {
            self.keys.insert(key, at);
        }
        self.high.queued = self.high.queued.max(self.lanes.waiting());
        self.high.queued_bytes = self.high.queued_bytes.max(self.queued_bytes);
        let ticket = Ticket { stage: self.stage, offer: offer.id, slot: self.slab.key(at) };
        // What was displaced may have stood before somebody smaller.
        self.fill(now, wakes);
        ticket
    }

    /// Retains the offer: from here on it has an identity, an owner and an end to come.
    fn keep(&mut self, now: Timestamp, offer: &Offer, owner_at: u32, state: State) -> u32 {
        self.arrivals += 1;
        let mut record = Record {
            epoch: 0,
            free: false,
            state,
            offer: offer.id,
            owner: offer.owner,
            tenant: offer.tenant,
            class: offer.class,
            cost: offer.cost,
            bytes: offer.bytes,
            born: offer.born,
            deadline: offer.deadline,
            since: now,
            arrival: self.arrivals,
            cancelled: None,
            supersedes: offer.supersedes,
            provisional: false,
            extended: false,
            lane: 0,
            queue: Link::NONE,
            owned: Link::NONE,
            owner_at,
        };
        if self.lanes.hold(now, &mut record) {
            debug_assert!(self.lanes.tenants_active() as usize >= TENANTS_MAX);
            self.ledger.anomalies.tenant_table_full += 1;
        }
        let at = self.slab.keep(record);
        self.ids.insert(offer.id.0, at);
        let owner = &mut self.owners[owner_at];
        owner.watermark = owner.watermark.max(Some(offer.born));
        owner.live.push(&mut self.slab, at, |record| &mut record.owned);
        at
    }

    fn payer_at(&self, at: u32) -> Payer {
        Self::payer(&self.slab[at])
    }

    /// True when the configured ceiling is a number and not zero; used by warm-up and adaptation.
    pub fn has_ceiling(&self) -> bool {
        matches!(self.limits.slots, Slots::Units(units) if units > 0)
    }
}
