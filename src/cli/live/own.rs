//! Our own server in this process, with a script's configuration, and what is done to it from
//! outside.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;

use super::ears::{Asked, Hears, Recorded, Said, placeholder};
use crate::admission::limits::CloseMode;
use crate::admission::{Admit, Answer, Cancelled, Closed, Lease, Offer, OwnerId, Release, Wake};
use crate::config::{Chosen, Config, Fallback};
use crate::evidence::Evidence;
use crate::id::{Generation, Stage};
use crate::provider::ear::{DETECTORS, OFF};
use crate::provider::{BuildError, Surroundings, find};
use crate::runtime::backends::Backends;
use crate::runtime::change::Change;
use crate::runtime::gates::WAITS_MAX;
use crate::runtime::http;
use crate::runtime::record::Record;
use crate::runtime::service::Service;
use crate::runtime::serving::Serving;
use crate::runtime::start;
use crate::sim::script::{Handled, Held, Listener, Script};

/// Owner of units that the script holds by hand.
const HOLDER: OwnerId = OwnerId(u64::MAX);
/// What no unit can be had for at once is not held.
const HOLD_WAIT: Duration = Duration::from_millis(20);
/// What a call owes has to be back by then.
const TEARDOWN: Duration = Duration::from_secs(30);
/// The rate of the wire.
const LEG_RATES_HZ: [u32; 1] = [24_000];
/// The detector inside this program.
const SMALL_DETECTOR: &str = "earshot";

/// A server for one script.
pub(super) struct Own {
    serving: Serving,
    /// Which detector listens.
    pub(super) detector: String,
    /// What the caller says, for the recogniser.
    pub(super) said: Arc<Said>,
    /// What the model was asked.
    pub(super) asked: Arc<Asked>,
    /// The scripted recogniser decides what was understood, not the sound.
    pub(super) hears_script: bool,
    holds: Vec<Vec<Lease>>,
    wakes: mpsc::Receiver<Wake>,
    control: mpsc::Sender<Wake>,
}

impl Own {
    /// Begins to serve with a script's configuration, as `serve` does; `machine` says where this
    /// machine's models are.
    pub(super) async fn start(script: &Script, machine: &Config) -> Result<Own, String> {
        let mut config = script.config.clone();
        config.listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        config.webrtc.listen = None;
        config.models = machine.models.clone();
        let hears_script = config.asr.provider == "scripted";
        if hears_script {
            config.asr.table.insert("text".to_owned(), placeholder().into());
        }
        let scripted =
            |(name, tool): (&String, &Chosen)| (tool.provider == "scripted").then(|| name.clone());
        let tools: Vec<String> = config.tools.iter().filter_map(scripted).collect();
        config.agents.values_mut().for_each(|agent| agent.tools.clone_from(&tools));
        if let Listener::Detector(name) = script.scene.listener
            && config.vad.provider != name
        {
            config.vad = Chosen { provider: name.to_owned(), table: toml::Table::new() };
        }
        let detector = choose_detector(&mut config)?;
        let fallback = Fallback::load(None).map_err(|errors| errors.to_string())?;
        let listening = http::bind(config.listen).await.map_err(|e| e.to_string())?;
        let serving = Serving::begin(config, fallback, listening)?;
        let (said, asked) = (Arc::<Said>::default(), Arc::<Asked>::default());
        let loading = serving.service.clone();
        let built = tokio::task::spawn_blocking(move || start::build(&loading.config)).await;
        let mut backends = built.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        listen_in(&mut backends, hears_script, &said, &asked);
        for agent in serving.service.config.agents.values() {
            serving.service.prompts.warm(&agent.language, &LEG_RATES_HZ);
        }
        start::open(&serving.service, backends);
        let (control, wakes) = mpsc::channel(WAITS_MAX);
        let holds = script.gates.iter().map(|_| Vec::new()).collect();
        Ok(Own { serving, detector, said, asked, hears_script, holds, wakes, control })
    }

    /// Where it listens.
    pub(super) fn url(&self) -> String {
        format!("ws://{}/v1/realtime", self.serving.address)
    }

    fn service(&self) -> &Service {
        &self.serving.service
    }

    /// How long ago the call's record began.
    pub(super) fn since_began(&self, record: &Record) -> Duration {
        self.service().clock.now().since(record.began)
    }

    /// The record of the one call there is.
    pub(super) fn record(&self) -> Option<Arc<Record>> {
        self.service().registry.find("call-1")
    }

    /// The record's lines behind the first so many.
    pub(super) fn lines(&self, known: usize) -> Vec<String> {
        let Some(record) = self.record() else { return Vec::new() };
        let shown = record.show();
        let dropped = shown["trace_lines_dropped"].as_u64().unwrap_or(0) as usize;
        let lines = shown["trace"].as_array().map(Vec::as_slice).unwrap_or_default();
        let new = lines.iter().skip(known.saturating_sub(dropped));
        new.filter_map(|line| line.as_str().map(str::to_owned)).collect()
    }

    /// Somebody else takes units or changes limits, or undoes that.
    pub(super) fn hold(&mut self, at: usize, held: &Held, take: bool) -> Result<(), String> {
        let service = self.serving.service.clone();
        let stage = service.stage_named(&held.gate);
        let Some(stage) = stage else {
            return Err(format!("gate[{}]: there is no gate {}", at + 1, held.gate));
        };
        let units = match held.what {
            Handled::Holds(_) if !take => {
                self.release(at);
                return Ok(());
            }
            Handled::Holds(units) => units,
            Handled::Limits { slots, queue } => {
                let value = |given: u32| if take { json!(given) } else { json!("inherit") };
                let given = [("slots", slots.map(value)), ("queue", queue.map(value))];
                let given = given.into_iter().filter_map(|(key, to)| Some((key.to_owned(), to?)));
                let change = Change::parse(&serde_json::Value::Object(given.collect()));
                let changed =
                    change.and_then(|change| service.changes.apply(&service, stage, change));
                return changed.map_err(|wrong| format!("gate[{}]: {wrong}", at + 1));
            }
        };
        let mut gates = service.gates.for_owner(self.control.clone());
        let now = service.clock.now();
        gates.rotate(now, HOLDER, Generation(0), Cancelled::Client);
        for _ in 0..units {
            let offer = Offer::plain(gates.name_offer(), HOLDER, now, now + HOLD_WAIT);
            if let Answer::Admitted(lease) = gates.ask(now, stage, offer) {
                self.holds[at].push(lease);
            }
        }
        Ok(())
    }

    fn release(&mut self, at: usize) {
        for lease in std::mem::take(&mut self.holds[at]) {
            self.service().gates.settle(lease, Release::Completed(Evidence::Operator));
        }
        // Grants that came too late for a hold go back unused.
        while let Ok(wake) = self.wakes.try_recv() {
            if let Wake::Granted { lease, .. } = wake {
                self.service().gates.settle_unused(lease);
            }
        }
    }

    /// The drain's window closes: every call ends now.
    pub(super) fn drain(&self) {
        let service = self.service();
        service.set_draining(true);
        service.gates.close(Stage::Call, Closed::Draining, CloseMode::EndQueue);
        service.end_calls();
    }

    /// Waits until the call is over and nothing is owed; says what is left.
    pub(super) async fn settle(&mut self) -> Vec<String> {
        for at in 0..self.holds.len() {
            self.release(at);
        }
        let over = async {
            while self.service().registry.live_count() > 0 {
                self.service().registry.changed().await;
            }
        };
        if tokio::time::timeout(TEARDOWN, over).await.is_err() {
            return vec![format!("the call did not end within {} s", TEARDOWN.as_secs())];
        }
        let service = self.service();
        let wrong = |stage: Stage| {
            let name = service.gate_name(stage);
            service.gates.look(stage, |gate| {
                let counts = gate.counts(service.clock.now());
                let left = counts.active + u64::from(counts.queued);
                if !gate.ledger().balances() {
                    return Some(format!("the ledger of {name} does not balance"));
                }
                let held = left > 0 && stage != Stage::Call;
                held.then(|| format!("{name} still holds {left} at the end"))
            })
        };
        service.gates.stages().filter_map(|stage| wrong(stage).flatten()).collect()
    }

    /// Stops serving.
    pub(super) async fn stop(self) {
        self.serving.stop().await;
    }
}

/// The configured detector if it can be had here, else the one inside this program: somebody has
/// to listen. Says which.
fn choose_detector(config: &mut Config) -> Result<String, String> {
    let chosen = &mut config.vad;
    let instead = if chosen.provider == OFF {
        "vad.detector is off, and nobody would hear the caller".to_owned()
    } else {
        let models_dir = config.models.dir.clone();
        let around = Surroundings { models_dir, language: "en".to_owned() };
        let entry = find(DETECTORS, "vad.detector", &chosen.provider).map_err(|e| e.to_string())?;
        match (entry.build)(&chosen.table, &around) {
            Ok(_) => return Ok(chosen.provider.clone()),
            Err(BuildError::Missing { .. }) => format!("{} is not on this machine", entry.name),
            Err(wrong) => return Err(format!("vad.{wrong}")),
        }
    };
    chosen.provider = SMALL_DETECTOR.to_owned();
    chosen.table = toml::Table::new();
    Ok(format!("{SMALL_DETECTOR} ({instead})"))
}

/// Puts ears into the providers.
fn listen_in(backends: &mut Backends, hears_script: bool, said: &Arc<Said>, asked: &Arc<Asked>) {
    if hears_script && let Some(inner) = backends.asr.take() {
        backends.asr = Some(Arc::new(Hears { inner, said: said.clone() }));
    }
    let inner = backends.llm.clone();
    backends.llm = Arc::new(Recorded { inner, asked: asked.clone() });
}
