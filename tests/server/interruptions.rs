//! Long answers interrupted over the wire: nothing of them comes any more, and the next request
//! holds what was heard.

use serde_json::{Value, json};

use crate::client::Client;
use crate::providers::last_words;
use crate::rig::{Rig, STORY, eventually};

/// The scripted voice says ten words a second.
const WORD_MS: usize = 100;

fn first_words(count: usize) -> String {
    STORY.split_whitespace().take(count).collect::<Vec<_>>().join(" ")
}

/// So much more sound has been sent that the voice has made the whole phrase: only then does it
/// tell when its words sound.
const MADE_MS: usize = 400;

/// Plays a long answer and gives its response and item once this much of it has come.
async fn listen(client: &mut Client, question: &str, at_least_ms: usize) -> (Value, Value) {
    client.ask(question).await;
    let response = client.until("response.created").await["response"]["id"].clone();
    loop {
        let event = client.until("response.output_audio.delta").await;
        assert_eq!(event["response_id"], response, "an old answer's sound");
        if client.audio_ms(&response) >= at_least_ms + MADE_MS {
            return (response, event["item_id"].clone());
        }
    }
}

/// Says how much was heard, asks on, and looks at what the model is shown.
async fn truncate_and_ask(
    rig: &Rig,
    client: &mut Client,
    item: &Value,
    heard_ms: usize,
    next: &str,
) {
    let truncate = json!({"type": "conversation.item.truncate", "item_id": item,
        "content_index": 0, "audio_end_ms": heard_ms});
    client.send(truncate).await;
    client.until("conversation.item.truncated").await;
    client.ask(next).await;
    let request =
        eventually("the next request", || rig.model.asked(next).ok_or("none".into())).await;
    assert_eq!(last_words(&request), first_words(heard_ms / WORD_MS), "{heard_ms} ms were heard");
    let response = client.until("response.created").await["response"]["id"].clone();
    client.send(json!({"type": "response.cancel"})).await;
    while client.until("response.done").await["response"]["id"] != response {}
}

/// Every sound of a response came before its end.
fn assert_no_sound_after_done(client: &Client) -> usize {
    let ends: Vec<(usize, &Value)> = (client.events.iter().enumerate())
        .filter(|(_, event)| event["type"] == "response.done")
        .map(|(at, event)| (at, &event["response"]["id"]))
        .collect();
    for (end, response) in &ends {
        let late = client.events[*end..].iter().filter(|event| {
            event["type"] == "response.output_audio.delta" && event["response_id"] == **response
        });
        assert_eq!(late.count(), 0, "sound of {response} behind its end");
    }
    ends.len()
}

/// Ten answers are cancelled by the client (issue 2).
#[tokio::test]
async fn answers_that_a_client_cancels_end_where_it_stopped_listening() {
    let rig = Rig::telling_stories(&[]).await;
    let calls = (0..2).map(|call| {
        let rig = &rig;
        async move {
            let mut client = Client::connect(rig).await;
            for round in 0..5 {
                let heard_ms = 130 + 70 * round;
                let question = format!("Question {round} of call {call}?");
                let (response, item) = listen(&mut client, &question, heard_ms).await;
                client.send(json!({"type": "response.cancel"})).await;
                let done = client.answered().await;
                assert_eq!((&done["id"], &done["status"]), (&response, &json!("cancelled")));
                let next = format!("And then {round} of call {call}?");
                truncate_and_ask(rig, &mut client, &item, heard_ms, &next).await;
            }
            assert_eq!(assert_no_sound_after_done(&client), 10);
            client.hang_up().await;
        }
    });
    futures_util::future::join_all(calls).await;
    rig.quiet().await;
}

/// Ten answers are interrupted by the caller's voice; the client then says where it stopped
/// playing.
#[tokio::test]
async fn answers_that_a_caller_interrupts_end_where_he_stopped_listening() {
    let rig = Rig::telling_stories(&[]).await;
    let turns = json!({"type": "server_vad", "create_response": false, "interrupt_response": true});
    let session = json!({"audio": {"input": {"turn_detection": turns}}});
    let calls = (0..2).map(|call| {
        let (rig, session) = (&rig, session.clone());
        async move {
            let mut client = Client::with_session(rig, session).await;
            for round in 0..5 {
                let heard_ms = 130 + 70 * round;
                let question = format!("Question {round} of call {call}?");
                let (response, item) = listen(&mut client, &question, heard_ms).await;
                client.speak(900).await;
                let done = client.answered().await;
                assert_eq!((&done["id"], &done["status"]), (&response, &json!("cancelled")));
                assert_eq!(done["status_details"]["reason"], "turn_detected", "{done:#}");
                client.until("input_audio_buffer.committed").await;
                client.until("conversation.item.done").await;
                let next = format!("And then {round} of call {call}?");
                truncate_and_ask(rig, &mut client, &item, heard_ms, &next).await;
            }
            assert_eq!(assert_no_sound_after_done(&client), 10);
            client.hang_up().await;
        }
    });
    futures_util::future::join_all(calls).await;
    rig.quiet().await;
}

/// A voice that goes on for a while after it was told to stop is not heard, and counted (bug class
/// B7).
#[tokio::test]
async fn a_voice_that_does_not_stop_is_not_heard() {
    let late = ["tts.late_after_cancel_ms=400", "tts.rate_x=1.25"];
    let rig = Rig::telling_stories(&late).await;
    let mut client = Client::connect(&rig).await;
    let (response, _) = listen(&mut client, "Tell me a story.", 200).await;
    client.send(json!({"type": "response.cancel"})).await;
    client.answered().await;
    client.ask("And another one.").await;
    let second = client.until("response.created").await["response"]["id"].clone();
    client.until("floorkeeper.late_output").await;
    while client.audio_ms(&second) < 600 {
        client.next().await;
    }
    client.send(json!({"type": "response.cancel"})).await;
    client.answered().await;
    assert_ne!(second, response);
    assert_eq!(assert_no_sound_after_done(&client), 2);
    client.hang_up().await;
    rig.quiet().await;
}
