//! What is said, over RTP and on the data channel.

use std::time::Duration;

use serde_json::{Value, json};

use crate::peer::{Peer, now};
use crate::providers::last_words;
use crate::rig::{REPLY, Rig, STORY, eventually};

/// The kinds of a response's events must stand in this order.
fn assert_order(peer: &Peer, kinds: &[&str]) {
    let seen = peer.kinds();
    let mut rest = seen.iter();
    for kind in kinds {
        assert!(rest.any(|seen| seen == kind), "{kind} is not in its place: {seen:#?}");
    }
}

#[tokio::test]
async fn a_spoken_turn_is_answered_aloud() {
    let rig = Rig::start(&[]).await;
    let mut peer = Peer::call(&rig).await;
    let began = now();
    peer.speak(800);
    peer.until("output_audio_buffer.started").await;
    let done = peer.until("response.done").await["response"].clone();
    assert_eq!(done["status"], "completed");
    assert_eq!(done["output"][0]["content"][0]["transcript"], REPLY);
    let stopped = peer.until("output_audio_buffer.stopped").await;
    assert_eq!(stopped["response_id"], done["id"]);
    assert!(peer.loud_since(began) >= 20, "half a second of speech: {:?}", peer.heard);
    assert_order(
        &peer,
        &[
            "session.created",
            "input_audio_buffer.speech_started",
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "conversation.item.added",
            "response.created",
            "response.content_part.added",
            "output_audio_buffer.started",
            "response.output_audio.done",
            "response.done",
            "output_audio_buffer.stopped",
        ],
    );
    assert_eq!(peer.of("response.output_audio.delta").count(), 0, "sound goes over RTP (T9)");
    peer.close().await;
    rig.quiet().await;
}

#[tokio::test]
async fn an_interruption_stops_the_sound_and_the_server_truncates() {
    let rig = Rig::telling_stories(&[]).await;
    let mut peer = Peer::call(&rig).await;
    peer.ask("Tell me a story.");
    let started = peer.until("output_audio_buffer.started").await;
    peer.listen(Duration::from_millis(1_500)).await;
    assert!(peer.loud_since(now() - Duration::from_millis(500)) > 15);
    peer.speak(900);
    let cleared = peer.until("output_audio_buffer.cleared").await;
    let cut = now();
    assert_eq!(cleared["response_id"], started["response_id"]);
    let truncated = peer.until("conversation.item.truncated").await;
    let heard_ms = truncated["audio_end_ms"].as_u64().unwrap();
    assert!((1_000..3_000).contains(&heard_ms), "{heard_ms}");
    let cancelled = peer.of("response.done").next().unwrap();
    assert_eq!(cancelled["response"]["status"], "cancelled");
    assert_eq!(cancelled["response"]["status_details"]["reason"], "turn_detected");
    assert_order(
        &peer,
        &[
            "input_audio_buffer.speech_started",
            "response.done",
            "output_audio_buffer.cleared",
            "conversation.item.truncated",
        ],
    );
    let next = peer.until("output_audio_buffer.started").await;
    assert_ne!(next["response_id"], started["response_id"]);
    let between = peer.heard.iter().filter(|(at, _)| *at > cut + Duration::from_millis(60));
    let first_of_next = between.map(|(at, _)| *at).next();
    assert!(first_of_next.is_none_or(|at| at > cut + Duration::from_millis(200)), "late sound");
    let request = eventually("the next request", || {
        rig.model.asked("What happened then?").ok_or("none".into())
    });
    let request = request.await;
    let heard = last_words(&request);
    assert!(STORY.starts_with(heard) && heard.len() < STORY.len() / 2, "{heard}");
    peer.close().await;
    rig.quiet().await;
}

#[tokio::test]
async fn a_function_is_called_and_its_result_is_spoken_about() {
    let tool = "llm.tool={ name = \"get_weather\", arguments = { city = \"Paris\" } }";
    let rig = Rig::start(&[tool]).await;
    let weather =
        json!({"type": "function", "name": "get_weather", "parameters": {"type": "object"}});
    let session = json!({"type": "realtime", "tools": [weather]});
    let mut peer = Peer::with_session(&rig, &session).await;
    assert_eq!(peer.events[0]["session"]["tools"][0]["name"], "get_weather");
    peer.ask("What is the weather?");
    let call = peer.until("response.function_call_arguments.done").await;
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"city": "Paris"}));
    peer.until("response.done").await;
    let output =
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "sun"});
    peer.send(json!({"type": "conversation.item.create", "item": output}));
    peer.send(json!({"type": "response.create"}));
    peer.until("output_audio_buffer.started").await;
    peer.until("output_audio_buffer.stopped").await;
    peer.close().await;
    rig.quiet().await;
}

#[tokio::test]
async fn a_written_turn_makes_no_sound() {
    let rig = Rig::start(&[]).await;
    let mut peer = Peer::call(&rig).await;
    let began = now();
    peer.send(json!({"type": "session.update",
        "session": {"type": "realtime", "output_modalities": ["text"]}}));
    peer.until("session.updated").await;
    peer.ask("Hello?");
    assert_eq!(peer.until("response.output_text.done").await["text"], REPLY);
    peer.until("response.done").await;
    assert_eq!(peer.loud_since(began), 0);
    peer.close().await;
    rig.quiet().await;
}

#[tokio::test]
async fn what_is_wrong_gets_one_error_and_the_call_goes_on() {
    let rig = Rig::start(&[]).await;
    let mut peer = Peer::call(&rig).await;
    peer.send(json!({"type": "no.such.event", "event_id": "mine"}));
    let error = peer.until("error").await;
    assert_eq!(error["error"]["event_id"], "mine");
    peer.send_binary(&[0, 159, 146, 150]);
    assert_eq!(peer.until("error").await["error"]["code"], "invalid_message");
    peer.send(json!({"type": "input_audio_buffer.append", "audio": "AAAA"}));
    assert_eq!(peer.until("error").await["error"]["code"], "invalid_value");
    // Nothing sounds: there is nothing to clear, and nobody wants to know.
    peer.send(json!({"type": "output_audio_buffer.clear"}));
    peer.ask("Hello?");
    peer.until("output_audio_buffer.stopped").await;
    assert_eq!(peer.of("error").count(), 3);
    peer.close().await;
    rig.quiet().await;
}

#[tokio::test]
async fn a_client_clears_what_sounds() {
    let rig = Rig::telling_stories(&[]).await;
    let mut peer = Peer::call(&rig).await;
    peer.ask("Tell me a story.");
    peer.until("output_audio_buffer.started").await;
    peer.listen(Duration::from_millis(600)).await;
    peer.send(json!({"type": "response.cancel"}));
    peer.send(json!({"type": "output_audio_buffer.clear"}));
    peer.until("response.done").await;
    peer.until("output_audio_buffer.cleared").await;
    let cut = now();
    let truncated = peer.until("conversation.item.truncated").await;
    peer.listen(Duration::from_millis(500)).await;
    let (came_ms, heard_ms) = (20 * peer.heard.len(), truncated["audio_end_ms"].as_u64().unwrap());
    assert!(came_ms as u64 >= heard_ms + 50, "{heard_ms} of {came_ms} ms: the last 60 were not");
    assert_eq!(peer.loud_since(cut + Duration::from_millis(60)), 0);
    assert_eq!(peer.of("error").count(), 0);
    peer.close().await;
    rig.quiet().await;
}
