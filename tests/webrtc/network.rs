//! Networks that lose packets, and that are away for a while.

use std::time::Duration;

use crate::peer::{Peer, now};
use crate::rig::{REPLY, Rig};

/// Seven packets in a hundred are lost, either way, and a spoken turn is answered all the same.
#[tokio::test]
async fn a_turn_is_spoken_over_a_network_that_loses_packets() {
    let rig = Rig::start(&[]).await;
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
