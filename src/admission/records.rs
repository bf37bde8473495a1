//! The gate's records in a slab: every offer it keeps, and the lists that run through them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::{Cancelled, OfferId, OwnerId, SlotKey};
use crate::evidence::Unknown;
use crate::id::{ClassId, Generation, TenantId};
use crate::time::Timestamp;

/// "No record": the end of a list.
pub(super) const NIL: u32 = u32::MAX;

/// Numbers need no defence against chosen keys: ids are made by this process.
#[derive(Clone, Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// A table from numbers, looked up and never walked.
pub(super) type Lookup<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;

/// Where a live offer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Queued,
    Active,
    Quarantined(Unknown),
}

/// One kept offer.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub epoch: u32,
    /// The slab's place holds nothing.
    pub free: bool,
    pub state: State,
    pub offer: OfferId,
    pub owner: OwnerId,
    pub tenant: TenantId,
    pub class: ClassId,
    pub cost: u32,
    pub bytes: u64,
    pub born: Timestamp,
    pub deadline: Timestamp,
    /// When it was queued or, once admitted, when that was.
    pub since: Timestamp,
    /// Order of arrival at this gate.
    pub arrival: u64,
    /// Its authority is gone; kept whatever the work does afterwards.
    pub cancelled: Option<Cancelled>,
    pub supersedes: Option<u64>,
    /// Its lease is a claim that ends by itself until it is confirmed.
    pub provisional: bool,
    /// Its deadline was put off once.
    pub extended: bool,
    /// Whose share and which class order it counts in.
    pub lane: u16,
    pub queue: Link,
    pub owned: Link,
    /// Place in the owner table, while it is in that owner's list.
    pub owner_at: u32,
}

/// Neighbours in a list that runs through the records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub before: u32,
    pub after: u32,
}

impl Link {
    pub const NONE: Link = Link { before: NIL, after: NIL };
}

/// First and last of a list that runs through the records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub first: u32,
    pub last: u32,
}

impl Ends {
    pub const NONE: Ends = Ends { first: NIL, last: NIL };

    /// Puts a record at the end of this list.
    pub fn push(&mut self, slab: &mut Slab, at: u32, link: fn(&mut Record) -> &mut Link) {
        *link(&mut slab[at]) = Link { before: self.last, after: NIL };
        match self.last {
            NIL => self.first = at,
            last => link(&mut slab[last]).after = at,
        }
        self.last = at;
    }

    /// Puts a record before all others; only a broken variant does.
    pub fn push_first(&mut self, slab: &mut Slab, at: u32, link: fn(&mut Record) -> &mut Link) {
        *link(&mut slab[at]) = Link { before: NIL, after: self.first };
        match self.first {
            NIL => self.last = at,
            first => link(&mut slab[first]).before = at,
        }
        self.first = at;
    }

    /// Takes a record out of this list, wherever it stands.
    pub fn take(&mut self, slab: &mut Slab, at: u32, link: fn(&mut Record) -> &mut Link) {
        let Link { before, after } = std::mem::replace(link(&mut slab[at]), Link::NONE);
        match before {
            NIL => self.first = after,
            before => link(&mut slab[before]).after = after,
        }
        match after {
            NIL => self.last = before,
            after => link(&mut slab[after]).before = before,
        }
    }
}

/// Records by place; a freed place is used again under a new epoch.
#[derive(Clone, Default)]
pub(super) struct Slab {
    records: Vec<Record>,
    free: Vec<u32>,
}

impl Slab {
    /// Keeps a record; its epoch is set here.
    pub fn keep(&mut self, mut record: Record) -> u32 {
        record.free = false;
        if let Some(at) = self.free.pop() {
            record.epoch = self.records[at as usize].epoch;
            self.records[at as usize] = record;
            return at;
        }
        record.epoch = 0;
        self.records.push(record);
        (self.records.len() - 1) as u32
    }

    /// Forgets a record: its keys find nothing from now on.
    pub fn drop_at(&mut self, at: u32) {
        let record = &mut self.records[at as usize];
        debug_assert!(!record.free, "record {at} was freed twice");
        record.free = true;
        record.epoch = record.epoch.wrapping_add(1);
        self.free.push(at);
    }

    pub fn key(&self, at: u32) -> SlotKey {
        SlotKey { index: at, epoch: self.records[at as usize].epoch }
    }

    /// What the key means now.
    pub fn find(&self, key: SlotKey, offer: OfferId) -> Found {
        match self.records.get(key.index as usize) {
            None => Found::NeverMade,
            Some(record) if record.epoch < key.epoch => Found::NeverMade,
            Some(record) if record.epoch > key.epoch => Found::Ended,
            Some(record) if record.free || record.offer != offer => Found::NeverMade,
            Some(_) => Found::At(key.index),
        }
    }

    /// All that is live, by place.
    pub fn live(&self) -> impl Iterator<Item = (u32, &Record)> {
        self.records.iter().enumerate().filter(|(_, r)| !r.free).map(|(at, r)| (at as u32, r))
    }
}

impl std::ops::Index<u32> for Slab {
    type Output = Record;
    fn index(&self, at: u32) -> &Record {
        &self.records[at as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    fn index_mut(&mut self, at: u32) -> &mut Record {
        &mut self.records[at as usize]
    }
}

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It is here.
    At(u32),
    /// It has ended.
    Ended,
    /// No gate made this key.
    NeverMade,
}

/// Who may offer: the current generation and the watermark of each owner.
#[derive(Clone, Default)]
pub(super) struct Owners {
    by_id: Lookup<u64, u32>,
    table: Vec<Owner>,
    free: Vec<u32>,
}

/// One owner: history stands apart from the queue and is cleared only by rotation.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub id: OwnerId,
    pub generation: Generation,
    /// Birth of the youngest work accepted in this generation.
    pub watermark: Option<Timestamp>,
    /// Its records that wait or hold units.
    pub live: Ends,
}

impl Owners {
    pub fn find(&self, id: OwnerId) -> Option<u32> {
        self.by_id.get(&id.0).copied()
    }

    pub fn add(&mut self, id: OwnerId, generation: Generation) -> u32 {
        let owner = Owner { id, generation, watermark: None, live: Ends::NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.table[at as usize] = owner;
                at
            }
            None => {
                self.table.push(owner);
                (self.table.len() - 1) as u32
            }
        };
        self.by_id.insert(id.0, at);
        at
    }

    pub fn remove(&mut self, at: u32) {
        self.by_id.remove(&self.table[at as usize].id.0);
        self.free.push(at);
    }

    pub fn count(&self) -> usize {
        self.by_id.len()
    }
}

impl std::ops::Index<u32> for Owners {
    type Output = Owner;
    fn index(&self, at: u32) -> &Owner {
        &self.table[at as usize]
    }
}

impl std::ops::IndexMut<u32> for Owners {
    fn index_mut(&mut self, at: u32) -> &mut Owner {
        &mut self.table[at as usize]
    }
}
