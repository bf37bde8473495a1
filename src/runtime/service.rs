//! What all calls of a process share, and how a call is begun and supervised.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::Semaphore;

use super::ari::Ari;
use super::backends::Backends;
use super::callers::Callers;
use super::change::Changes;
use super::clock::Clock;
use super::destination::canonical;
use super::driver::{self, Driver};
use super::gates::Gates;
use super::metrics::Metrics;
use super::promises::Promises;
use super::prompts::PromptSounds;
use super::record::{Record, Registry};
use super::twilio::Twilio;
use super::variables::Variables;
use crate::admission::limits::Limits;
use crate::admission::{Lease, Release};
use crate::call::{Identity, Profile};
use crate::config::{Abilities, Agent, Config};
use crate::evidence::Evidence;
use crate::id::{CallId, Stage, TenantId};
use crate::leg::{HangUp, Settings};
use crate::transport::asterisk::audiosocket;
use crate::transport::{Leg, sip};

/// End-of-turn models that may run at once: they are CPU work of this machine.
const JUDGES_MAX: usize = 2;

/// What all calls share.
pub struct Service {
    /// The clock.
    pub clock: Clock,
    /// The configuration as meant.
    pub config: Config,
    /// The gates.
    pub gates: Gates,
    /// Names of tenants, by their number.
    pub tenants: Tenants,
    /// Who calls, from the handshake to the last word.
    pub callers: Callers,
    /// Every call's record.
    pub registry: Registry,
    /// Prompts rendered ahead.
    pub prompts: PromptSounds,
    /// Counters and histograms.
    pub metrics: Metrics,
    /// Limits changed at run time.
    pub changes: Changes,
    /// This process's name, in every metric and record.
    pub incarnation: String,
    /// Bounds the end-of-turn model's threads. No admission: it is our own CPU, and late is only
    /// late.
    pub judges: Semaphore,
    backends: OnceLock<Backends>,
    promises: OnceLock<Arc<Promises>>,
    sip: OnceLock<Arc<sip::Shared>>,
    twilio: OnceLock<Arc<Twilio>>,
    ari: OnceLock<Arc<Ari>>,
    /// What came by AudioSocket and went no further.
    pub audiosocket: Arc<audiosocket::Counts>,
    draining: AtomicBool,
    ending: tokio::sync::watch::Sender<bool>,
    next_call: AtomicU64,
}

/// What callers without a tenant are called: together they are one (B-062).
pub const NO_TENANT: &str = "none";

/// Names of tenants; 0 is nobody's.
#[derive(Debug, Default)]
pub struct Tenants {
    numbers: BTreeMap<String, TenantId>,
}

impl Tenants {
    /// The tenants that the keys file and the telephones' own settings name.
    pub fn of(config: &Config) -> Tenants {
        let keys = config.auth.keys.iter().flatten();
        let named = keys.filter_map(|key| key.tenant.clone());
        let phones =
            [&config.twilio.tenant, &config.sip.tenant, &config.asterisk.audiosocket_tenant];
        let named = named.chain(phones.into_iter().flatten().cloned());
        let mut numbers = BTreeMap::new();
        for name in named {
            let next = TenantId(numbers.len() as u32 + 1);
            numbers.entry(name).or_insert(next);
        }
        Tenants { numbers }
    }

    /// The tenant of this name.
    pub fn find(&self, name: Option<&str>) -> TenantId {
        name.and_then(|name| self.numbers.get(name).copied()).unwrap_or_default()
    }

    /// The name of this tenant.
    pub fn name(&self, tenant: TenantId) -> Option<&str> {
        self.numbers.iter().find(|(_, id)| **id == tenant).map(|(name, _)| name.as_str())
    }
}

impl Service {
    /// A service whose providers are still to come.
    pub fn new(
        config: Config,
        gates: Gates,
        clock: Clock,
        prompts: PromptSounds,
        incarnation: String,
    ) -> Service {
        Service {
            clock,
            tenants: Tenants::of(&config),
            metrics: Metrics::new(&incarnation),
            changes: Changes::default(),
            config,
            gates,
            callers: Callers::default(),
            registry: Registry::default(),
            prompts,
            incarnation,
            judges: Semaphore::new(JUDGES_MAX),
            backends: OnceLock::new(),
            promises: OnceLock::new(),
            sip: OnceLock::new(),
            twilio: OnceLock::new(),
            ari: OnceLock::new(),
            audiosocket: Arc::default(),
            draining: AtomicBool::new(false),
            ending: tokio::sync::watch::Sender::new(false),
            next_call: AtomicU64::new(1),
        }
    }

    /// The providers, once they are there.
    pub fn backends(&self) -> Option<&Backends> {
        self.backends.get()
    }

    /// What the server promises, once its store is there.
    pub fn promises(&self) -> Option<&Arc<Promises>> {
        self.promises.get()
    }

    /// What telephone calls share, where there are any.
    pub fn sip(&self) -> Option<&Arc<sip::Shared>> {
        self.sip.get()
    }

    /// Calls that Twilio makes for us, where it does.
    pub fn twilio(&self) -> Option<&Arc<Twilio>> {
        self.twilio.get()
    }

    /// Asterisk's REST interface, where there is one.
    pub fn ari(&self) -> Option<&Arc<Ari>> {
        self.ari.get()
    }

    /// Asterisk can be told of its calls.
    pub fn set_ari(&self, ari: Arc<Ari>) {
        // Only the start sets it, once.
        let _ = self.ari.set(ari);
    }

    /// Twilio can make calls.
    pub fn set_twilio(&self, twilio: Arc<Twilio>) {
        // Only the start sets it, once.
        let _ = self.twilio.set(twilio);
    }

    /// Telephones can ring.
    pub fn set_sip(&self, shared: Arc<sip::Shared>) {
        // Only the start sets it, once.
        let _ = self.sip.set(shared);
    }

    /// The store is there.
    pub fn set_promises(&self, promises: Arc<Promises>) {
        // Only the start sets it, once.
        let _ = self.promises.set(promises);
    }

    /// The providers are there.
    pub fn set_backends(&self, backends: Backends) {
        // Only the start sets them, once.
        let _ = self.backends.set(backends);
    }

    /// New calls are refused because the server drains.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Begins or ends the drain.
    pub fn set_draining(&self, on: bool) {
        self.draining.store(on, Ordering::Release);
    }

    /// The drain's window has closed: every call ends now.
    pub fn end_calls(&self) {
        self.ending.send_replace(true);
    }

    /// Turns true when every call has to end.
    pub fn ending(&self) -> tokio::sync::watch::Receiver<bool> {
        self.ending.subscribe()
    }

    /// A name for a call to be.
    pub fn next_call(&self) -> CallId {
        CallId(self.next_call.fetch_add(1, Ordering::Relaxed))
    }

    /// The gate's name as the API, the events and the metrics write it.
    pub fn gate_name(&self, stage: Stage) -> String {
        self.config.gate_name(stage)
    }

    /// The stage whose gate has this name.
    pub fn stage_named(&self, name: &str) -> Option<Stage> {
        self.gates.stages().find(|stage| self.gate_name(*stage) == name)
    }

    /// A gate's limits as the configuration has them.
    pub fn configured_limits(&self, stage: Stage) -> Limits {
        self.config.gate_limits(stage).meant()
    }

    /// How long after a cancel a run of this stage must have proven its end.
    pub fn evidence(&self, stage: Stage) -> Duration {
        let changed = self.changes.effective(stage);
        changed.map_or(self.config.gate_limits(stage).evidence, |limits| limits.evidence)
    }

    /// What the providers can do.
    pub fn abilities(&self) -> Abilities {
        let Some(backends) = self.backends() else { return Abilities::default() };
        Abilities {
            detects: backends.detector.is_some(),
            judges_turns: backends.end_of_turn.is_some(),
            partials: backends.asr.as_ref().is_some_and(|asr| asr.gives_partials()),
            tool_names: backends.tool_names(),
        }
    }

    /// Runs an admitted call to its end. The slot comes back when nothing of the call is left.
    pub async fn run_call(
        self: Arc<Self>,
        slot: Lease,
        accepted: Accepted,
        settings: Settings,
        leg: Box<dyn Leg>,
    ) {
        let Accepted { mut identity, mut profile, metadata } = accepted;
        profile.lead = leg.lead_max().map_or(profile.lead, |most| profile.lead.min(most));
        profile.far_end_delay = leg.far_end_delay();
        identity.greeting = identity.greeting.filter(|_| leg.greets());
        let (call, owners) = (identity.call, identity.owners());
        let now = self.clock.now();
        let record = Arc::new(Record::new(call, &profile.agent, leg.name(), now, metadata));
        self.registry.add(record.clone());
        let profile = Arc::new(profile);
        let mut driver = Driver::new(self.clone(), identity, profile, settings, leg, record);
        let ran = AssertUnwindSafe(driver.run()).catch_unwind().await;
        if ran.is_err() {
            // The machine is in an unknown state; the leg is only told goodbye.
            let _ = AssertUnwindSafe(driver.break_off()).catch_unwind().await;
        }
        let (control, leg) = driver.leave();
        self.gates.settle_crossed(control).await;
        for owner in owners {
            self.gates.forget(owner);
        }
        let (why, release) = match ran {
            Ok(why) => (why, Release::Completed(Evidence::Completed)),
            Err(_) => (HangUp::Broken, Release::Failed(Evidence::Completed)),
        };
        // The call's own task is over, well or by a panic: nothing uses the slot any more.
        let _ = self.gates.settle(slot, release);
        self.metrics.call_ended(why);
        self.registry.end(call, self.clock.now(), why);
        driver::part(leg).await;
    }
}

/// A call that may begin.
pub struct Accepted {
    /// Who calls.
    pub identity: Identity,
    /// Who answers.
    pub profile: Profile,
    /// What is kept with the call.
    pub metadata: BTreeMap<String, String>,
}

impl Accepted {
    /// A call of this tenant to this agent.
    pub fn new(
        service: &Service,
        call: CallId,
        tenant: TenantId,
        agent: &Agent,
        known: &Variables,
    ) -> Accepted {
        let (metadata, greeting) = (known.metadata(agent), known.greeting(agent));
        // Who may not be rung is not offered it.
        let may_ring = |number: &String| {
            let written = canonical(number);
            let policy = &service.config.outbound.policy;
            policy.bars(written.as_deref().unwrap_or(number)).is_none()
        };
        let number = known.number().filter(may_ring);
        let item_prefix = format!("item_{}{:x}_", service.incarnation, call.0);
        let class = service.config.classes.find(agent.class.as_deref());
        let identity = Identity { call, tenant, class, item_prefix, number, greeting };
        let abilities = service.abilities();
        let profile = service.config.profile(agent, &abilities, service.prompts.chooser());
        Accepted { identity, profile, metadata }
    }
}
