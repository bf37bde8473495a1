//! Sessions as clients set them up: what is asked for one answer, answers beside the conversation,
//! where items go, silence that is a turn, sessions that only transcribe (issue 6, WebSocket).

use floorkeeper::dialogue::{Message, ModelRequest};
use serde_json::{Value, json};

use crate::client::Client;
use crate::rig::{REPLY, Rig, eventually};

async fn asked(rig: &Rig, question: &str) -> ModelRequest {
    eventually("the request", || rig.model.asked(question).ok_or("none".into())).await
}

/// What was said in a request, in order.
fn words(request: &ModelRequest) -> Vec<&str> {
    let said = request.history.iter().map(|message| match message {
        Message::Said { text, .. } => text.as_str(),
        Message::Called(call) => call.name.as_str(),
        Message::Returned { output, .. } => output.as_str(),
    });
    said.collect()
}

fn tool_names(request: &ModelRequest) -> Vec<&str> {
    request.tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn user(text: &str) -> Value {
    let content = json!([{"type": "input_text", "text": text}]);
    json!({"type": "message", "role": "user", "content": content})
}

async fn respond(client: &mut Client, response: Value) -> Value {
    client.send(json!({"type": "response.create", "response": response})).await;
    client.until("response.created").await["response"].clone()
}

/// The end of this response; others may end before it.
async fn end_of(client: &mut Client, response: &Value) -> Value {
    loop {
        let done = client.answered().await;
        if done["id"] == response["id"] {
            return done;
        }
    }
}

/// Protocols 1.7: each key of `response` is in place of the session's, for this answer alone, and
/// its metadata comes back.
#[tokio::test]
async fn what_is_asked_for_one_answer_holds_for_it_alone() {
    let rig = Rig::start(&[]).await;
    let tool = json!({"type": "function", "name": "get_weather", "parameters": {"type": "object"}});
    let session = json!({"instructions": "Be kind.", "tools": [tool], "max_output_tokens": 99});
    let mut client = Client::with_session(&rig, session).await;

    client.write("In a word?").await;
    let special = json!({"instructions": "One word.", "output_modalities": ["text"], "tools": [],
        "max_output_tokens": 7, "metadata": {"topic": "words"}});
    let created = respond(&mut client, special).await;
    let done = client.answered().await;
    for response in [&created, &done] {
        assert_eq!(response["metadata"], json!({"topic": "words"}), "{response:#}");
        assert_eq!(response["output_modalities"], json!(["text"]), "{response:#}");
        assert_eq!(response["max_output_tokens"], 7, "{response:#}");
    }
    assert_eq!(done["output"][0]["content"][0], json!({"type": "output_text", "text": REPLY}));
    assert_eq!(client.of("response.output_audio.delta").count(), 0);
    let request = asked(&rig, "In a word?").await;
    assert_eq!((request.instructions.as_str(), request.max_tokens), ("One word.", Some(7)));
    assert_eq!(tool_names(&request), [""; 0]);

    client.ask("And now?").await;
    let done = client.answered().await;
    assert_eq!(done["metadata"], Value::Null, "{done:#}");
    assert_eq!(done["output_modalities"], json!(["audio"]), "{done:#}");
    assert!(client.audio_ms(&done["id"]) > 0, "an answer aloud");
    let request = asked(&rig, "And now?").await;
    assert_eq!((request.instructions.as_str(), request.max_tokens), ("Be kind.", Some(99)));
    assert!(tool_names(&request).contains(&"get_weather"), "{:?}", request.tools);
    client.hang_up().await;
    rig.quiet().await;
}

/// Protocols 1.7: `conversation: "none"` runs beside a spoken answer, is shown its own `input`
/// only, writes nothing into the conversation, and is told apart by its metadata.
#[tokio::test]
async fn an_answer_beside_the_conversation_leaves_no_trace_in_it() {
    let rig = Rig::telling_stories(&["tts.words_per_s=2"]).await;
    let mut client = Client::connect(&rig).await;
    client.ask("Tell me a story.").await;
    let spoken = client.until("response.created").await["response"].clone();
    client.until("response.output_audio.delta").await;
    let first = client.of("conversation.item.added").next().unwrap()["item"]["id"].clone();

    let input = json!([{"type": "item_reference", "id": first}, user("What was asked?")]);
    let beside = json!({"conversation": "none", "output_modalities": ["text"], "input": input,
        "metadata": {"client_event_id": "c1"}});
    let created = respond(&mut client, beside).await;
    assert_eq!(created["metadata"], json!({"client_event_id": "c1"}));
    assert_eq!(created["conversation_id"], Value::Null, "{created:#}");
    let done = client.answered().await;
    assert_eq!(done["id"], created["id"], "it ends while the story is still being told");
    assert_eq!((&done["status"], &done["metadata"]), (&json!("completed"), &created["metadata"]));
    let request = asked(&rig, "What was asked?").await;
    assert_eq!(words(&request), ["Tell me a story.", "What was asked?"]);
    let written = done["output"][0]["id"].clone();
    assert!(client.of("conversation.item.added").all(|event| event["item"]["id"] != written));
    client.send(json!({"type": "conversation.item.retrieve", "item_id": written})).await;
    let error = client.until("error").await["error"].clone();
    assert_eq!(error["code"], "item_retrieve_invalid_item_id", "{error:#}");

    let empty = json!({"conversation": "none", "output_modalities": ["text"], "input": []});
    let created = respond(&mut client, empty).await;
    assert_eq!(end_of(&mut client, &created).await["status"], "completed");
    client.send(json!({"type": "response.cancel"})).await;
    assert_eq!(end_of(&mut client, &spoken).await["status"], "cancelled");
    client.ask("Go on.").await;
    let request = asked(&rig, "Go on.").await;
    assert!(!words(&request).contains(&"What was asked?"), "{:?}", words(&request));
    client.hang_up().await;
    rig.quiet().await;
}

/// Protocols 1.4: an item goes to the end, to the front (`"root"`) or behind another; one that is
/// deleted is not shown to the model any more, and what is not there is told with its own code.
#[tokio::test]
async fn items_go_where_the_client_says() {
    let rig = Rig::start(&[]).await;
    let mut client = Client::connect(&rig).await;
    let places =
        [("b", None), ("a", Some("root")), ("d", None), ("c", Some("b")), ("x", Some("d"))];
    for (name, behind) in places {
        let mut item = user(name);
        item["id"] = json!(name);
        let mut create = json!({"type": "conversation.item.create", "item": item});
        if let Some(behind) = behind {
            create["previous_item_id"] = json!(behind);
        }
        client.send(create).await;
        let added = client.until("conversation.item.added").await;
        let before = match (name, behind) {
            ("b", _) | (_, Some("root")) => Value::Null,
            ("d", None) => json!("b"),
            (_, behind) => json!(behind),
        };
        assert_eq!((&added["item"]["id"], &added["previous_item_id"]), (&json!(name), &before));
        client.until("conversation.item.done").await;
    }
    client.send(json!({"type": "conversation.item.retrieve", "item_id": "c"})).await;
    let retrieved = client.until("conversation.item.retrieved").await;
    assert_eq!(retrieved["item"]["content"], user("c")["content"]);
    client.send(json!({"type": "conversation.item.delete", "item_id": "x"})).await;
    assert_eq!(client.until("conversation.item.deleted").await["item_id"], "x");

    let lost = json!({"type": "conversation.item.create", "item": user("lost"),
        "previous_item_id": "x", "event_id": "e1"});
    let gone = |kind: &str| json!({"type": kind, "item_id": "x", "event_id": "e1"});
    for (request, code) in [
        (lost, "item_create_invalid_previous_item_id"),
        (gone("conversation.item.retrieve"), "item_retrieve_invalid_item_id"),
        (gone("conversation.item.delete"), "item_delete_invalid_item_id"),
    ] {
        client.send(request).await;
        let error = client.until("error").await["error"].clone();
        assert_eq!((&error["code"], &error["event_id"]), (&json!(code), &json!("e1")), "{error:#}");
    }
    client.ask("e").await;
    client.answered().await;
    assert_eq!(words(&asked(&rig, "e").await), ["a", "b", "c", "d", "e"]);
    client.hang_up().await;
    rig.quiet().await;
}

fn server_vad(idle_ms: u64) -> Value {
    let turns = json!({"type": "server_vad", "idle_timeout_ms": idle_ms});
    json!({"input": {"turn_detection": turns, "transcription": {"model": "default"}}})
}

/// Protocols 1.6, `idle_timeout_ms`: silence of that length is told with where it sounds, is an
/// item like any utterance, and is answered.
#[tokio::test]
async fn silence_for_the_idle_time_is_a_turn_and_says_where_it_was() {
    let rig = Rig::start(&[]).await;
    let mut client = Client::connect(&rig).await;
    client.speak(0).await; // a second of silence
    client.ask("When are you open?").await;
    client.answered().await;
    let session = json!({"type": "realtime", "audio": server_vad(600)});
    client.send(json!({"type": "session.update", "session": session})).await;
    let updated = client.until("session.updated").await;
    let turns = &updated["session"]["audio"]["input"]["turn_detection"];
    assert_eq!(turns["idle_timeout_ms"], 600, "{turns:#}");

    let idle = client.until("input_audio_buffer.timeout_triggered").await;
    let since = client.events.len();
    let place = |key: &str| idle[key].as_u64().unwrap();
    let (from, to) = (place("audio_start_ms"), place("audio_end_ms"));
    assert!((960..=1000).contains(&to), "all the sound there was: {idle:#}");
    assert!(from + 600 <= to, "the silence: {idle:#}");
    assert_eq!(client.answered().await["status"], "completed");
    let kinds: Vec<&str> =
        client.events[since..].iter().map(|event| event["type"].as_str().unwrap()).collect();
    let own = |event: &&Value| {
        event["item_id"] == idle["item_id"] || event["item"]["id"] == idle["item_id"]
    };
    let about_it = client.events[since..].iter().filter(own).map(|event| &event["type"]);
    let about_it: Vec<&Value> = about_it.take(3).collect();
    let right =
        ["input_audio_buffer.committed", "conversation.item.added", "conversation.item.done"];
    assert_eq!(about_it, right, "{kinds:#?}");
    client.hang_up().await;
    rig.quiet().await;
}

/// Protocols 1.9: a transcription session has the input half only. No response comes of what is
/// said, none of silence, and none can be asked for.
#[tokio::test]
async fn a_transcription_session_never_answers() {
    let rig = Rig::start(&[]).await;
    let mut client = Client::at(&rig.url()).await;
    let session = json!({"type": "transcription", "audio": server_vad(100)});
    client.send(json!({"type": "session.update", "session": session})).await;
    let updated = client.until("session.updated").await["session"].clone();
    assert_eq!(updated["type"], "transcription", "{updated:#}");
    assert_eq!(updated["object"], "realtime.transcription_session", "{updated:#}");
    assert_eq!(updated.get("output_modalities"), None, "{updated:#}");
    for _ in 0..2 {
        client.speak(600).await;
        let kind = "conversation.item.input_audio_transcription.completed";
        assert_eq!(client.until(kind).await["transcript"], "What happened then?");
    }
    client.send(json!({"type": "response.create", "event_id": "e1"})).await;
    let error = client.until("error").await["error"].clone();
    assert_eq!((&error["code"], &error["event_id"]), (&json!("invalid_value"), &json!("e1")));

    // Somebody else's idle time, which is longer and began later, is over: ours would have been.
    let other = json!({"audio": server_vad(300)});
    let mut other = Client::with_session(&rig, other).await;
    other.until("input_audio_buffer.timeout_triggered").await;
    client.send(json!({"type": "input_audio_buffer.clear"})).await;
    client.until("input_audio_buffer.cleared").await;
    let wrong = client.events.iter().map(|event| event["type"].as_str().unwrap());
    let wrong = wrong.filter(|kind| kind.starts_with("response.") || kind.contains("timeout"));
    assert_eq!(wrong.collect::<Vec<_>>(), [""; 0]);
    client.hang_up().await;
    other.hang_up().await;
    rig.quiet().await;
}
