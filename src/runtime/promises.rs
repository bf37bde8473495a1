//! What the server has promised: callbacks on record, humans being asked. The one way to the store
//! for calls, for HTTP and for whoever dials.
//!
//! A callback's unit at the `callback` gate is held from the offer until its record has ended, also
//! over a restart: the records that a process finds are its gate's opening.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

use super::ari::Ari;
use super::clock::Clock;
use super::desk::Desk;
use super::destination::canonical;
use super::dialler;
use super::gates::Gates;
use super::operated::{Authorities, bound};
use super::service::Service;
use super::twilio::Twilio;
use super::webhook::{Hooks, News};
use crate::admission::Cancelled;
use crate::call::{Arranged, CONNECT_MAX, HANDOFF_MAX, Wish};
use crate::config::Times;
use crate::evidence::Evidence;
use crate::fallback::NotReached;
use crate::fallback::outbound::{self, Policy};
use crate::id::{CallbackId, HandoffId, Stage};
use crate::provider::Ended;
use crate::store::{
    self, Change, Consent, Handoff, HandoffAsk, HandoffOffer, HandoffState, Health, Key, Limits,
    Offer, OpenError, Query, Record, Refused, Shelf, Store, UnixMs,
};

/// How often what time alone does is done.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// So often another's record may have ended between being met and being looked at.
const DUPLICATES_MAX: usize = 4;

/// What a call has to say for itself when something is promised to it.
#[derive(Clone, Debug)]
pub struct Promisee {
    /// Its name.
    pub call: String,
    /// Its turn.
    pub turn: u32,
    /// Who pays.
    pub tenant: String,
    /// Under whose authority it is dialled: the agent's name.
    pub agent: String,
}

/// Promises made and kept.
pub struct Promises {
    pub(super) store: Arc<dyn Store>,
    pub(super) gates: Gates,
    pub(super) incarnation: String,
    pub(super) times: Times,
    /// Under whose authority something may be dialled.
    pub(super) authorities: Authorities,
    /// What may be dialled at all.
    pub(super) policy: Policy,
    /// What was, within the hour.
    pub(super) dialled: Mutex<outbound::Dialled>,
    /// Who is told of everything that changes.
    pub(super) hooks: Hooks,
    /// Calls that wait for a human.
    asked: Mutex<BTreeMap<HandoffId, mpsc::Sender<Arranged>>>,
    changed: watch::Sender<u64>,
}

impl std::fmt::Debug for Promises {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Promises").field("times", &self.times).finish_non_exhaustive()
    }
}

/// Now, by the wall clock: a promise outlives the process.
pub fn unix_ms() -> UnixMs {
    Clock::wall_ms()
}

/// Opens the store that the configuration names and begins to keep what it holds. Without a store
/// nothing is promised: the gates of its rungs stay closed.
pub async fn open(service: &Arc<Service>) -> Result<(), OpenError> {
    let config = &service.config;
    let opened = match store::find(&config.store.provider) {
        Ok(entry) => (entry.open)(&config.store.table, limits(&service.gates)).await,
        Err(wrong) => Err(wrong),
    };
    // Without it the gates of its rungs stay closed.
    let store = opened?;
    let promises = Arc::new(Promises {
        store,
        authorities: Authorities::of(config),
        policy: config.outbound.policy.clone(),
        dialled: Mutex::default(),
        hooks: Hooks::start(config, &service.incarnation)?,
        gates: service.gates.clone(),
        incarnation: service.incarnation.clone(),
        times: config.callback_times,
        asked: Mutex::default(),
        changed: watch::Sender::new(0),
    });
    promises.inherit().await?;
    for stage in [Stage::Callback, Stage::Handoff] {
        service.gates.follow_health(stage, promises.sealed().is_none());
    }
    tokio::spawn(promises.clone().keep());
    service.set_promises(promises);
    if let Some(twilio) = Twilio::open(config)? {
        service.set_twilio(twilio);
    }
    if let Some(ari) = Ari::open(config)? {
        service.set_ari(ari);
    }
    dialler::begin(service);
    Ok(())
}

fn limits(gates: &Gates) -> Limits {
    let records = bound(gates);
    Limits { records, tenant: records, ..Limits::default() }
}

impl Promises {
    /// The store behind them.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Why nothing can be promised now, if so.
    pub fn sealed(&self) -> Option<String> {
        match &*self.store.health().borrow() {
            Health::Open => None,
            Health::Sealed(why) => Some(why.to_string()),
        }
    }

    /// Turns with everything that changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn told(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// This one has changed.
    pub(super) fn tell(&self, news: News<'_>) {
        self.hooks.tell(news);
        self.told();
    }

    /// Records that were there before this process hold their units again.
    async fn inherit(&self) -> Result<(), OpenError> {
        // Without them the gate would promise more than it may.
        let open = self.open_ones().await.map_err(|refused| OpenError::Unreachable {
            place: "the callback store".to_owned(),
            detail: refused.to_string(),
        })?;
        open.into_iter().for_each(|id| self.gates.inherit_promise(id));
        Ok(())
    }

    /// Every promise that still has to be kept.
    async fn open_ones(&self) -> Result<BTreeSet<CallbackId>, Refused> {
        let mut open = BTreeSet::new();
        loop {
            let after = open.last().copied();
            let query = Query {
                shelf: Some(Shelf::Open),
                after,
                limit: store::BATCH_MAX,
                ..Query::default()
            };
            let page = self.store.list(query).await?;
            open.extend(page.iter().map(|record| record.id));
            if page.is_empty() {
                return Ok(open);
            }
        }
    }

    /// Does what time alone does, follows the store's health, gives units back.
    async fn keep(self: Arc<Self>) {
        let mut health = self.store.health();
        let mut ticks = tokio::time::interval(SWEEP_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.sweep().await,
                changed = health.changed() => if changed.is_err() { return },
            }
            let open = *health.borrow_and_update() == Health::Open;
            self.gates.follow_health(Stage::Callback, open);
            self.gates.follow_health(Stage::Handoff, open);
        }
    }

    async fn sweep(&self) {
        let now_ms = unix_ms();
        while let Ok(swept) = self.store.sweep(now_ms).await {
            if swept.expired + swept.unknown + swept.due + swept.released > 0 {
                self.told();
            }
            if !swept.more {
                break;
            }
        }
        if let Ok(ended) = self.store.handoff(HandoffAsk::Sweep, now_ms).await {
            for handoff in ended {
                self.handoff_ended(&handoff);
            }
        }
        self.reconcile().await;
    }

    /// Units of promises that have ended come back, whoever ended them.
    async fn reconcile(&self) {
        // Before the list: what is promised while it is read is in none.
        let promised = self.gates.promised();
        if promised.is_empty() {
            return;
        }
        let Ok(open) = self.open_ones().await else { return };
        for id in promised.into_iter().filter(|id| !open.contains(id)) {
            self.gates.fulfil_promise(id);
            if let Ok(Some(record)) = self.store.get(id).await {
                self.tell(News::Callback(&record));
            }
        }
    }

    // === callbacks ===

    /// A callback as a call wishes it.
    pub fn offer(&self, wish: &Wish, promisee: &Promisee) -> Offer {
        let now_ms = unix_ms();
        let Times { expires_ms, attempts_max, backoff_ms } = self.times;
        let name = format!("{}/{}/{}", self.incarnation, promisee.call, promisee.turn);
        // A number without its country's code has no other form than the one that was said.
        let destination = canonical(&wish.destination).unwrap_or_else(|| wish.destination.clone());
        Offer {
            tenant: promisee.tenant.clone(),
            key: Some(Key { digest: destination.clone(), name }),
            destination,
            why: wish.about.to_owned(),
            language: wish.language.clone(),
            call: promisee.call.clone(),
            incarnation: self.incarnation.clone(),
            born_ms: now_ms,
            not_before_ms: now_ms,
            expires_ms: now_ms + expires_ms,
            attempts_max,
            backoff_ms,
            consent: Consent {
                asked: wish.asked.clone(),
                said: wish.said.clone(),
                at_ms: now_ms,
                call: promisee.call.clone(),
                turn: promisee.turn,
            },
            quiet: None,
            authorisation: format!("agent:{}", promisee.agent),
            replays: None,
        }
    }

    /// Puts it on record. The receipt is there when the commit is.
    pub async fn promise(&self, offer: Offer) -> Arranged {
        if let Some(barred) = self.policy.bars(&offer.destination) {
            return Arranged::Refused(barred.label());
        }
        for _ in 0..DUPLICATES_MAX {
            match self.accept(offer.clone(), unix_ms()).await {
                Ok(accepted) => {
                    return match accepted.receipt {
                        Some(receipt) => Arranged::Callback(receipt),
                        None => Arranged::Refused("ended"),
                    };
                }
                Err(Refused::Duplicate { existing }) => {
                    match self.store.promised(existing).await {
                        // It is on record: the caller is told what is true.
                        Ok(Some(receipt)) => return Arranged::Callback(receipt),
                        // It has ended since: there is none any more.
                        Ok(None) => {}
                        Err(_) => return Arranged::Unknown,
                    }
                }
                // The commit was under way when the store sealed itself: nobody knows.
                Err(Refused::Sealed(_)) => return Arranged::Unknown,
                Err(refused) => return Arranged::Refused(refused.label()),
            }
        }
        Arranged::Unknown
    }

    /// Changes a record; a promise that has ended gives its unit back.
    pub async fn change(&self, id: CallbackId, change: Change) -> Result<Record, Refused> {
        let change = match change {
            Change::Settle(epoch, settlement) if settlement.retry_at_ms.is_none() => {
                Change::Settle(epoch, self.spaced(id, settlement).await)
            }
            change => change,
        };
        let record = self.store.change(id, change, unix_ms()).await?;
        if record.state.is_terminal() {
            self.gates.fulfil_promise(id);
        }
        self.tell(News::Callback(&record));
        Ok(record)
    }

    // === handoffs ===

    /// Asks a human, at the operator page or at a desk that is rung, and waits until they are
    /// connected, or it has come to nothing. What comes meanwhile goes to the call, which says when
    /// it waits no more, and why.
    pub async fn hand_over(
        self: &Arc<Self>,
        wish: &Wish,
        promisee: &Promisee,
        desk: Option<Desk>,
        out: mpsc::Sender<Arranged>,
        mut given_up: oneshot::Receiver<Cancelled>,
    ) -> Ended {
        let done = Ended { proof: Ok(Evidence::Completed), fault: None };
        let now_ms = unix_ms();
        if desk.as_ref().is_some_and(Desk::is_rung) && !self.may_ring(&promisee.tenant, now_ms) {
            // The call is gone when nobody hears this.
            let _ = out.send(Arranged::Refused("dials_per_hour")).await;
            return done;
        }
        let within = desk.as_ref().map_or(HANDOFF_MAX, |desk| desk.within);
        let acknowledge_by_ms = now_ms + within.as_millis() as u64;
        let offer = HandoffOffer {
            tenant: promisee.tenant.clone(),
            target: desk.as_ref().map_or("operators", |desk| &desk.target).to_owned(),
            call: promisee.call.clone(),
            incarnation: self.incarnation.clone(),
            why: wish.about.to_owned(),
            language: wish.language.clone(),
            born_ms: now_ms,
            acknowledge_by_ms,
            connect_by_ms: acknowledge_by_ms + CONNECT_MAX.as_millis() as u64,
        };
        let handoff = match self.store.offer_handoff(offer, now_ms).await {
            Ok(handoff) => handoff,
            Err(refused) => {
                // The call is gone when nobody hears this.
                let _ = out.send(Arranged::Refused(refused.label())).await;
                return done;
            }
        };
        let (to, mut news) = mpsc::channel(4);
        let id = handoff.id;
        self.asked().insert(id, to);
        self.tell(News::Handoff(&handoff));
        // Gone with this: then nobody waits for the desk.
        let (_waits, over) = oneshot::channel();
        if let Some(desk) = desk {
            tokio::spawn(desk.work(self.clone(), id, over));
        }
        loop {
            let came = tokio::select! {
                came = news.recv() => came,
                why = &mut given_up => {
                    self.given_up(id, why.unwrap_or(Cancelled::HangUp)).await;
                    self.asked().remove(&id);
                    return done;
                }
            };
            // It has ended, and whoever ended it has told so.
            let Some(came) = came else { return done };
            let goes_on = matches!(came, Arranged::Acknowledged(_));
            let gone = out.send(came).await.is_err();
            if !goes_on || gone {
                self.asked().remove(&id);
                return done;
            }
        }
    }

    /// There is room for one more dial of ours within the hour.
    pub(super) fn may_ring(&self, tenant: &str, now_ms: UnixMs) -> bool {
        let mut dialled = self.dialled.lock().unwrap_or_else(PoisonError::into_inner);
        dialled.count_ours(&self.policy, tenant, now_ms).is_ok()
    }

    /// The call waits no more. An end that came first stays as it is.
    async fn given_up(&self, id: HandoffId, why: Cancelled) {
        // Its time is judged by the call's clock, which runs out before the record's.
        let end = match why {
            Cancelled::Superseded => HandoffState::Timeout,
            Cancelled::BargeIn | Cancelled::Client | Cancelled::HangUp | Cancelled::Drain => {
                HandoffState::CallerLeft
            }
        };
        match self.store.end_handoff(id, end, unix_ms()).await {
            Ok(handoff) => self.tell(News::Handoff(&handoff)),
            Err(_) => self.told(),
        }
    }

    /// This human takes the caller.
    pub async fn acknowledge(&self, id: HandoffId, by: String) -> Result<Handoff, Refused> {
        let ack = self.store.acknowledge(id, by, unix_ms()).await?;
        let waiting = self.asked().get(&id).cloned();
        let heard = match waiting {
            Some(call) => call.send(Arranged::Acknowledged(ack)).await.is_ok(),
            None => false,
        };
        if !heard {
            // Whoever said yes is told at once that nobody is there any more.
            self.given_up(id, Cancelled::HangUp).await;
        }
        let handoff = self.handoff(id).await?;
        if !heard {
            return Err(Refused::HandoffIs { state: handoff.state });
        }
        self.tell(News::Handoff(&handoff));
        Ok(handoff)
    }

    /// It has come to this.
    pub async fn end_handoff(&self, id: HandoffId, end: HandoffState) -> Result<Handoff, Refused> {
        let handoff = self.store.end_handoff(id, end, unix_ms()).await?;
        self.handoff_ended(&handoff);
        Ok(handoff)
    }

    fn handoff_ended(&self, handoff: &Handoff) {
        self.tell(News::Handoff(handoff));
        let arranged = match handoff.state {
            HandoffState::Connected => Arranged::Connected,
            HandoffState::Busy => Arranged::NotReached(NotReached::Busy),
            HandoffState::NoAnswer => Arranged::NotReached(NotReached::NoAnswer),
            HandoffState::Declined => Arranged::NotReached(NotReached::Declined),
            HandoffState::Voicemail => Arranged::NotReached(NotReached::Voicemail),
            HandoffState::Timeout => Arranged::NotReached(NotReached::Timeout),
            HandoffState::CallerLeft | HandoffState::Offered | HandoffState::Acknowledged => return,
        };
        if let Some(call) = self.asked().remove(&handoff.id) {
            // It has room for all that a handoff can tell.
            let _ = call.try_send(arranged);
        }
    }

    fn asked(&self) -> std::sync::MutexGuard<'_, BTreeMap<HandoffId, mpsc::Sender<Arranged>>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
