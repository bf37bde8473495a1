//! Rows and records: every statement that reads or writes one.

use rusqlite::types::Type;
use rusqlite::{Connection, Row, named_params, params, params_from_iter};

use super::aside::{self, readable};
use crate::id::CallbackId;
use crate::store::{BATCH_MAX, Counts, Offer, Query, Record, Shelf, State, UnixMs};

const COLUMNS: &str = "id, state, shelf, epoch, worker, lease_until_ms, attempts, due_ms, \
                       changed_ms, detail, offer";

/// SQLite's integers are signed; no time or count of ours comes near the difference.
pub fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(row: &Row<'_>, at: usize) -> rusqlite::Result<u64> {
    let found: i64 = row.get(at)?;
    u64::try_from(found).map_err(|error| wrong(at, Type::Integer, error))
}

fn wrong(
    at: usize,
    kind: Type,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(at, kind, error.into())
}

fn named<T>(row: &Row<'_>, at: usize, read: impl Fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text = row.get_ref(at)?.as_str()?;
    read(text).ok_or_else(|| wrong(at, Type::Text, format!("{text:?} is unknown")))
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let offer: Offer = serde_json::from_str(row.get_ref(10)?.as_str()?)
        .map_err(|error| wrong(10, Type::Text, error))?;
    Ok(Record {
        id: named(row, 0, CallbackId::parse)?,
        state: named(row, 1, State::named)?,
        shelf: named(row, 2, Shelf::named)?,
        epoch: number(row, 3)?,
        worker: row.get(4)?,
        lease_until_ms: number(row, 5)?,
        attempts: row.get(6)?,
        due_ms: number(row, 7)?,
        changed_ms: number(row, 8)?,
        detail: row.get(9)?,
        offer,
    })
}

/// The rows that are no record.
pub fn unreadable(connection: &Connection) -> rusqlite::Result<Vec<i64>> {
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS}, rowid FROM callbacks"))?;
    let mut found = statement.query([])?;
    let mut wrong = Vec::new();
    while let Some(row) = found.next()? {
        if record(row).is_err() {
            wrong.push(row.get(11)?);
        }
    }
    Ok(wrong)
}

/// The records that a condition selects.
fn select(
    connection: &Connection,
    condition: &str,
    params: &[&dyn rusqlite::ToSql],
) -> rusqlite::Result<Vec<Record>> {
    let sql = format!("SELECT {COLUMNS} FROM callbacks WHERE {condition}");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map(params, record)?.collect()
}

pub fn get(connection: &Connection, id: CallbackId) -> rusqlite::Result<Option<Record>> {
    Ok(select(connection, "id = ?1", &[&id.to_string()])?.pop())
}

/// The record that a tenant's key has made.
pub fn of_key(
    connection: &Connection,
    tenant: &str,
    key: &str,
) -> rusqlite::Result<Option<Record>> {
    let condition = "tenant = ?1 AND idempotency_key = ?2 AND idempotency_key IS NOT NULL";
    Ok(select(connection, condition, &[&tenant, &key])?.pop())
}

/// The open ones to a destination: whose, and which.
pub fn open_to(
    connection: &Connection,
    destination: &str,
) -> rusqlite::Result<Vec<(String, CallbackId)>> {
    let sql = "SELECT id, tenant FROM callbacks WHERE destination = ?1 AND shelf = 'open'";
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement
        .query_map([destination], |row| Ok((row.get(1)?, named(row, 0, CallbackId::parse)?)))?;
    rows.collect()
}

/// Those that can be claimed, the longest due first.
pub fn due(connection: &Connection, now: UnixMs, max: usize) -> rusqlite::Result<Vec<Record>> {
    let mut found = Vec::new();
    // Two partial indexes: a state that is a literal lets SQLite use them.
    for state in ["due", "accepted"] {
        let condition = format!(
            "state = '{state}' AND due_ms <= ?1 AND expires_ms >= ?1 ORDER BY due_ms, id LIMIT ?2"
        );
        found.extend(select(connection, &condition, &[&int(now), &(max as i64)])?);
    }
    found.sort_by_key(|record| (record.due_ms, record.id));
    found.truncate(max);
    Ok(found)
}

/// Those to which time has to do something: each of three kinds, bounded.
pub fn aging(connection: &Connection, now: UnixMs) -> rusqlite::Result<Vec<Vec<Record>>> {
    let conditions = [
        "shelf = 'open' AND expires_ms < ?1 AND state <> 'dialling' ORDER BY expires_ms LIMIT ?2",
        "state IN ('claimed', 'dialling') AND lease_until_ms < ?1 ORDER BY lease_until_ms LIMIT ?2",
        "state = 'accepted' AND due_ms <= ?1 ORDER BY due_ms LIMIT ?2",
    ];
    let max = BATCH_MAX as i64;
    conditions.iter().map(|condition| select(connection, condition, &[&int(now), &max])).collect()
}

pub fn insert(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    let sql = "INSERT INTO callbacks (id, tenant, destination, shelf, state, epoch, worker, \
               lease_until_ms, attempts, due_ms, born_ms, expires_ms, changed_ms, detail, \
               idempotency_key, bytes, offer) VALUES (:id, :tenant, :destination, :shelf, :state, \
               :epoch, :worker, :lease, :attempts, :due, :born, :expires, :changed, :detail, \
               :key, :bytes, :offer)";
    let offer = serde_json::to_string(&record.offer)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    connection.prepare_cached(sql)?.execute(named_params! {
        ":id": record.id.to_string(),
        ":tenant": record.offer.tenant,
        ":destination": record.offer.destination,
        ":shelf": record.shelf.label(),
        ":state": record.state.label(),
        ":epoch": int(record.epoch),
        ":worker": record.worker,
        ":lease": int(record.lease_until_ms),
        ":attempts": record.attempts,
        ":due": int(record.due_ms),
        ":born": int(record.offer.born_ms),
        ":expires": int(record.offer.expires_ms),
        ":changed": int(record.changed_ms),
        ":detail": record.detail,
        ":key": record.offer.key.as_ref().map(|key| &key.name),
        ":bytes": int(record.offer.bytes()),
        ":offer": offer,
    })?;
    Ok(())
}

/// Writes what may change of a record; its offer never does.
pub fn update(connection: &Connection, record: &Record) -> rusqlite::Result<()> {
    let sql = "UPDATE callbacks SET state = ?2, shelf = ?3, epoch = ?4, worker = ?5, \
               lease_until_ms = ?6, attempts = ?7, due_ms = ?8, changed_ms = ?9, detail = ?10 \
               WHERE id = ?1";
    connection.prepare_cached(sql)?.execute(params![
        record.id.to_string(),
        record.state.label(),
        record.shelf.label(),
        int(record.epoch),
        record.worker,
        int(record.lease_until_ms),
        record.attempts,
        int(record.due_ms),
        int(record.changed_ms),
        record.detail,
    ])?;
    Ok(())
}

/// Deletes the oldest of a shelf that is too full.
pub fn drop_oldest(connection: &Connection, shelf: Shelf, count: u64) -> rusqlite::Result<usize> {
    let sql = format!(
        "DELETE FROM callbacks WHERE id IN (SELECT id FROM callbacks WHERE shelf = '{shelf}' \
         ORDER BY changed_ms, id LIMIT ?1)"
    );
    connection.prepare_cached(&sql)?.execute([int(count)])
}

pub fn list(connection: &Connection, query: &Query) -> rusqlite::Result<Vec<Record>> {
    let mut conditions = vec!["1".to_owned()];
    let mut values: Vec<String> = Vec::new();
    if !query.states.is_empty() {
        let states: Vec<String> = query.states.iter().map(|state| format!("'{state}'")).collect();
        conditions.push(format!("state IN ({})", states.join(", ")));
    }
    if let Some(shelf) = query.shelf {
        conditions.push(format!("shelf = '{shelf}'"));
    }
    if let Some(tenant) = &query.tenant {
        values.push(tenant.clone());
        conditions.push(format!("tenant = ?{}", values.len()));
    }
    if let Some(after) = query.after {
        values.push(after.to_string());
        conditions.push(format!("id > ?{}", values.len()));
    }
    let conditions = conditions.join(" AND ");
    let limit = query.limit.min(BATCH_MAX);
    let sql =
        format!("SELECT {COLUMNS} FROM callbacks WHERE {conditions} ORDER BY id LIMIT {limit}");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map(params_from_iter(values), record)?.filter_map(readable).collect()
}

pub fn counts(connection: &Connection) -> rusqlite::Result<Counts> {
    let mut counts = Counts { set_aside: aside::count(connection)?, ..Counts::default() };
    let sql = "SELECT state, shelf, count(*), sum(bytes), min(born_ms) FROM callbacks \
               GROUP BY state, shelf";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let count = number(row, 2)?;
        // One that cannot be read has not been set aside yet.
        let Ok(state) = named(row, 0, State::named) else {
            counts.set_aside += count;
            continue;
        };
        *counts.states.entry(state).or_default() += count;
        match named(row, 1, Shelf::named)? {
            Shelf::Open => {
                counts.open += count;
                counts.bytes += number(row, 3)?;
                let oldest = number(row, 4)?;
                counts.oldest_born_ms =
                    Some(counts.oldest_born_ms.map_or(oldest, |known| known.min(oldest)));
            }
            Shelf::Dead => counts.dead += count,
            Shelf::Kept => {}
        }
    }
    Ok(counts)
}

/// The first line of a pragma, as text. All its lines are asked for: what a pragma changes is
/// committed behind the last one, and only there does it say whether that went well.
pub fn pragma(connection: &Connection, pragma: &str) -> rusqlite::Result<Option<String>> {
    let text = |row: &Row<'_>| {
        Ok(match row.get_ref(0)? {
            rusqlite::types::ValueRef::Integer(number) => number.to_string(),
            other => other.as_str()?.to_owned(),
        })
    };
    let mut statement = connection.prepare(&format!("PRAGMA {pragma}"))?;
    let lines: Vec<String> = statement.query_map([], text)?.collect::<rusqlite::Result<_>>()?;
    Ok(lines.into_iter().next())
}
