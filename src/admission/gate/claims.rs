//! Provisional claims: a later stage's units, held before the work that needs them begins.
//!
//! Nothing is ever started on a claim before it is confirmed, so time alone may end it: the one
//! place where a clock is evidence enough, and the evidence is called `never_started`.

use super::super::ledger::Standing;
use super::super::records::{Found, Record, State};
use super::super::{Claimed, Lease, Offer, Terminal, Wake};
use super::Gate;
use super::intake::Verdict;
use crate::evidence::Evidence;
use crate::time::Timestamp;

impl Gate {
    /// Claims units without ever waiting. The claim lapses just after the offer's deadline, unless
    /// it is confirmed or settled before; its owner is then told `expired`.
    ///
    /// Where an ordinary offer would wait, nothing is counted: that offer is still to come.
    pub fn claim(&mut self, now: Timestamp, offer: Offer, wakes: &mut Vec<Wake>) -> Claimed {
        let now = self.clock(now);
        let offer = self.sound(now, offer);
        match self.judge(now, &offer, wakes) {
            Ok((owner_at, Verdict::Admit)) => {
                let lease = self.admit(now, &offer, owner_at);
                let at = lease.slot.index;
                self.provisional += 1;
                self.slab[at].provisional = true;
                let Record { deadline, arrival, .. } = self.slab[at];
                self.deadlines.add(at, deadline, arrival);
                Claimed::Held(lease)
            }
            Ok((_, Verdict::Queue(_))) => Claimed::MayWait,
            Ok((_, Verdict::Refuse(reason))) | Err(reason) => {
                Claimed::Refused(self.refuse(&offer, reason))
            }
        }
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
