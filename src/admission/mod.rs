//! Admission: whether work may enter one named, constrained stage, now.
//!
//! One [`gate::Gate`] a stage: a pure synchronous state machine, `now` passed in, check and
//! reservation one step. It owns its queue, its leases and its ledger and touches nothing
//! else: no clock, no lock, no task. `runtime/` puts a lock around each gate and delivers what it
//! decided for others; `sim/` drives the same code in virtual time.
//!
//! A call sees gates only through [`Admit`], handed to it like time is.

pub mod adaptive;
mod deadlines;
pub mod disposition;
pub mod endpoints;
pub mod gate;
mod lanes;
pub mod ledger;
pub mod limits;
pub mod log;
pub mod mutant;
pub mod pressure;
pub mod rates;
mod records;
pub mod rerun;
pub mod shadow;
mod tombstones;
pub mod trial;
pub mod waits;
pub mod watched;

pub use gate::Gate;
pub use gate::Place;
pub use lanes::TENANTS_MAX;
pub use limits::Limits;
pub use watched::Watched;

use crate::evidence::{Evidence, Unknown};
use crate::id::{ClassId, Generation, Stage, TenantId};
use crate::time::Timestamp;

/// Names an offer for good: unique within an incarnation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OfferId(pub u64);

/// Who owns an offer: a call (or, at the call gate, the call to be).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnerId(pub u64);

/// One request to a gate (DESIGN section 1, *offer*).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Its name.
    pub id: OfferId,
    /// Whose it is.
    pub owner: OwnerId,
    /// The owner's generation it runs under.
    pub generation: Generation,
    /// When what it serves began; set once, kept by retries.
    pub born: Timestamp,
    /// Later than this it is of no use; equal is still alive.
    pub deadline: Timestamp,
    /// Who pays.
    pub tenant: TenantId,
    /// Its workload class.
    pub class: ClassId,
    /// Units it takes; 1 unless the stage has a validated estimate.
    pub cost: u32,
    /// Bytes it keeps while it waits.
    pub bytes: u64,
    /// The offer it tries again, with the same birth and deadline.
    pub retry_of: Option<OfferId>,
    /// Offers with the same key replace each other while queued, under `overflow = "replace"`
    /// (C-031).
    pub supersedes: Option<u64>,
}

/// A gate's immediate answer to an offer.
#[derive(Debug)]
#[must_use]
pub enum Answer {
    /// Run it now; the unit is yours until you settle the lease.
    Admitted(Lease),
    /// Wait; a grant or an expiry comes as an event.
    Queued(Ticket),
    /// No.
    Refused(Refusal),
}

/// A gate's immediate answer to a claim ([`Gate::claim`]).
#[derive(Debug)]
#[must_use]
pub enum Claimed {
    /// The unit is held until the offer's deadline; confirm it when work begins.
    Held(Lease),
    /// No unit is free now, but an ordinary offer may wait for one.
    MayWait,
    /// No; an ordinary offer would be refused as well.
    Refused(Refusal),
}

/// A reservation of capacity. Not `Clone`; settled exactly once.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease that is not settled becomes unknown and keeps its unit"]
pub struct Lease {
    /// The gate it belongs to.
    pub stage: Stage,
    /// The offer it was made for.
    pub offer: OfferId,
    /// Where the gate keeps it. Only gates make and read this.
    pub(crate) slot: SlotKey,
}

/// A place in a gate's queue.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a ticket nobody awaits must be withdrawn"]
pub struct Ticket {
    /// The gate it belongs to.
    pub stage: Stage,
    /// The offer that waits.
    pub offer: OfferId,
    /// Where the gate keeps it. Only gates make and read this.
    pub(crate) slot: SlotKey,
}

/// Index and epoch of a record in a gate's slab: a stale key finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotKey {
    /// Place in the slab.
    pub index: u32,
    /// How often that place was used before.
    pub epoch: u32,
}

/// Policy said no: which gate, why, and what a caller of the API is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The gate.
    pub stage: Stage,
    /// Why.
    pub reason: RefusalReason,
    /// When to try again, where that is known (B-068).
    pub retry_after_s: Option<u32>,
}

/// Why an offer was refused (DESIGN section 3, *dispositions*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalReason {
    /// No room, in one of five ways.
    Overloaded(Overload),
    /// Its deadline had passed when it was offered.
    Expired,
    /// Its generation is not its owner's current one.
    Stale,
    /// Born before something of the same owner and generation that was already accepted.
    OutOfOrder,
    /// Intake is closed, in one of four ways.
    Closed(Closed),
    /// An offer of this name is still known.
    Duplicate,
}

/// Which room there was none of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Overload {
    /// Every unit is taken and the gate has no queue.
    NoQueue,
    /// Every unit is taken and the queue is full.
    QueueFull,
    /// The queue's bytes are full.
    Bytes,
    /// The tenant has its share.
    TenantShare,
    /// The stages behind this gate are refusing accepted calls' turns.
    UpstreamPressure,
}

/// Why intake is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Closed {
    /// The server drains.
    Draining,
    /// An operator closed it.
    Maintenance,
    /// What it serves is still loading.
    NotReady,
    /// It has no capacity at all (`slots = 0`, X-17).
    NoCapacity,
}

/// Why work was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cancelled {
    /// The caller took the floor.
    BargeIn,
    /// A newer turn took its place.
    Superseded,
    /// The client asked.
    Client,
    /// The call ended.
    HangUp,
    /// The server drained.
    Drain,
}

/// How an operation that held a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It ended well, with this proof.
    Completed(Evidence),
    /// It failed, with this proof that its resource is free.
    Failed(Evidence),
    /// Nothing proves that the resource is free.
    Unknown(Unknown),
}

/// What became of a lease that was settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The unit is back; the lease ended as `completed`, `failed`, or stays `cancelled`.
    Released(Terminal),
    /// The unit stays taken until evidence comes.
    Quarantined,
    /// It was settled before.
    AlreadyReleased,
}

/// How an offer's life ended (exactly one each).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Terminal {
    /// Ran to its end.
    Completed,
    /// Ran and failed.
    Failed,
    /// Lost its authority; kept even when it later ran to its end.
    Cancelled(Cancelled),
    /// Its deadline passed while it waited.
    Expired,
    /// A newer offer with the same supersession key took its place.
    Replaced {
        /// The newer one.
        by: OfferId,
    },
    /// Dropped from the queue under a named rule.
    Shed {
        /// Which.
        rule: ShedRule,
    },
}

/// Under which rule a queued offer was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShedRule {
    /// It was already past its deadline.
    PastDeadline,
    /// It was already superseded.
    Superseded,
}

/// What a gate decided for somebody who waits; delivered after the gate is unlocked.
#[derive(Debug)]
#[must_use]
pub enum Wake {
    /// The wait is over: the unit is yours.
    Granted {
        /// Whose.
        owner: OwnerId,
        /// The unit.
        lease: Lease,
    },
    /// The wait is over without a unit.
    Ended {
        /// Whose.
        owner: OwnerId,
        /// Which offer.
        offer: OfferId,
        /// At which gate.
        stage: Stage,
        /// How.
        terminal: Terminal,
    },
}

impl Offer {
    /// One unit for an owner's generation 0, paid by nobody in particular: what an offer is where
    /// nothing else is said.
    pub fn plain(id: OfferId, owner: OwnerId, born: Timestamp, deadline: Timestamp) -> Offer {
        Offer {
            id,
            owner,
            generation: Generation(0),
            born,
            deadline,
            tenant: TenantId(0),
            class: ClassId(0),
            cost: 1,
            bytes: 0,
            retry_of: None,
            supersedes: None,
        }
    }
}

/// The gates, as one call sees them.
pub trait Admit {
    /// Makes a name for an offer.
    fn name_offer(&mut self) -> OfferId;
    /// Offers work to a stage's gate and is answered at once.
    fn ask(&mut self, now: Timestamp, stage: Stage, offer: Offer) -> Answer;
    /// Claims a unit for work that has not begun, without ever waiting. A claim lapses just
    /// behind the offer's deadline, which comes as [`Wake::Ended`], unless it is confirmed before.
    fn claim(&mut self, now: Timestamp, stage: Stage, offer: Offer) -> Claimed;
    /// Work begins on a claim: from now on its lease is like any other. False when it has lapsed:
    /// then there is nothing to settle.
    fn confirm(&mut self, now: Timestamp, lease: &Lease) -> bool;
    /// Gives up waiting. A grant that crosses it is settled `never_started` by whoever receives it.
    fn withdraw(&mut self, now: Timestamp, ticket: Ticket, why: Cancelled);
    /// The caller was told that this waits, which satisfies the turn's budget: from now on only the
    /// gate's own limit bounds the wait, once (DESIGN section 3, *Ages*).
    fn extend(&mut self, now: Timestamp, ticket: &Ticket);
    /// The work behind a lease has lost its authority; the unit stays taken until it is settled.
    fn cancel(&mut self, now: Timestamp, lease: &Lease, why: Cancelled);
    /// Gives a lease back, with proof or without.
    fn settle(&mut self, now: Timestamp, lease: Lease, release: Release) -> Settled;
    /// The owner's generation rotates: at every gate whose work rotates ([`Stage::rotates`]) what
    /// the owner has queued ends `cancelled` (without a [`Wake`]: the owner knows) and what it has
    /// running loses its authority.
    fn rotate(&mut self, now: Timestamp, owner: OwnerId, generation: Generation, why: Cancelled);
    /// How long offers of this stage may wait: the deadline rule of DESIGN section 3 needs it.
    fn max_wait(&self, stage: Stage) -> std::time::Duration;
    /// The unit of a callback goes with its promise: whoever keeps that gives it back.
    fn keep(&mut self, now: Timestamp, lease: Lease, callback: crate::id::CallbackId);
    /// Units that nobody holds and nobody waits for: what may be used by work that can be done
    /// without.
    fn spare(&self, stage: Stage) -> u32;
    /// Whether an offer may wait there.
    fn has_queue(&self, stage: Stage) -> bool;
}
