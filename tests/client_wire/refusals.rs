//! A caller for whom there is no room hears the truth, and the events and the ledger say which.

use crate::rig::{Client, Server};
use serde_json::json;

/// Issue 2; X-17: no capacity at all is `closed{no_capacity}`, and nothing queues for it.
#[tokio::test]
async fn no_slots_at_all_are_told_as_no_capacity() {
    let server = Server::start(&["limits.model.slots=0"]);
    let mut client = Client::connect(&server).await;
    client.ask("When are you open?").await;
    let done = client.until("response.done").await;
    assert_eq!(client.said_by("model"), ["closed{no_capacity}"]);
    assert!(client.audio_ms() > 500, "a prompt is heard, {} ms of it", client.audio_ms());
    let response = &done["response"];
    assert_eq!(response["status"], "failed", "{response:#}");
    assert_eq!(response["status_details"]["error"]["code"], "admission_no_capacity");
    // What exists is offered: here a return call.
    let spoken = client.of("floorkeeper.fallback").find(|rung| rung["outcome"] == "offered");
    assert!(spoken.is_some_and(|rung| rung["prompt"] != ""), "{:#?}", client.events);
    let ledger = server.ledger("model");
    assert_eq!((&ledger["offered"], &ledger["refused"]), (&json!(1), &json!(1)), "{ledger:#}");
    client.hang_up().await;
    server.assert_quiescent();
}

/// Issue 2; X-17: one slot held by another call and no queue is `overloaded{no_queue}`.
#[tokio::test]
async fn a_slot_held_by_another_call_is_told_as_overload() {
    // The first caller's model writes a little faster than it is spoken: it holds the slot for six
    // seconds and leaves no gap in its answer.
    let reply = "llm.reply=\"Yes. There was a king. He had three sons. They had a garden. \
                 It had a tree. The tree had pears. One pear was gone.\"";
    let server = Server::start(&["limits.model.slots=1", "llm.tokens_per_s=4", reply]);
    let mut first = Client::connect(&server).await;
    first.ask("Tell me a story.").await;
    first.until("response.output_audio.delta").await;
    let mut second = Client::connect(&server).await;
    second.ask("Tell me a story.").await;
    let done = second.until("response.done").await;
    assert_eq!(second.said_by("model"), ["overloaded{no_queue}"]);
    assert_eq!(done["response"]["status_details"]["error"]["code"], "admission_capacity");
    assert!(second.audio_ms() > 500, "a prompt is heard, {} ms of it", second.audio_ms());
    let ledger = server.ledger("model");
    assert_eq!((&ledger["refused"], &ledger["active"]), (&json!(1), &json!(1)), "{ledger:#}");
    // The one who was first loses nothing by it.
    let done = first.until("response.done").await;
    assert_eq!(done["response"]["status"], "completed");
    first.hang_up().await;
    second.hang_up().await;
    server.assert_quiescent();
}

/// A written answer promises no sound: it is refused with the code alone (DESIGN 4, protocol
/// turns).
#[tokio::test]
async fn a_written_answer_is_refused_in_writing() {
    let server = Server::start(&["limits.model.slots=0"]);
    let mut client = Client::connect(&server).await;
    let content = json!([{"type": "input_text", "text": "Hello"}]);
    let item = json!({"type": "message", "role": "user", "content": content});
    client.send(json!({"type": "conversation.item.create", "item": item})).await;
    let response = json!({"output_modalities": ["text"]});
    client.send(json!({"type": "response.create", "response": response})).await;
    let done = client.until("response.done").await;
    assert_eq!(done["response"]["status"], "failed");
    assert_eq!(done["response"]["status_details"]["error"]["code"], "admission_no_capacity");
    assert_eq!(client.audio_ms(), 0);
    client.hang_up().await;
    server.assert_quiescent();
}
