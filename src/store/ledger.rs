//! What a store has to account for: how many records stand where, and what became of the offers.

use std::collections::BTreeMap;

use super::record::{Record, Shelf, State, UnixMs};
use super::refused::Refused;

/// How many records there are, and how old (C-018, C-021, C-046).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    /// By state; a state without any is absent.
    pub states: BTreeMap<State, u64>,
    /// Open ones.
    pub open: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Dead letters.
    pub dead: u64,
    /// Rows that cannot be read, of callbacks and handoffs: out of the way, for somebody to mend.
    pub set_aside: u64,
    /// When the oldest open one was asked for.
    pub oldest_born_ms: Option<UnixMs>,
}

/// What time alone did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Swept {
    /// Their time has come.
    pub due: u64,
    /// Their time has passed.
    pub expired: u64,
    /// Their claim lapsed: due again, with a higher epoch.
    pub released: u64,
    /// They were being dialled when their claim lapsed: not dialled again.
    pub unknown: u64,
    /// There is more to sweep.
    pub more: bool,
}

impl Swept {
    /// One more record has aged.
    pub(crate) fn count(&mut self, before: State, after: State) {
        match after {
            State::Expired => self.expired += 1,
            State::UnknownDial => self.unknown += 1,
            State::Due if before == State::Claimed => self.released += 1,
            State::Due => self.due += 1,
            State::Accepted
            | State::Claimed
            | State::Dialling
            | State::Connected
            | State::NoAnswer
            | State::Voicemail
            | State::Failed
            | State::Cancelled => {}
        }
    }
}

/// The conservation account of one process: `opening + accepted = open + ended +
/// set_aside`, as long as no other process works on the same store.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Ledger {
    /// Open records that were there when this process opened the store.
    pub opening: u64,
    /// What was asked of it: accepted, repeated and refused.
    pub offered: u64,
    /// On record for the first time.
    pub accepted: u64,
    /// Already on record by their key.
    pub repeated: u64,
    /// Refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Ended, by how.
    pub ended: BTreeMap<State, u64>,
    /// Dead letters that a new offer stands for.
    pub replayed: u64,
    /// Unknown dials of which somebody later knew what became of them.
    pub resolved: u64,
    /// Dead letters dropped as there were too many.
    pub dead_dropped: u64,
    /// Finished ones dropped as there were too many.
    pub kept_dropped: u64,
    /// Open ones that could not be read any more and were set aside.
    pub set_aside: u64,
}

impl Ledger {
    /// Everything that is to be accounted for, less everything that has ended; none when more has
    /// ended than this process knows of, because another one accepted it.
    pub fn open(&self) -> Option<u64> {
        let gone = self.ended.values().sum::<u64>() + self.set_aside;
        (self.opening + self.accepted).checked_sub(gone)
    }

    /// An offer was refused.
    pub(crate) fn refuse(&mut self, why: &Refused) {
        self.offered += 1;
        *self.refused.entry(why.label()).or_default() += 1;
    }

    /// An offer is on record.
    pub(crate) fn accept(&mut self, repeated: bool) {
        self.offered += 1;
        if repeated {
            self.repeated += 1;
        } else {
            self.accepted += 1;
        }
    }

    /// A record has changed.
    pub(crate) fn note(&mut self, before: &Record, after: &Record) {
        let (was, is) = (before.state.is_terminal(), after.state.is_terminal());
        if !was && is {
            *self.ended.entry(after.state).or_default() += 1;
        }
        if was && before.state != after.state {
            self.resolved += 1;
        }
        if before.shelf == Shelf::Dead && after.shelf == Shelf::Kept && before.state == after.state
        {
            self.replayed += 1;
        }
    }

    /// What happened in a transaction that has now been committed.
    pub(crate) fn add(&mut self, other: Ledger) {
        self.offered += other.offered;
        self.accepted += other.accepted;
        self.repeated += other.repeated;
        self.replayed += other.replayed;
        self.resolved += other.resolved;
        self.dead_dropped += other.dead_dropped;
        self.kept_dropped += other.kept_dropped;
        self.set_aside += other.set_aside;
        for (why, count) in other.refused {
            *self.refused.entry(why).or_default() += count;
        }
        for (state, count) in other.ended {
            *self.ended.entry(state).or_default() += count;
        }
    }
}
