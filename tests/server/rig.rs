//! A server in this process, and what has to be true of it when nobody calls.

use std::sync::Arc;
use std::time::Duration;

use floorkeeper::admission::gate::Counts;
use floorkeeper::admission::{self, Admit, Cancelled, Offer, OwnerId};
use floorkeeper::config::{Config, Fallback};
use floorkeeper::id::{Generation, Stage};
use floorkeeper::runtime::backends::Backends;
use floorkeeper::runtime::http::bind;
use floorkeeper::runtime::service::Service;
use floorkeeper::runtime::serving::Serving;
use floorkeeper::runtime::start;
use serde_json::{Value, json};

use crate::http::{self, Answer};
use crate::providers::{Loud, Recorded};

/// Nothing here takes so long unless it is broken.
pub const LIMIT: Duration = Duration::from_secs(20);

/// What the model says where nothing else is set: half a second of speech.
pub const REPLY: &str = "Yes, I am still here.";

/// A voice of ten words a second reads this in more than six seconds.
pub const STORY: &str = "There was a king who had three sons and a garden full of pears. Every \
    night one pear was gone. Nobody knew who had taken it, so the king told his eldest son to \
    watch the tree until the sun came up. But the eldest son fell asleep before the moon had \
    risen, and in the morning another pear was gone. The king was very sad.";

pub struct Rig {
    pub serving: Serving,
    /// What the model was asked.
    pub model: Arc<Recorded>,
    backends: Option<Backends>,
    tasks: usize,
}

impl Rig {
    /// Serves with scripted providers and these further settings.
    pub async fn start(settings: &[&str]) -> Rig {
        Rig::with(settings, |_| {}).await
    }

    /// The same with long answers.
    pub async fn telling_stories(settings: &[&str]) -> Rig {
        let reply = format!("llm.reply=\"{STORY}\"");
        let settings: Vec<&str> = settings.iter().copied().chain([reply.as_str()]).collect();
        Rig::start(&settings).await
    }

    /// The same with other providers.
    pub async fn with(settings: &[&str], change: impl FnOnce(&mut Backends)) -> Rig {
        let mut rig = Rig::loading(settings, change).await;
        rig.open();
        rig
    }

    /// Bound, but its providers are still to come.
    pub async fn loading(settings: &[&str], change: impl FnOnce(&mut Backends)) -> Rig {
        let reply = format!("llm.reply=\"{REPLY}\"");
        let usual = [
            "listen=\"127.0.0.1:0\"",
            "llm.provider=scripted",
            &reply,
            "llm.first_token_ms=10",
            "llm.tokens_per_s=1000",
            "asr.provider=scripted",
            "asr.text=\"What happened then?\"",
            "tts.provider=scripted",
            "tts.first_audio_ms=10",
            "tts.words_per_s=10",
            "tts.rate_x=1000",
            "tts.word_times=true",
            "vad.detector=off",
            "turn.end=silence",
        ];
        let sets = usual.iter().chain(settings).map(|set| (*set).to_owned());
        let sets: Vec<String> = sets.collect();
        let home = [("HOME".to_owned(), "/nowhere".to_owned())];
        let config = Config::load(None, &sets, home.into_iter()).unwrap_or_else(|e| panic!("{e}"));
        let fallback = Fallback::load(None).unwrap_or_else(|e| panic!("{e}"));
        let mut backends = start::build(&config).unwrap();
        backends.detector = Some(Arc::new(Loud));
        change(&mut backends);
        let model = Recorded::over(backends.llm.clone());
        backends.llm = model.clone();
        let listening = bind(config.listen).await.unwrap().secured(config.tls.as_ref());
        let listening = listening.unwrap_or_else(|problem| panic!("{problem}"));
        let serving = Serving::begin(config, fallback, listening);
        let serving = serving.unwrap_or_else(|problem| panic!("{problem}"));
        let tasks = alive_tasks();
        Rig { serving, model, backends: Some(backends), tasks }
    }

    /// The providers have come.
    pub fn open(&mut self) {
        start::open(&self.serving.service, self.backends.take().expect("opened once"));
    }

    pub fn service(&self) -> &Service {
        &self.serving.service
    }

    pub fn url(&self) -> String {
        format!("ws://{}/v1/realtime", self.serving.address)
    }

    pub async fn get(&self, path: &str) -> Answer {
        http::ask(self.serving.address, "GET", path, &[], "").await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        http::ask(self.serving.address, "PUT", path, &[], &body.to_string()).await
    }

    pub async fn patch(&self, gate: &str, body: &str) -> Answer {
        let path = format!("/v1/admission/{gate}");
        http::ask(self.serving.address, "PATCH", &path, &[], body).await
    }

    pub fn counts(&self, stage: Stage) -> Counts {
        let service = self.service();
        service.gates.look(stage, |gate| gate.counts(service.clock.now())).expect("a gate")
    }

    /// One gate of `/v1/ledger`, which balances.
    pub async fn ledger(&self, gate: &str) -> Value {
        self.ledger_with(gate, "any").await
    }

    /// The same where a key is needed.
    pub async fn ledger_with(&self, gate: &str, key: &str) -> Value {
        let key = format!("Bearer {key}");
        let headers = [("Authorization", key.as_str())];
        let answer = http::ask(self.serving.address, "GET", "/v1/ledger", &headers, "").await;
        let ledger = answer.json();
        assert_eq!(ledger["balances"], true, "{ledger:#}");
        let gates = ledger["gates"].as_array().unwrap();
        gates.iter().find(|entry| entry["gate"] == gate).expect("the gate").clone()
    }

    /// Waits until no call, unit, waiter or task is left, and nothing was lost on the way.
    pub async fn quiet(&self) {
        self.quiet_with_unknown(&[]).await;
    }

    /// The same where the fate of these stages' units, one each, is rightly unknown.
    pub async fn quiet_with_unknown(&self, unknown: &[Stage]) {
        let service = self.service();
        let held = |stage: Stage| {
            let counts = self.counts(stage);
            counts.active > 0 || counts.queued > 0 || counts.cleanup_pending > 0
        };
        eventually("nothing is left", || {
            let busy: Vec<Stage> = service.gates.stages().filter(|s| held(*s)).collect();
            let (calls, tasks) = (service.registry.live_count(), alive_tasks());
            let quiet = busy.is_empty() && calls == 0 && tasks <= self.tasks;
            quiet.then_some(()).ok_or(format!("{calls} calls, {tasks} tasks, units of {busy:?}"))
        })
        .await;
        for stage in service.gates.stages() {
            let expected = u64::from(unknown.contains(&stage));
            assert_eq!(self.counts(stage).quarantined, expected, "{stage} in quarantine");
            service.gates.look(stage, |gate| {
                assert!(gate.ledger().balances(), "{stage}");
                let found = gate.ledger().anomalies();
                assert_eq!((found.underflow, found.unknown_permit), (0, 0), "{stage}");
            });
        }
    }
}

/// The tasks of this test's runtime.
fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Waits, for a bounded time, until `look` has nothing to complain about.
pub async fn eventually<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let mut problem = String::new();
    for _ in 0..LIMIT.as_millis() / 20 {
        match look() {
            Ok(found) => return found,
            Err(why) => problem = why,
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not in time: {what}: {problem}");
}

/// The body of a PUT of `/v1/drain`.
pub fn enabled(on: bool) -> Value {
    json!({"enabled": on})
}

/// A unit of the model gate in quarantine: its owner is over and has settled nothing. Gives the
/// offer's name.
pub fn drop_a_unit(service: &Service) -> u64 {
    let (control, _wakes) = tokio::sync::mpsc::channel(1);
    let mut gates = service.gates.for_owner(control);
    let (now, owner) = (service.clock.now(), OwnerId(u64::MAX));
    gates.rotate(now, owner, Generation(0), Cancelled::Client);
    let offer = Offer::plain(gates.name_offer(), owner, now, now + LIMIT);
    let id = offer.id.0;
    let answer = gates.ask(now, Stage::Model, offer);
    assert!(matches!(answer, admission::Answer::Admitted(_)), "{answer:?}");
    service.gates.forget(owner);
    id
}
