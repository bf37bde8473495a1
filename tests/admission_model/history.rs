//! Random histories, run on the gate and on the model side by side; the invariants after every
//! operation.

use floorkeeper::admission::ledger::Account;
use floorkeeper::admission::limits::{CloseMode, Fairness, Limits, Slots, Tombstones};
use floorkeeper::admission::{
    Answer, Cancelled, Closed, Gate, Lease, Offer, OfferId, Overload, OwnerId, Place,
    RefusalReason, Release, Settled, Terminal, Ticket, Wake,
};
use floorkeeper::evidence::{Evidence, Unknown};
use floorkeeper::id::{ClassId, Generation, Stage, TenantId};
use floorkeeper::time::{Timestamp, ms};
use proptest::prelude::*;

use super::{Model, Said, Told};

#[derive(Clone, Debug)]
pub enum Op {
    Offer { owner: u64, generation: i64, age: u64, life: u64, tenant: u32, cost: u32, bytes: u64 },
    OfferAgain { nth: usize, age: u64 },
    Settle { nth: usize, how: u8 },
    Cancel { nth: usize },
    Withdraw { nth: usize },
    Rotate { owner: u64, by: u64 },
    Forget { owner: u64 },
    Evidence { nth: usize },
    Expire,
    Close { end_queue: bool },
    Open,
    Slots { slots: u32 },
    Queue { queue: u32 },
}

pub fn op() -> impl Strategy<Value = Op> {
    let offer = (0..3u64, -1..=1i64, 0..30u64, 0..80u64, 0..3u32, 1..=2u32, 0..40u64).prop_map(
        |(owner, generation, age, life, tenant, cost, bytes)| Op::Offer {
            owner,
            // Two of three are of the current generation.
            generation: if age % 3 == 0 { generation } else { 0 },
            age: if age > 20 { age } else { 0 },
            life,
            tenant,
            cost: if bytes % 4 == 0 { cost } else { 1 },
            bytes,
        },
    );
    prop_oneof![
        12 => offer,
        1 => (any::<usize>(), 0..9u64).prop_map(|(nth, age)| Op::OfferAgain { nth, age }),
        8 => (any::<usize>(), 0..6u8).prop_map(|(nth, how)| Op::Settle { nth, how }),
        2 => any::<usize>().prop_map(|nth| Op::Cancel { nth }),
        2 => any::<usize>().prop_map(|nth| Op::Withdraw { nth }),
        2 => (0..3u64, 0..3u64).prop_map(|(owner, by)| Op::Rotate { owner, by }),
        1 => (0..3u64).prop_map(|owner| Op::Forget { owner }),
        3 => any::<usize>().prop_map(|nth| Op::Evidence { nth }),
        3 => Just(Op::Expire),
        1 => any::<bool>().prop_map(|end_queue| Op::Close { end_queue }),
        2 => Just(Op::Open),
        1 => (0..5u32).prop_map(|slots| Op::Slots { slots }),
        1 => (0..6u32).prop_map(|queue| Op::Queue { queue }),
    ]
}

pub fn limits() -> impl Strategy<Value = Limits> {
    let fairness = prop_oneof![
        Just(Fairness::Fifo),
        (10..=100u8).prop_map(|tenant_share_pct| Fairness::HardCap { tenant_share_pct }),
    ];
    (0..5u32, 0..6u32, 20..120u64, 0..90u64, fairness).prop_map(
        |(slots, queue, queue_bytes, max_wait_ms, fairness)| Limits {
            queue_bytes,
            max_wait_ms,
            fairness,
            tombstones: Tombstones { count: usize::MAX, age_ms: 1 << 40 },
            ..Limits::of(slots, queue)
        },
    )
}

/// Both worlds and what the test holds of them.
struct Pair {
    gate: Gate,
    model: Model,
    leases: Vec<Lease>,
    tickets: Vec<Ticket>,
    wakes: Vec<Wake>,
    now: Timestamp,
    names: u64,
}

/// Runs a history; panics at the first operation after which the two differ or an invariant fails.
///
/// Returns the account at the end, so that a test can ask whether anything happened at all.
pub fn run(limits: Limits, ops: Vec<(u64, Op)>) -> Account {
    let mut pair = Pair::new(limits);
    for (wait, op) in ops {
        pair.checked(wait, op);
    }
    pair.quiesce()
}

/// Where a history leads.
pub struct Reached {
    /// Equal for states from which everything that follows is equal.
    pub fingerprint: String,
    /// What was the case at its end.
    pub sometimes: Vec<&'static str>,
}

/// Runs a history as [`run`] does and says where it leads.
pub fn trace(limits: Limits, ops: &[(u64, Op)]) -> Reached {
    let mut pair = Pair::new(limits);
    for (wait, op) in ops {
        pair.checked(*wait, op.clone());
    }
    let reached = pair.reached();
    pair.quiesce();
    reached
}

impl Pair {
    fn new(limits: Limits) -> Self {
        let mut pair = Pair {
            gate: Gate::new(Stage::Model, limits.clone()),
            model: Model::new(limits),
            leases: Vec::new(),
            tickets: Vec::new(),
            wakes: Vec::new(),
            now: Timestamp::from_millis(1_000),
            names: 0,
        };
        for owner in 0..3 {
            pair.rotate(owner, Generation(0));
        }
        pair
    }

    /// One step with all that must hold after it.
    fn checked(&mut self, wait: u64, op: Op) {
        self.now += ms(wait);
        let before = self.gate.counts(self.now);
        self.step(op.clone());
        self.compare();
        let after = self.gate.counts(self.now);
        // What a timer would have granted before this step was granted under the ceiling before it.
        let in_force = after.in_force.max(before.in_force);
        let fits = in_force.is_some_and(|units| after.active_units <= units);
        assert!(fits || after.active_units <= before.active_units, "grew above it: {op:?}");
    }

    fn reached(&self) -> Reached {
        let (gate, model) = (&self.gate, &self.model);
        let leases: Vec<u64> = self.leases.iter().map(|lease| lease.offer.0).collect();
        let tickets: Vec<u64> = self.tickets.iter().map(|ticket| ticket.offer.0).collect();
        let counts = gate.counts(self.now);
        let fingerprint = format!("{leases:?} {tickets:?} {}", model.fingerprint(self.now));
        let account = gate.ledger().total();
        let stale = account.refused_for(RefusalReason::Stale);
        let expired = account.ended_as(Terminal::Expired);
        let no_room = |overload| account.refused_for(RefusalReason::Overloaded(overload));
        let full = no_room(Overload::QueueFull) + no_room(Overload::TenantShare);
        let proven = gate.ledger().released_on(Evidence::Operator);
        let sometimes = [
            ("queued", counts.queued > 0),
            ("granted", account.ever_queued > 0 && account.ever_admitted > account.active),
            ("refused", account.refused_total() > 0),
            ("stale", stale > 0),
            ("full", full > 0),
            ("expired", expired > 0),
            ("cancelled", counts.cleanup_pending > 0),
            ("limbo", counts.quarantined > 0),
            ("reclaimed", proven > 0),
            ("closed", counts.closed.is_some()),
            ("ceiling shrunk", counts.configured == Some(1)),
        ];
        let sometimes = sometimes.into_iter().filter(|(_, is)| *is).map(|(what, _)| what);
        Reached { fingerprint, sometimes: sometimes.collect() }
    }

    fn step(&mut self, op: Op) {
        let now = self.now;
        match op {
            Op::Offer { owner, generation, age, life, tenant, cost, bytes } => {
                let current = self.model.generation(owner).unwrap_or_default().0;
                self.names += 1;
                self.offer(Offer {
                    id: OfferId(self.names),
                    owner: OwnerId(owner),
                    generation: Generation(current.saturating_add_signed(generation)),
                    born: now - ms(age),
                    deadline: now - ms(age) + ms(life),
                    tenant: TenantId(tenant),
                    class: ClassId(tenant as u16),
                    cost,
                    bytes,
                    retry_of: None,
                    supersedes: None,
                });
            }
            Op::OfferAgain { nth, age } => self.offer_again(nth, age),
            Op::Settle { nth, how } if !self.leases.is_empty() => {
                let lease = self.leases.swap_remove(nth % self.leases.len());
                self.settle(lease, how);
            }
            Op::Cancel { nth } if !self.leases.is_empty() => {
                let lease = &self.leases[nth % self.leases.len()];
                self.gate.cancel(now, lease, Cancelled::Client);
                self.model.revoke(lease.offer.0, Cancelled::Client);
            }
            Op::Withdraw { nth } if !self.tickets.is_empty() => {
                let ticket = self.tickets.swap_remove(nth % self.tickets.len());
                self.withdraw(ticket);
            }
            Op::Settle { .. } | Op::Cancel { .. } | Op::Withdraw { .. } => {}
            Op::Rotate { owner, by } => {
                let current = self.model.generation(owner).unwrap_or_default().0;
                self.rotate(owner, Generation(current + by));
            }
            Op::Forget { owner } => {
                let _ = self.gate.forget(now, OwnerId(owner), &mut self.wakes);
                self.model.forget(now, owner);
            }
            Op::Evidence { nth } => self.evidence(1 + nth as u64 % self.names.max(1)),
            Op::Expire => {
                self.gate.expire(now, &mut self.wakes);
                self.settle_model();
            }
            Op::Close { end_queue } => self.close(end_queue),
            Op::Open => {
                self.gate.open();
                self.model.closed = None;
            }
            Op::Slots { slots } => self.set(|limits| limits.slots = Slots::Units(slots)),
            Op::Queue { queue } => self.set(|limits| limits.queue = queue),
        }
    }

    fn settle_model(&mut self) {
        self.model.expire(self.now);
        self.model.fill();
    }

    fn offer(&mut self, offer: Offer) {
        let want = self.model.offer(self.now, &offer);
        let got = match self.gate.offer(self.now, offer, &mut self.wakes) {
            Answer::Admitted(lease) => {
                self.leases.push(lease);
                Said::Admitted
            }
            Answer::Queued(ticket) => {
                self.tickets.push(ticket);
                Said::Queued
            }
            Answer::Refused(refusal) => Said::Refused(refusal.reason),
        };
        assert_eq!(got, want);
    }

    fn offer_again(&mut self, nth: usize, age: u64) {
        let id = 1 + nth as u64 % self.names.max(1);
        if !self.model.knows(id) {
            return;
        }
        self.offer(Offer {
            id: OfferId(id),
            owner: OwnerId(0),
            generation: Generation(0),
            born: self.now - ms(age),
            deadline: self.now,
            tenant: TenantId(0),
            class: ClassId(0),
            cost: 1,
            bytes: 0,
            retry_of: None,
            supersedes: None,
        });
    }

    fn settle(&mut self, lease: Lease, how: u8) {
        let id = lease.offer.0;
        let release = match how {
            0 => Release::Unknown(Unknown::CancelTimeout),
            1 => Release::Failed(Evidence::StreamClosedByBackend),
            _ => Release::Completed(Evidence::Completed),
        };
        let ran = if how == 1 { Terminal::Failed } else { Terminal::Completed };
        let got = self.gate.settle(self.now, lease, release, &mut self.wakes);
        self.settle_model();
        let want = match (self.model.take_holding(id), how) {
            (None, _) => Settled::AlreadyReleased,
            (Some((item, _)), 0) => {
                self.model.limbo.push(item);
                Settled::Quarantined
            }
            (Some((item, _)), _) => {
                let terminal = item.cancelled.map_or(ran, Terminal::Cancelled);
                self.model.end(id, terminal);
                Settled::Released(terminal)
            }
        };
        self.settle_model();
        assert_eq!(got, want);
    }

    fn evidence(&mut self, id: u64) {
        let evidence = Evidence::Operator;
        let got = self.gate.evidence(self.now, OfferId(id), evidence, &mut self.wakes);
        self.settle_model();
        let in_limbo = self.model.limbo.iter().any(|item| item.id == id);
        let want = if in_limbo {
            let (item, _) = self.model.take_holding(id).unwrap();
            let terminal = item.cancelled.map_or(Terminal::Failed, Terminal::Cancelled);
            self.model.end(id, terminal);
            Some(Settled::Released(terminal))
        } else {
            self.model.ended.contains_key(&id).then_some(Settled::AlreadyReleased)
        };
        self.model.fill();
        assert_eq!(got, want);
    }

    fn withdraw(&mut self, ticket: Ticket) {
        let id = ticket.offer.0;
        let _ = self.gate.withdraw(self.now, ticket, Cancelled::HangUp, &mut self.wakes);
        self.settle_model();
        if self.model.take_waiting(id).is_some() {
            self.model.end(id, Terminal::Cancelled(Cancelled::HangUp));
        } else {
            self.model.revoke(id, Cancelled::HangUp);
        }
        self.model.fill();
    }

    fn rotate(&mut self, owner: u64, generation: Generation) {
        let current = self.model.generation(owner);
        let why = Cancelled::BargeIn;
        let got = self.gate.rotate(self.now, OwnerId(owner), generation, why, &mut self.wakes);
        let newer = current.is_none_or(|current| generation > current);
        assert_eq!(got.is_ok(), newer);
        if newer {
            self.model.rotate(self.now, owner, generation);
        }
    }

    fn close(&mut self, end_queue: bool) {
        let mode = if end_queue { CloseMode::EndQueue } else { CloseMode::FinishQueue };
        self.gate.close(self.now, Closed::Draining, mode, &mut self.wakes);
        self.settle_model();
        self.model.closed = Some(Closed::Draining);
        if !end_queue {
            return;
        }
        for item in std::mem::take(&mut self.model.waiting) {
            let terminal = Terminal::Cancelled(Cancelled::Drain);
            self.model.told.push(Told::Ended(item.id, terminal));
            self.model.end(item.id, terminal);
        }
    }

    fn set(&mut self, change: impl Fn(&mut Limits)) {
        self.settle_model();
        change(&mut self.model.limits);
        self.gate.set_limits(self.now, self.model.limits.clone(), &mut self.wakes);
        self.settle_model();
    }

    /// The gate holds, owes and has told exactly what the model does.
    fn compare(&mut self) {
        let told = self.wakes.drain(..).map(|wake| match wake {
            Wake::Granted { lease, .. } => {
                let id = lease.offer.0;
                self.leases.push(lease);
                Told::Granted(id)
            }
            Wake::Ended { offer, terminal, .. } => Told::Ended(offer.0, terminal),
        });
        let told: Vec<Told> = told.collect();
        assert_eq!(told, std::mem::take(&mut self.model.told));
        if let Err(sentence) = self.gate.audit() {
            panic!("{sentence}");
        }
        let counts = self.gate.counts(self.now);
        assert_eq!(counts.in_force, Some(self.model.in_force()));
        let mut places = [Vec::new(), Vec::new(), Vec::new()];
        for held in self.gate.inventory() {
            match held.place {
                Place::Queued => places[0].push(held.offer.0),
                Place::Active => places[1].push(held.offer.0),
                Place::Quarantined(_) => places[2].push(held.offer.0),
                Place::Ended(terminal) => {
                    assert_eq!(self.model.ended.get(&held.offer.0), Some(&terminal));
                }
            }
        }
        let model = [&self.model.waiting, &self.model.running, &self.model.limbo];
        for (mut place, items) in places.into_iter().zip(model) {
            let mut ids: Vec<u64> = items.iter().map(|item| item.id).collect();
            ids.sort_unstable();
            place.sort_unstable();
            assert_eq!(place, ids);
        }
        let account = self.gate.ledger().total();
        assert_eq!(account.offered, self.model.offered);
        assert_eq!(account.refused_total(), self.model.refused);
        assert_eq!(account.terminal_total(), self.model.ended.len() as u64);
        let due = self.gate.next_deadline();
        assert!(self.model.waiting.is_empty() == due.is_none());
    }

    /// Everybody leaves and every unit is proven free: the gate is as it began.
    fn quiesce(mut self) -> Account {
        while let Some(lease) = self.leases.pop() {
            self.settle(lease, 2);
            self.compare();
        }
        for id in 1..=self.names {
            self.evidence(id);
        }
        for owner in 0..3 {
            let _ = self.gate.forget(self.now, OwnerId(owner), &mut self.wakes);
            self.model.forget(self.now, owner);
            self.compare();
            while let Some(lease) = self.leases.pop() {
                self.settle(lease, 2);
                self.compare();
            }
        }
        let counts = self.gate.counts(self.now);
        assert_eq!((counts.active, counts.queued, counts.quarantined), (0, 0, 0));
        assert_eq!((counts.queued_bytes, counts.owners, counts.tenants_active), (0, 0, 0));
        assert_eq!(counts.in_force, counts.configured);
        self.gate.ledger().total().clone()
    }
}
