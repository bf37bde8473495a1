//! Receipts of the backends: what waits at a gate or is refused by it has opened nothing behind it
//! (B-006, B-007, B-033).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use floorkeeper::runtime::backends::Backends;
use serde_json::json;

use crate::client::Client;
use crate::http;
use crate::providers::Counted;
use crate::rig::Rig;

/// A server with one unit and one place in the queue of a gate, and the receipts of what is behind
/// it.
struct Stage {
    rig: Rig,
    gate: &'static str,
    runs: Arc<AtomicU32>,
}

impl Stage {
    /// `limits` is the gate's table.
    async fn with(
        gate: &'static str,
        limits: &str,
        settings: &[&str],
        count: impl FnOnce(&mut Backends, &Arc<AtomicU32>),
    ) -> Stage {
        let runs = Arc::new(AtomicU32::new(0));
        let limits = ["slots=1", "queue=1", "max_wait_ms=400"].map(|set| format!("{limits}.{set}"));
        let settings: Vec<&str> =
            settings.iter().copied().chain(limits.iter().map(String::as_str)).collect();
        let rig = Rig::with(&settings, |backends| count(backends, &runs)).await;
        Stage { rig, gate, runs }
    }

    fn receipts(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    async fn hold(&self) {
        let path = format!("/v1/admission/{}/hold", self.gate);
        let held = self.rig.put(&path, &json!({"max_s": 60})).await.json();
        assert_eq!(held["held"], 1, "{held:#}");
    }

    async fn let_go(&self) {
        let path = format!("/v1/admission/{}/hold", self.gate);
        http::ask(self.rig.serving.address, "DELETE", &path, &[], "").await;
    }

    /// What the gate says to one more turn, up to its end.
    async fn said_to(&self, client: &mut Client, turn: Turn) -> Vec<String> {
        let before = client.said_by(self.gate).len();
        match turn {
            Turn::Written => client.ask("What happened then?").await,
            Turn::Spoken => client.speak(600).await,
        }
        client.answered().await;
        client.said_by(self.gate).split_off(before)
    }

    /// The unit is held: one turn waits in vain, where offers of this stage may wait; one without a
    /// queue is refused; then there is room. Only the last reaches the backend.
    async fn only_what_is_let_in_reaches_the_backend(self, turn: Turn, may_wait: bool) {
        let mut client = Client::connect(&self.rig).await;
        self.hold().await;
        let said = self.said_to(&mut client, turn).await;
        match may_wait {
            true => assert_eq!(said, ["queued", "expired"], "{}", self.gate),
            false => assert_eq!(said.len(), 1, "{} lets nobody wait: {said:?}", self.gate),
        }
        assert_eq!(self.receipts(), 0, "{}: what waited opened something", self.gate);
        assert_eq!(self.rig.patch(self.gate, "{\"queue\": 0}").await.status, 200);
        let said = self.said_to(&mut client, turn).await;
        assert_eq!(said, ["overloaded{no_queue}"], "{}", self.gate);
        assert_eq!(self.receipts(), 0, "{}: what was refused opened something", self.gate);
        self.let_go().await;
        let said = self.said_to(&mut client, turn).await;
        assert!(said[0].starts_with("admitted"), "{}: {said:?}", self.gate);
        assert_eq!(self.receipts(), 1, "{}", self.gate);
        client.hang_up().await;
        self.rig.quiet().await;
    }
}

#[derive(Clone, Copy)]
enum Turn {
    Written,
    Spoken,
}

#[tokio::test]
async fn the_model_is_asked_nothing_for_what_waits_or_is_refused() {
    let count = |b: &mut Backends, runs: &_| b.llm = Counted::whole(b.llm.clone(), runs);
    let stage = Stage::with("model", "limits.model", &[], count).await;
    stage.only_what_is_let_in_reaches_the_backend(Turn::Written, true).await;
}

#[tokio::test]
async fn the_recogniser_hears_nothing_of_what_waits_or_is_refused() {
    let count = |b: &mut Backends, runs: &_| {
        let asr = b.asr.take().expect("a recogniser");
        b.asr = Some(Counted::whole(asr, runs));
    };
    let stage = Stage::with("recognition", "limits.recognition", &[], count).await;
    stage.only_what_is_let_in_reaches_the_backend(Turn::Spoken, true).await;
}

#[tokio::test]
async fn the_voice_says_nothing_of_what_waits_or_is_refused() {
    let count = |b: &mut Backends, runs: &_| {
        let tts = b.tts.take().expect("a voice");
        b.tts = Some(Counted::whole(tts, runs));
    };
    let stage = Stage::with("synthesis", "limits.synthesis", &[], count).await;
    stage.only_what_is_let_in_reaches_the_backend(Turn::Written, true).await;
}

#[tokio::test]
async fn a_tool_does_nothing_for_what_waits_or_is_refused() {
    let settings = [
        "tool.get_weather.provider=scripted",
        "tool.get_weather.effect=read",
        "agent.default.tools=[\"get_weather\"]",
        "llm.tool={name=\"get_weather\",arguments={}}",
    ];
    let count = |b: &mut Backends, runs: &_| {
        for (_, tool) in b.tools.iter_mut().filter(|(name, _)| name == "get_weather") {
            *tool = Counted::whole(tool.clone(), runs);
        }
    };
    let stage = Stage::with("tool:get_weather", "limits.tools.get_weather", &settings, count).await;
    stage.only_what_is_let_in_reaches_the_backend(Turn::Written, true).await;
}
