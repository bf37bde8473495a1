//! What is done within one transaction: decided by the pure rules, written by the rows.

use tokio_postgres::Transaction;

use super::rows::{self, Asked, Prepared, int};
use crate::id::CallbackId;
use crate::store::record::fresh_id;
use crate::store::{
    BATCH_MAX, Change, Kept, Ledger, Limits, Offer, Record, Refused, Shelf, Swept, UnixMs, Usage,
};

/// Whoever accepts holds this: the bounds are counted, so two may not count at once.
const ACCEPT_LOCK: i64 = 0x466c_6b72_0002;

/// A transaction that is open.
pub struct Desk<'a> {
    pub on: Transaction<'a>,
    pub prepared: &'a mut Prepared,
    pub limits: &'a Limits,
    /// What the ledger says once this is committed.
    pub draft: Ledger,
}

impl Desk<'_> {
    /// All of them behind one flush.
    pub(super) async fn accept(
        &mut self,
        offers: &[(&Offer, UnixMs)],
    ) -> Asked<Vec<Result<Kept, Refused>>> {
        let sql = "SELECT pg_advisory_xact_lock($1)";
        let lock = self.prepared.get(&self.on, sql).await?;
        self.on.query_one(&lock, &[&ACCEPT_LOCK]).await?;
        let (records, bytes) = rows::usage(&self.on, self.prepared, None).await?;
        let mut used = Usage { records, bytes, ..Usage::default() };
        let mut all = Vec::with_capacity(offers.len());
        for (offer, now_ms) in offers {
            let kept = self.try_accept(offer, *now_ms, &mut used).await?;
            match &kept {
                Ok(kept) => self.draft.accept(kept.repeated),
                Err(refused) => self.draft.refuse(refused),
            }
            all.push(kept);
        }
        Ok(all)
    }

    async fn try_accept(
        &mut self,
        offer: &Offer,
        now_ms: UnixMs,
        used: &mut Usage,
    ) -> Asked<Result<Kept, Refused>> {
        if let Some(key) = &offer.key
            && !key.name.contains('\0')
            && !offer.tenant.contains('\0')
        {
            let condition = "tenant = $1 AND idempotency_key = $2";
            let before = self.select(condition, &[&offer.tenant, &key.name]).await?.pop();
            if let Some(before) = before {
                return Ok(Kept::repeated(&before, key));
            }
        }
        if let Err(refused) = self.limits.check(offer, now_ms) {
            return Ok(Err(refused));
        }
        let others = rows::open_to(&self.on, self.prepared, &offer.destination).await?;
        if let Some((_, existing)) = others.iter().find(|(tenant, _)| *tenant == offer.tenant) {
            return Ok(Err(Refused::Duplicate { existing: *existing }));
        }
        let (tenant, _) = rows::usage(&self.on, self.prepared, Some(&offer.tenant)).await?;
        let (tenant, destination) = (tenant, others.len() as u64);
        if let Err(refused) = self.limits.room(Usage { tenant, destination, ..*used }, offer) {
            return Ok(Err(refused));
        }
        if let Some(dead) = offer.replays {
            let Some(before) = self.take(dead.0).await? else { return Ok(Err(Refused::NotFound)) };
            let mut after = before.clone();
            if let Err(refused) = after.replayed(now_ms) {
                return Ok(Err(refused));
            }
            self.write(&before, &after).await?;
        }
        let record = Record::new(fresh_id(now_ms), offer.clone(), now_ms);
        rows::insert(&self.on, self.prepared, &record).await?;
        used.records += 1;
        used.bytes += offer.bytes();
        Ok(Ok(Kept { id: record.id, state: record.state, repeated: false }))
    }

    pub async fn claim(
        &mut self,
        worker: &str,
        lease_ms: u64,
        max: usize,
        now_ms: UnixMs,
    ) -> Asked<Vec<Record>> {
        let condition = "state IN ('accepted', 'due') AND due_ms <= $1 AND expires_ms >= $1 \
                         ORDER BY due_ms, id COLLATE \"C\" LIMIT $2 FOR UPDATE SKIP LOCKED";
        let mut claimed = self.select(condition, &[&int(now_ms), &(max as i64)]).await?;
        for record in &mut claimed {
            record.claim(worker, lease_ms, now_ms);
            rows::update(&self.on, self.prepared, record).await?;
        }
        Ok(claimed)
    }

    pub async fn change(
        &mut self,
        id: CallbackId,
        change: &Change,
        now_ms: UnixMs,
    ) -> Asked<Result<Record, Refused>> {
        let Some(before) = self.take(id).await? else { return Ok(Err(Refused::NotFound)) };
        let mut after = before.clone();
        if let Err(refused) = after.apply(change, self.limits, now_ms) {
            return Ok(Err(refused));
        }
        self.write(&before, &after).await?;
        Ok(Ok(after))
    }

    pub async fn sweep(&mut self, now_ms: UnixMs) -> Asked<Swept> {
        let conditions = [
            "shelf = 'open' AND expires_ms < $1 AND state <> 'dialling' ORDER BY expires_ms",
            "state IN ('claimed', 'dialling') AND lease_until_ms < $1 ORDER BY lease_until_ms",
            "state = 'accepted' AND due_ms <= $1 ORDER BY due_ms",
        ];
        let mut swept = Swept::default();
        for condition in conditions {
            let condition = format!("{condition} LIMIT $2 FOR UPDATE SKIP LOCKED");
            let aging = self.select(&condition, &[&int(now_ms), &(BATCH_MAX as i64)]).await?;
            swept.more |= aging.len() == BATCH_MAX;
            for before in aging {
                let mut after = before.clone();
                if after.age(now_ms) {
                    self.write(&before, &after).await?;
                    swept.count(before.state, after.state);
                }
            }
        }
        Ok(swept)
    }

    async fn select(&mut self, condition: &str, params: rows::Params<'_>) -> Asked<Vec<Record>> {
        rows::select(&self.on, self.prepared, condition, params).await
    }

    /// The record, for this transaction alone.
    async fn take(&mut self, id: CallbackId) -> Asked<Option<Record>> {
        Ok(self.select("id = $1 FOR UPDATE", &[&id.to_string()]).await?.pop())
    }

    async fn write(&mut self, before: &Record, after: &Record) -> Asked<()> {
        rows::update(&self.on, self.prepared, after).await?;
        self.draft.note(before, after);
        if before.shelf == after.shelf {
            return Ok(());
        }
        match after.shelf {
            Shelf::Open => {}
            Shelf::Kept => self.draft.kept_dropped += self.trim(Shelf::Kept).await?,
            Shelf::Dead => self.draft.dead_dropped += self.trim(Shelf::Dead).await?,
        }
        Ok(())
    }

    /// A shelf that is over its bound loses its oldest.
    async fn trim(&mut self, shelf: Shelf) -> Asked<u64> {
        let bound = if shelf == Shelf::Dead { self.limits.dead } else { self.limits.kept };
        rows::drop_oldest(&self.on, self.prepared, shelf, bound).await
    }
}
