//! A gate with short words for tests: milliseconds in, names out.

use floorkeeper::admission::limits::{CloseMode, Limits};
use floorkeeper::admission::*;
use floorkeeper::evidence::{Evidence, Unknown};
use floorkeeper::id::*;
use floorkeeper::time::{Timestamp, ms};

/// What an offer was told, without what it was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Admitted,
    Queued,
    No(RefusalReason),
}

/// What somebody who waits was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    Granted(u64),
    Ended(u64, Terminal),
}

pub struct Desk {
    pub gate: Gate,
    pub leases: Vec<Lease>,
    pub tickets: Vec<Ticket>,
    pub max_wait_ms: u64,
    wakes: Vec<Wake>,
}

pub fn at(now_ms: u64) -> Timestamp {
    Timestamp::from_millis(now_ms)
}

/// An offer of owner 1 in generation 1, born now, alive for `life_ms`.
pub fn offer(id: u64, born_ms: u64, life_ms: u64) -> Offer {
    Offer {
        generation: Generation(1),
        ..Offer::plain(OfferId(id), OwnerId(1), at(born_ms), at(born_ms) + ms(life_ms))
    }
}

impl Desk {
    /// A gate of the model stage where owners 1, 2 and 3 are in generation 1.
    pub fn new(limits: Limits) -> Self {
        let max_wait_ms = limits.max_wait_ms;
        let gate = Gate::new(Stage::Model, limits);
        let mut desk =
            Desk { gate, leases: Vec::new(), tickets: Vec::new(), max_wait_ms, wakes: Vec::new() };
        for owner in 1..=3 {
            desk.rotate(0, owner, 1);
        }
        desk
    }

    pub fn offer(&mut self, now_ms: u64, offer: Offer) -> Said {
        match self.gate.offer(at(now_ms), offer, &mut self.wakes) {
            Answer::Admitted(lease) => {
                self.leases.push(lease);
                Said::Admitted
            }
            Answer::Queued(ticket) => {
                self.tickets.push(ticket);
                Said::Queued
            }
            Answer::Refused(refusal) => Said::No(refusal.reason),
        }
    }

    /// Offers something born now that may wait as long as the gate lets it.
    pub fn fresh(&mut self, now_ms: u64, id: u64, owner: u64) -> Said {
        let life_ms = self.max_wait_ms;
        self.offer(now_ms, Offer { owner: OwnerId(owner), ..offer(id, now_ms, life_ms) })
    }

    pub fn of_tenant(&mut self, now_ms: u64, id: u64, tenant: u32) -> Said {
        let life_ms = self.max_wait_ms;
        self.offer(now_ms, Offer { tenant: TenantId(tenant), ..offer(id, now_ms, life_ms) })
    }

    pub fn lease(&mut self, id: u64) -> Lease {
        let held = self.leases.iter().position(|lease| lease.offer == OfferId(id));
        self.leases.swap_remove(held.expect("a lease of this name is held"))
    }

    pub fn complete(&mut self, now_ms: u64, id: u64) -> Settled {
        self.release(now_ms, id, Release::Completed(Evidence::Completed))
    }

    pub fn lose(&mut self, now_ms: u64, id: u64) -> Settled {
        self.release(now_ms, id, Release::Unknown(Unknown::ConnectionLost))
    }

    pub fn release(&mut self, now_ms: u64, id: u64, release: Release) -> Settled {
        let lease = self.lease(id);
        self.gate.settle(at(now_ms), lease, release, &mut self.wakes)
    }

    pub fn prove(&mut self, now_ms: u64, id: u64) -> Option<Settled> {
        self.gate.evidence(at(now_ms), OfferId(id), Evidence::Operator, &mut self.wakes)
    }

    pub fn rotate(&mut self, now_ms: u64, owner: u64, generation: u64) -> gate::Rotated {
        let (owner, generation) = (OwnerId(owner), Generation(generation));
        let why = Cancelled::BargeIn;
        let rotated = self.gate.rotate(at(now_ms), owner, generation, why, &mut self.wakes);
        rotated.expect("the generation is newer")
    }

    pub fn forget(&mut self, now_ms: u64, owner: u64) -> gate::Forgotten {
        self.gate.forget(at(now_ms), OwnerId(owner), &mut self.wakes)
    }

    pub fn expire(&mut self, now_ms: u64) -> Vec<Told> {
        self.gate.expire(at(now_ms), &mut self.wakes);
        self.told()
    }

    pub fn close(&mut self, now_ms: u64, mode: CloseMode) {
        self.gate.close(at(now_ms), Closed::Draining, mode, &mut self.wakes);
    }

    pub fn set(&mut self, now_ms: u64, change: impl Fn(&mut Limits)) -> Vec<Told> {
        let mut limits = self.gate.limits().clone();
        change(&mut limits);
        self.gate.set_limits(at(now_ms), limits, &mut self.wakes);
        self.told()
    }

    pub fn pressure(&mut self, now_ms: u64, pressure: gate::Pressure) -> Vec<Told> {
        self.gate.set_pressure(at(now_ms), pressure, &mut self.wakes);
        self.told()
    }

    pub fn counts(&self) -> gate::Counts {
        self.gate.counts(self.gate.now())
    }

    /// What was decided for others since this was asked last; what was granted is held from now on.
    pub fn told(&mut self) -> Vec<Told> {
        let mut told = Vec::new();
        for wake in self.wakes.drain(..) {
            told.push(match wake {
                Wake::Granted { lease, .. } => {
                    let id = lease.offer.0;
                    self.leases.push(lease);
                    Told::Granted(id)
                }
                Wake::Ended { offer, terminal, .. } => Told::Ended(offer.0, terminal),
            });
        }
        self.gate.audit().expect("the account balances");
        told
    }
}
