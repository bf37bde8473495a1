//! Handoffs in the database: few are open at a time, so they are counted where they are asked
//! about.

use tokio_postgres::{Client, Row};

use super::desk::Desk;
use super::rows::{Asked, Failure, Params, int, readable};
use crate::id::HandoffId;
use crate::store::handoffs::{HandoffUsage, LIST_MAX};
use crate::store::{Handoff, HandoffAsk, HandoffOffer, HandoffState, Refused, UnixMs};

const COLUMNS: &str = "id, state, acknowledged_by, changed_ms, offer";
/// Whoever offers holds this: the bounds are counted, so two may not count at once.
const OFFER_LOCK: i64 = 0x466c_6b72_0003;

fn record(row: &Row) -> Asked<Handoff> {
    let unknown = || Failure::Row("a handoff's row is none of ours".to_owned());
    Ok(Handoff {
        id: HandoffId::parse(row.try_get(0)?).ok_or_else(unknown)?,
        state: HandoffState::named(row.try_get(1)?).ok_or_else(unknown)?,
        by: row.try_get(2)?,
        changed_ms: row.try_get::<_, i64>(3)?.unsigned_abs(),
        offer: serde_json::from_str(row.try_get(4)?).map_err(|_| unknown())?,
    })
}

pub async fn get(client: &Client, id: HandoffId) -> Asked<Vec<Handoff>> {
    let sql = format!("SELECT {COLUMNS} FROM handoffs WHERE id = $1");
    client.query(&sql, &[&id.to_string()]).await?.iter().map(record).collect()
}

pub async fn list(client: &Client, open: bool, tenant: Option<&str>) -> Asked<Vec<Handoff>> {
    let condition = if open { "open = 1" } else { "true" };
    let sql = format!(
        "SELECT {COLUMNS} FROM handoffs WHERE {condition} AND ($1::text IS NULL OR tenant = $1) \
         ORDER BY id COLLATE \"C\" DESC LIMIT $2"
    );
    readable(&client.query(&sql, &[&tenant, &LIST_MAX]).await?, record)
}

impl Desk<'_> {
    pub async fn handoff(
        &mut self,
        ask: &HandoffAsk,
        now_ms: UnixMs,
    ) -> Asked<Result<Vec<Handoff>, Refused>> {
        match ask {
            HandoffAsk::Offer(offer) => {
                let used = self.handoff_usage(offer).await?;
                match Handoff::new(offer.clone(), &used, self.limits, now_ms) {
                    Ok(handoff) => {
                        self.put_handoff(&handoff).await?;
                        Ok(Ok(vec![handoff]))
                    }
                    Err(refused) => Ok(Err(refused)),
                }
            }
            HandoffAsk::Acknowledge(id, by) => {
                self.change_handoff(*id, |handoff| handoff.acknowledge(by, now_ms)).await
            }
            HandoffAsk::End(id, end) => {
                self.change_handoff(*id, |handoff| handoff.end(*end, now_ms)).await
            }
            HandoffAsk::Sweep => self.sweep_handoffs(now_ms).await.map(Ok),
            HandoffAsk::Get(_) | HandoffAsk::List { .. } => Ok(Ok(Vec::new())), // the reader's
        }
    }

    async fn select_handoffs(
        &mut self,
        condition: &str,
        params: Params<'_>,
    ) -> Asked<Vec<Handoff>> {
        let sql = format!("SELECT {COLUMNS} FROM handoffs WHERE {condition}");
        let statement = self.prepared.get(&self.on, &sql).await?;
        readable(&self.on.query(&statement, params).await?, record)
    }

    async fn handoff_usage(&mut self, offer: &HandoffOffer) -> Asked<HandoffUsage> {
        let lock = self.prepared.get(&self.on, "SELECT pg_advisory_xact_lock($1)").await?;
        self.on.query_one(&lock, &[&OFFER_LOCK]).await?;
        let open = self.select_handoffs("open = 1", &[]).await?;
        Ok(HandoffUsage::of(&open, offer))
    }

    async fn change_handoff(
        &mut self,
        id: HandoffId,
        change: impl FnOnce(&mut Handoff) -> Result<(), Refused>,
    ) -> Asked<Result<Vec<Handoff>, Refused>> {
        let found = self.select_handoffs("id = $1 FOR UPDATE", &[&id.to_string()]).await?.pop();
        let Some(mut handoff) = found else { return Ok(Err(Refused::NotFound)) };
        if let Err(refused) = change(&mut handoff) {
            return Ok(Err(refused));
        }
        self.put_handoff(&handoff).await?;
        self.trim_handoffs().await?;
        Ok(Ok(vec![handoff]))
    }

    async fn sweep_handoffs(&mut self, now_ms: UnixMs) -> Asked<Vec<Handoff>> {
        let condition = "open = 1 AND deadline_ms < $1 ORDER BY deadline_ms LIMIT $2 \
                         FOR UPDATE SKIP LOCKED";
        let mut over = self.select_handoffs(condition, &[&int(now_ms), &LIST_MAX]).await?;
        over.retain_mut(|handoff| handoff.age(now_ms));
        for handoff in &over {
            self.put_handoff(handoff).await?;
        }
        self.trim_handoffs().await?;
        Ok(over)
    }

    async fn put_handoff(&mut self, handoff: &Handoff) -> Asked<()> {
        let sql = "INSERT INTO handoffs VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) \
                   ON CONFLICT (id) DO UPDATE SET open = $6, state = $7, acknowledged_by = $8, \
                   deadline_ms = $9, changed_ms = $10";
        let offer = &handoff.offer;
        let text = serde_json::to_string(offer).map_err(|error| Failure::Row(error.to_string()))?;
        let statement = self.prepared.get(&self.on, sql).await?;
        self.on
            .execute(
                &statement,
                &[
                    &handoff.id.to_string(),
                    &offer.tenant,
                    &offer.target,
                    &offer.call,
                    &offer.incarnation,
                    &i64::from(handoff.state.is_open()),
                    &handoff.state.label(),
                    &handoff.by,
                    &int(handoff.deadline_ms()),
                    &int(handoff.changed_ms),
                    &text,
                ],
            )
            .await?;
        Ok(())
    }

    /// The oldest ended ones beyond the bound are forgotten.
    async fn trim_handoffs(&mut self) -> Asked<()> {
        let sql = "DELETE FROM handoffs WHERE id IN (SELECT id FROM handoffs WHERE open = 0 \
                   ORDER BY changed_ms DESC, id DESC OFFSET $1 FOR UPDATE SKIP LOCKED)";
        let statement = self.prepared.get(&self.on, sql).await?;
        self.on.execute(&statement, &[&int(self.limits.handoffs_kept)]).await?;
        Ok(())
    }
}
