//! Handoffs in the file: few are open at a time, so they are counted where they are asked about.

use rusqlite::types::Type;
use rusqlite::{Connection, Row, named_params};

use super::aside::readable;
use super::desk::Desk;
use super::rows::int;
use crate::id::HandoffId;
use crate::store::handoffs::{HandoffUsage, LIST_MAX};
use crate::store::{Handoff, HandoffAsk, HandoffState, Refused, UnixMs};

const COLUMNS: &str = "id, state, acknowledged_by, changed_ms, offer";

fn record(row: &Row<'_>) -> rusqlite::Result<Handoff> {
    let wrong =
        |at, error: String| rusqlite::Error::FromSqlConversionFailure(at, Type::Text, error.into());
    let unknown = |at| wrong(at, "is unknown".to_owned());
    Ok(Handoff {
        id: HandoffId::parse(row.get_ref(0)?.as_str()?).ok_or_else(|| unknown(0))?,
        state: HandoffState::named(row.get_ref(1)?.as_str()?).ok_or_else(|| unknown(1))?,
        by: row.get(2)?,
        changed_ms: row.get::<_, i64>(3)?.unsigned_abs(),
        offer: serde_json::from_str(row.get_ref(4)?.as_str()?)
            .map_err(|error| wrong(4, error.to_string()))?,
    })
}

/// The rows that are no handoff.
pub fn unreadable(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS}, rowid FROM handoffs"))?;
    let mut found = statement.query([])?;
    let mut wrong = Vec::new();
    while let Some(row) = found.next()? {
        if record(row).is_err() {
            wrong.push(row.get(5)?);
        }
    }
    Ok(wrong)
}

fn select(
    connection: &Connection,
    condition: &str,
    params: &[&dyn rusqlite::ToSql],
) -> rusqlite::Result<Vec<Handoff>> {
    let sql = format!("SELECT {COLUMNS} FROM handoffs WHERE {condition}");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map(params, record)?.collect()
}

pub fn get(connection: &Connection, id: HandoffId) -> rusqlite::Result<Vec<Handoff>> {
    select(connection, "id = ?1", &[&id.to_string()])
}

pub fn list(
    connection: &Connection,
    open: bool,
    tenant: Option<&str>,
) -> rusqlite::Result<Vec<Handoff>> {
    let condition = if open { "open = 1" } else { "1" };
    let sql = format!(
        "SELECT {COLUMNS} FROM handoffs WHERE {condition} AND (?1 IS NULL OR tenant = ?1) \
         ORDER BY id DESC LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map((tenant, LIST_MAX), record)?.filter_map(readable).collect()
}

fn put(connection: &Connection, handoff: &Handoff) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO handoffs VALUES (:id, :tenant, :target, :call, \
               :incarnation, :open, :state, :by, :deadline, :changed, :offer)";
    let offer = serde_json::to_string(&handoff.offer)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    connection.prepare_cached(sql)?.execute(named_params! {
        ":id": handoff.id.to_string(),
        ":tenant": handoff.offer.tenant,
        ":target": handoff.offer.target,
        ":call": handoff.offer.call,
        ":incarnation": handoff.offer.incarnation,
        ":open": handoff.state.is_open(),
        ":state": handoff.state.label(),
        ":by": handoff.by,
        ":deadline": int(handoff.deadline_ms()),
        ":changed": int(handoff.changed_ms),
        ":offer": offer,
    })?;
    Ok(())
}

impl Desk<'_> {
    pub fn handoff(
        &mut self,
        ask: HandoffAsk,
        now_ms: UnixMs,
    ) -> rusqlite::Result<Result<Vec<Handoff>, Refused>> {
        match ask {
            HandoffAsk::Offer(offer) => {
                let open = select(self.connection, "open = 1", &[])?;
                let used = HandoffUsage::of(&open, &offer);
                match Handoff::new(offer, &used, self.limits, now_ms) {
                    Ok(handoff) => put(self.connection, &handoff).map(|()| Ok(vec![handoff])),
                    Err(refused) => Ok(Err(refused)),
                }
            }
            HandoffAsk::Acknowledge(id, by) => {
                self.change_handoff(id, |handoff| handoff.acknowledge(&by, now_ms))
            }
            HandoffAsk::End(id, end) => self.change_handoff(id, |handoff| handoff.end(end, now_ms)),
            HandoffAsk::Sweep => self.sweep_handoffs(now_ms).map(Ok),
            HandoffAsk::Get(id) => get(self.connection, id).map(Ok),
            HandoffAsk::List { open, tenant } => {
                list(self.connection, open, tenant.as_deref()).map(Ok)
            }
        }
    }

    fn change_handoff(
        &mut self,
        id: HandoffId,
        change: impl FnOnce(&mut Handoff) -> Result<(), Refused>,
    ) -> rusqlite::Result<Result<Vec<Handoff>, Refused>> {
        let Some(mut handoff) = get(self.connection, id)?.pop() else {
            return Ok(Err(Refused::NotFound));
        };
        if let Err(refused) = change(&mut handoff) {
            return Ok(Err(refused));
        }
        put(self.connection, &handoff)?;
        self.trim_handoffs()?;
        Ok(Ok(vec![handoff]))
    }

    fn sweep_handoffs(&mut self, now_ms: UnixMs) -> rusqlite::Result<Vec<Handoff>> {
        let condition = "open = 1 AND deadline_ms < ?1 ORDER BY deadline_ms LIMIT ?2";
        let mut over = select(self.connection, condition, &[&int(now_ms), &LIST_MAX])?;
        over.retain_mut(|handoff| handoff.age(now_ms));
        for handoff in &over {
            put(self.connection, handoff)?;
        }
        self.trim_handoffs()?;
        Ok(over)
    }

    /// The oldest ended ones beyond the bound are forgotten.
    fn trim_handoffs(&mut self) -> rusqlite::Result<()> {
        let sql = "DELETE FROM handoffs WHERE id IN (SELECT id FROM handoffs WHERE open = 0 \
                   ORDER BY changed_ms DESC, id DESC LIMIT -1 OFFSET ?1)";
        self.connection.prepare_cached(sql)?.execute([int(self.limits.handoffs_kept)])?;
        Ok(())
    }
}
