//! Where there is no room the caller hears the truth, and events and ledger say which truth it is.

use floorkeeper::id::Stage;
use serde_json::{Value, json};

use crate::client::{Client, disposition};
use crate::http;
use crate::rig::{REPLY, Rig};

/// One slot, and a model that holds it for half a minute.
const SLOW: [&str; 3] = ["limits.model.slots=1", "llm.tokens_per_s=2", "turn.budget_ms=60000"];

fn is_kind(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |event| event["type"] == kind
}

/// Issue 2, X-17: a spoken turn is refused as `closed{no_capacity}`, and between the end of speech
/// and the prompt's first sound nothing is waited for but the words.
#[tokio::test]
async fn no_slots_at_all_are_told_as_no_capacity() {
    let rig = Rig::start(&["limits.model.slots=0"]).await;
    let mut client = Client::connect(&rig).await;
    client.speak(600).await;
    let response = client.answered().await;
    let stopped = client.place("end of speech", is_kind("input_audio_buffer.speech_stopped"));
    let committed = client.place("commit", is_kind("input_audio_buffer.committed"));
    let refused = client.place("refusal", |event| {
        event["gate"] == "model" && disposition(event) == "closed{no_capacity}"
    });
    let sounded = client.place("sound", is_kind("response.output_audio.delta"));
    let done = client.place("end", is_kind("response.done"));
    let order = [stopped, committed, refused, sounded, done];
    assert!(order.is_sorted(), "{order:?} of {:#?}", client.events);
    assert_eq!(client.said_by("model"), ["closed{no_capacity}"], "refused once, never queued");
    assert_eq!(response["status"], "failed", "{response:#}");
    assert_eq!(response["status_details"]["error"]["code"], "admission_no_capacity");
    assert!(client.audio_ms(&response["id"]) > 500, "a prompt is heard");
    assert!(client.said_by("synthesis").is_empty(), "a prompt needs no voice");
    let ledger = rig.ledger("model").await;
    assert_eq!(ledger["refused_by_reason"], json!({"closed{no_capacity}": 1}), "{ledger:#}");
    client.hang_up().await;
    rig.quiet().await;
}

/// Issue 2, X-17: one slot held by another call and no queue is `overloaded{no_queue}`.
#[tokio::test]
async fn a_slot_held_by_another_call_is_told_as_overload() {
    let rig = Rig::telling_stories(&SLOW).await;
    let mut first = Client::connect(&rig).await;
    first.ask("Tell me a story.").await;
    first.until("response.created").await;
    while first.said_by("model") != ["admitted"] {
        first.next().await;
    }
    let mut second = Client::connect(&rig).await;
    second.speak(600).await;
    let response = second.answered().await;
    assert_eq!(second.said_by("model"), ["overloaded{no_queue}"]);
    assert_eq!(response["status_details"]["error"]["code"], "admission_capacity");
    assert!(second.audio_ms(&response["id"]) > 500, "a prompt is heard");
    let ledger = rig.ledger("model").await;
    assert_eq!((&ledger["refused"], &ledger["active"]), (&json!(1), &json!(1)), "{ledger:#}");
    first.hang_up().await;
    second.hang_up().await;
    rig.quiet().await;
}

/// what nobody could speak is not asked for. The model's own receipt is empty, its unit came
/// back unused.
#[tokio::test]
async fn without_a_voice_no_model_is_asked() {
    let rig = Rig::start(&["limits.synthesis.slots=1"]).await;
    rig.put("/v1/admission/synthesis/hold", &json!({"units": "all", "max_s": 60})).await;
    let mut client = Client::connect(&rig).await;
    client.ask("Are you there?").await;
    let response = client.answered().await;
    assert_eq!(response["status_details"]["error"]["code"], "admission_capacity", "{response:#}");
    assert!(client.audio_ms(&response["id"]) > 500, "a prompt is heard");
    assert_eq!(client.said_by("model"), ["admitted", "completed{never_started}"]);
    assert_eq!(client.said_by("synthesis"), ["overloaded{no_queue}"]);
    assert!(rig.model.asked("Are you there?").is_none(), "a model request with no consumer");
    http::ask(rig.serving.address, "DELETE", "/v1/admission/synthesis/hold", &[], "").await;
    client.ask("And now?").await;
    assert_eq!(client.answered().await["status"], "completed");
    assert_eq!(client.said_by("synthesis")[1..3], ["admitted{claim}", "admitted"]);
    assert!(rig.model.asked("And now?").is_some());
    client.hang_up().await;
    rig.quiet().await;
}

/// A visitor holds every unit by hand, hears the truth, lets go and is answered.
#[tokio::test]
async fn units_held_by_hand_are_refused_and_come_back() {
    let rig = Rig::start(&["limits.model.slots=3"]).await;
    let path = "/v1/admission/model/hold";
    let held = rig.put(path, &json!({"units": "all", "max_s": 60})).await.json();
    assert_eq!(held, json!({"gate": "model", "held": 3, "max_s": 60}));
    let mut client = Client::connect(&rig).await;
    client.ask("Are you there?").await;
    assert_eq!(client.answered().await["status"], "failed");
    assert_eq!(client.said_by("model"), ["overloaded{no_queue}"]);
    let address = rig.serving.address;
    let gone = http::ask(address, "DELETE", path, &[], "").await.json();
    assert_eq!(gone, json!({"gate": "model", "released": 3}));
    let again = http::ask(address, "DELETE", path, &[], "").await.json();
    assert_eq!(again["released"], 0, "what is not held is not given back twice");
    client.ask("And now?").await;
    assert_eq!(client.answered().await["status"], "completed");
    let ledger = rig.ledger("model").await;
    assert_eq!(ledger["released_on"]["operator"], 3, "{ledger:#}");
    client.hang_up().await;
    rig.quiet().await;
}

/// Holds that cross each other lose no unit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_that_cross_lose_nothing() {
    let rig = Rig::start(&["limits.model.slots=4"]).await;
    let path = "/v1/admission/model/hold";
    let body = json!({"units": "all", "max_s": 60});
    let holds = (0..20).map(|_| rig.put(path, &body));
    for answer in futures_util::future::join_all(holds).await {
        assert_eq!(answer.json()["held"], 4);
    }
    assert_eq!(rig.counts(Stage::Model).active, 4);
    let gone = http::ask(rig.serving.address, "DELETE", path, &[], "").await.json();
    assert_eq!(gone["released"], 4);
    let counts = rig.counts(Stage::Model);
    assert_eq!((counts.active, counts.quarantined), (0, 0));
}

/// What is wrong with a hold is said, and nothing is held.
#[tokio::test]
async fn a_wrong_hold_holds_nothing() {
    let rig = Rig::start(&["limits.model.slots=3"]).await;
    let wrong = [
        ("{\"units\": 0}", "invalid_units"),
        ("{\"units\": \"some\"}", "invalid_units"),
        ("{\"max_s\": \"long\"}", "invalid_max_s"),
        ("{\"max_s\": -1}", "invalid_max_s"),
        ("[]", "invalid_body"),
        ("{\"units\"", "invalid_body"),
    ];
    for (body, code) in wrong {
        let path = "/v1/admission/model/hold";
        let answer = http::ask(rig.serving.address, "PUT", path, &[], body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, code), "{body}");
    }
    let nowhere = rig.put("/v1/admission/modell/hold", &json!({})).await;
    assert_eq!((nowhere.status, nowhere.code().as_str()), (404, "unknown_gate"));
    assert_eq!(rig.counts(Stage::Model).active, 0);
}

/// A written answer promises no sound: it is refused with the code alone (DESIGN 4, protocol
/// turns).
#[tokio::test]
async fn a_written_answer_is_refused_in_writing() {
    let rig = Rig::start(&["limits.model.slots=0"]).await;
    let mut client = Client::connect(&rig).await;
    client.write("Hello").await;
    let response = json!({"output_modalities": ["text"]});
    client.send(json!({"type": "response.create", "response": response})).await;
    let response = client.answered().await;
    assert_eq!(response["status"], "failed");
    assert_eq!(response["status_details"]["error"]["code"], "admission_no_capacity");
    assert_eq!(client.audio_ms(&response["id"]), 0);
    // Once there is room again the same call is answered.
    assert_eq!(rig.patch("model", "{\"slots\": 1}").await.status, 200);
    client.ask("And now?").await;
    let response = client.answered().await;
    assert_eq!(response["status"], "completed", "{response:#}");
    let said = &response["output"][0]["content"][0]["transcript"];
    assert_eq!(said.as_str().map(str::trim), Some(REPLY));
    client.hang_up().await;
    rig.quiet().await;
}

/// what may wait is bounded in bytes as well, by what the conversation has grown to.
#[tokio::test]
async fn a_conversation_too_large_to_wait_is_told_so() {
    let limits =
        ["limits.model.slots=1", "limits.model.queue=4", "limits.model.queue_bytes=\"2KiB\""];
    let rig = Rig::start(&limits).await;
    let mut client = Client::connect(&rig).await;
    rig.put("/v1/admission/model/hold", &json!({"units": "all", "max_s": 60})).await;
    client.ask(&"Tell me all of it. ".repeat(200)).await;
    assert_eq!(client.answered().await["status"], "failed");
    assert_eq!(client.said_by("model"), ["overloaded{bytes}"]);
    client.hang_up().await;
}
