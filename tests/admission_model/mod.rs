//! A gate as simple as it can be written, to hold the real one to: lists, scanned.

use std::collections::BTreeMap;

use floorkeeper::admission::limits::{Fairness, Limits, Slots, share_of};
use floorkeeper::admission::{Cancelled, Closed, Offer, Overload, RefusalReason, Terminal};
use floorkeeper::id::Generation;
use floorkeeper::time::Timestamp;

pub mod history;
pub mod small_world;

/// What the model says of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Admitted,
    Queued,
    Refused(RefusalReason),
}

/// What the model says to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Granted(u64),
    Ended(u64, Terminal),
}

#[derive(Clone, Debug)]
pub struct Item {
    pub id: u64,
    owner: u64,
    tenant: u32,
    cost: u32,
    bytes: u64,
    deadline: Timestamp,
    pub cancelled: Option<Cancelled>,
}

#[derive(Default)]
struct Owner {
    generation: Generation,
    watermark: Option<Timestamp>,
}

pub struct Model {
    pub limits: Limits,
    owners: BTreeMap<u64, Owner>,
    pub waiting: Vec<Item>,
    pub running: Vec<Item>,
    pub limbo: Vec<Item>,
    pub ended: BTreeMap<u64, Terminal>,
    pub closed: Option<Closed>,
    pub told: Vec<Told>,
    pub offered: u64,
    pub refused: u64,
}

fn units(items: &[Item]) -> u32 {
    items.iter().map(|item| item.cost).sum()
}

impl Model {
    pub fn new(limits: Limits) -> Self {
        Model {
            limits,
            owners: BTreeMap::new(),
            waiting: Vec::new(),
            running: Vec::new(),
            limbo: Vec::new(),
            ended: BTreeMap::new(),
            closed: None,
            told: Vec::new(),
            offered: 0,
            refused: 0,
        }
    }

    pub fn in_force(&self) -> u32 {
        let Slots::Units(slots) = self.limits.slots else { return u32::MAX };
        slots.saturating_sub(units(&self.limbo))
    }

    fn free(&self) -> u32 {
        self.in_force().saturating_sub(units(&self.running))
    }

    fn under_share(&self, tenant: u32, cost: u32) -> bool {
        let Fairness::HardCap { tenant_share_pct } = self.limits.fairness else { return true };
        let own = self.running.iter().filter(|item| item.tenant == tenant);
        let held: u32 = own.map(|item| item.cost).sum();
        held == 0 || held + cost <= share_of(self.in_force(), tenant_share_pct)
    }

    fn tenant_waits(&self, tenant: u32, before: usize) -> bool {
        let fair = matches!(self.limits.fairness, Fairness::HardCap { .. });
        self.waiting[..before].iter().any(|item| !fair || item.tenant == tenant)
    }

    /// The place in the queue of who goes next, whether or not it fits: the oldest of the tenants'
    /// first ones that its share lets go (B-064).
    fn next(&self) -> Option<usize> {
        let first = |(at, item): &(usize, &Item)| {
            !self.tenant_waits(item.tenant, *at) && self.under_share(item.tenant, item.cost)
        };
        self.waiting.iter().enumerate().find(first).map(|(at, _)| at)
    }

    pub fn fill(&mut self) {
        while let Some(at) = self.next() {
            if self.waiting[at].cost > self.free() {
                return;
            }
            let item = self.waiting.remove(at);
            self.told.push(Told::Granted(item.id));
            self.running.push(item);
        }
    }

    pub fn expire(&mut self, now: Timestamp) {
        let mut due: Vec<Item> =
            self.waiting.iter().filter(|item| now > item.deadline).cloned().collect();
        due.sort_by_key(|item| item.deadline);
        for item in due {
            self.waiting.retain(|waiting| waiting.id != item.id);
            self.told.push(Told::Ended(item.id, Terminal::Expired));
            self.end(item.id, Terminal::Expired);
        }
    }

    pub fn end(&mut self, id: u64, terminal: Terminal) {
        let before = self.ended.insert(id, terminal);
        assert_eq!(before, None, "offer {id} ended twice");
    }

    pub fn knows(&self, id: u64) -> bool {
        let live = [&self.waiting, &self.running, &self.limbo];
        self.ended.contains_key(&id) || live.iter().any(|items| items.iter().any(|i| i.id == id))
    }

    pub fn offer(&mut self, now: Timestamp, offer: &Offer) -> Said {
        self.offered += 1;
        let said = self.decide(now, offer);
        let item = Item {
            id: offer.id.0,
            owner: offer.owner.0,
            tenant: offer.tenant.0,
            cost: offer.cost,
            bytes: offer.bytes,
            deadline: offer.deadline,
            cancelled: None,
        };
        match said {
            Said::Admitted => self.running.push(item),
            Said::Queued => {
                let oldest = offer.born + self.limits.max_wait();
                self.waiting.push(Item { deadline: offer.deadline.min(oldest), ..item });
            }
            Said::Refused(_) => {
                self.refused += 1;
                return said;
            }
        }
        let owner = self.owners.get_mut(&offer.owner.0).unwrap();
        owner.watermark = owner.watermark.max(Some(offer.born));
        said
    }

    fn decide(&mut self, now: Timestamp, offer: &Offer) -> Said {
        use RefusalReason::{Duplicate, Expired, OutOfOrder, Overloaded, Stale};
        let refused = Said::Refused;
        if self.knows(offer.id.0) {
            return refused(Duplicate);
        }
        let Some(owner) = self.owners.get(&offer.owner.0) else { return refused(Stale) };
        if owner.generation != offer.generation {
            return refused(Stale);
        }
        if owner.watermark.is_some_and(|watermark| offer.born < watermark) {
            return refused(OutOfOrder);
        }
        self.expire(now);
        self.fill();
        if now > offer.deadline {
            return refused(Expired);
        }
        if let Some(why) = self.closed {
            return refused(RefusalReason::Closed(why));
        }
        if matches!(self.limits.slots, Slots::Units(slots) if offer.cost > slots) {
            return refused(RefusalReason::Closed(Closed::NoCapacity));
        }
        let under_share = self.under_share(offer.tenant.0, offer.cost);
        let own_waits = self.tenant_waits(offer.tenant.0, self.waiting.len());
        if under_share && offer.cost <= self.free() && !own_waits && self.next().is_none() {
            return Said::Admitted;
        }
        if self.limits.queue == 0 && under_share {
            return refused(Overloaded(Overload::NoQueue));
        }
        if self.limits.queue == 0 {
            return refused(Overloaded(Overload::TenantShare));
        }
        if now > offer.born + self.limits.max_wait() {
            return refused(Expired);
        }
        if let Fairness::HardCap { tenant_share_pct } = self.limits.fairness {
            let own = self.waiting.iter().filter(|item| item.tenant == offer.tenant.0).count();
            if own as u32 >= share_of(self.limits.queue, tenant_share_pct) {
                return refused(Overloaded(Overload::TenantShare));
            }
        }
        if self.waiting.len() as u32 >= self.limits.queue {
            return refused(Overloaded(Overload::QueueFull));
        }
        let bytes: u64 = self.waiting.iter().map(|item| item.bytes).sum();
        if bytes + offer.bytes > self.limits.queue_bytes {
            return refused(Overloaded(Overload::Bytes));
        }
        Said::Queued
    }

    pub fn generation(&self, owner: u64) -> Option<Generation> {
        self.owners.get(&owner).map(|owner| owner.generation)
    }

    pub fn rotate(&mut self, now: Timestamp, owner: u64, generation: Generation) {
        let known = self.owners.contains_key(&owner);
        self.owners.insert(owner, Owner { generation, watermark: None });
        if known {
            self.expire(now);
            self.fill();
            self.drop_waiting_of(owner, Cancelled::BargeIn);
        }
        for item in self.running.iter_mut().chain(&mut self.limbo) {
            if item.owner == owner {
                item.cancelled = item.cancelled.or(Some(Cancelled::BargeIn));
            }
        }
        self.fill();
    }

    pub fn forget(&mut self, now: Timestamp, owner: u64) {
        if self.owners.remove(&owner).is_none() {
            return;
        }
        self.expire(now);
        self.fill();
        self.drop_waiting_of(owner, Cancelled::HangUp);
        let (dropped, kept) = self.running.drain(..).partition(|item| item.owner == owner);
        self.running = kept;
        self.limbo.extend(dropped);
        for item in &mut self.limbo {
            if item.owner == owner {
                item.owner = u64::MAX;
            }
        }
        self.fill();
    }

    fn drop_waiting_of(&mut self, owner: u64, why: Cancelled) {
        let (gone, kept): (Vec<Item>, _) =
            self.waiting.drain(..).partition(|item| item.owner == owner);
        self.waiting = kept;
        for item in &gone {
            self.end(item.id, Terminal::Cancelled(why));
        }
    }

    pub fn take_waiting(&mut self, id: u64) -> Option<Item> {
        let at = self.waiting.iter().position(|item| item.id == id)?;
        Some(self.waiting.remove(at))
    }

    /// Takes out what holds units under this name, with whether it was in limbo.
    pub fn take_holding(&mut self, id: u64) -> Option<(Item, bool)> {
        if let Some(at) = self.running.iter().position(|item| item.id == id) {
            return Some((self.running.remove(at), false));
        }
        let at = self.limbo.iter().position(|item| item.id == id)?;
        Some((self.limbo.remove(at), true))
    }

    /// All that decides what follows, with times as they lie from now.
    pub fn fingerprint(&self, now: Timestamp) -> String {
        let ahead = |at: Timestamp| at.as_micros() as i64 - now.as_micros() as i64;
        let items = |items: &[Item]| -> Vec<_> {
            let shown = |i: &Item| (i.id, i.owner, i.cost, ahead(i.deadline).max(-1), i.cancelled);
            items.iter().map(shown).collect()
        };
        let owners: Vec<_> = self
            .owners
            .iter()
            .map(|(id, owner)| {
                (*id, owner.generation, owner.watermark.map(|at| ahead(at).max(-20_000)))
            })
            .collect();
        format!(
            "{:?} {:?} {:?} {owners:?} {:?} {:?} {:?}",
            items(&self.waiting),
            items(&self.running),
            items(&self.limbo),
            self.closed,
            self.limits.slots,
            self.ended.keys().collect::<Vec<_>>(),
        )
    }

    pub fn revoke(&mut self, id: u64, why: Cancelled) {
        for item in self.running.iter_mut().chain(&mut self.limbo) {
            if item.id == id {
                item.cancelled = item.cancelled.or(Some(why));
            }
        }
    }
}
