//! Loading and draining: new calls are told why, accepted ones lose nothing (X-21, B-073, B-075,
//! B-083, B-084).

use std::pin::pin;
use std::time::Duration;

use floorkeeper::id::Stage;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::bad_frames::{close_code, frame};
use crate::client::Client;
use crate::http;
use crate::rig::{LIMIT, Rig, enabled, eventually};

/// Healthy at once, ready only when the providers are there.
#[tokio::test]
async fn a_server_that_loads_is_healthy_and_not_ready() {
    let mut rig = Rig::loading(&[], |_| {}).await;
    assert_eq!(rig.get("/healthz").await.json(), json!({"status": "ok"}));
    let ready = rig.get("/readyz").await;
    assert_eq!(
        (ready.status, ready.json()),
        (503, json!({"ready": false, "why": "loading", "callbacks": "none"}))
    );
    let answer = http::knocked(rig.serving.address, &[]).await;
    assert_eq!((answer.status, answer.json()["reason"].clone()), (503, json!("not_ready")));
    assert_eq!(answer.header("retry-after"), Some("5"));
    let drain = rig.get("/v1/drain").await.json();
    assert_eq!(drain["refusing_new"], false, "loading is no drain (B-084)");
    rig.open();
    let ready = rig.get("/readyz").await;
    assert_eq!(
        (ready.status, ready.json()),
        (200, json!({"ready": true, "why": "ready", "callbacks": "none"}))
    );
    Client::connect(&rig).await.hang_up().await;
    rig.quiet().await;
}

/// A drain that began while models loaded goes on when they are there.
#[tokio::test]
async fn a_drain_outlives_the_loading() {
    let mut rig = Rig::loading(&[], |_| {}).await;
    assert_eq!(rig.put("/v1/drain", &enabled(true)).await.status, 200);
    rig.open();
    assert_eq!(rig.get("/v1/drain").await.json()["refusing_new"], true);
    assert_eq!(http::knocked(rig.serving.address, &[]).await.code(), "draining");
    assert_eq!(rig.put("/v1/drain", &enabled(false)).await.json()["refusing_new"], false);
    Client::connect(&rig).await.hang_up().await;
    rig.quiet().await;
}

/// New calls are refused, waiters end, accepted calls keep all their stages; then everything as
/// before.
/// A-121, B-082.
#[tokio::test]
async fn a_drain_ends_waits_and_lets_accepted_calls_go_on() {
    let limits = ["limits.call.slots=1", "limits.call.queue=2", "limits.call.max_wait_ms=60000"];
    let rig = Rig::start(&limits).await;
    let address = rig.serving.address;
    let mut client = Client::connect(&rig).await;
    let mut parked = http::knock(address, &[]).await;
    eventually("it is parked", || match rig.counts(Stage::Call).queued {
        1 => Ok(()),
        other => Err(format!("{other} are")),
    })
    .await;
    let shown = rig.put("/v1/drain", &enabled(true)).await.json();
    assert_eq!((&shown["refusing_new"], &shown["in_flight"]), (&json!(true), &json!(1)));
    let ended = http::answer(&mut parked).await;
    assert_eq!((ended.status, ended.code().as_str()), (503, "admission_drained"));
    assert_eq!(ended.header("retry-after"), Some("5"));
    drop(parked);
    let refused = http::knocked(address, &[]).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "draining"));
    assert_eq!(refused.header("retry-after"), Some("5"));
    assert_eq!(refused.header("x-floorkeeper-admission-reason"), Some("draining"));
    let ready = rig.get("/readyz").await;
    assert_eq!((ready.status, ready.json()["why"].clone()), (503, json!("draining")));
    assert_eq!(rig.get("/v1/drain").await.json(), shown, "B-083: what was answered is read back");
    client.speak(600).await;
    let response = client.answered().await;
    assert_eq!(response["status"], "completed", "accepted calls keep their stages: {response:#}");
    client.hang_up().await;
    rig.quiet().await;
    assert_eq!(rig.put("/v1/drain", &enabled(false)).await.json()["refusing_new"], false);
    Client::connect(&rig).await.hang_up().await;
    rig.quiet().await;
}

/// When the drain's window closes, what is left is ended and told why: 1012.
#[tokio::test]
async fn calls_left_when_the_window_closes_are_told_why() {
    let rig = Rig::telling_stories(&[]).await;
    let mut client = Client::connect(&rig).await;
    client.ask("Tell me a story.").await;
    client.until("response.output_audio.delta").await;
    let drained = rig.serving.drain(Duration::ZERO, std::future::pending());
    let ((), code) = tokio::join!(drained, client.close_code());
    assert_eq!(code, 1012);
    assert_eq!(rig.service().registry.live_count(), 0);
    rig.quiet().await;
    rig.serving.stop().await;
}

/// A goodbye is said to its end: the drain is over when the peer has answered the close frame, not
/// when the call is.
#[tokio::test]
async fn a_drain_waits_for_the_last_word_to_be_answered() {
    let rig = Rig::start(&[]).await;
    let mut peer = http::knock(rig.serving.address, &[]).await;
    assert_eq!(http::answer(&mut peer).await.status, 101);
    eventually("the call has begun", || match rig.service().registry.live_count() {
        1 => Ok(()),
        other => Err(format!("{other} are live")),
    })
    .await;
    let mut drained = pin!(rig.serving.drain(Duration::ZERO, std::future::pending()));
    tokio::select! {
        () = &mut drained => panic!("nobody has heard a goodbye"),
        code = close_code(&mut peer) => assert_eq!(code, 1012),
    }
    // The call is over; its peer takes a moment to answer.
    let moment = Duration::from_millis(600);
    let waited = tokio::time::timeout(moment, &mut drained).await;
    assert!(waited.is_err(), "it went before its peer had answered");
    assert_eq!(rig.service().registry.live_count(), 0);
    assert_eq!(rig.get("/v1/drain").await.json()["in_flight"], 1, "it is still told goodbye");
    peer.write_all(&frame(0x88, &1012_u16.to_be_bytes())).await.unwrap();
    drained.await;
    assert_eq!(rig.get("/v1/drain").await.json()["in_flight"], 0);
    rig.quiet().await;
}

/// A peer that never answers its close frame holds the drain up for a bounded time.
#[tokio::test]
async fn a_drain_ends_without_an_answer() {
    let rig = Rig::start(&[]).await;
    let mut peer = http::knock(rig.serving.address, &[]).await;
    assert_eq!(http::answer(&mut peer).await.status, 101);
    let drained = rig.serving.drain(Duration::ZERO, std::future::pending());
    let began = tokio::time::Instant::now();
    tokio::time::timeout(LIMIT, drained).await.expect("in bounded time");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    rig.quiet().await;
}

/// A body that says nothing changes nothing.
#[tokio::test]
async fn a_wrong_drain_is_refused() {
    let rig = Rig::start(&[]).await;
    for body in [json!({}), json!({"enabled": "yes"}), json!([true]), json!(null)] {
        let answer = rig.put("/v1/drain", &body).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_body"), "{body}");
    }
    assert_eq!(rig.get("/v1/drain").await.json()["refusing_new"], false);
}
