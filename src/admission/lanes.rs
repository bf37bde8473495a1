//! Who of the waiting goes next: lanes of arrival order, one for all or one a tenant and class.

use super::limits::{ClassRule, Fairness, Limits, share_of};
use super::mutant;
use super::records::{Ends, NIL, Record, Slab};
use crate::id::{ClassId, TenantId};
use crate::time::{Timestamp, ms};

/// Tenants told apart in one gate; the rest share one last place and one share (B-066).
pub const TENANTS_MAX: usize = 64;
/// Rank of a class without a rule.
const RANK_DEFAULT: u8 = 100;

/// The queue of one gate, split as its fairness needs.
#[derive(Clone)]
pub(super) struct Lanes {
    rules: Vec<ClassRule>,
    fairness: Fairness,
    aging_ms: Option<u64>,
    tenants: Vec<TenantShare>,
    queues: Vec<Ends>,
    /// Units each class holds; the last is of classes without a rule.
    class_units: Vec<u32>,
    waiting: u32,
    /// Slot-time of the tenant served least among the busy: where a newly busy tenant begins.
    floor_us: u64,
}

/// What one tenant has of a gate.
#[derive(Clone, Debug)]
pub(super) struct TenantShare {
    tenant: Option<TenantId>,
    pub units: u32,
    pub queued: u32,
    /// Records that count here.
    holds: u32,
    /// Slot-microseconds had so far.
    used_us: u64,
    accrued: Timestamp,
}

impl TenantShare {
    fn of(tenant: Option<TenantId>, used_us: u64, accrued: Timestamp) -> Self {
        TenantShare { tenant, units: 0, queued: 0, holds: 0, used_us, accrued }
    }

    fn accrue(&mut self, now: Timestamp) {
        let span = now.micros_since(self.accrued);
        self.used_us = self.used_us.saturating_add(span.saturating_mul(self.units.into()));
        self.accrued = self.accrued.max(now);
    }
}

impl Lanes {
    pub fn new(limits: &Limits) -> Self {
        let classes = limits.classes.len() + 1;
        Lanes {
            rules: limits.classes.clone(),
            fairness: limits.fairness,
            aging_ms: limits.aging_ms,
            tenants: vec![TenantShare::of(None, 0, Timestamp::ZERO)],
            queues: vec![Ends::NONE; classes],
            class_units: vec![0; classes],
            waiting: 0,
            floor_us: 0,
        }
    }

    /// How many wait.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// How many tenants hold or wait for something, where tenants are told apart.
    pub fn tenants_active(&self) -> u32 {
        self.tenants.iter().filter(|share| share.holds > 0).count() as u32
    }

    fn classes(&self) -> usize {
        self.rules.len() + 1
    }

    fn class_at(&self, class: ClassId) -> usize {
        let ruled = self.rules.iter().position(|rule| rule.class == class);
        ruled.unwrap_or(self.rules.len())
    }

    /// The share this tenant has now; `None` while it holds nothing.
    pub fn share(&self, tenant: TenantId) -> Option<&TenantShare> {
        if self.fairness == Fairness::Fifo {
            return self.tenants.first();
        }
        let known = self.tenants.iter().find(|s| s.holds > 0 && s.tenant == Some(tenant));
        known.or_else(|| self.table_full().then(|| self.tenants.get(TENANTS_MAX)).flatten())
    }

    /// Every place in the table of tenants is taken.
    pub fn table_full(&self) -> bool {
        self.tenants.len() >= TENANTS_MAX
            && self.tenants[..TENANTS_MAX].iter().all(|share| share.holds > 0)
    }

    /// Counts a record in the lane of its tenant and class; true when it had to share the last one.
    pub fn hold(&mut self, now: Timestamp, record: &mut Record) -> bool {
        let (at, shared) = self.tenant_place(now, record.tenant);
        self.tenants[at].holds += 1;
        let classes = self.classes();
        record.lane = (at * classes + self.class_at(record.class)) as u16;
        if self.queues.len() < self.tenants.len() * classes {
            self.queues.resize(self.tenants.len() * classes, Ends::NONE);
        }
        shared
    }

    fn tenant_place(&mut self, now: Timestamp, tenant: TenantId) -> (usize, bool) {
        if self.fairness == Fairness::Fifo {
            return (0, false);
        }
        let known = self.tenants.iter().position(|s| s.holds > 0 && s.tenant == Some(tenant));
        if let Some(at) = known {
            return (at, false);
        }
        self.accrue_all(now);
        let fresh = TenantShare::of(Some(tenant), self.floor_us, now);
        let unused = self.tenants.iter().take(TENANTS_MAX).position(|share| share.holds == 0);
        match unused {
            Some(at) => self.tenants[at] = fresh,
            None if self.tenants.len() < TENANTS_MAX => self.tenants.push(fresh),
            None => {
                if self.tenants.len() == TENANTS_MAX {
                    self.tenants.push(TenantShare::of(None, self.floor_us, now));
                }
                return (TENANTS_MAX, true);
            }
        }
        let at = unused.unwrap_or(self.tenants.len() - 1);
        (at, false)
    }

    /// The record counts here no longer.
    pub fn let_go(&mut self, now: Timestamp, record: &Record) {
        let tenant = self.tenant_of(record.lane);
        if self.tenants[tenant].holds == 1 {
            self.accrue_all(now);
        }
        self.tenants[tenant].holds -= 1;
    }

    fn tenant_of(&self, lane: u16) -> usize {
        usize::from(lane) / self.classes()
    }

    fn class_of(&self, lane: u16) -> usize {
        usize::from(lane) % self.classes()
    }

    pub fn push(&mut self, slab: &mut Slab, at: u32) {
        let lane = slab[at].lane;
        let queue = &mut self.queues[usize::from(lane)];
        match mutant::is("newcomer_jumps") {
            true => queue.push_first(slab, at, |record| &mut record.queue),
            false => queue.push(slab, at, |record| &mut record.queue),
        }
        let tenant = self.tenant_of(lane);
        self.tenants[tenant].queued += 1;
        self.waiting += 1;
    }

    pub fn take(&mut self, slab: &mut Slab, at: u32) {
        let lane = slab[at].lane;
        self.queues[usize::from(lane)].take(slab, at, |record| &mut record.queue);
        let tenant = self.tenant_of(lane);
        self.tenants[tenant].queued -= 1;
        self.waiting -= 1;
    }

    /// The record's units begin to count.
    pub fn start(&mut self, now: Timestamp, lane: u16, cost: u32) {
        let (tenant, class) = (self.tenant_of(lane), self.class_of(lane));
        self.tenants[tenant].accrue(now);
        self.tenants[tenant].units += cost;
        self.class_units[class] += cost;
    }

    /// The record's units no longer count.
    pub fn stop(&mut self, now: Timestamp, lane: u16, cost: u32) {
        let (tenant, class) = (self.tenant_of(lane), self.class_of(lane));
        self.tenants[tenant].accrue(now);
        self.tenants[tenant].units -= cost;
        self.class_units[class] -= cost;
    }

    /// Units that other classes keep for themselves.
    pub fn reserved_from(&self, class: ClassId) -> u32 {
        let own = self.class_at(class);
        let others = self.rules.iter().zip(&self.class_units).enumerate();
        others
            .filter(|(at, _)| *at != own)
            .map(|(_, (rule, units))| rule.reserved.saturating_sub(*units))
            .sum()
    }

    /// Somebody of this tenant and class waits.
    pub fn own_waits(&self, tenant: TenantId, class: ClassId) -> bool {
        let known = self.tenants.iter().position(|s| s.holds > 0 && s.tenant == Some(tenant));
        let at = match (self.fairness, known) {
            (Fairness::Fifo, _) => 0,
            (_, Some(at)) => at,
            (_, None) => TENANTS_MAX,
        };
        let lane = at * self.classes() + self.class_at(class);
        self.queues.get(lane).is_some_and(|queue| queue.first != NIL)
    }

    /// The oldest arrival of all lanes.
    pub fn first(&self, slab: &Slab) -> Option<u32> {
        let heads = self.queues.iter().map(|queue| queue.first).filter(|&at| at != NIL);
        heads.min_by_key(|&at| slab[at].arrival)
    }

    /// Who goes next with `free` units of a ceiling; nobody who is at its share or whose class has
    /// no room.
    pub fn next(&mut self, slab: &Slab, now: Timestamp, room: Room) -> Option<u32> {
        if self.queues.len() == 1 && !matches!(self.fairness, Fairness::HardCap { .. }) {
            return Some(self.queues[0].first).filter(|&at| at != NIL);
        }
        self.accrue_all(now);
        let heads = (0..self.queues.len()).map(|lane| (lane, self.queues[lane].first));
        let ready =
            heads.filter(|&(lane, at)| at != NIL && self.may_run(lane as u16, &slab[at], room));
        ready.min_by_key(|&(lane, at)| self.order(lane as u16, &slab[at], now)).map(|(_, at)| at)
    }

    /// Brings every tenant's slot-time up to now, and with it where a newly busy tenant begins:
    /// done whenever one comes or goes, so that the order does not hang on when anybody looked.
    fn accrue_all(&mut self, now: Timestamp) {
        if self.fairness != Fairness::Fair {
            return;
        }
        for share in &mut self.tenants {
            share.accrue(now);
        }
        let busy = self.tenants.iter().filter(|share| share.holds > 0);
        if let Some(least) = busy.map(|share| share.used_us).min() {
            self.floor_us = self.floor_us.max(least);
        }
    }

    fn may_run(&self, lane: u16, record: &Record, room: Room) -> bool {
        let under_share = match (self.fairness, room.ceiling) {
            (Fairness::HardCap { tenant_share_pct }, Some(ceiling)) => {
                let share = &self.tenants[self.tenant_of(lane)];
                share.units + record.cost <= share_of(ceiling, tenant_share_pct).max(record.cost)
            }
            (Fairness::HardCap { .. } | Fairness::Fifo | Fairness::Fair, _) => true,
        };
        // A class shut out only by what others keep for themselves holds nobody up.
        let reserved = self.reserved_from(record.class);
        under_share && (reserved == 0 || room.free.saturating_sub(reserved) >= record.cost)
    }

    /// Least goes first: the aged, then by class, then by fairness, then by arrival.
    fn order(&self, lane: u16, record: &Record, now: Timestamp) -> (bool, u8, u64, u32, u64) {
        let aged = self.aging_ms.is_some_and(|aging| now.since(record.since) > ms(aging));
        if aged {
            return (false, 0, 0, 0, record.arrival);
        }
        let rule = self.rules.get(self.class_of(lane));
        let rank = rule.map_or(RANK_DEFAULT, |rule| rule.rank);
        let share = &self.tenants[self.tenant_of(lane)];
        match self.fairness {
            Fairness::Fifo | Fairness::HardCap { .. } => (true, rank, 0, 0, record.arrival),
            Fairness::Fair => (true, rank, share.used_us, share.units, record.arrival),
        }
    }
}

/// What is free when the next waiter is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Units nobody holds.
    pub free: u32,
    /// The ceiling in force, where there is one.
    pub ceiling: Option<u32>,
}
