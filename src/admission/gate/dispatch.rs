//! Moving the queue: expiring what is due, granting what fits, ending what waits.

use super::super::ledger::Standing;
use super::super::limits::Intake;
use super::super::records::{Found, NIL, Record, State};
use super::super::tombstones::Tombstone;
use super::super::{Lease, OfferId, Terminal, Ticket, Wake, mutant};
use super::{Gate, Pressure};
use crate::time::Timestamp;

/// The answer to a `take` (A-077…A-082).
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// Nothing waits and intake is open.
    Empty,
    /// Nothing waits and intake is closed.
    Closed,
    /// Somebody waits and no unit is free.
    Busy,
    /// The first of the waiting was too old and is gone.
    Expired(OfferId),
    /// The first of the waiting holds its units.
    Admitted(Lease),
    /// The time told is before the birth of the first of the waiting.
    BeforeBirth(OfferId),
}

impl Gate {
    /// Ends what is past its deadline and lets through what fits: for the timer and the
    /// once-a-second pass (B-036).
    pub fn expire(&mut self, now: Timestamp, wakes: &mut Vec<Wake>) {
        let now = self.clock(now);
        self.catch_up(now, wakes);
        self.forget_tombstones(now);
    }

    /// When [`Gate::expire`] has something to end: just after the earliest deadline, since equal is
    /// alive.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let (deadline, _) = self.deadlines.first()?;
        let micros = deadline.as_micros().checked_add(1)?;
        Some(Timestamp::from_micros(micros))
    }

    /// Hands out the first of the waiting, or its expiry, one at a time (queue-first intake, X-14).
    pub fn take(&mut self, now: Timestamp) -> Taken {
        let now = self.clock(now);
        let room = self.room();
        let Some(at) = self.lanes.next(&self.slab, now, room) else {
            return match (self.lanes.waiting(), self.closed) {
                (0, Some(_)) => Taken::Closed,
                (0, None) => Taken::Empty,
                (_, _) => Taken::Busy,
            };
        };
        let Record { born, deadline, cost, offer, .. } = self.slab[at];
        if now < born {
            return Taken::BeforeBirth(offer);
        }
        if now > deadline {
            self.end_waiting(now, at, Terminal::Expired, None);
            return Taken::Expired(offer);
        }
        if self.decides() && room.free < cost {
            return Taken::Busy;
        }
        Taken::Admitted(self.grant(now, at))
    }

    /// Puts a waiting offer's deadline off to the gate's whole `max_wait_ms`, once (DESIGN section
    /// 3, *ages*).
    ///
    /// Returns the deadline now in force; `None` when it waits no longer or was put off before.
    pub fn extend(&mut self, now: Timestamp, ticket: &Ticket) -> Option<Timestamp> {
        let now = self.clock(now);
        let at = self.waiting_at(ticket)?;
        let record = &self.slab[at];
        if record.extended || now > record.deadline {
            return None;
        }
        self.deadlines.remove(at);
        let max_wait = self.limits.max_wait();
        let record = &mut self.slab[at];
        record.extended = true;
        record.deadline = record.deadline.max(record.born + max_wait);
        let (deadline, arrival) = (record.deadline, record.arrival);
        self.deadlines.add(at, deadline, arrival);
        Some(deadline)
    }

    pub(super) fn waiting_at(&self, ticket: &Ticket) -> Option<u32> {
        match self.slab.find(ticket.slot, ticket.offer) {
            Found::At(at) if self.slab[at].state == State::Queued => Some(at),
            Found::At(_) | Found::Ended | Found::NeverMade => None,
        }
    }

    /// What a timer would have done by now: every operation begins with it, so that a timer which
    /// fires late changes no outcome.
    pub(super) fn catch_up(&mut self, now: Timestamp, wakes: &mut Vec<Wake>) {
        self.expire_due(now, wakes);
        self.fill(now, wakes);
    }

    /// Ends every waiting offer whose deadline lies before `now`, in order of deadline.
    fn expire_due(&mut self, now: Timestamp, wakes: &mut Vec<Wake>) {
        if self.limits.intake == Intake::QueueFirst {
            return;
        }
        let mut freed_at = None;
        while let Some((deadline, at)) = self.deadlines.first() {
            if now <= deadline {
                return;
            }
            if freed_at.is_some_and(|freed_at| deadline > freed_at) {
                // Who was alive when a claim lapsed gets what it held, however late this is.
                freed_at = None;
                self.fill(now, wakes);
                continue;
            }
            if self.slab[at].state != State::Queued {
                self.lapse(now, at, wakes);
                freed_at = Some(deadline);
                continue;
            }
            if mutant::is("head_only_expiry") && self.lanes.first(&self.slab) != Some(at) {
                return;
            }
            self.end_waiting(now, at, Terminal::Expired, Some(wakes));
        }
    }

    /// Lets through as many of the waiting as fit, one at a time, in their order.
    pub(super) fn fill(&mut self, now: Timestamp, wakes: &mut Vec<Wake>) {
        if self.limits.intake == Intake::QueueFirst {
            return;
        }
        while self.lanes.waiting() > 0 && (self.pressure == Pressure::Open || !self.decides()) {
            let room = self.room();
            if self.decides() && room.free == 0 {
                return;
            }
            let next = match self.decides() {
                true => self.lanes.next(&self.slab, now, room),
                false => self.lanes.first(&self.slab),
            };
            let Some(at) = next else { return };
            if self.decides() && room.free < self.slab[at].cost {
                return;
            }
            let owner = self.slab[at].owner;
            let lease = self.grant(now, at);
            wakes.push(Wake::Granted { owner, lease });
        }
    }

    fn grant(&mut self, now: Timestamp, at: u32) -> Lease {
        let waited_us = self.unqueue(now, at);
        self.waits.add_micros(waited_us);
        self.ledger.shift(Self::payer(&self.slab[at]), Standing::Queued, Standing::Active);
        self.slab[at].state = State::Active;
        self.slab[at].since = now;
        self.start(now, at);
        Lease { stage: self.stage, offer: self.slab[at].offer, slot: self.slab.key(at) }
    }

    /// Takes a record out of the queue and its indexes; it stands nowhere until the caller says
    /// where. Gives how long it waited, in microseconds.
    fn unqueue(&mut self, now: Timestamp, at: u32) -> u64 {
        self.lanes.take(&mut self.slab, at);
        self.deadlines.remove(at);
        let record = &self.slab[at];
        self.queued_bytes -= record.bytes;
        let waited_us = now.micros_since(record.since);
        self.mean_wait_us = (self.mean_wait_us * 7 + waited_us) / 8;
        if let Some(key) = Self::key_of(record)
            && self.keys.get(&key) == Some(&at)
        {
            self.keys.remove(&key);
        }
        waited_us
    }

    pub(super) fn start(&mut self, now: Timestamp, at: u32) {
        let Record { lane, cost, .. } = self.slab[at];
        self.lanes.start(now, lane, cost);
        self.active_units += cost;
        self.high.active_units = self.high.active_units.max(self.active_units);
        self.reached |= self.room().free == 0;
    }

    /// Ends an offer that waits; `wakes` is given when its owner does not know yet.
    pub(super) fn end_waiting(
        &mut self,
        now: Timestamp,
        at: u32,
        terminal: Terminal,
        wakes: Option<&mut Vec<Wake>>,
    ) {
        self.unqueue(now, at);
        self.lanes.let_go(now, &self.slab[at]);
        let Record { owner, offer, .. } = self.slab[at];
        self.end(now, at, Standing::Queued, terminal);
        if let Some(wakes) = wakes {
            wakes.push(Wake::Ended { owner, offer, stage: self.stage, terminal });
        }
    }

    /// The one place where an offer's life ends: counted, remembered, out of its owner's list.
    pub(super) fn end(&mut self, now: Timestamp, at: u32, from: Standing, terminal: Terminal) {
        self.ledger.shift(Self::payer(&self.slab[at]), from, Standing::Ended(terminal));
        self.disown(at);
        let record = &self.slab[at];
        self.tombstones.add(Tombstone {
            offer: record.offer,
            owner: record.owner,
            terminal,
            cancelled: record.cancelled,
            arrival: record.arrival,
            cost: record.cost,
            born: record.born,
            deadline: record.deadline,
            ended: now,
        });
        self.slab.drop_at(at);
        self.forget_tombstones(now);
    }

    pub(super) fn disown(&mut self, at: u32) {
        let owner_at = std::mem::replace(&mut self.slab[at].owner_at, NIL);
        if owner_at != NIL {
            self.owners[owner_at].live.take(&mut self.slab, at, |record| &mut record.owned);
        }
    }

    /// Forgets ends that are too many or too old; their identities may be used again.
    fn forget_tombstones(&mut self, now: Timestamp) {
        while let Some(gone) = self.tombstones.forget(now, self.limits.tombstones) {
            self.ids.remove(&gone.offer.0);
        }
    }
}
