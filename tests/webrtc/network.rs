//! Networks that lose packets, and that are away for a while.

use std::time::Duration;

use serde_json::json;

use crate::emulator::Trouble;
use crate::peer::{MOMENT, Peer, now};
use crate::rig::{REPLY, Rig, STORY};

/// Seven packets in a hundred are lost, either way, and a spoken turn is answered all the same.
#[tokio::test]
async fn a_turn_is_spoken_over_a_network_that_loses_packets() {
    // A machine that stands still for a moment is no network that loses packets.
    let rig = Rig::start(&["turn.silence_ms=1500", "turn.budget_ms=6000"]).await;
    let mut peer = Peer::call(&rig).await;
    peer.loses_one_in = 15;
    let began = now();
    peer.speak(800);
    let done = peer.until("response.done").await["response"].clone();
    assert_eq!(done["output"][0]["content"][0]["transcript"], REPLY);
    peer.until("output_audio_buffer.stopped").await;
    assert!(peer.loud_since(began) >= 18, "{:?}", peer.heard);
    assert_eq!(peer.of("input_audio_buffer.speech_started").count(), 1, "one turn");
    peer.loses_one_in = 0;
    peer.close().await;
    rig.quiet().await;
}

/// The network is gone for five seconds and comes back: the call has lived on.
#[tokio::test]
async fn a_call_outlives_a_gap_of_five_seconds() {
    let rig = Rig::start(&[]).await;
    let mut peer = Peer::call(&rig).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    peer.ask("Are you still there?");
    peer.until("output_audio_buffer.stopped").await;
    peer.close().await;
    rig.quiet().await;
}

/// Issue 6: five packets in a hundred are lost, all take up to 100 ms and overtake each other, and
/// for five seconds nothing comes through at all. What is said is answered, most of a long answer
/// is heard, and the call lives on.
#[tokio::test]
async fn a_call_lives_with_loss_and_jitter_and_a_gap_at_once() {
    let rig = Rig::telling_stories(&[]).await;
    let (mut peer, network) = Peer::call_over(&rig, 6).await;
    // The client takes its turns: how many turns the caller's sound makes is no question here.
    let turns = json!({"input": {"turn_detection": null}});
    peer.send(json!({"type": "session.update", "session": {"type": "realtime", "audio": turns}}));
    peer.ask("Tell me a story.");
    peer.until("output_audio_buffer.stopped").await;
    let whole = peer.loud_since_start();
    let trouble = Trouble { loss_percent: 5, jitter: Duration::from_millis(100) };
    network.make(trouble);
    let began = now();
    peer.speak(800);
    peer.listen(Duration::from_millis(1_000)).await;
    peer.send(json!({"type": "input_audio_buffer.commit"}));
    peer.send(json!({"type": "response.create"}));
    peer.until("input_audio_buffer.committed").await;
    let done = peer.until("response.done").await["response"].clone();
    assert_eq!(done["output"][0]["content"][0]["transcript"], STORY);
    peer.until("output_audio_buffer.stopped").await;
    let heard = peer.loud_since(began);
    assert!(heard * 10 >= whole * 8, "{heard} of {whole} loud frames");
    let done = network.done();
    assert!(done.lost >= 10 && done.overtaken >= 50, "{done:?}");
    network.make(Trouble { loss_percent: 100, ..trouble });
    peer.listen(Duration::from_secs(5)).await;
    network.make(trouble);
    peer.ask("Are you still there?");
    peer.until("output_audio_buffer.started").await;
    // What the peer says at its end is said once.
    network.make(Trouble::default());
    peer.close().await;
    peer.listen(MOMENT).await;
    drop(network);
    rig.quiet().await;
}
