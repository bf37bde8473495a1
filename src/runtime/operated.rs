//! Promises as operators and workers have them in hand: put on record, claimed, dialled, looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::Duration;

use super::gates::Gates;
use super::promises::{Promises, unix_ms};
use super::webhook::{HookCounts, News};
use crate::admission::Lease;
use crate::config::{Config, Times};
use crate::fallback::callback::{self, Never, Plan, Quiet, Step, Verdict, Wait};
use crate::id::{CallbackId, HandoffId, Stage};
use crate::store::{
    Accepted, Change, Counts, Handoff, HandoffAsk, HandoffState, Ledger, Limits, Offer, Outcome,
    Query, Record, Refused, Settlement, State, UnixMs,
};

/// How often the account is held against the count before they are said to differ.
const LOOKS_MAX: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Under whose authority something may be dialled: agents that answer here, tenants who have a key.
#[derive(Debug, Default)]
pub(super) struct Authorities {
    agents: BTreeSet<String>,
    tenants: BTreeSet<String>,
}

impl Authorities {
    pub(super) fn of(config: &Config) -> Authorities {
        let keys = config.auth.keys.iter().flatten();
        Authorities {
            agents: config.agents.keys().cloned().collect(),
            tenants: keys.filter_map(|key| key.tenant.clone()).collect(),
        }
    }

    /// Whoever allowed it is still there. What the server's operator asked for needs nobody else.
    fn allow(&self, authorisation: &str) -> bool {
        match authorisation.split_once(':') {
            Some(("agent", name)) => self.agents.contains(name),
            Some(("api", "")) => true,
            Some(("api", tenant)) => self.tenants.contains(tenant),
            Some(_) | None => false,
        }
    }
}

/// Why a claimed callback is not dialled.
#[derive(Debug)]
pub enum NotDialled {
    /// The claim does not hold, or the store cannot tell.
    Refused(Refused),
    /// It must not be: it was settled `not_dialled`.
    Forbidden {
        /// The stable word.
        why: &'static str,
        /// As it is now.
        record: Box<Record>,
    },
}

impl From<Refused> for NotDialled {
    fn from(refused: Refused) -> NotDialled {
        NotDialled::Refused(refused)
    }
}

/// How many promises there are.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Callbacks.
    pub callbacks: Counts,
    /// Open handoffs.
    pub handoffs: BTreeMap<HandoffState, u64>,
}

/// The store's conservation account.
#[derive(Clone, Debug)]
pub struct Account {
    /// What this process has seen.
    pub ledger: Ledger,
    /// Open ones, as the store counts them; none when it could not.
    pub counted: Option<u64>,
    /// Both agree; none when nobody can know here: nothing was counted, or others accept and end
    /// there too.
    pub balances: Option<bool>,
}

impl Promises {
    /// The process that has them.
    pub fn incarnation(&self) -> &str {
        &self.incarnation
    }

    /// How long a callback is worth something where nobody says.
    pub fn times(&self) -> Times {
        self.times
    }

    /// Whether the store takes promises, in words.
    pub fn health(&self) -> String {
        self.sealed().map_or_else(|| "open".to_owned(), |why| format!("sealed: {why}"))
    }

    /// How often something has changed.
    pub fn version(&self) -> u64 {
        *self.changes().borrow()
    }

    /// Waits until something has changed since, for so long at most.
    pub async fn wait_for_change(&self, since: u64, most: Duration) {
        let mut changes = self.changes();
        // Both ends are an answer: what there is now.
        let _ = tokio::time::timeout(most, changes.wait_for(|now| *now != since)).await;
    }

    /// What those who want to know were told.
    pub fn hook_counts(&self) -> Vec<(&'static str, HookCounts)> {
        self.hooks.counts()
    }

    /// How many there are.
    pub async fn seen(&self) -> Result<Seen, Refused> {
        let callbacks = self.store.counts().await?;
        let mut handoffs = BTreeMap::new();
        for handoff in self.handoffs(true, None).await? {
            *handoffs.entry(handoff.state).or_default() += 1;
        }
        Ok(Seen { callbacks, handoffs })
    }

    /// The account, closed: what is open by it has to be what is on record.
    pub async fn account(&self) -> Account {
        let mut looks = 0;
        loop {
            let ledger = self.store.ledger();
            let counted = self.store.counts().await.ok().map(|counts| counts.open);
            let agree = counted.map(|counted| ledger.open() == Some(counted));
            let balances = agree.filter(|_| !self.store.is_shared());
            looks += 1;
            if balances != Some(false) || looks == LOOKS_MAX {
                return Account { ledger, counted, balances };
            }
            // What is committed is counted a moment before it is accounted for.
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    }

    // === callbacks ===

    /// Puts it on record.
    pub async fn accept(&self, offer: Offer, now_ms: UnixMs) -> Result<Accepted, Refused> {
        let fresh = self.hooks.wants_callbacks().then(|| offer.clone());
        // The gate's limit can be changed while the server runs.
        self.store.bound(bound(&self.gates));
        let answer = self.store.accept(offer, now_ms).await;
        match (&answer, fresh) {
            (Ok(accepted), Some(offer)) if !accepted.repeated => {
                self.tell(News::Callback(&Record::new(accepted.id, offer, now_ms)));
            }
            _ => self.told(),
        }
        answer
    }

    /// The unit of an accepted one, for as long as its promise stands.
    pub fn keep_unit(&self, id: CallbackId, lease: Lease) {
        self.gates.keep_promise(id, lease);
    }

    /// This one.
    pub async fn callback(&self, id: CallbackId) -> Result<Record, Refused> {
        self.store.get(id).await?.ok_or(Refused::NotFound)
    }

    /// These.
    pub async fn callbacks(&self, query: Query) -> Result<Vec<Record>, Refused> {
        self.store.list(query).await
    }

    /// Gives a worker due ones.
    pub async fn claim(
        &self,
        worker: String,
        lease_ms: u64,
        max: usize,
    ) -> Result<Vec<Record>, Refused> {
        let records = self.store.claim(worker, lease_ms, max, unix_ms()).await?;
        for record in &records {
            self.tell(News::Callback(record));
        }
        Ok(records)
    }

    /// The holder of this epoch is about to dial; consent, authorisation and quiet hours are looked
    /// at once more: before it is on record, so that a crash leaves no doubt about what was
    /// never dialled, and behind it, as the commit may have taken long.
    pub async fn start_dialling(&self, id: CallbackId, epoch: u64) -> Result<Record, NotDialled> {
        let before = self.callback(id).await?;
        if before.state == State::Claimed && before.epoch == epoch {
            self.check_dial(&before).await?;
            self.count_dial(&before).await?;
        }
        let record = self.change(id, Change::StartDialling(epoch)).await?;
        self.check_dial(&record).await?;
        Ok(record)
    }

    /// An hour has room for so many.
    async fn count_dial(&self, record: &Record) -> Result<(), NotDialled> {
        let counted = {
            let mut dialled = self.dialled.lock().unwrap_or_else(PoisonError::into_inner);
            dialled.count(&self.policy, &record.offer.tenant, unix_ms())
        };
        match counted {
            Ok(()) => Ok(()),
            Err(at_ms) => self.forbid(record, "dials_per_hour", at_ms).await,
        }
    }

    async fn check_dial(&self, record: &Record) -> Result<(), NotDialled> {
        if let Some(barred) = self.policy.bars(&record.offer.destination) {
            return self.forbid(record, barred.label(), u64::MAX).await;
        }
        let (why, retry_at_ms) = match callback::may(Step::Dial, &self.plan(record), unix_ms()) {
            Verdict::Now => return Ok(()),
            Verdict::At(at_ms, Wait::NotBefore) => ("not_before", at_ms),
            Verdict::At(at_ms, Wait::QuietHours) => ("quiet_hours", at_ms),
            // Behind its expiry: it is not tried again.
            Verdict::Never(never) => (word(never), u64::MAX),
        };
        self.forbid(record, why, retry_at_ms).await
    }

    async fn forbid(
        &self,
        record: &Record,
        why: &'static str,
        retry_at_ms: UnixMs,
    ) -> Result<(), NotDialled> {
        let settlement = Settlement {
            outcome: Outcome::NotDialled,
            retry_at_ms: Some(retry_at_ms),
            detail: why.to_owned(),
        };
        let record = self.change(record.id, Change::Settle(record.epoch, settlement)).await?;
        Err(NotDialled::Forbidden { why, record: Box::new(record) })
    }

    /// With the time of the next attempt where whoever settles names none: spaced, spread, out of
    /// quiet hours (C-026, C-041). Behind every expiry where there is none.
    pub(super) async fn spaced(&self, id: CallbackId, settlement: Settlement) -> Settlement {
        // The change that follows says what is wrong.
        let Ok(record) = self.callback(id).await else { return settlement };
        let attempts = match (settlement.outcome, record.state) {
            (Outcome::NotDialled, State::Dialling) => record.attempts.saturating_sub(1),
            (Outcome::Failed, State::Claimed) => record.attempts + 1,
            _ => record.attempts,
        };
        let plan = Plan { attempts, ..plan_of(&record.offer) };
        let at_ms = callback::retry_at_ms(&plan, unix_ms(), rand::random());
        Settlement { retry_at_ms: Some(at_ms.unwrap_or(u64::MAX)), ..settlement }
    }

    fn plan(&self, record: &Record) -> Plan {
        let offer = &record.offer;
        let said = |text: &str| !text.trim().is_empty();
        Plan {
            consented: said(&offer.consent.asked) && said(&offer.consent.said),
            authorised: self.authorities.allow(&offer.authorisation),
            // The attempt that is under way is the one in question.
            attempts: record.attempts - u32::from(record.state == State::Dialling),
            ..plan_of(offer)
        }
    }

    /// Why nobody could be rung for this offer at all.
    pub fn never(&self, offer: &Offer) -> Option<&'static str> {
        if let Some(barred) = self.policy.bars(&offer.destination) {
            return Some(barred.label());
        }
        let plan =
            Plan { authorised: self.authorities.allow(&offer.authorisation), ..plan_of(offer) };
        match callback::may(Step::Offer, &plan, unix_ms()) {
            Verdict::Now | Verdict::At(..) => None,
            Verdict::Never(never) => Some(word(never)),
        }
    }

    // === handoffs ===

    /// This one.
    pub async fn handoff(&self, id: HandoffId) -> Result<Handoff, Refused> {
        let found = self.store.handoff(HandoffAsk::Get(id), unix_ms()).await?;
        found.into_iter().next().ok_or(Refused::NotFound)
    }

    /// The open ones, or all that are kept, the newest first: everybody's, or this tenant's.
    pub async fn handoffs(
        &self,
        open: bool,
        tenant: Option<String>,
    ) -> Result<Vec<Handoff>, Refused> {
        self.store.handoff(HandoffAsk::List { open, tenant }, unix_ms()).await
    }
}

/// What an offer says of itself, before its first attempt.
fn plan_of(offer: &Offer) -> Plan {
    Plan {
        consented: true,
        authorised: true,
        not_before_ms: offer.not_before_ms,
        expires_ms: offer.expires_ms,
        attempts: 0,
        attempts_max: offer.attempts_max,
        backoff_ms: offer.backoff_ms,
        backoff_max_ms: Limits::default().backoff_ms,
        quiet: offer.quiet.map(|quiet| Quiet {
            from_minute: quiet.from_minute,
            to_minute: quiet.to_minute,
            utc_offset_minutes: quiet.utc_offset_minutes,
        }),
    }
}

/// How many callbacks may be open: what the gate has units for now, in every mode. What is on
/// record is bounded by the same, also over a fleet.
pub(super) fn bound(gates: &Gates) -> u64 {
    let slots = gates.look(Stage::Callback, |gate| gate.limits().slots.units()).flatten();
    slots.map_or(u64::MAX >> 1, u64::from)
}

fn word(never: Never) -> &'static str {
    match never {
        Never::NoConsent => "no_consent",
        Never::NotAuthorised => "not_authorised",
        Never::Expired => "expired",
        Never::AttemptsSpent => "attempts_spent",
        Never::NoTimeLeft => "no_time_left",
    }
}
