//! Callbacks in one SQLite file: WAL with `synchronous = FULL`, one thread that writes, one that
//! reads.
//!
//! The writer takes whatever has gathered in its inbox into one transaction, so one flush serves
//! many (group commit), and answers only behind the commit. Readers see committed records only and
//! go on while the writer is sealed.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use super::{
    Accepted, Answer, BATCH_MAX, CallbackStore, Change, Counts, Handoff, HandoffAsk, HandoffStore,
    Health, InForce, Kept, Ledger, Limits, Offer, OpenError, Opening, Place, Query, Record,
    Refused, Sealed, Store, Swept, UnixMs, check_claim,
};
use crate::id::CallbackId;

mod aside;
mod desk;
mod file;
mod handoffs;
mod rows;
mod tally;
mod writer;

use desk::Desk;
use writer::{Job, Work, Writer};

/// The store in a file.
pub struct SqliteStore {
    writer: Option<SyncSender<Box<dyn Job>>>,
    reader: Option<SyncSender<Read>>,
    threads: Vec<JoinHandle<()>>,
    limits: Arc<InForce>,
    ledger: Arc<Mutex<Ledger>>,
    health: watch::Receiver<Health>,
    /// Held until the threads have ended: no other process opens the file meanwhile.
    _lock: file::Lock,
}

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// Opens the store of a table `path = "…"`.
pub(super) fn open(table: &toml::Table, limits: Limits) -> Opening {
    let path = super::text(table, "path", "the file that holds the callbacks").map(PathBuf::from);
    Box::pin(async move {
        let path = path?;
        let opened = tokio::task::spawn_blocking(move || SqliteStore::open(&path, limits)).await;
        let store = opened.map_err(|error| OpenError::Unreachable {
            place: "the callback store".to_owned(),
            detail: error.to_string(),
        })??;
        Ok(Arc::new(store) as Arc<dyn Store>)
    })
}

impl SqliteStore {
    /// Opens the file, or makes it. Blocks while it is checked and brought to the newest schema.
    pub fn open(path: &Path, limits: Limits) -> Result<SqliteStore, OpenError> {
        let file::Opened { lock, write, read, tally } = file::open(path)?;
        let ledger = Ledger { opening: tally.records, ..Ledger::default() };
        let ledger = Arc::new(Mutex::new(ledger));
        let (tell, health) = watch::channel(Health::Open);
        let (writer, jobs) = sync_channel(limits.inbox);
        let (reader, reads) = sync_channel::<Read>(limits.inbox);
        let limits = Arc::new(InForce::new(limits));
        let (bounds, account) = (Arc::clone(&limits), Arc::clone(&ledger));
        let writes = Writer::new(write, path.to_owned(), bounds, account, tally, tell);
        let threads = vec![
            spawn("callbacks", path, move || writes.run(&jobs))?,
            spawn("callbacks-read", path, move || {
                while let Ok(ask) = reads.recv() {
                    ask(&read);
                }
            })?,
        ];
        let (writer, reader) = (Some(writer), Some(reader));
        Ok(SqliteStore { writer, reader, threads, limits, ledger, health, _lock: lock })
    }

    fn account(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the writer something to do; `finish` runs behind the commit only.
    fn write<D: Send + 'static, T: Send + 'static>(
        &self,
        op: impl FnOnce(&mut Desk<'_>) -> rusqlite::Result<Result<D, Refused>> + Send + 'static,
        finish: fn(D) -> T,
        offer: bool,
    ) -> Result<Answer<T>, Refused> {
        let (to, answer) = oneshot::channel();
        let job: Box<dyn Job> = Box::new(Work::new(op, finish, to, offer));
        push(self.writer.as_ref(), job)?;
        Ok(Box::pin(async move { answer.await.unwrap_or(Err(Refused::Sealed(Sealed::Stopped))) }))
    }

    fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<T> {
        let (to, answer) = oneshot::channel();
        let read: Read = Box::new(move |connection| {
            let found = ask(connection).map_err(|error| Refused::Unreadable(error.to_string()));
            let _ = to.send(found); // who asked may have gone
        });
        if let Err(refused) = push(self.reader.as_ref(), read) {
            return refuse(refused);
        }
        Box::pin(async move { answer.await.unwrap_or(Err(Refused::Sealed(Sealed::Stopped))) })
    }
}

fn spawn(
    name: &str,
    path: &Path,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, OpenError> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
    thread.map_err(|error| file::unreachable(path, &error.to_string()))
}

fn push<T>(inbox: Option<&SyncSender<T>>, item: T) -> Result<(), Refused> {
    let Some(inbox) = inbox else { return Err(Refused::Sealed(Sealed::Stopped)) };
    inbox.try_send(item).map_err(|error| match error {
        TrySendError::Full(_) => Refused::Full(Place::Inbox),
        TrySendError::Disconnected(_) => Refused::Sealed(Sealed::Stopped),
    })
}

fn refuse<T: Send + 'static>(refused: Refused) -> Answer<T> {
    Box::pin(std::future::ready(Err(refused)))
}

impl CallbackStore for SqliteStore {
    fn accept(&self, offer: Offer, now_ms: UnixMs) -> Answer<Accepted> {
        let sealed = match &*self.health.borrow() {
            Health::Open => None,
            Health::Sealed(why) => Some(Refused::Sealed(why.clone())),
        };
        let asked = match sealed {
            Some(refused) => Err(refused),
            None => self.write(move |desk| desk.accept(offer, now_ms), Kept::committed, true),
        };
        asked.unwrap_or_else(|refused| {
            self.account().refuse(&refused);
            refuse(refused)
        })
    }

    fn claim(
        &self,
        worker: String,
        lease_ms: u64,
        max: usize,
        now_ms: UnixMs,
    ) -> Answer<Vec<Record>> {
        if let Err(refused) = check_claim(&worker, lease_ms, &self.limits.now()) {
            return refuse(refused);
        }
        let max = max.min(BATCH_MAX);
        let asked = self.write(
            move |desk| desk.claim(&worker, lease_ms, max, now_ms).map(Ok),
            |all| all,
            false,
        );
        asked.unwrap_or_else(refuse)
    }

    fn change(&self, id: CallbackId, change: Change, now_ms: UnixMs) -> Answer<Record> {
        let asked =
            self.write(move |desk| desk.change(id, &change, now_ms), |record| record, false);
        asked.unwrap_or_else(refuse)
    }

    fn sweep(&self, now_ms: UnixMs) -> Answer<Swept> {
        let asked = self.write(move |desk| desk.sweep(now_ms).map(Ok), |swept| swept, false);
        asked.unwrap_or_else(refuse)
    }

    fn get(&self, id: CallbackId) -> Answer<Option<Record>> {
        self.read(move |connection| rows::get(connection, id))
    }

    fn of_key(&self, tenant: String, key: String) -> Answer<Option<Record>> {
        self.read(move |connection| rows::of_key(connection, &tenant, &key))
    }

    fn list(&self, query: Query) -> Answer<Vec<Record>> {
        match query.check() {
            Ok(()) => self.read(move |connection| rows::list(connection, &query)),
            Err(refused) => refuse(refused),
        }
    }

    fn counts(&self) -> Answer<Counts> {
        self.read(rows::counts)
    }

    fn bound(&self, records: u64) {
        self.limits.bound(records);
    }

    fn ledger(&self) -> Ledger {
        self.account().clone()
    }

    fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }
}

impl HandoffStore for SqliteStore {
    fn handoff(&self, ask: HandoffAsk, now_ms: UnixMs) -> Answer<Vec<Handoff>> {
        match ask {
            HandoffAsk::Get(id) => self.read(move |connection| handoffs::get(connection, id)),
            HandoffAsk::List { open, tenant } => {
                self.read(move |connection| handoffs::list(connection, open, tenant.as_deref()))
            }
            ask => {
                let asked = self.write(move |desk| desk.handoff(ask, now_ms), |all| all, false);
                asked.unwrap_or_else(refuse)
            }
        }
    }
}

impl Drop for SqliteStore {
    /// What is in the inbox is still answered; then the file is closed and free for another.
    fn drop(&mut self) {
        self.writer = None;
        self.reader = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // a panic has been reported where it happened
        }
    }
}
