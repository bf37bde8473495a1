//! The thread that writes: batches, commits, and what it does when the disk says no.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior, ffi};
use tokio::sync::{oneshot, watch};

use super::aside::{self, SetAside};
use super::desk::Desk;
use super::tally::{Draft, Tally};
use super::{file, rows};
use crate::store::{Health, InForce, Ledger, Refused, Sealed, mutant};

/// The most requests in one transaction.
const BATCH_MAX: usize = 256;
const CHECKPOINT: &str = "wal_checkpoint(PASSIVE)";
/// Rows written between two checkpoints.
const CHECKPOINT_ROWS: u64 = 1_000;
/// How often a sealed store looks whether it may open again, while nobody asks it anything.
const PROBE: Duration = Duration::from_millis(250);
/// The room on the disk that it takes to open again.
const ROOM_BYTES: u64 = 1 << 20;

/// Something to do within a transaction, answered behind its commit.
pub trait Job: Send {
    fn run(&mut self, desk: &mut Desk<'_>) -> rusqlite::Result<()>;
    /// The transaction was committed, or it was not, and why.
    fn answer(&mut self, committed: Result<(), Refused>);
    /// It is an offer: the ledger has to say what became of it.
    fn is_offer(&self) -> bool;
}

/// A job with an answer: `finish` makes it of what was done, behind the commit.
pub struct Work<F, D, T> {
    op: Option<F>,
    done: Option<Result<D, Refused>>,
    finish: fn(D) -> T,
    to: Option<oneshot::Sender<Result<T, Refused>>>,
    offer: bool,
}

impl<F, D, T> Work<F, D, T> {
    pub fn new(
        op: F,
        finish: fn(D) -> T,
        to: oneshot::Sender<Result<T, Refused>>,
        offer: bool,
    ) -> Self {
        Work { op: Some(op), done: None, finish, to: Some(to), offer }
    }
}

impl<F, D: Send, T: Send> Job for Work<F, D, T>
where
    F: FnOnce(&mut Desk<'_>) -> rusqlite::Result<Result<D, Refused>> + Send,
{
    fn run(&mut self, desk: &mut Desk<'_>) -> rusqlite::Result<()> {
        if let Some(op) = self.op.take() {
            self.done = Some(op(desk)?);
        }
        Ok(())
    }

    fn answer(&mut self, committed: Result<(), Refused>) {
        let answer = match (committed, self.done.take()) {
            (Ok(()), Some(done)) => done.map(self.finish),
            (Ok(()), None) => Err(Refused::Sealed(Sealed::Stopped)),
            (Err(refused), _) => Err(refused),
        };
        if let Some(to) = self.to.take() {
            let _ = to.send(answer); // who asked may have gone
        }
    }

    fn is_offer(&self) -> bool {
        self.offer
    }
}

/// The only one that writes the file.
pub struct Writer {
    connection: Connection,
    path: PathBuf,
    limits: Arc<InForce>,
    ledger: Arc<Mutex<Ledger>>,
    tally: Tally,
    tell: watch::Sender<Health>,
    files: Files,
    rows: u64,
}

impl Writer {
    pub fn new(
        connection: Connection,
        path: PathBuf,
        limits: Arc<InForce>,
        ledger: Arc<Mutex<Ledger>>,
        tally: Tally,
        tell: watch::Sender<Health>,
    ) -> Writer {
        let files = Files::of(&path);
        Writer { connection, path, limits, ledger, tally, tell, files, rows: 0 }
    }

    /// Until nobody can ask any more.
    pub fn run(mut self, jobs: &Receiver<Box<dyn Job>>) {
        loop {
            match jobs.recv_timeout(PROBE) {
                Ok(first) => {
                    let rest = std::iter::from_fn(|| jobs.try_recv().ok());
                    let batch = std::iter::once(first).chain(rest).take(BATCH_MAX).collect();
                    self.batch(batch);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.probe();
        }
    }

    fn sealed(&self) -> Option<Sealed> {
        match &*self.tell.borrow() {
            Health::Open => None,
            Health::Sealed(why) => Some(why.clone()),
        }
    }

    fn batch(&mut self, mut batch: Vec<Box<dyn Job>>) {
        // Behind a failed flush nobody knows what is on the disk: nothing is written any more.
        let doubt = self.sealed().filter(|why| !why.may_end());
        let committed = match doubt {
            Some(why) => Err(Refused::Sealed(why)),
            None if !self.files.are_in_place() => Err(Refused::Sealed(self.seal(self.gone()))),
            None => self.commit(&mut batch).map_err(|error| self.failed(&error)),
        };
        if let Err(why) = &committed {
            let offers = batch.iter().filter(|job| job.is_offer()).count();
            let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            (0..offers).for_each(|_| ledger.refuse(why));
        }
        for job in &mut batch {
            let early = mutant::is("answer_before_commit");
            job.answer(if early { Ok(()) } else { committed.clone() });
        }
        if committed.is_ok() && self.rows >= CHECKPOINT_ROWS {
            self.checkpoint();
        }
    }

    fn commit(&mut self, batch: &mut [Box<dyn Job>]) -> rusqlite::Result<()> {
        let before = self.connection.total_changes();
        let (mut draft, limits) = (Draft::default(), self.limits.now());
        // Writing from its start: one that reads first may find that it cannot write any more.
        let writing = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(&self.connection, writing)?;
        for job in batch {
            let (tally, limits) = (&self.tally, &limits);
            job.run(&mut Desk { connection: &transaction, limits, tally, draft: &mut draft })?;
        }
        transaction.commit()?;
        self.tally.commit(&draft);
        self.rows += self.connection.total_changes() - before;
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.add(draft.ledger);
        Ok(())
    }

    /// A row that cannot be read is set aside, and costs this batch; anything else is the disk.
    fn failed(&mut self, error: &rusqlite::Error) -> Refused {
        if !aside::is_of_row(error) {
            return Refused::Sealed(self.seal(self.judge(error)));
        }
        match self.set_aside() {
            // Their readers no longer meet it.
            Ok(moved) if moved.rows > 0 => Refused::Unreadable(
                "a row on record cannot be read and was set aside; ask again".to_owned(),
            ),
            Ok(_) => Refused::Sealed(self.seal(self.judge(error))),
            Err(error) => Refused::Sealed(self.seal(self.judge(&error))),
        }
    }

    fn set_aside(&mut self) -> rusqlite::Result<SetAside> {
        let writing = TransactionBehavior::Immediate;
        let transaction = Transaction::new_unchecked(&self.connection, writing)?;
        let moved = aside::set_aside(&transaction)?;
        let tally = file::tally(&transaction)?;
        transaction.commit()?;
        self.tally = tally;
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.set_aside += moved.open;
        Ok(moved)
    }

    /// Moves the log into the file. Not left to SQLite, which hides what a checkpoint's flush says
    /// and would flush again as if it had not failed.
    fn checkpoint(&mut self) {
        self.rows = 0;
        if let Err(error) = rows::pragma(&self.connection, CHECKPOINT) {
            self.seal(self.judge(&error));
        }
    }

    /// SQLite goes on writing into a file that nobody will find.
    fn gone(&self) -> Sealed {
        Sealed::Io(format!("{} or its log was moved or deleted", self.path.display()))
    }

    fn judge(&self, error: &rusqlite::Error) -> Sealed {
        judge(&self.connection, error)
    }

    fn seal(&mut self, why: Sealed) -> Sealed {
        tracing::error!(why = why.label(), "the callback store is sealed: {why}");
        if !why.may_end() {
            // Closing must not flush into success what has failed.
            let last = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
            let _ = self.connection.set_db_config(last, true); // an old library has none
        }
        self.tell.send_replace(Health::Sealed(why.clone()));
        why
    }

    /// Opens again when there is room again.
    fn probe(&mut self) {
        if !self.sealed().is_some_and(|why| why.may_end()) || room_bytes(&self.path) < ROOM_BYTES {
            return;
        }
        let sql = "INSERT OR REPLACE INTO probe (id, room) VALUES (1, randomblob(65536))";
        let written = self.connection.execute(sql, []);
        let written = written.and_then(|_| rows::pragma(&self.connection, CHECKPOINT));
        match written {
            Ok(_) => {
                tracing::info!("the callback store is open again");
                self.tell.send_replace(Health::Open);
            }
            Err(error) => {
                self.seal(self.judge(&error));
            }
        }
    }
}

impl Drop for Writer {
    /// Also behind a panic: nobody waits for a store that has gone.
    fn drop(&mut self) {
        self.tell.send_replace(Health::Sealed(Sealed::Stopped));
    }
}

/// What an error says about the disk.
fn judge(connection: &Connection, error: &rusqlite::Error) -> Sealed {
    let detail = || Sealed::Io(error.to_string());
    let Some(code) = error.sqlite_error() else { return detail() };
    let flush = [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC];
    match code.code {
        ErrorCode::DiskFull => Sealed::DiskFull,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Sealed::Locked,
        ErrorCode::SystemIoFailure if flush.contains(&code.extended_code) => detail(),
        ErrorCode::SystemIoFailure if is_room(system_errno(connection)) => Sealed::DiskFull,
        _ => detail(),
    }
}

/// The file and its log, by what they are and not by their name.
struct Files([(PathBuf, Option<(u64, u64)>); 2]);

impl Files {
    fn of(path: &Path) -> Files {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Files([path.to_owned(), PathBuf::from(log)].map(|path| {
            let is = identity(&path);
            (path, is)
        }))
    }

    fn are_in_place(&self) -> bool {
        self.0.iter().all(|(path, was)| identity(path) == *was)
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn is_room(errno: i32) -> bool {
    [libc::ENOSPC, libc::EDQUOT, libc::EFBIG].contains(&errno)
}

fn system_errno(connection: &Connection) -> i32 {
    // SAFETY: the handle is open as long as the connection is borrowed, and the call only reads.
    unsafe { ffi::sqlite3_system_errno(connection.handle()) }
}

/// What an unprivileged process may still write beside this file; 0 when nobody can say.
fn room_bytes(path: &Path) -> u64 {
    let Ok(file) = File::open(path) else { return 0 };
    let mut found = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the descriptor is open, and `found` is as large as the call writes.
    if unsafe { libc::fstatvfs(file.as_raw_fd(), found.as_mut_ptr()) } != 0 {
        return 0;
    }
    // SAFETY: the call has succeeded, so it has filled it.
    let found = unsafe { found.assume_init() };
    found.f_bavail.saturating_mul(found.f_frsize)
}
