//! Clients that say far too much: answered or metered, and a call beside them is served as ever.

use futures_util::SinkExt;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::client::Client;
use crate::rig::Rig;

/// notes/reliability.md 2 A, rows 19 and 32: pings and control messages without end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_small_messages_disturb_nobody() {
    let rig = Rig::start(&[]).await;
    let (mut flooding, mut beside) = (Client::connect(&rig).await, Client::connect(&rig).await);
    let flood = async {
        for round in 0..5_000_u32 {
            let ping = Message::Ping(round.to_be_bytes().to_vec().into());
            flooding.socket.feed(ping).await.unwrap();
            flooding.send(json!({"type": "input_audio_buffer.clear"})).await;
        }
        flooding.ask("Are you still there?").await;
        flooding.answered().await
    };
    let served = async {
        beside.ask("Are you there?").await;
        beside.answered().await
    };
    let (flooded, served) = tokio::join!(flood, served);
    assert_eq!((&flooded["status"], &served["status"]), (&json!("completed"), &json!("completed")));
    flooding.hang_up().await;
    beside.hang_up().await;
    rig.quiet().await;
}

/// A minute of sound at once is taken at its metered pace: the sender waits, nobody else does, and
/// what was said in it is answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minute_of_sound_at_once_is_metered() {
    let rig = Rig::start(&[]).await;
    let session = json!({"audio": {"input": {"turn_detection": null}}});
    let mut hasty = Client::with_session(&rig, session).await;
    let mut beside = Client::connect(&rig).await;
    let second =
        base64::Engine::encode(&base64::engine::general_purpose::STANDARD, vec![7_u8; 48_000]);
    let flood = async {
        for _ in 0..60 {
            hasty.send(json!({"type": "input_audio_buffer.append", "audio": second})).await;
        }
        hasty.send(json!({"type": "input_audio_buffer.commit"})).await;
        hasty.send(json!({"type": "response.create"})).await;
        hasty.answered().await
    };
    let served = async {
        beside.ask("Are you there?").await;
        beside.answered().await
    };
    let (flooded, served) = tokio::join!(flood, served);
    assert_eq!((&flooded["status"], &served["status"]), (&json!("completed"), &json!("completed")));
    hasty.hang_up().await;
    beside.hang_up().await;
    rig.quiet().await;
}

/// A conversation of many large items stays bounded: what the model is shown is its newest part.
#[tokio::test]
async fn a_conversation_without_end_is_bounded() {
    let rig = Rig::start(&[]).await;
    let mut client = Client::connect(&rig).await;
    let large = "x".repeat(500_000);
    for number in 0..20 {
        client.write(&format!("{number} {large}")).await;
        client.until("conversation.item.done").await;
    }
    client.ask("Are you still there?").await;
    assert_eq!(client.answered().await["status"], "completed");
    let request = rig.model.asked("Are you still there?").expect("it was asked");
    let shown: usize = request.history.iter().map(|message| format!("{message:?}").len()).sum();
    assert!(request.history.len() > 1 && shown < 5 << 20, "{shown} bytes are kept");
    client.hang_up().await;
    rig.quiet().await;
}
