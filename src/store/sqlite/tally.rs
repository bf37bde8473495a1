//! What is in use, kept in memory so that no offer counts rows; a batch's share is a draft until
//! its commit.

use std::collections::HashMap;

use crate::store::{Ledger, Record, Shelf, mutant};

/// What the committed records take.
#[derive(Debug, Default)]
pub struct Tally {
    pub records: u64,
    pub bytes: u64,
    pub dead: u64,
    pub kept: u64,
    /// Open ones by tenant; a tenant without any is absent.
    pub tenants: HashMap<String, u64>,
}

/// What a transaction will have changed once it is committed.
#[derive(Debug, Default)]
pub struct Draft {
    records: i64,
    bytes: i64,
    dead: i64,
    kept: i64,
    tenants: HashMap<String, i64>,
    pub ledger: Ledger,
}

impl Draft {
    pub fn add(&mut self, record: &Record) {
        self.count(record, 1);
    }

    pub fn remove(&mut self, record: &Record) {
        self.count(record, -1);
    }

    /// So many of a shelf were deleted.
    pub fn drop_from(&mut self, shelf: Shelf, count: u64) {
        match shelf {
            Shelf::Open => {}
            Shelf::Kept => {
                self.kept -= count as i64;
                self.ledger.kept_dropped += count;
            }
            Shelf::Dead => {
                self.dead -= count as i64;
                self.ledger.dead_dropped += count;
            }
        }
    }

    fn count(&mut self, record: &Record, sign: i64) {
        match record.shelf {
            Shelf::Open => {
                self.records += sign;
                self.bytes += sign * record.offer.bytes() as i64;
                *self.tenants.entry(record.offer.tenant.clone()).or_default() += sign;
            }
            Shelf::Kept => self.kept += sign,
            Shelf::Dead => self.dead += sign,
        }
    }
}

impl Tally {
    pub fn records(&self, draft: &Draft) -> u64 {
        let draft = if mutant::is("batch_over_bound") { 0 } else { draft.records };
        sum(self.records, draft)
    }

    pub fn bytes(&self, draft: &Draft) -> u64 {
        sum(self.bytes, draft.bytes)
    }

    pub fn shelf(&self, draft: &Draft, shelf: Shelf) -> u64 {
        match shelf {
            Shelf::Open => self.records(draft),
            Shelf::Kept => sum(self.kept, draft.kept),
            Shelf::Dead => sum(self.dead, draft.dead),
        }
    }

    pub fn tenant(&self, draft: &Draft, tenant: &str) -> u64 {
        let committed = self.tenants.get(tenant).copied().unwrap_or(0);
        sum(committed, draft.tenants.get(tenant).copied().unwrap_or(0))
    }

    /// The transaction is committed.
    pub fn commit(&mut self, draft: &Draft) {
        self.kept = sum(self.kept, draft.kept);
        self.dead = sum(self.dead, draft.dead);
        self.records = sum(self.records, draft.records);
        self.bytes = sum(self.bytes, draft.bytes);
        for (tenant, change) in &draft.tenants {
            let now = self.tenant(draft, tenant);
            if now == 0 {
                self.tenants.remove(tenant);
            } else if *change != 0 {
                self.tenants.insert(tenant.clone(), now);
            }
        }
    }
}

fn sum(committed: u64, draft: i64) -> u64 {
    let sum = committed.checked_add_signed(draft);
    debug_assert!(sum.is_some(), "more was taken away than there was");
    sum.unwrap_or(0)
}
