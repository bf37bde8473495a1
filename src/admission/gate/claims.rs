//! Provisional claims: a later stage's units, held before the work that needs them begins.
//!
//! Nothing is ever started on a claim before it is confirmed, so time alone may end it: the one
//! place where a clock is evidence enough, and the evidence is called `never_started`.

use super::super::ledger::Standing;
use super::super::limits::{Limits, Mode};
use super::super::records::{Found, Record, State};
use super::super::{Answer, Lease, Offer, Terminal, Wake};
use super::Gate;
use crate::evidence::Evidence;
use crate::time::Timestamp;

impl Gate {
    /// Claims units without ever waiting: admitted at once or refused. The claim lapses just after
    /// the offer's deadline, unless it is confirmed or settled before; its owner is then told
    /// `expired`.
    pub fn claim(&mut self, now: Timestamp, offer: Offer, wakes: &mut Vec<Wake>) -> Answer {
        let answer = self.answer(now, offer, 0, wakes);
        if let Answer::Admitted(lease) = &answer {
            let at = lease.slot.index;
            self.provisional += 1;
            self.slab[at].provisional = true;
            let Record { deadline, arrival, .. } = self.slab[at];
            self.deadlines.add(at, deadline, arrival);
        }
        answer
    }

    /// A claim would find no room now, and an ordinary offer may wait for it: nobody need be
    /// refused, and no refusal be counted.
    pub fn may_wait_instead(&self, now: Timestamp, offer: &Offer) -> bool {
        let Limits { mode, queue, .. } = self.limits;
        let open = self.closed.is_none() && !self.has_no_capacity_for(offer.cost);
        let full = self.room().free < offer.cost || self.lanes.waiting() > 0;
        mode == Mode::Enforce && queue > 0 && open && full && now <= offer.deadline
    }

    /// Work begins on a claim: from now on only evidence gives its units back. False when it has
    /// lapsed.
    pub fn confirm(&mut self, now: Timestamp, lease: &Lease, wakes: &mut Vec<Wake>) -> bool {
        let now = self.clock(now);
        self.catch_up(now, wakes);
        match self.slab.find(lease.slot, lease.offer) {
            Found::At(at) if self.slab[at].state == State::Active => {
                self.firm(at);
                true
            }
            Found::At(_) | Found::Ended | Found::NeverMade => false,
        }
    }

    /// The record is no claim any more: its deadline means nothing now.
    pub(super) fn firm(&mut self, at: u32) {
        if std::mem::take(&mut self.slab[at].provisional) {
            self.provisional -= 1;
            self.deadlines.remove(at);
        }
    }

    pub(super) fn lapse(&mut self, now: Timestamp, at: u32, wakes: &mut Vec<Wake>) {
        let Record { owner, offer, .. } = self.slab[at];
        self.ledger.released(Evidence::NeverStarted);
        self.stop(now, at);
        self.end(now, at, Standing::Active, Terminal::Expired);
        let stage = self.stage;
        wakes.push(Wake::Ended { owner, offer, stage, terminal: Terminal::Expired });
    }
}
