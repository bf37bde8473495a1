//! Opening the file: who may, whose it is, whether it is whole, which schema it has.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::tally::Tally;
use super::{aside, rows};
use crate::store::{OpenError, Shelf};

/// `Flkr`: whose file it is.
const APPLICATION: i64 = 0x466c_6b72;
/// A statement waits so long for a program that looks into the file.
const BUSY: Duration = Duration::from_millis(1_000);

/// What makes schema n of schema n - 1.
const MIGRATIONS: [&str; 3] =
    [include_str!("schema_1.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql")];

/// As long as it lives, no other process opens the file.
pub struct Lock(File);

impl Drop for Lock {
    /// Said aloud: a process that is just being started may hold our descriptor a moment longer.
    fn drop(&mut self) {
        let _ = self.0.unlock(); // closing it does the same, later
    }
}

/// A file that is whole and of the newest schema.
pub struct Opened {
    pub lock: Lock,
    pub write: Connection,
    pub read: Connection,
    pub tally: Tally,
}

pub fn unreachable(path: &Path, detail: &str) -> OpenError {
    OpenError::Unreachable { place: path.display().to_string(), detail: detail.to_owned() }
}

pub fn open(path: &Path) -> Result<Opened, OpenError> {
    let lock = lock(path)?;
    let io = |error: std::io::Error| unreachable(path, &error.to_string());
    create(path).map_err(io)?;
    let wrong = |error: rusqlite::Error| damaged_or_unreachable(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut write = Connection::open_with_flags(path, flags).map_err(wrong)?;
    write.busy_timeout(BUSY).map_err(wrong)?;
    check(path, &write)?;
    prepare(&write).map_err(wrong)?;
    migrate(&mut write).map_err(wrong)?;
    let transaction = write.transaction().map_err(wrong)?;
    aside::set_aside(&transaction).map_err(wrong)?;
    transaction.commit().map_err(wrong)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let read = Connection::open_with_flags(path, flags).map_err(wrong)?;
    read.busy_timeout(BUSY).map_err(wrong)?;
    // The log is a file of its own by now, and SQLite does not look whether its folder was flushed.
    sync_folder(path).map_err(io)?;
    let tally = tally(&write).map_err(wrong)?;
    Ok(Opened { lock, write, read, tally })
}

fn lock(path: &Path) -> Result<Lock, OpenError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let io = |error: std::io::Error| unreachable(path, &error.to_string());
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(PathBuf::from(name)).map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(error)) => return Err(io(error)),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let known = file.read_to_string(&mut holder).is_ok() && !holder.trim().is_empty();
            let holder = if known { format!(" (pid {})", holder.trim()) } else { String::new() };
            return Err(OpenError::InUse { place: path.display().to_string(), holder });
        }
    }
    // Only for the message above, so a full disk does not matter here.
    let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
    Ok(Lock(file))
}

/// The file exists, in its folder durably, for nobody else's eyes: it has people's numbers.
fn create(path: &Path) -> std::io::Result<()> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Ok(file) => {
            file.sync_all()?;
            sync_folder(path)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))
        }
        Err(error) => Err(error),
    }
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// It is ours, whole, and not of a later version. Changes nothing.
fn check(path: &Path, connection: &Connection) -> Result<(), OpenError> {
    let place = || path.display().to_string();
    let wrong = |error: rusqlite::Error| damaged_or_unreachable(path, &error);
    let number = |pragma: &str| -> Result<i64, OpenError> {
        let text = rows::pragma(connection, pragma).map_err(wrong)?.unwrap_or_default();
        Ok(text.parse().unwrap_or(0))
    };
    let (application, found) = (number("application_id")?, number("user_version")?);
    // Also what a process leaves that died before its first table.
    let tables: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .map_err(wrong)?;
    let fresh = tables == 0 && application == 0;
    if !fresh && application != APPLICATION {
        let detail = "it is another program's database".to_owned();
        return Err(OpenError::Damaged { place: place(), detail });
    }
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(OpenError::Newer { place: place(), found, known });
    }
    let verdict = rows::pragma(connection, "quick_check(1)").map_err(wrong)?.unwrap_or_default();
    if verdict != "ok" {
        return Err(OpenError::Damaged { place: place(), detail: verdict });
    }
    Ok(())
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    let mode = rows::pragma(connection, "journal_mode = WAL")?;
    if mode.as_deref() != Some("wal") {
        return Err(rusqlite::Error::InvalidQuery);
    }
    connection.execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0;")
}

fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let version = rows::pragma(connection, "user_version")?.unwrap_or_default();
    let version: usize = version.parse().unwrap_or(0);
    for (at, migration) in MIGRATIONS.iter().enumerate().skip(version) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(migration)?;
        transaction.execute_batch(&format!(
            "PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {}",
            at + 1
        ))?;
        transaction.commit()?;
    }
    rows::pragma(connection, "wal_checkpoint(TRUNCATE)").map(drop)
}

pub fn tally(connection: &Connection) -> rusqlite::Result<Tally> {
    let mut tally = Tally::default();
    let sql = "SELECT tenant, count(*), sum(bytes) FROM callbacks WHERE shelf = 'open' \
               GROUP BY tenant";
    let mut statement = connection.prepare(sql)?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        let (count, bytes): (i64, i64) = (row.get(1)?, row.get(2)?);
        tally.records += count as u64;
        tally.bytes += bytes as u64;
        tally.tenants.insert(row.get(0)?, count as u64);
    }
    let shelf = |shelf: Shelf| -> rusqlite::Result<u64> {
        let sql = format!("SELECT count(*) FROM callbacks WHERE shelf = '{shelf}'");
        connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).map(|count| count as u64)
    };
    tally.dead = shelf(Shelf::Dead)?;
    tally.kept = shelf(Shelf::Kept)?;
    Ok(tally)
}

fn damaged_or_unreachable(path: &Path, error: &rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            OpenError::Damaged { place: path.display().to_string(), detail: error.to_string() }
        }
        _ => unreachable(path, &error.to_string()),
    }
}
