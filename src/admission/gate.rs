//! One stage's gate: what may run, what may wait, what is refused, and what is still owed.
//!
//! `intake` answers offers in the fixed order of checks, `dispatch` moves the queue, `leases` takes
//! back what was given, `view` shows it. Every operation takes `now`; the gate goes by the latest
//! it has seen. What an operation decides for *others* is appended to `wakes`, to be delivered when
//! the gate is unlocked.

mod claims;
mod dispatch;
mod intake;
mod leases;
mod view;

use super::adaptive::Adaptive;
use super::deadlines::Deadlines;
use super::lanes::{Lanes, Room};
use super::ledger::{Ledger, Payer};
use super::limits::{CloseMode, Intake, Limits, Mode, Slots};
use super::records::{Lookup, Owners, Record, Slab, State};
use super::tombstones::Tombstones;
use super::waits::Waits;
use super::{Cancelled, Closed, OfferId, Terminal, Wake};
use crate::id::Stage;
use crate::time::Timestamp;

pub use dispatch::Taken;
pub use intake::OfferError;
pub use leases::{Forgotten, NotNewer, Rotated, Withdrawn};
pub use view::{Counts, Held, HighWater, Place, Waiting};

/// The admission controller of one stage.
#[derive(Clone)]
pub struct Gate {
    stage: Stage,
    limits: Limits,
    slab: Slab,
    owners: Owners,
    /// Identities that wait, run or are remembered; of the remembered, where they once stood.
    ids: Lookup<u64, u32>,
    /// The youngest waiting offer of each supersession key.
    keys: Lookup<(u32, u64), u32>,
    lanes: Lanes,
    deadlines: Deadlines,
    tombstones: Tombstones,
    ledger: Ledger,
    last: Timestamp,
    arrivals: u64,
    active_units: u32,
    quarantined_units: u32,
    queued_bytes: u64,
    /// Leases whose work has lost its authority and still holds its units.
    cancelling: u32,
    closed: Option<Closed>,
    pressure: Pressure,
    adaptive: Option<u32>,
    high: HighWater,
    mean_wait_us: u64,
    /// Waits that ended with their units.
    waits: Waits,
    /// Somebody met the ceiling since this was asked last.
    reached: bool,
    /// Leases that nobody has confirmed yet.
    provisional: u32,
}

/// How hard the stages behind this gate are pressed (DESIGN section 3: the call gate listens to its
/// stages).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Pressure {
    /// Not at all.
    #[default]
    Open,
    /// Newcomers wait, whatever is free here.
    Queue,
    /// Newcomers are refused.
    Refuse,
}

impl Pressure {
    /// The word of API and metrics.
    pub fn label(self) -> &'static str {
        match self {
            Pressure::Open => "open",
            Pressure::Queue => "queue",
            Pressure::Refuse => "refuse",
        }
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate({}: {:?})", self.stage, self.counts(self.last))
    }
}

impl Gate {
    /// An open gate with nobody in it.
    pub fn new(stage: Stage, limits: Limits) -> Self {
        Gate {
            stage,
            lanes: Lanes::new(&limits),
            limits,
            slab: Slab::default(),
            owners: Owners::default(),
            ids: Lookup::default(),
            keys: Lookup::default(),
            deadlines: Deadlines::default(),
            tombstones: Tombstones::default(),
            ledger: Ledger::default(),
            last: Timestamp::ZERO,
            arrivals: 0,
            active_units: 0,
            quarantined_units: 0,
            queued_bytes: 0,
            cancelling: 0,
            closed: None,
            pressure: Pressure::Open,
            adaptive: None,
            high: HighWater::default(),
            mean_wait_us: 0,
            waits: Waits::default(),
            reached: false,
            provisional: 0,
        }
    }

    /// The stage it guards.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Its limits as they are now.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How long those waited that were then let through.
    pub fn waits(&self) -> &Waits {
        &self.waits
    }

    /// The conservation account.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Closes intake; work that holds units is never touched.
    pub fn close(&mut self, now: Timestamp, why: Closed, mode: CloseMode, wakes: &mut Vec<Wake>) {
        let now = self.clock(now);
        self.catch_up(now, wakes);
        self.closed = Some(why);
        match mode {
            CloseMode::FinishQueue => self.fill(now, wakes),
            CloseMode::EndQueue => self.end_queue(now, wakes),
        }
    }

    /// Opens intake again; an act of its own, with every count as it stands.
    pub fn open(&mut self) {
        self.closed = None;
    }

    /// Why intake is closed, if it is.
    pub fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Changes the limits in place: what runs is not touched, who may now pass is woken oldest
    /// first (B-029).
    ///
    /// What waits keeps its deadline; a longer or shorter `max_wait_ms` is for offers to come.
    pub fn set_limits(&mut self, now: Timestamp, limits: Limits, wakes: &mut Vec<Wake>) {
        let now = self.clock(now);
        self.catch_up(now, wakes);
        let sorts_alike = limits.fairness == self.limits.fairness
            && limits.classes == self.limits.classes
            && limits.aging_ms == self.limits.aging_ms;
        self.limits = limits;
        if !self.limits.adaptive {
            self.adaptive = None;
        }
        if !sorts_alike {
            self.sort_anew(now);
        }
        self.fill(now, wakes);
    }

    /// Sets the ceiling that evidence allows now; it never lifts the configured one (B-051).
    pub fn set_adaptive(&mut self, now: Timestamp, ceiling: Option<u32>, wakes: &mut Vec<Wake>) {
        let now = self.clock(now);
        self.catch_up(now, wakes);
        self.adaptive = ceiling.filter(|_| self.limits.adaptive);
        self.fill(now, wakes);
    }

    /// What evidence allows now, while the gate adapts.
    pub fn adaptive(&self) -> Option<u32> {
        self.adaptive
    }

    /// Judges the ceiling by what was seen of the backends, once a second, and puts it in force.
    pub fn adapt(&mut self, now: Timestamp, law: &mut Adaptive, wakes: &mut Vec<Wake>) {
        let reached = std::mem::take(&mut self.reached);
        let ceiling = match self.limits.adaptive {
            true => law.judge(now, self.limits.slots, reached),
            false => {
                law.reset();
                None
            }
        };
        self.set_adaptive(now, ceiling, wakes);
    }

    /// Says how hard the stages behind this gate are pressed.
    pub fn set_pressure(&mut self, now: Timestamp, pressure: Pressure, wakes: &mut Vec<Wake>) {
        let now = self.clock(now);
        self.catch_up(now, wakes);
        self.pressure = pressure;
        self.fill(now, wakes);
    }

    /// The latest time it was told.
    pub fn now(&self) -> Timestamp {
        self.last
    }

    /// The latest time seen. A trace is replayed with the times it says, in whatever order.
    fn clock(&mut self, now: Timestamp) -> Timestamp {
        self.last = match self.limits.intake {
            Intake::AtOnce => self.last.max(now),
            Intake::QueueFirst => now,
        };
        self.last
    }

    /// Units that may be held at once, before quarantine; `None` where there is no bound.
    fn ceiling(&self) -> Option<u32> {
        let configured = match self.limits.mode {
            Mode::Enforce | Mode::Observe => self.limits.slots.units()?,
            Mode::Off => return None,
        };
        Some(self.adaptive.map_or(configured, |adaptive| adaptive.min(configured)))
    }

    /// The ceiling in force: what the ceiling leaves after what is quarantined.
    pub fn ceiling_in_force(&self) -> Option<u32> {
        self.ceiling().map(|ceiling| ceiling.saturating_sub(self.quarantined_units))
    }

    fn room(&self) -> Room {
        let ceiling = self.ceiling_in_force();
        let free = ceiling.map_or(u32::MAX, |units| units.saturating_sub(self.active_units));
        Room { free, ceiling }
    }

    fn decides(&self) -> bool {
        self.limits.mode == Mode::Enforce
    }

    fn has_no_capacity_for(&self, cost: u32) -> bool {
        match self.limits.slots {
            Slots::Unlimited => false,
            Slots::Units(units) => cost > units,
        }
    }

    fn payer(record: &Record) -> Payer {
        Payer { tenant: record.tenant, class: record.class }
    }

    /// Puts every kept record into the lanes that new limits ask for, in order of arrival.
    fn sort_anew(&mut self, now: Timestamp) {
        self.lanes = Lanes::new(&self.limits);
        let mut live: Vec<(u64, u32)> = self
            .slab
            .live()
            .filter(|(_, r)| matches!(r.state, State::Queued | State::Active))
            .map(|(at, r)| (r.arrival, at))
            .collect();
        live.sort_unstable();
        for (_, at) in live {
            self.lanes.hold(now, &mut self.slab[at]);
            let Record { state, lane, cost, .. } = self.slab[at];
            match state {
                State::Queued => self.lanes.push(&mut self.slab, at),
                State::Active => self.lanes.start(now, lane, cost),
                State::Quarantined(_) => {}
            }
        }
    }

    fn end_queue(&mut self, now: Timestamp, wakes: &mut Vec<Wake>) {
        let mut waiting: Vec<(u64, u32)> = self
            .slab
            .live()
            .filter(|(_, r)| r.state == State::Queued)
            .map(|(at, r)| (r.arrival, at))
            .collect();
        waiting.sort_unstable();
        for (_, at) in waiting {
            self.end_waiting(now, at, Terminal::Cancelled(Cancelled::Drain), Some(wakes));
        }
    }

    /// The live record of this name.
    fn live(&self, offer: OfferId) -> Option<u32> {
        let at = *self.ids.get(&offer.0)?;
        let record = &self.slab[at];
        (!record.free && record.offer == offer).then_some(at)
    }

    /// The supersession key of a record, apart for every tenant.
    fn key_of(record: &Record) -> Option<(u32, u64)> {
        record.supersedes.map(|key| (record.tenant.0, key))
    }
}
