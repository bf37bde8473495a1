//! Sessions of other kinds: that only write down what is said, and that speak first again.

use serde_json::json;

use crate::peer::{MOMENT, Peer, now};
use crate::rig::{REPLY, Rig};

#[tokio::test]
async fn a_transcription_session_writes_down_and_says_nothing() {
    let rig = Rig::start(&[]).await;
    let session = json!({
        "type": "transcription",
        "audio": {"input": {"transcription": {"model": "default"}}},
    });
    let mut peer = Peer::with_session(&rig, &session).await;
    assert_eq!(peer.events[0]["session"]["object"], "realtime.transcription_session");
    let began = now();
    for _ in 0..2 {
        peer.speak(800);
        let kind = "conversation.item.input_audio_transcription.completed";
        let completed = peer.until(kind).await;
        assert_eq!(completed["transcript"], "What happened then?");
    }
    peer.send(json!({"type": "response.create"}));
    let error = peer.until("error").await["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("transcription session"), "{error}");
    peer.listen(MOMENT).await;
    assert_eq!(peer.loud_since(began), 0);
    assert!(peer.kinds().iter().all(|kind| !kind.starts_with("response.")), "{:?}", peer.kinds());
    peer.close().await;
    rig.quiet().await;
}

#[tokio::test]
async fn a_caller_who_says_nothing_is_spoken_to_again() {
    let rig = Rig::start(&[]).await;
    let turns = json!({"type": "server_vad", "idle_timeout_ms": 700});
    let session = json!({"type": "realtime", "audio": {"input": {"turn_detection": turns}}});
    let mut peer = Peer::with_session(&rig, &session).await;
    peer.ask("Hello?");
    peer.until("output_audio_buffer.stopped").await;
    let silent = now();
    let triggered = peer.until("input_audio_buffer.timeout_triggered").await;
    assert!(triggered["audio_end_ms"].as_u64().is_some_and(|at| at > 0), "{triggered}");
    let done = peer.until("response.done").await["response"].clone();
    assert_eq!(done["output"][0]["content"][0]["transcript"], REPLY);
    peer.until("output_audio_buffer.stopped").await;
    assert!(peer.loud_since(silent) >= 20, "{:?}", peer.heard);
    assert_eq!(peer.of("input_audio_buffer.speech_started").count(), 0);
    peer.close().await;
    rig.quiet().await;
}
