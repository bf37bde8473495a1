//! Rows that cannot be read: set aside, so that one of them does not stop all others.

use rusqlite::{Connection, Error};

use super::{handoffs, rows};

/// How many were set aside.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAside {
    pub rows: u64,
    /// Those of them that were open callbacks.
    pub open: u64,
}

/// It is a row that is wrong, not the disk.
pub fn is_of_row(error: &Error) -> bool {
    matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
    )
}

/// For whoever only reads: such a row is left out.
pub fn readable<T>(found: rusqlite::Result<T>) -> Option<rusqlite::Result<T>> {
    match found {
        Err(error) if is_of_row(&error) => {
            tracing::error!("a row on record cannot be read and is left out");
            None
        }
        found => Some(found),
    }
}

/// Moves every row that cannot be read out of the way. Within a transaction.
pub fn set_aside(on: &Connection) -> rusqlite::Result<SetAside> {
    let mut moved = SetAside::default();
    for row in rows::unreadable(on)? {
        let open = "SELECT count(*) FROM callbacks WHERE rowid = ?1 AND shelf = 'open'";
        moved.open += on.query_row(open, [row], |row| row.get::<_, i64>(0))?.unsigned_abs();
        moved.rows += transfer(on, "callbacks", row)?;
    }
    for row in handoffs::unreadable(on)? {
        moved.rows += transfer(on, "handoffs", row)?;
    }
    Ok(moved)
}

fn transfer(on: &Connection, table: &'static str, row: i64) -> rusqlite::Result<u64> {
    let copy = format!("INSERT INTO {table}_set_aside SELECT * FROM {table} WHERE rowid = ?1");
    on.execute(&copy, [row])?;
    let moved = on.execute(&format!("DELETE FROM {table} WHERE rowid = ?1"), [row])?;
    tracing::error!(table, row, "a row on record cannot be read and was set aside");
    Ok(moved as u64)
}

/// How many there are.
pub fn count(on: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT (SELECT count(*) FROM callbacks_set_aside) \
               + (SELECT count(*) FROM handoffs_set_aside)";
    on.query_row(sql, [], |row| row.get::<_, i64>(0)).map(i64::unsigned_abs)
}
