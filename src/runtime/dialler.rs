//! Who dials callbacks from within the server: claims what is due, looks once more whether it may,
//! passes the call gate, dials, and settles. What dials is a [`Line`].
//!
//! A record whose claim lapsed while it was being dialled is never claimed again (`unknown_dial`),
//! so that nothing here dials twice.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

use super::http::slot::{self, NoSlot, Slot};
use super::operated::NotDialled;
use super::promises::{Promises, unix_ms};
use super::service::Service;
use crate::admission::{Offer, OwnerId, Release};
use crate::config::Stubbed;
use crate::evidence::Evidence;
use crate::store::{Change, Outcome, Record, Refused, Settlement};

/// How often it is looked for due ones where nothing changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a claim holds: longer than ringing takes, and a commit or two.
const LEASE_MS: u64 = 120_000;
/// When one is tried again that found no room for its call.
const NO_ROOM_MS: u64 = 15_000;
/// Owners of dialled calls at the call gate.
const DIAL_OWNERS: u64 = 1 << 60;

/// What an attempt came to, in the end.
pub type Dialled = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// What dials.
pub trait Line: Send + Sync {
    /// Its name, as a worker's.
    fn name(&self) -> &'static str;

    /// Rings, and tells what it came to. It answers in its own time; one that takes longer than the
    /// claim is `unknown_dial`.
    fn dial(&self, record: &Record) -> Dialled;
}

/// Dials nothing: every attempt comes to what is written.
#[derive(Debug)]
struct Stub(Stubbed);

impl Line for Stub {
    fn name(&self) -> &'static str {
        "stub"
    }

    fn dial(&self, _: &Record) -> Dialled {
        let outcome = match self.0 {
            Stubbed::Connected => Outcome::Connected,
            Stubbed::NoAnswer => Outcome::NoAnswer,
            Stubbed::Failed => Outcome::Failed,
        };
        Box::pin(std::future::ready(outcome))
    }
}

/// Begins to dial, where the configuration says so.
pub(super) fn begin(service: &Arc<Service>) {
    let dialling = service.config.dialling;
    let Some(promises) = service.promises().filter(|_| dialling.is_stub) else { return };
    let dialler = Dialler {
        line: Arc::new(Stub(dialling.stub_outcome)),
        promises: promises.clone(),
        at_once: Arc::new(Semaphore::new(dialling.at_once as usize)),
    };
    tokio::spawn(dialler.run(Arc::downgrade(service)));
}

struct Dialler {
    line: Arc<dyn Line>,
    promises: Arc<Promises>,
    at_once: Arc<Semaphore>,
}

impl Dialler {
    async fn run(self, service: std::sync::Weak<Service>) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(service) = service.upgrade() else { return };
            // A server that takes no calls makes none.
            if service.backends().is_none() || service.is_draining() {
                continue;
            }
            self.claim(&service).await;
        }
    }

    /// Claims as many as can be dialled now, and dials them beside each other.
    async fn claim(&self, service: &Arc<Service>) {
        let free = self.at_once.available_permits();
        if free == 0 {
            return;
        }
        let worker = format!("{}:{}", self.line.name(), self.promises.incarnation());
        // A sealed store gives nothing; the next look is soon.
        let Ok(records) = self.promises.claim(worker, LEASE_MS, free).await else { return };
        for record in records {
            let Ok(place) = self.at_once.clone().acquire_owned().await else { return };
            let (line, promises) = (self.line.clone(), self.promises.clone());
            let service = service.clone();
            tokio::spawn(async move {
                // What cannot be settled lapses: it is due again, or unknown.
                if let Err(refused) = dial(&service, &promises, &*line, record).await {
                    tracing::warn!("a callback's attempt is not on record: {refused}");
                }
                drop(place);
            });
        }
    }
}

async fn dial(
    service: &Service,
    promises: &Promises,
    line: &dyn Line,
    record: Record,
) -> Result<(), Refused> {
    let (id, epoch) = (record.id, record.epoch);
    let settle = |outcome, retry_at_ms, detail: &str| {
        let detail = detail.to_owned();
        promises.change(id, Change::Settle(epoch, Settlement { outcome, retry_at_ms, detail }))
    };
    let mut slot = match call_slot(service, &record).await {
        Ok(slot) => slot,
        Err(_) => {
            let retry_at_ms = Some(unix_ms() + NO_ROOM_MS);
            return settle(Outcome::NotDialled, retry_at_ms, "no_room").await.map(drop);
        }
    };
    let record = match promises.start_dialling(id, epoch).await {
        Ok(record) => record,
        Err(NotDialled::Forbidden { .. }) => return Ok(()),
        Err(NotDialled::Refused(refused)) => return Err(refused),
    };
    let lease = slot.use_it();
    let outcome = line.dial(&record).await;
    if let Some(lease) = lease {
        service.gates.settle(lease, Release::Completed(Evidence::Completed));
    }
    settle(outcome, None, line.name()).await.map(drop)
}

/// A slot at the call gate, in the class of callbacks where there is one.
async fn call_slot(service: &Service, record: &Record) -> Result<Slot, NoSlot> {
    let owner = OwnerId(DIAL_OWNERS | service.next_call().0);
    let tenant = service.tenants.find(Some(&record.offer.tenant));
    let class = service.config.classes.find(Some("callback"));
    slot::take(&service.gates, owner, |offer| Offer { tenant, class, ..offer }).await
}
