//! Ends that are remembered: bounded by count and age; late events get a typed answer.

use std::collections::VecDeque;

use super::limits;
use super::{Cancelled, OfferId, OwnerId, Terminal};
use crate::time::Timestamp;

/// How one offer's life ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tombstone {
    pub offer: OfferId,
    pub owner: OwnerId,
    pub terminal: Terminal,
    pub cancelled: Option<Cancelled>,
    pub arrival: u64,
    pub cost: u32,
    pub born: Timestamp,
    pub deadline: Timestamp,
    pub ended: Timestamp,
}

/// The ends of one gate, in the order in which they came.
#[derive(Clone, Default)]
pub(super) struct Tombstones {
    ring: VecDeque<Tombstone>,
}

impl Tombstones {
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    pub fn add(&mut self, tombstone: Tombstone) {
        self.ring.push_back(tombstone);
    }

    /// The next one to forget: one too many, or too old.
    pub fn forget(&mut self, now: Timestamp, kept: limits::Tombstones) -> Option<Tombstone> {
        let oldest = self.ring.front()?;
        let fits = self.ring.len() <= kept.count && now <= oldest.ended.plus_ms(kept.age_ms);
        if fits { None } else { self.ring.pop_front() }
    }

    /// The end of this name; a retry asks, and what it tries again ended not long ago.
    pub fn find(&self, offer: OfferId) -> Option<&Tombstone> {
        self.ring.iter().rev().find(|tombstone| tombstone.offer == offer)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Tombstone> {
        self.ring.iter()
    }
}
