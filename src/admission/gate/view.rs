//! Showing a gate: live counts, inventory, and the audit that holds it to its own account.

use super::super::limits::Mode;
use super::super::records::{Record, State};
use super::super::tombstones::Tombstone;
use super::super::{Cancelled, Closed, OfferId, OwnerId, Terminal};
use super::{Gate, Pressure};
use crate::evidence::Unknown;
use crate::id::{ClassId, TenantId};
use crate::time::Timestamp;

/// What a gate holds at one instant, and what it would let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Whether it decides.
    pub mode: Mode,
    /// The configured ceiling; `None` is unlimited.
    pub configured: Option<u32>,
    /// What evidence allows, while the gate adapts.
    pub adaptive: Option<u32>,
    /// min(adaptive, configured) less what is quarantined.
    pub in_force: Option<u32>,
    /// Leases that run.
    pub active: u64,
    /// Units they hold.
    pub active_units: u32,
    /// Of the leases that run, claims nobody has confirmed yet.
    pub provisional: u32,
    /// Of the leases that run, those whose work has lost its authority.
    pub cleanup_pending: u32,
    /// Leases of which nothing is known.
    pub quarantined: u64,
    /// Units they keep.
    pub quarantined_units: u32,
    /// Offers that wait.
    pub queued: u32,
    /// Of them, those that what is free would be enough for: a share, a reservation or pressure
    /// behind the gate holds them back, not capacity (C-047).
    pub held_back: u32,
    /// Bytes they keep.
    pub queued_bytes: u64,
    /// Age since birth of the oldest that waits, in milliseconds.
    pub oldest_queued_ms: Option<u64>,
    /// How long the oldest cancelled lease has been running, in milliseconds.
    pub oldest_cleanup_ms: Option<u64>,
    /// Mean wait of the last grants and expiries, in milliseconds.
    pub mean_wait_ms: u64,
    /// Why intake is closed, if it is.
    pub closed: Option<Closed>,
    /// How hard the stages behind are pressed.
    pub pressure: Pressure,
    /// Owners registered.
    pub owners: usize,
    /// Tenants that hold or wait for something, where they are told apart.
    pub tenants_active: u32,
    /// Ends that are remembered.
    pub tombstones: usize,
    /// The most there ever was.
    pub high: HighWater,
}

/// The most there ever was in a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HighWater {
    /// Units held at once.
    pub active_units: u32,
    /// Units quarantined at once.
    pub quarantined_units: u32,
    /// Offers waiting at once.
    pub queued: u32,
    /// Bytes waiting at once.
    pub queued_bytes: u64,
}

/// Where a kept offer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Waits.
    Queued,
    /// Holds units.
    Active,
    /// Holds units of which nothing is known.
    Quarantined(Unknown),
    /// Over; remembered for late events.
    Ended(Terminal),
}

/// One kept offer, as shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its name.
    pub offer: OfferId,
    /// Whose.
    pub owner: OwnerId,
    /// Where it stands.
    pub place: Place,
    /// Why its authority is gone, if it is.
    pub cancelled: Option<Cancelled>,
    /// Order of arrival.
    pub arrival: u64,
    /// Units it takes.
    pub cost: u32,
    /// When what it serves began: its total age counts from here.
    pub born: Timestamp,
    /// When it came to stand where it stands: the age of this attempt counts from here.
    pub since: Timestamp,
}

/// How long the oldest of a population has waited (C-018, X-22).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// How many of it wait.
    pub queued: u32,
    /// Age of the oldest, in milliseconds.
    pub oldest_ms: u64,
}

impl Gate {
    /// Units that nobody holds and nobody waits for, while its intake is open.
    pub fn spare(&self) -> u32 {
        let open = self.closed().is_none() && self.lanes.waiting() == 0;
        if open { self.room().free } else { 0 }
    }

    /// What it holds now.
    pub fn counts(&self, now: Timestamp) -> Counts {
        let now = now.max(self.last);
        let account = self.ledger.total();
        let age = |since: Timestamp| now.since(since).as_millis() as u64;
        let free = self.room().free;
        let (mut oldest_queued_ms, mut oldest_cleanup_ms, mut held_back) = (None, None, 0);
        for (_, record) in self.slab.live() {
            match record.state {
                State::Queued => {
                    oldest_queued_ms = oldest_queued_ms.max(Some(age(record.born)));
                    held_back += u32::from(record.cost <= free);
                }
                State::Active if record.cancelled.is_some() => {
                    oldest_cleanup_ms = oldest_cleanup_ms.max(Some(age(record.since)));
                }
                State::Active | State::Quarantined(_) => {}
            }
        }
        Counts {
            mode: self.limits.mode,
            configured: self.limits.slots.units(),
            adaptive: self.adaptive,
            in_force: self.ceiling_in_force(),
            active: account.active,
            active_units: self.active_units,
            provisional: self.provisional,
            cleanup_pending: self.cancelling,
            quarantined: account.quarantined,
            quarantined_units: self.quarantined_units,
            queued: self.lanes.waiting(),
            held_back,
            queued_bytes: self.queued_bytes,
            oldest_queued_ms,
            oldest_cleanup_ms,
            mean_wait_ms: self.mean_wait_us / 1_000,
            closed: self.closed,
            pressure: self.pressure,
            owners: self.owners.count(),
            tenants_active: self.lanes.tenants_active(),
            tombstones: self.tombstones.len(),
            high: self.high,
        }
    }

    /// Everything that is kept, in order of arrival.
    pub fn inventory(&self) -> Vec<Held> {
        let live = self.slab.live().map(|(_, record)| shown(record));
        let mut held: Vec<Held> = live.chain(self.tombstones.iter().map(buried)).collect();
        held.sort_unstable_by_key(|held| held.arrival);
        held
    }

    /// What waits of one tenant, if anything does.
    pub fn waiting_of_tenant(&self, now: Timestamp, tenant: TenantId) -> Option<Waiting> {
        self.waiting_where(now, |record| record.tenant == tenant)
    }

    /// What waits of one class, if anything does.
    pub fn waiting_of_class(&self, now: Timestamp, class: ClassId) -> Option<Waiting> {
        self.waiting_where(now, |record| record.class == class)
    }

    fn waiting_where(&self, now: Timestamp, of: impl Fn(&Record) -> bool) -> Option<Waiting> {
        let now = now.max(self.last);
        let queued = self.slab.live().map(|(_, record)| record);
        let ages = queued
            .filter(|record| record.state == State::Queued && of(record))
            .map(|record| now.since(record.born).as_millis() as u64);
        ages.fold(None, |so_far: Option<Waiting>, age| {
            let (queued, oldest) = so_far.map_or((0, 0), |w| (w.queued, w.oldest_ms));
            Some(Waiting { queued: queued + 1, oldest_ms: oldest.max(age) })
        })
    }

    /// Recounts every record and compares with the running counts: the sentence names the first
    /// that differs.
    pub fn audit(&self) -> Result<(), String> {
        let mut seen = Recount::default();
        for (_, record) in self.slab.live() {
            seen.count(record);
        }
        let account = self.ledger.total();
        let pairs = [
            ("queued", seen.queued, account.queued),
            ("waiting", seen.queued, self.lanes.waiting().into()),
            ("deadlines", seen.queued + seen.provisional, self.deadlines.len() as u64),
            ("active", seen.active, account.active),
            ("active units", seen.active_units, self.active_units.into()),
            ("cleanup pending", seen.cancelling, self.cancelling.into()),
            ("provisional", seen.provisional, self.provisional.into()),
            ("quarantined", seen.quarantined, account.quarantined),
            ("quarantined units", seen.quarantined_units, self.quarantined_units.into()),
            ("queued bytes", seen.queued_bytes, self.queued_bytes),
        ];
        for (what, recounted, running) in pairs {
            if recounted != running {
                return Err(format!("{}: {what}: {running}, recounted {recounted}", self.stage));
            }
        }
        if !self.ledger.balances() {
            return Err(format!("{}: the ledger does not balance: {account:?}", self.stage));
        }
        let anomalies = self.ledger.anomalies();
        if anomalies.underflow + anomalies.unknown_permit > 0 {
            return Err(format!("{}: {anomalies:?}", self.stage));
        }
        Ok(())
    }
}

#[derive(Default)]
struct Recount {
    queued: u64,
    active: u64,
    active_units: u64,
    cancelling: u64,
    quarantined: u64,
    quarantined_units: u64,
    queued_bytes: u64,
    provisional: u64,
}

impl Recount {
    fn count(&mut self, record: &Record) {
        self.provisional += u64::from(record.provisional);
        match record.state {
            State::Queued => {
                self.queued += 1;
                self.queued_bytes += record.bytes;
            }
            State::Active => {
                self.active += 1;
                self.active_units += u64::from(record.cost);
                self.cancelling += u64::from(record.cancelled.is_some());
            }
            State::Quarantined(_) => {
                self.quarantined += 1;
                self.quarantined_units += u64::from(record.cost);
            }
        }
    }
}

fn shown(record: &Record) -> Held {
    let place = match record.state {
        State::Queued => Place::Queued,
        State::Active => Place::Active,
        State::Quarantined(cause) => Place::Quarantined(cause),
    };
    Held {
        offer: record.offer,
        owner: record.owner,
        place,
        cancelled: record.cancelled,
        arrival: record.arrival,
        cost: record.cost,
        born: record.born,
        since: record.since,
    }
}

fn buried(ended: &Tombstone) -> Held {
    Held {
        offer: ended.offer,
        owner: ended.owner,
        place: Place::Ended(ended.terminal),
        cancelled: ended.cancelled,
        arrival: ended.arrival,
        cost: ended.cost,
        born: ended.born,
        since: ended.ended,
    }
}
