//! How calls end, and that nothing of them is left.

use std::sync::Arc;
use std::time::Duration;

use floorkeeper::id::Stage;

use crate::http;
use crate::peer::{Peer, now};
use crate::providers::BrokenEar;
use crate::rig::{Rig, eventually};

async fn until_over(rig: &Rig) {
    let live = || rig.service().registry.live_count();
    eventually("the call is over", || match live() {
        0 => Ok(()),
        live => Err(format!("{live} calls")),
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_closes_is_noticed_within_a_second() {
    let rig = Rig::start(&[]).await;
    let mut peer = Peer::call(&rig).await;
    assert_eq!(rig.counts(Stage::Call).active, 1);
    let closed = now();
    peer.close().await;
    until_over(&rig).await;
    assert!(closed.elapsed() < Duration::from_secs(1), "{:?}", closed.elapsed());
    rig.quiet().await;
}

#[tokio::test]
async fn a_peer_that_vanishes_is_noticed_within_ten_seconds() {
    let rig = Rig::start(&[]).await;
    let peer = Peer::call(&rig).await;
    let gone = now();
    drop(peer);
    until_over(&rig).await;
    let noticed = gone.elapsed();
    assert!(noticed < Duration::from_secs(10), "{noticed:?}");
    rig.quiet().await;
}

#[tokio::test]
async fn a_call_is_hung_up_over_http() {
    let rig = Rig::start(&[]).await;
    let mut peer = Peer::call(&rig).await;
    let path = format!("{}/hangup", peer.location);
    let answer = http::ask(rig.serving.address, "POST", &path, &[], "").await;
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    peer.until_closed().await;
    until_over(&rig).await;
    let again = http::ask(rig.serving.address, "POST", &path, &[], "").await;
    assert_eq!((again.status, again.code().as_str()), (404, "unknown_call"));
    rig.quiet().await;
}

/// The ear runs in the call's own task: that call ends, truthfully, and nobody else's.
#[tokio::test]
async fn a_call_whose_own_task_breaks_ends_alone() {
    let rig = Rig::with(&[], |b| b.detector = Some(Arc::new(BrokenEar))).await;
    let mut broken = Peer::call(&rig).await;
    broken.speak(400);
    broken.until_closed().await;
    let last = broken.events.last().unwrap();
    assert_eq!(last["error"]["code"], "internal_error", "{last:#}");
    rig.quiet().await;
    let seats = rig.serving.port_stats().map(|stats| stats.seats);
    assert_eq!(seats, Some(0));
    Peer::call(&rig).await.close().await;
}

#[tokio::test]
async fn a_server_that_ends_its_calls_says_so_first() {
    let rig = Rig::start(&[]).await;
    let mut peer = Peer::call(&rig).await;
    rig.service().end_calls();
    peer.until_closed().await;
    let last = peer.events.last().unwrap();
    assert_eq!((&last["type"], &last["error"]["code"]), (&"error".into(), &"draining".into()));
    rig.quiet().await;
}

/// A server without the port that it was told to take calls on does not start, and says why.
#[test]
fn a_port_in_use_stops_the_start() {
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = format!("webrtc.listen=\"{}\"", taken.local_addr().unwrap());
    let scripted = ["llm.provider=scripted", "asr.provider=scripted", "tts.provider=scripted"];
    let settings = scripted.into_iter().chain([listen.as_str()]).flat_map(|set| ["--set", set]);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_floorkeeper"))
        .args(["serve", "--listen", "127.0.0.1:0"])
        .args(settings)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    let address = taken.local_addr().unwrap().to_string();
    for part in ["webrtc.listen", &address, "in use", "127.0.0.1:0"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}
