//! Rows and records: every statement that reads or writes one.

use std::collections::HashMap;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement, Transaction};

use crate::id::CallbackId;
use crate::store::{BATCH_MAX, Counts, Query, Record, Shelf, State, UnixMs};

const COLUMNS: &str = "id, state, shelf, epoch, worker, lease_until_ms, attempts, due_ms, \
                       changed_ms, detail, offer";

/// Why a request came to nothing.
#[derive(Debug)]
pub enum Failure {
    /// The server or the connection to it.
    Sql(Error),
    /// A row that is none of ours.
    Row(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Sql(error)
    }
}

pub type Asked<T> = Result<T, Failure>;
pub type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Statements that this connection has prepared.
#[derive(Default)]
pub struct Prepared(HashMap<String, Statement>);

impl Prepared {
    /// The statement of this text.
    pub async fn get(&mut self, on: &Transaction<'_>, sql: &str) -> Asked<Statement> {
        if let Some(known) = self.0.get(sql) {
            return Ok(known.clone());
        }
        let statement = on.prepare(sql).await?;
        self.0.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// PostgreSQL's integers are signed; no time or count of ours comes near the difference.
pub fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(row: &Row, at: usize) -> Asked<u64> {
    let found: i64 = row.try_get(at)?;
    u64::try_from(found).map_err(|_| Failure::Row(format!("column {at} is {found}")))
}

fn named<T>(row: &Row, at: usize, read: impl Fn(&str) -> Option<T>) -> Asked<T> {
    let text: &str = row.try_get(at)?;
    read(text).ok_or_else(|| Failure::Row(format!("{text:?} is unknown")))
}

fn record(row: &Row) -> Asked<Record> {
    let offer = serde_json::from_str(row.try_get::<_, &str>(10)?)
        .map_err(|error| Failure::Row(error.to_string()))?;
    Ok(Record {
        id: named(row, 0, CallbackId::parse)?,
        state: named(row, 1, State::named)?,
        shelf: named(row, 2, Shelf::named)?,
        epoch: number(row, 3)?,
        worker: row.try_get(4)?,
        lease_until_ms: number(row, 5)?,
        attempts: number(row, 6)? as u32,
        due_ms: number(row, 7)?,
        changed_ms: number(row, 8)?,
        detail: row.try_get(9)?,
        offer,
    })
}

/// What can be read of many rows: one of them does not stop the others. It stays where it is, as
/// a newer node of the fleet may know it.
pub fn readable<T>(rows: &[Row], read: impl Fn(&Row) -> Asked<T>) -> Asked<Vec<T>> {
    let found = rows.iter().filter_map(|row| match read(row) {
        Err(Failure::Row(_)) => {
            tracing::error!("a row on record cannot be read and is left out");
            None
        }
        found => Some(found),
    });
    found.collect()
}

/// The records that a condition selects.
pub async fn select(
    on: &Transaction<'_>,
    prepared: &mut Prepared,
    condition: &str,
    params: Params<'_>,
) -> Asked<Vec<Record>> {
    let sql = format!("SELECT {COLUMNS} FROM callbacks WHERE {condition}");
    let statement = prepared.get(on, &sql).await?;
    readable(&on.query(&statement, params).await?, record)
}

/// The open ones to a destination: whose, and which.
pub async fn open_to(
    on: &Transaction<'_>,
    prepared: &mut Prepared,
    destination: &str,
) -> Asked<Vec<(String, CallbackId)>> {
    let sql = "SELECT id, tenant FROM callbacks WHERE destination = $1 AND shelf = 'open'";
    let statement = prepared.get(on, sql).await?;
    let rows = on.query(&statement, &[&destination]).await?;
    rows.iter().map(|row| Ok((row.try_get(1)?, named(row, 0, CallbackId::parse)?))).collect()
}

/// Open records and their bytes: of everybody, or of one tenant.
pub async fn usage(
    on: &Transaction<'_>,
    prepared: &mut Prepared,
    tenant: Option<&str>,
) -> Asked<(u64, u64)> {
    let sql = "SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM callbacks \
               WHERE shelf = 'open'";
    let row = match tenant {
        None => on.query_one(&prepared.get(on, sql).await?, &[]).await?,
        Some(tenant) => {
            let sql = format!("{sql} AND tenant = $1");
            on.query_one(&prepared.get(on, &sql).await?, &[&tenant]).await?
        }
    };
    Ok((number(&row, 0)?, number(&row, 1)?))
}

pub async fn insert(on: &Transaction<'_>, prepared: &mut Prepared, record: &Record) -> Asked<()> {
    let sql = "INSERT INTO callbacks (id, tenant, destination, shelf, state, epoch, worker, \
               lease_until_ms, attempts, due_ms, born_ms, expires_ms, changed_ms, detail, \
               idempotency_key, bytes, offer) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, \
               $11, $12, $13, $14, $15, $16, $17)";
    let offer = &record.offer;
    let text = serde_json::to_string(offer).map_err(|error| Failure::Row(error.to_string()))?;
    let statement = prepared.get(on, sql).await?;
    on.execute(
        &statement,
        &[
            &record.id.to_string(),
            &offer.tenant,
            &offer.destination,
            &record.shelf.label(),
            &record.state.label(),
            &int(record.epoch),
            &record.worker,
            &int(record.lease_until_ms),
            &i64::from(record.attempts),
            &int(record.due_ms),
            &int(offer.born_ms),
            &int(offer.expires_ms),
            &int(record.changed_ms),
            &record.detail,
            &offer.key.as_ref().map(|key| &key.name),
            &int(offer.bytes()),
            &text,
        ],
    )
    .await?;
    Ok(())
}

/// Writes what may change of a record; its offer never does.
pub async fn update(on: &Transaction<'_>, prepared: &mut Prepared, record: &Record) -> Asked<()> {
    let sql = "UPDATE callbacks SET state = $2, shelf = $3, epoch = $4, worker = $5, \
               lease_until_ms = $6, attempts = $7, due_ms = $8, changed_ms = $9, detail = $10 \
               WHERE id = $1";
    let statement = prepared.get(on, sql).await?;
    on.execute(
        &statement,
        &[
            &record.id.to_string(),
            &record.state.label(),
            &record.shelf.label(),
            &int(record.epoch),
            &record.worker,
            &int(record.lease_until_ms),
            &i64::from(record.attempts),
            &int(record.due_ms),
            &int(record.changed_ms),
            &record.detail,
        ],
    )
    .await?;
    Ok(())
}

/// Deletes the oldest of a shelf beyond its bound, and says how many.
pub async fn drop_oldest(
    on: &Transaction<'_>,
    prepared: &mut Prepared,
    shelf: Shelf,
    bound: u64,
) -> Asked<u64> {
    let sql = "DELETE FROM callbacks WHERE id IN (SELECT id FROM callbacks WHERE shelf = $1 \
               AND shelf <> 'open' ORDER BY changed_ms DESC, id DESC OFFSET $2 \
               FOR UPDATE SKIP LOCKED)";
    let statement = prepared.get(on, sql).await?;
    Ok(on.execute(&statement, &[&shelf.label(), &int(bound)]).await?)
}

pub async fn get(client: &Client, id: CallbackId) -> Asked<Option<Record>> {
    let sql = format!("SELECT {COLUMNS} FROM callbacks WHERE id = $1");
    client.query_opt(&sql, &[&id.to_string()]).await?.as_ref().map(record).transpose()
}

/// The record that a tenant's key has made.
pub async fn of_key(client: &Client, tenant: &str, key: &str) -> Asked<Option<Record>> {
    let sql = format!("SELECT {COLUMNS} FROM callbacks WHERE tenant = $1 AND idempotency_key = $2");
    client.query_opt(&sql, &[&tenant, &key]).await?.as_ref().map(record).transpose()
}

pub async fn list(client: &Client, query: &Query) -> Asked<Vec<Record>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM callbacks WHERE (cardinality($1::text[]) = 0 OR state = ANY($1)) \
         AND ($2::text IS NULL OR shelf = $2) AND ($3::text IS NULL OR tenant = $3) \
         AND ($4::text IS NULL OR id COLLATE \"C\" > $4) ORDER BY id COLLATE \"C\" LIMIT $5"
    );
    let states: Vec<&str> = query.states.iter().map(|state| state.label()).collect();
    let shelf = query.shelf.map(Shelf::label);
    let after = query.after.map(|id| id.to_string());
    let limit = query.limit.min(BATCH_MAX) as i64;
    let rows = client.query(&sql, &[&states, &shelf, &query.tenant, &after, &limit]).await?;
    readable(&rows, record)
}

pub async fn counts(client: &Client) -> Asked<Counts> {
    let sql = "SELECT state, shelf, count(*), sum(bytes)::bigint, min(born_ms) FROM callbacks \
               GROUP BY state, shelf";
    let mut counts = Counts::default();
    for row in client.query(sql, &[]).await? {
        let count = number(&row, 2)?;
        *counts.states.entry(named(&row, 0, State::named)?).or_default() += count;
        match named(&row, 1, Shelf::named)? {
            Shelf::Open => {
                counts.open += count;
                counts.bytes += number(&row, 3)?;
                let oldest: UnixMs = number(&row, 4)?;
                counts.oldest_born_ms =
                    Some(counts.oldest_born_ms.map_or(oldest, |known| known.min(oldest)));
            }
            Shelf::Dead => counts.dead += count,
            Shelf::Kept => {}
        }
    }
    Ok(counts)
}
