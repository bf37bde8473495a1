//! What a client says wrongly inside a session: one error each, nothing changed, the call goes on.

use futures_util::SinkExt;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::client::Client;
use crate::rig::Rig;

fn wrong_events() -> Vec<(Value, &'static str, Value)> {
    let update = |session: Value| json!({"type": "session.update", "session": session});
    let append = |audio: Value| json!({"type": "input_audio_buffer.append", "audio": audio});
    vec![
        (json!({"type": "sesion.update"}), "invalid_value", json!("type")),
        (json!({}), "missing_required_parameter", json!("type")),
        (json!({"type": 7}), "invalid_type", json!("type")),
        (json!([1, 2]), "invalid_type", json!("event")),
        (append(json!("not base64!")), "invalid_value", json!("audio")),
        (append(json!("AAAA")), "invalid_value", json!("audio")),
        (append(json!(5)), "invalid_type", json!("audio")),
        (
            json!({"type": "input_audio_buffer.append"}),
            "missing_required_parameter",
            json!("audio"),
        ),
        (json!({"type": "session.update"}), "missing_required_parameter", json!("session")),
        (update(json!("loud")), "invalid_type", json!("session")),
        (
            update(json!({"type": "realtime", "instructions": 5})),
            "invalid_type",
            json!("session.instructions"),
        ),
        (update(json!({"type": "telephone"})), "invalid_value", json!("session.type")),
        (
            json!({"type": "response.cancel", "response_id": "resp_none"}),
            "response_cancel_not_active",
            json!("response_id"),
        ),
    ]
}

/// Issue 2, *Bad input*: unknown event, broken JSON, wrong base64, odd audio, wrong types, binary
/// frames.
#[tokio::test]
async fn each_wrong_event_gets_its_error_and_changes_nothing() {
    let rig = Rig::start(&[]).await;
    let mut client = Client::connect(&rig).await;
    for (event, code, param) in wrong_events() {
        client.send(event.clone()).await;
        let error = client.until("error").await["error"].clone();
        assert_eq!((&error["code"], &error["param"]), (&json!(code), &param), "{event}: {error:#}");
        assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "{error:#}");
    }
    let deep = "[".repeat(10_000);
    for text in ["{\"type\": ", "\u{feff}{}", "{\"type\": \"\\ud800\"}", "{\"a\": 1e999}", &deep] {
        client.socket.send(Message::text(text)).await.unwrap();
        let error = client.until("error").await["error"].clone();
        assert_eq!(error["code"], "invalid_json", "{text:.20}: {error:#}");
    }
    client.socket.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_eq!(client.until("error").await["error"]["code"], "invalid_message");
    client.socket.send(Message::Ping(vec![7].into())).await.unwrap();
    // After all of that the session is as it was.
    client.ask("Are you still there?").await;
    let response = client.answered().await;
    assert_eq!(response["status"], "completed", "{response:#}");
    client.hang_up().await;
    rig.quiet().await;
}

/// The client's own name for a wrong event comes back with the error.
#[tokio::test]
async fn an_error_names_the_event_that_it_answers() {
    let rig = Rig::start(&[]).await;
    let mut client = Client::connect(&rig).await;
    client.send(json!({"type": "nonsense", "event_id": "mine_1"})).await;
    assert_eq!(client.until("error").await["error"]["event_id"], "mine_1");
    client.hang_up().await;
    rig.quiet().await;
}

/// A message over the bound ends the session with 1009, and nobody else's.
#[tokio::test]
async fn a_message_over_the_bound_is_closed_with_1009() {
    let rig = Rig::start(&["realtime.message_max=64KiB"]).await;
    let (mut large, mut other) = (Client::connect(&rig).await, Client::connect(&rig).await);
    let audio = "A".repeat(80 * 1024);
    let event = json!({"type": "input_audio_buffer.append", "audio": audio});
    // The server may hang up before all of it is written.
    let _ = large.socket.send(Message::text(event.to_string())).await;
    assert_eq!(large.close_code().await, 1009);
    other.ask("Are you still there?").await;
    assert_eq!(other.answered().await["status"], "completed");
    other.hang_up().await;
    drop(large);
    rig.quiet().await;
}
