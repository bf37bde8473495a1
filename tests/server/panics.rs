//! What breaks breaks one run, or at most one call; never the process.

use std::sync::Arc;

use floorkeeper::id::Stage;
use floorkeeper::provider::asr::Asr;
use floorkeeper::provider::llm::Llm;
use floorkeeper::provider::tts::Tts;
use serde_json::{Value, json};

use crate::client::Client;
use crate::providers::{Breaks, BrokenEar, Counted};
use crate::rig::Rig;

/// The broken turn is told with a prompt, the next one is answered; the unit of the broken run is
/// unknown.
async fn survives(rig: Rig, stage: Stage) {
    let mut client = Client::connect(&rig).await;
    client.speak(600).await;
    let response = client.answered().await;
    assert_ne!(response["status"], "completed", "{response:#}");
    let sounded = client.of("response.output_audio.delta").count();
    assert!(sounded > 0, "something truthful is heard: {:#?}", client.events);
    client.ask("And now?").await;
    let response = answered_next(&mut client, &response["id"]).await;
    assert_eq!(response["status"], "completed", "{response:#}");
    client.hang_up().await;
    rig.quiet_with_unknown(&[stage]).await;
}

async fn answered_next(client: &mut Client, before: &Value) -> Value {
    loop {
        let response = client.answered().await;
        if response["id"] != *before {
            return response;
        }
    }
}

#[tokio::test]
async fn a_model_that_breaks_at_once_costs_one_turn() {
    let rig =
        Rig::with(&[], |b| b.llm = Counted::<dyn Llm>::breaking(b.llm.clone(), Breaks::AtOnce));
    survives(rig.await, Stage::Model).await;
}

#[tokio::test]
async fn a_model_that_breaks_while_it_runs_costs_one_turn() {
    let rig = Rig::with(&[], |b| {
        b.llm = Counted::<dyn Llm>::breaking(b.llm.clone(), Breaks::WhileItRuns)
    });
    survives(rig.await, Stage::Model).await;
}

#[tokio::test]
async fn a_voice_that_breaks_costs_one_turn() {
    let rig = Rig::with(&[], |b| {
        let whole = b.tts.clone().unwrap();
        b.tts = Some(Counted::<dyn Tts>::breaking(whole, Breaks::WhileItRuns));
    });
    survives(rig.await, Stage::Synthesis).await;
}

#[tokio::test]
async fn a_recogniser_that_breaks_costs_one_turn() {
    let rig = Rig::with(&[], |b| {
        let whole = b.asr.clone().unwrap();
        b.asr = Some(Counted::<dyn Asr>::breaking(whole, Breaks::AtOnce));
    });
    let rig = rig.await;
    let mut client = Client::connect(&rig).await;
    client.speak(600).await;
    let response = client.answered().await;
    client.ask("Did you hear me?").await;
    let response = answered_next(&mut client, &response["id"]).await;
    assert_eq!(response["status"], "completed", "{response:#}");
    client.hang_up().await;
    rig.quiet_with_unknown(&[Stage::Recognition]).await;
}

/// The ear runs in the call's own task: that call ends, truthfully (1011), and nobody else's.
#[tokio::test]
async fn a_call_whose_own_task_breaks_ends_alone() {
    let rig = Rig::with(&[], |b| b.detector = Some(Arc::new(BrokenEar))).await;
    let (mut broken, mut whole) = (Client::connect(&rig).await, Client::connect(&rig).await);
    whole.ask("Tell me a story.").await;
    whole.until("response.output_audio.delta").await;
    broken.ask("Tell me a story.").await;
    broken.until("response.output_audio.delta").await;
    broken.speak(600).await;
    assert_eq!(broken.close_code().await, 1011);
    assert_eq!(whole.answered().await["status"], "completed");
    whole.hang_up().await;
    let calls = rig.get("/v1/calls").await.json();
    let ends: Vec<&Value> =
        calls["calls"].as_array().unwrap().iter().map(|call| &call["ended_why"]).collect();
    assert!(ends.contains(&&json!("broken")), "{calls:#}");
    let ledger = rig.ledger("call").await;
    assert_eq!(ledger["terminal_by_kind"]["failed"], 1, "{ledger:#}");
    assert_eq!((&ledger["active"], &ledger["quarantined"]), (&json!(0), &json!(0)), "{ledger:#}");
}
