//! Durable callbacks: a promise is made only once it is on the disk.
//!
//! A [`CallbackStore`] keeps [`Record`]s; [`life`](Change) says what may become of one, [`Limits`]
//! how many there may be. A store accepts by committing durably and only then gives the
//! [`CallbackReceipt`] that the prompt needs (C-008). It never waits without bound: it answers
//! `full`. It never claims a commit that failed: it seals itself ([`Sealed`]).
//!
//! Time is an argument: wall-clock milliseconds, as promises outlive the process. A store is one
//! file and one line in [`STORES`].

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;

use crate::evidence::CallbackReceipt;
use crate::id::CallbackId;

mod handoffs;
mod ledger;
mod life;
mod limits;
pub mod mutant;
mod postgres;
mod record;
mod refused;
mod sqlite;

pub use handoffs::{Handoff, HandoffAsk, HandoffOffer, HandoffState, HandoffStore};
pub use ledger::{Counts, Ledger, Swept};
pub use life::{Change, Outcome, Settlement};
use limits::InForce;
pub use limits::{Limits, Usage};
pub use postgres::PostgresStore;
pub use record::{Consent, IdText, Key, Offer, QuietHours, Record, Shelf, State, UnixMs};
pub use refused::{Health, OpenError, Place, Refused, Sealed};
pub use sqlite::SqliteStore;

/// What a store answers, once it is true.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<T, Refused>> + Send>>;

/// A store that is being opened.
pub type Opening = Pin<Box<dyn Future<Output = Result<Arc<dyn Store>, OpenError>> + Send>>;

/// The most records that one request gives or changes.
pub const BATCH_MAX: usize = 500;

/// A callback that is on record.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Its name.
    pub id: CallbackId,
    /// Where it stands.
    pub state: State,
    /// It was on record before: this key has been used for the same request.
    pub repeated: bool,
    /// The proof that it will be done; none when a repeated request's record has ended by now.
    pub receipt: Option<CallbackReceipt>,
}

/// What is in the transaction, before its commit: no proof yet.
struct Kept {
    id: CallbackId,
    state: State,
    repeated: bool,
}

impl Kept {
    /// What an offer's key says about it: the record that it made before, or another's.
    fn repeated(record: &Record, key: &Key) -> Result<Kept, Refused> {
        let same = record.offer.key.as_ref().is_some_and(|kept| kept.digest == key.digest);
        if !same && !mutant::is("key_ignored") {
            return Err(Refused::KeyReused { existing: record.id });
        }
        Ok(Kept { id: record.id, state: record.state, repeated: true })
    }

    /// Its commit has completed.
    fn committed(self) -> Accepted {
        let Kept { id, state, repeated } = self;
        let promised = !state.is_terminal();
        let receipt = promised.then(|| CallbackReceipt::committed(id));
        Accepted { id, state, repeated, receipt }
    }
}

/// The worker of a claim has a name and asks for a sane number.
fn check_claim(worker: &str, lease_ms: u64, limits: &Limits) -> Result<(), Refused> {
    if worker.trim().is_empty() || worker.len() > 128 || worker.contains('\0') {
        return Err(Refused::bad("worker", "is no name of at most 128 bytes"));
    }
    limits.check_lease(lease_ms)
}

/// Which records are wanted, in the order of their acceptance.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Query {
    /// In one of these states; in any when there is none.
    pub states: Vec<State>,
    /// On this shelf.
    pub shelf: Option<Shelf>,
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Behind this one: the last of the page before.
    pub after: Option<CallbackId>,
    /// At most so many; [`BATCH_MAX`] at most.
    pub limit: usize,
}

impl Query {
    /// What is looked for could be there: no text on record has a NUL in it.
    fn check(&self) -> Result<(), Refused> {
        match &self.tenant {
            Some(tenant) if tenant.contains('\0') => Err(Refused::bad("tenant", "has a NUL in it")),
            _ => Ok(()),
        }
    }
}

/// Durable callbacks. A refusal leaves the store as it was.
///
/// Whatever changes something answers only once the change is durable. An answer that never comes
/// (the process died) or is `sealed` says nothing about whether it happened: asked again with the
/// same key, `accept` does not do it twice.
pub trait CallbackStore: Send + Sync {
    /// Keeps this promise.
    fn accept(&self, offer: Offer, now_ms: UnixMs) -> Answer<Accepted>;

    /// Gives this worker up to `max` due ones, each with an epoch of its own, for so long.
    fn claim(
        &self,
        worker: String,
        lease_ms: u64,
        max: usize,
        now_ms: UnixMs,
    ) -> Answer<Vec<Record>>;

    /// Changes one record and gives it as it is now.
    fn change(&self, id: CallbackId, change: Change, now_ms: UnixMs) -> Answer<Record>;

    /// What time does: due, expired, lapsed. At start and then regularly; bounded, so ask again
    /// while [`Swept::more`].
    fn sweep(&self, now_ms: UnixMs) -> Answer<Swept>;

    /// This record.
    fn get(&self, id: CallbackId) -> Answer<Option<Record>>;

    /// The record that this tenant's key has made.
    fn of_key(&self, tenant: String, key: String) -> Answer<Option<Record>>;

    /// What an offer with a key is answered whose record is there already, whether or not another
    /// would have room; none where it is new.
    fn repeated(&self, offer: &Offer) -> Answer<Option<Accepted>> {
        let Some(key) = offer.key.clone() else { return Box::pin(async { Ok(None) }) };
        // What cannot be on record is looked for nowhere: `accept` says what is wrong with it.
        if key.name.contains('\0') || offer.tenant.contains('\0') {
            return Box::pin(async { Ok(None) });
        }
        let found = self.of_key(offer.tenant.clone(), key.name.clone());
        Box::pin(async move {
            let Some(record) = found.await? else { return Ok(None) };
            Kept::repeated(&record, &key).map(|kept| Some(kept.committed()))
        })
    }

    /// The proof that this one is on record and will be done, for a caller who asks again
    /// ([`Refused::Duplicate`]); none when it has ended. A read sees what is committed only.
    fn promised(&self, id: CallbackId) -> Answer<Option<CallbackReceipt>> {
        let found = self.get(id);
        Box::pin(async move {
            let open = found.await?.filter(|record| !record.state.is_terminal());
            Ok(open.map(|record| CallbackReceipt::committed(record.id)))
        })
    }

    /// These records.
    fn list(&self, query: Query) -> Answer<Vec<Record>>;

    /// How many there are, and how old.
    fn counts(&self) -> Answer<Counts>;

    /// So many may be open from now on, in all and of one tenant; those that are open stay.
    fn bound(&self, records: u64);

    /// What this process has seen since it opened the store.
    fn ledger(&self) -> Ledger;

    /// Other processes work on the same records: what one of them has seen is not all there was.
    fn is_shared(&self) -> bool {
        false
    }

    /// Whether it takes promises; changes are told.
    fn health(&self) -> watch::Receiver<Health>;

    /// The holder of this epoch needs so much longer.
    fn extend(&self, id: CallbackId, epoch: u64, lease_ms: u64, now_ms: UnixMs) -> Answer<Record> {
        self.change(id, Change::Extend(epoch, lease_ms), now_ms)
    }

    /// The holder of this epoch is about to dial: before anything is dialled. The record comes back
    /// so that consent, authorisation and quiet hours are looked at once more; where they
    /// forbid it, settle `not_dialled`.
    fn start_dialling(&self, id: CallbackId, epoch: u64, now_ms: UnixMs) -> Answer<Record> {
        self.change(id, Change::StartDialling(epoch), now_ms)
    }

    /// The holder of this epoch knows what the attempt came to.
    fn settle(
        &self,
        id: CallbackId,
        epoch: u64,
        settlement: Settlement,
        now_ms: UnixMs,
    ) -> Answer<Record> {
        self.change(id, Change::Settle(epoch, settlement), now_ms)
    }

    /// It is not wanted any more; refused once it is being dialled.
    fn cancel(&self, id: CallbackId, now_ms: UnixMs) -> Answer<Record> {
        self.change(id, Change::Cancel, now_ms)
    }

    /// An operator knows what became of an unknown dial.
    fn resolve(&self, id: CallbackId, outcome: Outcome, now_ms: UnixMs) -> Answer<Record> {
        self.change(id, Change::Resolve(outcome), now_ms)
    }
}

/// One place for both.
pub trait Store: CallbackStore + HandoffStore {}

impl<S: CallbackStore + HandoffStore> Store for S {}

/// A line of the table: the only place where a store's name exists.
pub struct Entry {
    /// What the configuration calls it.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// Opens it from its own table.
    pub open: fn(&toml::Table, Limits) -> Opening,
}

/// Every store there is.
pub static STORES: [Entry; 2] = [
    Entry { name: "sqlite", about: "one file beside the server", open: sqlite::open },
    Entry { name: "postgres", about: "one database for a fleet", open: postgres::open },
];

/// The store of this name, or a message with the names there are.
pub fn find(name: &str) -> Result<&'static Entry, OpenError> {
    let known = || STORES.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ");
    STORES.iter().find(|entry| entry.name == name).ok_or_else(|| OpenError::Config {
        key: "store.provider".to_owned(),
        problem: format!("there is no store \"{name}\""),
        right: format!("one of: {}", known()),
    })
}

/// A text of a store's own table.
fn text<'a>(table: &'a toml::Table, key: &str, right: &str) -> Result<&'a str, OpenError> {
    let value = table.get(key);
    value.and_then(toml::Value::as_str).filter(|text| !text.is_empty()).ok_or_else(|| {
        OpenError::Config {
            key: format!("store.{key}"),
            problem: if value.is_some() { "is no text" } else { "is missing" }.to_owned(),
            right: right.to_owned(),
        }
    })
}
