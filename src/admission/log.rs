//! The decision log: a bounded ring of what a gate was asked and what it said.

use std::collections::VecDeque;

use super::gate::Pressure;
use super::limits::{CloseMode, Limits};
use super::{
    Cancelled, Closed, Offer, OfferId, OwnerId, RefusalReason, Release, Settled, Terminal, Wake,
};
use crate::evidence::Evidence;
use crate::id::Generation;
use crate::time::Timestamp;

/// One thing a gate was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// An offer.
    Offer(Offer),
    /// A claim: an offer that never waits.
    Claim(Offer),
    /// Work that was under way before the gate.
    Inherit(Offer),
    /// Units outlive their owner.
    HandOn(OfferId),
    /// Work begins on a claim.
    Confirm(OfferId),
    /// A wait is given up.
    Withdraw(OfferId, Cancelled),
    /// A wait's deadline is put off.
    Extend(OfferId),
    /// Running work loses its authority.
    Cancel(OfferId, Cancelled),
    /// A lease comes back.
    Settle(OfferId, Release),
    /// Proof for a unit in quarantine.
    Evidence(OfferId, Evidence),
    /// An owner's generation.
    Rotate(OwnerId, Generation, Cancelled),
    /// An owner is over.
    Forget(OwnerId),
    /// Time passes.
    Expire,
    /// Intake closes.
    Close(Closed, CloseMode),
    /// Intake opens.
    Open,
    /// New limits.
    Limits(Limits),
    /// The ceiling that evidence allows.
    Adaptive(Option<u32>),
    /// The stages behind are pressed.
    Pressure(Pressure),
}

/// What the gate said to whoever asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// The units are theirs.
    Admitted,
    /// They wait.
    Queued,
    /// No.
    Refused(RefusalReason),
    /// What became of a lease.
    Settled(Settled),
    /// Done; so many things were changed.
    Done(u32),
    /// It changed nothing.
    Nothing,
}

/// What the gate decided for somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A wait is over: the units are theirs.
    Granted(OfferId),
    /// A wait, or a claim, is over without them.
    Ended(OfferId, Terminal),
}

impl Said {
    pub(super) fn done(changed: bool) -> Said {
        match changed {
            true => Said::Done(1),
            false => Said::Nothing,
        }
    }
}

impl From<&Wake> for Told {
    fn from(wake: &Wake) -> Told {
        match wake {
            Wake::Granted { lease, .. } => Told::Granted(lease.offer),
            Wake::Ended { offer, terminal, .. } => Told::Ended(*offer, *terminal),
        }
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Counts from 0, without a gap.
    pub seq: u64,
    /// The time the gate was told.
    pub now: Timestamp,
    /// What it was asked.
    pub act: Act,
    /// What it said.
    pub said: Said,
    /// What it decided for others.
    pub told: Vec<Told>,
}

/// The last lines, as many as were asked for.
#[derive(Clone, Debug)]
pub struct Log {
    lines: VecDeque<Line>,
    kept: usize,
    next: u64,
}

impl Log {
    /// Keeps the last `kept` lines.
    pub fn new(kept: usize) -> Self {
        Log { lines: VecDeque::new(), kept: kept.max(1), next: 0 }
    }

    /// Writes a line; the oldest goes when there is no room.
    pub fn write(&mut self, now: Timestamp, act: Act, said: Said, told: Vec<Told>) {
        if self.lines.len() == self.kept {
            self.lines.pop_front();
        }
        self.lines.push_back(Line { seq: self.next, now, act, said, told });
        self.next += 1;
    }

    /// The lines that are kept, oldest first.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    /// How many were ever written.
    pub fn written(&self) -> u64 {
        self.next
    }

    /// The lines from this one on, for whoever writes them to a file.
    pub fn since(&self, seq: u64) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(move |line| line.seq >= seq)
    }
}
