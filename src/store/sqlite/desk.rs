//! What is done within one transaction: decided by the pure rules, written by the rows.

use rusqlite::Connection;

use super::rows;
use super::tally::{Draft, Tally};
use crate::id::CallbackId;
use crate::store::record::fresh_id;
use crate::store::{
    BATCH_MAX, Change, Kept, Limits, Offer, Record, Refused, Shelf, Swept, UnixMs, Usage,
};

/// A transaction that is open.
pub struct Desk<'a> {
    pub connection: &'a Connection,
    pub limits: &'a Limits,
    pub tally: &'a Tally,
    pub draft: &'a mut Draft,
}

type Outcome<T> = rusqlite::Result<Result<T, Refused>>;

impl Desk<'_> {
    pub(super) fn accept(&mut self, offer: Offer, now_ms: UnixMs) -> Outcome<Kept> {
        let kept = self.try_accept(offer, now_ms)?;
        match &kept {
            Ok(kept) => self.draft.ledger.accept(kept.repeated),
            Err(refused) => self.draft.ledger.refuse(refused),
        }
        Ok(kept)
    }

    fn try_accept(&mut self, offer: Offer, now_ms: UnixMs) -> Outcome<Kept> {
        if let Some(key) = &offer.key
            && let Some(before) = rows::of_key(self.connection, &offer.tenant, &key.name)?
        {
            return Ok(Kept::repeated(&before, key));
        }
        if let Err(refused) = self.limits.check(&offer, now_ms) {
            return Ok(Err(refused));
        }
        let others = rows::open_to(self.connection, &offer.destination)?;
        if let Some((_, existing)) = others.iter().find(|(tenant, _)| *tenant == offer.tenant) {
            return Ok(Err(Refused::Duplicate { existing: *existing }));
        }
        let used = Usage {
            records: self.tally.records(self.draft),
            bytes: self.tally.bytes(self.draft),
            tenant: self.tally.tenant(self.draft, &offer.tenant),
            destination: others.len() as u64,
        };
        if let Err(refused) = self.limits.room(used, &offer) {
            return Ok(Err(refused));
        }
        if let Some(dead) = offer.replays {
            let Some(before) = rows::get(self.connection, dead.0)? else {
                return Ok(Err(Refused::NotFound));
            };
            let mut after = before.clone();
            if let Err(refused) = after.replayed(now_ms) {
                return Ok(Err(refused));
            }
            self.write(&before, &after)?;
        }
        let record = Record::new(fresh_id(now_ms), offer, now_ms);
        rows::insert(self.connection, &record)?;
        self.draft.add(&record);
        Ok(Ok(Kept { id: record.id, state: record.state, repeated: false }))
    }

    pub fn claim(
        &mut self,
        worker: &str,
        lease_ms: u64,
        max: usize,
        now_ms: UnixMs,
    ) -> rusqlite::Result<Vec<Record>> {
        let mut claimed = rows::due(self.connection, now_ms, max)?;
        for record in &mut claimed {
            record.claim(worker, lease_ms, now_ms);
            rows::update(self.connection, record)?;
        }
        Ok(claimed)
    }

    pub fn change(&mut self, id: CallbackId, change: &Change, now_ms: UnixMs) -> Outcome<Record> {
        let Some(before) = rows::get(self.connection, id)? else {
            return Ok(Err(Refused::NotFound));
        };
        let mut after = before.clone();
        if let Err(refused) = after.apply(change, self.limits, now_ms) {
            return Ok(Err(refused));
        }
        self.write(&before, &after)?;
        Ok(Ok(after))
    }

    pub fn sweep(&mut self, now_ms: UnixMs) -> rusqlite::Result<Swept> {
        let mut swept = Swept::default();
        let kinds = rows::aging(self.connection, now_ms)?;
        swept.more = kinds.iter().any(|kind| kind.len() == BATCH_MAX);
        let mut seen = std::collections::BTreeSet::new();
        for before in kinds.into_iter().flatten().filter(|record| seen.insert(record.id)) {
            let mut after = before.clone();
            if after.age(now_ms) {
                self.write(&before, &after)?;
                swept.count(before.state, after.state);
            }
        }
        Ok(swept)
    }

    fn write(&mut self, before: &Record, after: &Record) -> rusqlite::Result<()> {
        rows::update(self.connection, after)?;
        self.draft.remove(before);
        self.draft.add(after);
        self.draft.ledger.note(before, after);
        self.trim(Shelf::Dead, self.limits.dead)?;
        self.trim(Shelf::Kept, self.limits.kept)
    }

    /// A shelf that is over its bound loses its oldest.
    fn trim(&mut self, shelf: Shelf, bound: u64) -> rusqlite::Result<()> {
        let over = self.tally.shelf(self.draft, shelf).saturating_sub(bound);
        if over > 0 {
            let dropped = rows::drop_oldest(self.connection, shelf, over)?;
            self.draft.drop_from(shelf, dropped as u64);
        }
        Ok(())
    }
}
