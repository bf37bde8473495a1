//! A task with a connection: takes requests, answers behind the commit, and what it does when the
//! connection is lost.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_postgres::Config;
use tokio_postgres::error::SqlState;

use super::desk::Desk;
use super::handoffs;
use super::link::{self, LIMIT, Link, said};
use super::rows::{self, Asked, Failure, Prepared};
use crate::id::CallbackId;
use crate::store::{
    Accepted, Change, Counts, Handoff, HandoffAsk, Health, InForce, Kept, Ledger, Offer, Query,
    Record, Refused, Sealed, Swept, UnixMs,
};

/// The most requests that are taken at once.
const BATCH_MAX: usize = 128;
/// The pause before the second attempt to connect; doubled up to the longest.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A transaction that lost against another is tried so often.
const TRIES: usize = 3;

type To<T> = oneshot::Sender<Result<T, Refused>>;

/// A request, and where its answer goes.
pub enum Ask {
    Accept { offer: Box<Offer>, now_ms: UnixMs, to: To<Accepted> },
    Claim { worker: String, lease_ms: u64, max: usize, now_ms: UnixMs, to: To<Vec<Record>> },
    Change { id: CallbackId, change: Change, now_ms: UnixMs, to: To<Record> },
    Sweep { now_ms: UnixMs, to: To<Swept> },
    Get { id: CallbackId, to: To<Option<Record>> },
    OfKey { tenant: String, key: String, to: To<Option<Record>> },
    List { query: Query, to: To<Vec<Record>> },
    Counts { to: To<Counts> },
    Handoff { ask: HandoffAsk, now_ms: UnixMs, to: To<Vec<Handoff>> },
}

/// What a station needs beside its connection.
pub struct Station {
    pub target: Config,
    pub limits: Arc<InForce>,
    pub ledger: Arc<Mutex<Ledger>>,
    /// Which of the stations it is.
    pub part: usize,
    pub told: Arc<Told>,
}

/// The store's health: open only while both stations have their connection.
pub struct Told {
    parts: Mutex<[Health; 2]>,
    tell: watch::Sender<Health>,
}

impl Told {
    pub fn new(tell: watch::Sender<Health>) -> Told {
        Told { parts: Mutex::new([Health::Open, Health::Open]), tell }
    }

    fn set(&self, part: usize, health: Health) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts[part] = health;
        let sealed = parts.iter().find(|health| **health != Health::Open);
        self.tell.send_replace(sealed.cloned().unwrap_or(Health::Open));
    }
}

impl Station {
    /// Until nobody can ask any more.
    pub async fn run(self, link: Link, mut asks: mpsc::Receiver<Ask>) {
        let mut link = Some(link);
        loop {
            let lost = match link.take() {
                Some(link) => self.serve(link, &mut asks).await,
                None => match self.reconnect(&mut asks).await {
                    Some(new) => {
                        self.tell(Health::Open);
                        link = Some(new);
                        continue;
                    }
                    None => None,
                },
            };
            let Some(why) = lost else { break };
            tracing::error!(why = why.label(), "the callback store is sealed: {why}");
            self.tell(Health::Sealed(why));
        }
        self.tell(Health::Sealed(Sealed::Stopped));
    }

    fn tell(&self, health: Health) {
        self.told.set(self.part, health);
    }

    /// Serves until the connection is lost, and says why; `None` when nobody can ask any more.
    async fn serve(&self, mut link: Link, asks: &mut mpsc::Receiver<Ask>) -> Option<Sealed> {
        let mut prepared = Prepared::default();
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                _ = &mut link.moves => {
                    return Some(Sealed::ConnectionLost("the server closed it".to_owned()));
                }
                taken = asks.recv_many(&mut batch, BATCH_MAX) => if taken == 0 { return None },
            }
            let mut rest = std::mem::take(&mut batch).into_iter().peekable();
            while let Some(first) = rest.next() {
                let mut group = vec![first];
                while matches!(group[0], Ask::Accept { .. })
                    && let Some(next) = rest.next_if(|ask| matches!(ask, Ask::Accept { .. }))
                {
                    group.push(next);
                }
                if let Err(why) = self.answer(&mut link, &mut prepared, group).await {
                    rest.for_each(|ask| self.seal(ask, &why));
                    return Some(why);
                }
            }
        }
    }

    /// One transaction: one request, or the offers that came together.
    async fn answer(
        &self,
        link: &mut Link,
        prepared: &mut Prepared,
        mut group: Vec<Ask>,
    ) -> Result<(), Sealed> {
        let mut tries = 1;
        loop {
            let done = timeout(LIMIT, self.transact(link, prepared, &group)).await;
            let why = match done {
                Ok(Ok(answers)) => {
                    group.drain(..).zip(answers).for_each(|(ask, done)| ask.answer(done));
                    return Ok(());
                }
                Ok(Err(Failure::Sql(error))) if again(&error) && tries < TRIES => {
                    tries += 1;
                    continue;
                }
                // The row is bad, not the connection.
                Ok(Err(Failure::Row(problem))) => {
                    let refused = Refused::Unreadable(problem);
                    group.drain(..).for_each(|ask| self.refuse(ask, refused.clone()));
                    return Ok(());
                }
                // What was asked is wrong, not the connection: those beside it are not refused.
                Ok(Err(Failure::Sql(error))) if error.code().is_some_and(is_of_data) => {
                    return self.answer_apart(link, prepared, group, &error).await;
                }
                Ok(Err(Failure::Sql(error))) if error.code() == Some(&SqlState::DISK_FULL) => {
                    Sealed::DiskFull
                }
                Ok(Err(Failure::Sql(error))) => Sealed::ConnectionLost(said(&error)),
                Err(_) => Sealed::ConnectionLost("the server does not answer".to_owned()),
            };
            // Told first: who hears the refusal and looks at the health sees the same.
            self.tell(Health::Sealed(why.clone()));
            group.drain(..).for_each(|ask| self.seal(ask, &why));
            return Err(why);
        }
    }

    /// Each of a group by itself; one that the server calls wrong is refused.
    async fn answer_apart(
        &self,
        link: &mut Link,
        prepared: &mut Prepared,
        mut group: Vec<Ask>,
        error: &tokio_postgres::Error,
    ) -> Result<(), Sealed> {
        if group.len() == 1 {
            let refused = Refused::bad("request", said(error));
            group.drain(..).for_each(|ask| self.refuse(ask, refused.clone()));
            return Ok(());
        }
        let mut rest = group.into_iter();
        while let Some(ask) = rest.next() {
            if let Err(why) = Box::pin(self.answer(link, prepared, vec![ask])).await {
                rest.for_each(|ask| self.seal(ask, &why));
                return Err(why);
            }
        }
        Ok(())
    }

    async fn transact(
        &self,
        link: &mut Link,
        prepared: &mut Prepared,
        group: &[Ask],
    ) -> Asked<Vec<Done>> {
        match &group[0] {
            Ask::Get { id, .. } => return Ok(vec![Done::Get(rows::get(&link.client, *id).await?)]),
            Ask::OfKey { tenant, key, .. } => {
                let found = rows::of_key(&link.client, tenant, key).await?;
                return Ok(vec![Done::Get(found)]);
            }
            Ask::List { query, .. } => {
                return Ok(vec![Done::List(rows::list(&link.client, query).await?)]);
            }
            Ask::Counts { .. } => return Ok(vec![Done::Counts(rows::counts(&link.client).await?)]),
            Ask::Handoff { ask: HandoffAsk::Get(id), .. } => {
                let found = handoffs::get(&link.client, *id).await?;
                return Ok(vec![Done::Handoff(Ok(found))]);
            }
            Ask::Handoff { ask: HandoffAsk::List { open, tenant }, .. } => {
                let found = handoffs::list(&link.client, *open, tenant.as_deref()).await?;
                return Ok(vec![Done::Handoff(Ok(found))]);
            }
            Ask::Accept { .. }
            | Ask::Claim { .. }
            | Ask::Change { .. }
            | Ask::Sweep { .. }
            | Ask::Handoff { .. } => {}
        }
        let on = link.client.transaction().await?;
        let limits = &self.limits.now();
        let mut desk = Desk { on, prepared, limits, draft: Ledger::default() };
        let done = match &group[0] {
            Ask::Claim { worker, lease_ms, max, now_ms, .. } => {
                vec![Done::Claim(desk.claim(worker, *lease_ms, *max, *now_ms).await?)]
            }
            Ask::Change { id, change, now_ms, .. } => {
                vec![Done::Change(desk.change(*id, change, *now_ms).await?)]
            }
            Ask::Sweep { now_ms, .. } => vec![Done::Sweep(desk.sweep(*now_ms).await?)],
            Ask::Handoff { ask, now_ms, .. } => {
                vec![Done::Handoff(desk.handoff(ask, *now_ms).await?)]
            }
            _ => desk.accept(&offers(group)).await?.into_iter().map(Done::Accept).collect(),
        };
        let Desk { on, draft, .. } = desk;
        on.commit().await?;
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner).add(draft);
        Ok(done)
    }

    fn seal(&self, ask: Ask, why: &Sealed) {
        self.refuse(ask, Refused::Sealed(why.clone()));
    }

    fn refuse(&self, ask: Ask, refused: Refused) {
        if matches!(ask, Ask::Accept { .. }) {
            self.ledger.lock().unwrap_or_else(PoisonError::into_inner).refuse(&refused);
        }
        ask.fail(refused);
    }

    /// A new connection; meanwhile whoever asks is told. `None` when nobody can ask any more.
    async fn reconnect(&self, asks: &mut mpsc::Receiver<Ask>) -> Option<Link> {
        let (mut pause, target) = (PAUSE, &self.target);
        let mut why = Sealed::ConnectionLost("connecting again".to_owned());
        loop {
            let wait = pause;
            let mut attempt = std::pin::pin!(async move {
                sleep(wait).await;
                timeout(LIMIT, link::connect(target)).await
            });
            let connected = loop {
                tokio::select! {
                    ask = asks.recv() => self.seal(ask?, &why),
                    connected = &mut attempt => break connected,
                }
            };
            match connected {
                Ok(Ok(link)) => return Some(link),
                Ok(Err(error)) => why = Sealed::ConnectionLost(said(&error)),
                Err(_) => why = Sealed::ConnectionLost("the server does not answer".to_owned()),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

fn offers(group: &[Ask]) -> Vec<(&Offer, UnixMs)> {
    let offer = |ask| match ask {
        &Ask::Accept { ref offer, now_ms, .. } => Some((&**offer, now_ms)),
        _ => None,
    };
    group.iter().filter_map(offer).collect()
}

/// Another transaction won: the same once more is right.
fn again(error: &tokio_postgres::Error) -> bool {
    let lost = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::UNIQUE_VIOLATION,
    ];
    error.code().is_some_and(|code| lost.contains(code))
}

/// Class 22: a value that cannot be, which is whoever asked, not the server.
fn is_of_data(code: &SqlState) -> bool {
    code.code().starts_with("22")
}

/// What was done, behind the commit.
enum Done {
    Accept(Result<Kept, Refused>),
    Claim(Vec<Record>),
    Change(Result<Record, Refused>),
    Sweep(Swept),
    Get(Option<Record>),
    List(Vec<Record>),
    Counts(Counts),
    Handoff(Result<Vec<Handoff>, Refused>),
}

impl Ask {
    /// Who asked may have gone: then nobody is told.
    fn answer(self, done: Done) {
        match (self, done) {
            (Ask::Accept { to, .. }, Done::Accept(kept)) => {
                drop(to.send(kept.map(Kept::committed)));
            }
            (Ask::Claim { to, .. }, Done::Claim(claimed)) => drop(to.send(Ok(claimed))),
            (Ask::Change { to, .. }, Done::Change(changed)) => drop(to.send(changed)),
            (Ask::Sweep { to, .. }, Done::Sweep(swept)) => drop(to.send(Ok(swept))),
            (Ask::Get { to, .. } | Ask::OfKey { to, .. }, Done::Get(record)) => {
                drop(to.send(Ok(record)));
            }
            (Ask::List { to, .. }, Done::List(records)) => drop(to.send(Ok(records))),
            (Ask::Counts { to }, Done::Counts(counts)) => drop(to.send(Ok(counts))),
            (Ask::Handoff { to, .. }, Done::Handoff(handoffs)) => drop(to.send(handoffs)),
            (ask, _) => debug_assert!(false, "an answer to something else than {}", ask.name()),
        }
    }

    fn fail(self, refused: Refused) {
        match self {
            Ask::Accept { to, .. } => drop(to.send(Err(refused))),
            Ask::Claim { to, .. } => drop(to.send(Err(refused))),
            Ask::Change { to, .. } => drop(to.send(Err(refused))),
            Ask::Sweep { to, .. } => drop(to.send(Err(refused))),
            Ask::Get { to, .. } | Ask::OfKey { to, .. } => drop(to.send(Err(refused))),
            Ask::List { to, .. } => drop(to.send(Err(refused))),
            Ask::Counts { to } => drop(to.send(Err(refused))),
            Ask::Handoff { to, .. } => drop(to.send(Err(refused))),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Ask::Accept { .. } => "accept",
            Ask::Claim { .. } => "claim",
            Ask::Change { .. } => "change",
            Ask::Sweep { .. } => "sweep",
            Ask::Get { .. } => "get",
            Ask::OfKey { .. } => "of_key",
            Ask::List { .. } => "list",
            Ask::Counts { .. } => "counts",
            Ask::Handoff { .. } => "handoff",
        }
    }
}
