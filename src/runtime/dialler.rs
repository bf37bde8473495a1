//! Who dials callbacks from within the server: claims what is due, looks once more whether it may,
//! passes the call gate, dials, and settles. What dials is a [`Line`].
//!
//! A record whose claim lapsed while it was being dialled is never claimed again (`unknown_dial`),
//! so that nothing here dials twice.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::MissedTickBehavior;

use super::dial_sip::SipLine;
use super::http::slot::{self, NoSlot, Slot};
use super::operated::NotDialled;
use super::phone;
use super::promises::{Promises, unix_ms};
use super::service::{Accepted, Service};
use super::twilio::TwilioLine;
use super::variables::Variables;
use crate::admission::{Offer, OwnerId, Release};
use crate::codec::g711;
use crate::config::{Agent, DialledBy, Stubbed};
use crate::evidence::Evidence;
use crate::leg::FromCaller;
use crate::store::{Change, Outcome, Record, Refused, Settlement};
use crate::transport::Leg;
use crate::turn::answered::{Answered, Who};

/// How often it is looked for due ones where nothing changes.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a claim holds: longer than ringing takes, and a commit or two.
const LEASE_MS: u64 = 120_000;
/// When one is tried again that found no room for its call.
const NO_ROOM_MS: u64 = 15_000;
/// Owners of dialled calls at the call gate.
const DIAL_OWNERS: u64 = 1 << 60;

/// What an attempt came to.
pub struct Attempt {
    /// In a word; none: nobody knows, and it is not settled. Its claim lapses, so that nobody dials
    /// again by themselves.
    pub outcome: Option<Outcome>,
    /// In others.
    pub detail: String,
    /// When to try again, where somebody has said so.
    pub retry_at_ms: Option<u64>,
    /// Who has been reached, to be spoken with.
    pub leg: Option<Box<dyn Leg>>,
}

impl Attempt {
    /// There is nobody to be spoken with.
    pub fn alone(outcome: Outcome, detail: impl Into<String>) -> Attempt {
        Attempt { outcome: Some(outcome), detail: detail.into(), retry_at_ms: None, leg: None }
    }

    /// Nothing was dialled.
    pub fn no_line(why: impl Into<String>) -> Attempt {
        Attempt::alone(Outcome::NotDialled, why)
    }

    /// The same, and there may be a line after this time.
    pub fn not_now(why: impl Into<String>, after: Option<Duration>) -> Attempt {
        let retry_at_ms = after.map(|after| unix_ms() + after.as_millis() as u64);
        Attempt { retry_at_ms, ..Attempt::no_line(why) }
    }

    /// Somebody may have been rung.
    pub fn unknown(why: impl Into<String>) -> Attempt {
        Attempt { outcome: None, ..Attempt::no_line(why) }
    }

    /// Whoever has answered on this leg is listened to for so long at most, and is then spoken with
    /// where they are a person. Without a limit all are.
    pub async fn with(mut leg: Box<dyn Leg>, limit: Option<Duration>, line: &str) -> Attempt {
        match who(&mut *leg, limit).await {
            Some(Who::Person) => {
                Attempt { leg: Some(leg), ..Attempt::alone(Outcome::Connected, line) }
            }
            Some(Who::Machine) => Attempt::alone(Outcome::Voicemail, "a machine answered"),
            None => Attempt::alone(Outcome::NoAnswer, "hung up before a word"),
        }
    }
}

/// Who has answered; none: they have gone.
pub(super) async fn who(leg: &mut dyn Leg, limit: Option<Duration>) -> Option<Who> {
    let Some(limit) = limit else { return Some(Who::Person) };
    let mut answered = Answered::new(limit.as_millis() as u32);
    loop {
        match poll_fn(|cx| leg.poll_recv(cx)).await {
            FromCaller::Audio(samples) => {
                if let Some(who) = answered.hear(&samples) {
                    return Some(who);
                }
            }
            // Machines press no keys.
            FromCaller::Dtmf(_) => return Some(Who::Person),
            FromCaller::Gone { .. } => return None,
            _ => {}
        }
    }
}

/// What an attempt came to, in the end.
pub type Dialled = Pin<Box<dyn Future<Output = Attempt> + Send>>;

/// What dials.
pub trait Line: Send + Sync {
    /// Its name, as a worker's.
    fn name(&self) -> &'static str;

    /// What its far end has buffered is thrown away when the agent pauses.
    fn stops_at_pause(&self) -> bool {
        false
    }

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
            Stubbed::Voicemail => Outcome::Voicemail,
        };
        Box::pin(std::future::ready(Attempt::alone(outcome, "stub")))
    }
}

/// Begins to dial, where the configuration says so.
pub(super) fn begin(service: &Arc<Service>) {
    let Some(promises) = service.promises() else { return };
    let dialling = service.config.dialling;
    let line: Arc<dyn Line> = match dialling.by {
        DialledBy::Workers => return,
        DialledBy::Stub => Arc::new(Stub(dialling.stub_outcome)),
        DialledBy::Sip => Arc::new(SipLine::new(service)),
        DialledBy::Twilio => Arc::new(TwilioLine::new(service)),
    };
    let dialler = Dialler {
        line,
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
                match dial(&service, &promises, &*line, record).await {
                    Ok(reached) => {
                        drop(place);
                        if let Some(reached) = reached {
                            reached.speak(service, line.stops_at_pause()).await;
                        }
                    }
                    Err(refused) => {
                        tracing::warn!("a callback's attempt is not on record: {refused}");
                    }
                }
            });
        }
    }
}

/// Somebody who has answered.
struct Reached {
    record: Record,
    leg: Box<dyn Leg>,
    slot: Slot,
}

async fn dial(
    service: &Service,
    promises: &Promises,
    line: &dyn Line,
    record: Record,
) -> Result<Option<Reached>, Refused> {
    let (id, epoch) = (record.id, record.epoch);
    let settle = |outcome, retry_at_ms, detail: &str| {
        let detail = detail.to_owned();
        promises.change(id, Change::Settle(epoch, Settlement { outcome, retry_at_ms, detail }))
    };
    let mut slot = match call_slot(service, &record).await {
        Ok(slot) => slot,
        Err(_) => {
            let retry_at_ms = Some(unix_ms() + NO_ROOM_MS);
            return settle(Outcome::NotDialled, retry_at_ms, "no_room").await.map(|_| None);
        }
    };
    let record = match promises.start_dialling(id, epoch).await {
        Ok(record) => record,
        Err(NotDialled::Forbidden { .. }) => return Ok(None),
        Err(NotDialled::Refused(refused)) => return Err(refused),
    };
    let Attempt { outcome, detail, retry_at_ms, leg } = line.dial(&record).await;
    let settled = match outcome {
        Some(outcome) => settle(outcome, retry_at_ms, &detail).await.map(drop),
        None => {
            tracing::warn!("{id}: nobody knows whether it was dialled: {detail}");
            Ok(())
        }
    };
    let Some(leg) = leg else {
        if let Some(lease) = slot.use_it() {
            service.gates.settle(lease, Release::Completed(Evidence::Completed));
        }
        return settled.map(|_| None);
    };
    // Whoever has answered is spoken with, whatever the store says.
    if let Err(refused) = settled {
        tracing::warn!("a callback that was answered is not on record: {refused}");
    }
    Ok(Some(Reached { record, leg, slot }))
}

impl Reached {
    /// The agent speaks with them, as with everybody who rings.
    async fn speak(self, service: Arc<Service>, stops_at_pause: bool) {
        let Reached { record, leg, slot } = self;
        let mut slot = slot.of_caller(service.callers.arrive());
        let Some(lease) = slot.use_it() else { return };
        let call = service.next_call();
        let Record { id, offer, .. } = record;
        let outbound = &service.config.outbound;
        // Whoever promised it keeps it.
        let promised_by = offer.authorisation.strip_prefix("agent:").unwrap_or_default();
        let agent = service.config.agent(promised_by);
        let agent = agent.unwrap_or_else(|| service.config.default_agent()).clone();
        let agent = Agent { greeting: outbound.greeting.clone(), ..agent };
        let params = [
            ("Callback", id.to_string()),
            ("Callback-Why", offer.why),
            ("Callback-Call", offer.call),
        ];
        let known = Variables {
            call: call.to_string(),
            transport: leg.name(),
            // Where they can be rung is where they were.
            from: offer.destination,
            to: outbound.from.clone(),
            tenant: offer.tenant.clone(),
            params: params.map(|(name, value)| (name.to_owned(), value)).into(),
        };
        let tenant = service.tenants.find(Some(&offer.tenant));
        let settings = phone::settings(&service, &agent, &known, g711::RATE_HZ, stops_at_pause);
        let accepted = Accepted::new(&service, call, tenant, &agent, &known);
        service.run_call(lease, accepted, settings, leg).await;
        drop(slot);
    }
}

/// A slot at the call gate, in the class of callbacks where there is one.
async fn call_slot(service: &Service, record: &Record) -> Result<Slot, NoSlot> {
    let owner = OwnerId(DIAL_OWNERS | service.next_call().0);
    let tenant = service.tenants.find(Some(&record.offer.tenant));
    let class = service.config.classes.find(Some("callback"));
    slot::take(&service.gates, owner, |offer| Offer { tenant, class, ..offer }).await
}
