//! Callbacks of a fleet in one PostgreSQL database: claims by `FOR UPDATE SKIP LOCKED`, fenced by
//! an epoch.
//!
//! Two stations, each a task with a connection of its own: one writes, one reads. The writer takes
//! the offers that have gathered into one transaction. Whatever goes wrong with a connection seals
//! the store; it is made anew with growing pauses, and the store opens again by itself.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Accepted, Answer, BATCH_MAX, CallbackStore, Change, Counts, Handoff, HandoffAsk, HandoffStore,
    Health, InForce, Ledger, Limits, Offer, OpenError, Opening, Place, Query, Record, Refused,
    Sealed, Store, Swept, UnixMs, check_claim,
};
use crate::id::CallbackId;

mod desk;
mod handoffs;
mod link;
mod rows;
mod station;

use station::{Ask, Station, Told};

/// The store in a database.
pub struct PostgresStore {
    writer: mpsc::Sender<Ask>,
    reader: mpsc::Sender<Ask>,
    limits: Arc<InForce>,
    ledger: Arc<Mutex<Ledger>>,
    health: watch::Receiver<Health>,
}

/// Opens the store of a table `url_env = "…"` (or `url = "…"`, where it has no password in it).
pub(super) fn open(table: &toml::Table, limits: Limits) -> Opening {
    let url = url(table);
    Box::pin(async move {
        let store = PostgresStore::open(&url?, limits).await?;
        Ok(Arc::new(store) as Arc<dyn Store>)
    })
}

fn url(table: &toml::Table) -> Result<String, OpenError> {
    let right = "the name of an environment variable with postgres://USER:PASSWORD@HOST/DATABASE";
    if table.contains_key("url") {
        return super::text(table, "url", "postgres://USER@HOST/DATABASE").map(str::to_owned);
    }
    let name = super::text(table, "url_env", right)?;
    std::env::var(name).map_err(|_| OpenError::Config {
        key: "store.url_env".to_owned(),
        problem: format!("there is no environment variable {name}"),
        right: right.to_owned(),
    })
}

impl PostgresStore {
    /// Connects, and brings the database to the newest schema.
    pub async fn open(url: &str, limits: Limits) -> Result<PostgresStore, OpenError> {
        let target = link::target(url)?;
        let (write, opening) = link::open(&target).await?;
        let (read, _) = link::open(&target).await?;
        let ledger = Arc::new(Mutex::new(Ledger { opening, ..Ledger::default() }));
        let (tell, health) = watch::channel(Health::Open);
        let (writer, writes) = mpsc::channel(limits.inbox);
        let (reader, reads) = mpsc::channel(limits.inbox);
        let limits = Arc::new(InForce::new(limits));
        let told = Arc::new(Told::new(tell));
        let station = |part| Station {
            target: target.clone(),
            limits: Arc::clone(&limits),
            ledger: Arc::clone(&ledger),
            part,
            told: Arc::clone(&told),
        };
        tokio::spawn(station(0).run(write, writes));
        tokio::spawn(station(1).run(read, reads));
        Ok(PostgresStore { writer, reader, limits, ledger, health })
    }

    fn account(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sealed(&self) -> Option<Refused> {
        match &*self.health.borrow() {
            Health::Open => None,
            Health::Sealed(why) => Some(Refused::Sealed(why.clone())),
        }
    }

    fn write<T: Send + 'static>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<T, Refused>>) -> Ask,
    ) -> Result<Answer<T>, Refused> {
        match self.sealed() {
            Some(refused) => Err(refused),
            None => push(&self.writer, ask),
        }
    }

    fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(oneshot::Sender<Result<T, Refused>>) -> Ask,
    ) -> Answer<T> {
        push(&self.reader, ask).unwrap_or_else(refuse)
    }
}

fn push<T: Send + 'static>(
    inbox: &mpsc::Sender<Ask>,
    ask: impl FnOnce(oneshot::Sender<Result<T, Refused>>) -> Ask,
) -> Result<Answer<T>, Refused> {
    let (to, answer) = oneshot::channel();
    inbox.try_send(ask(to)).map_err(|error| match error {
        mpsc::error::TrySendError::Full(_) => Refused::Full(Place::Inbox),
        mpsc::error::TrySendError::Closed(_) => Refused::Sealed(Sealed::Stopped),
    })?;
    Ok(Box::pin(async move { answer.await.unwrap_or(Err(Refused::Sealed(Sealed::Stopped))) }))
}

fn refuse<T: Send + 'static>(refused: Refused) -> Answer<T> {
    Box::pin(std::future::ready(Err(refused)))
}

impl CallbackStore for PostgresStore {
    fn accept(&self, offer: Offer, now_ms: UnixMs) -> Answer<Accepted> {
        let asked = self.write(move |to| Ask::Accept { offer: Box::new(offer), now_ms, to });
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
        let asked = self.write(move |to| Ask::Claim { worker, lease_ms, max, now_ms, to });
        asked.unwrap_or_else(refuse)
    }

    fn change(&self, id: CallbackId, change: Change, now_ms: UnixMs) -> Answer<Record> {
        let asked = self.write(move |to| Ask::Change { id, change, now_ms, to });
        asked.unwrap_or_else(refuse)
    }

    fn sweep(&self, now_ms: UnixMs) -> Answer<Swept> {
        self.write(move |to| Ask::Sweep { now_ms, to }).unwrap_or_else(refuse)
    }

    fn get(&self, id: CallbackId) -> Answer<Option<Record>> {
        self.read(move |to| Ask::Get { id, to })
    }

    fn of_key(&self, tenant: String, key: String) -> Answer<Option<Record>> {
        self.read(move |to| Ask::OfKey { tenant, key, to })
    }

    fn list(&self, query: Query) -> Answer<Vec<Record>> {
        match query.check() {
            Ok(()) => self.read(move |to| Ask::List { query, to }),
            Err(refused) => refuse(refused),
        }
    }

    fn counts(&self) -> Answer<Counts> {
        self.read(move |to| Ask::Counts { to })
    }

    fn bound(&self, records: u64) {
        self.limits.bound(records);
    }

    fn ledger(&self) -> Ledger {
        self.account().clone()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }
}

impl HandoffStore for PostgresStore {
    fn handoff(&self, ask: HandoffAsk, now_ms: UnixMs) -> Answer<Vec<Handoff>> {
        let reads = matches!(ask, HandoffAsk::Get(_) | HandoffAsk::List { .. });
        let asked = move |to| Ask::Handoff { ask, now_ms, to };
        if reads { self.read(asked) } else { self.write(asked).unwrap_or_else(refuse) }
    }
}
