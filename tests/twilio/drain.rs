//! A drain knows the calls that have their line and no stream yet, and the streams that have not
//! said their start.

use std::pin::pin;
use std::time::Duration;

use floorkeeper::id::Stage;
use futures_util::StreamExt;
use serde_json::json;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use crate::conversation::GREETS;
use crate::double::Double;
use crate::gate::{ring, stream_of};
use crate::http;
use crate::rig::{LIMIT, Rig, eventually};

const LONG: Duration = Duration::from_secs(60);

fn line_taken(rig: &Rig) -> u64 {
    rig.counts(Stage::Call).active
}

/// Who was connected before the drain is never turned away (the guide, *Put it behind Twilio*).
#[tokio::test]
async fn a_drain_waits_for_the_stream_of_an_answered_webhook() {
    let rig = Rig::start(&[GREETS]).await;
    let stream = stream_of(&ring(&rig, "", &[]).await);
    let mut drained = pin!(rig.serving.drain(LONG, std::future::pending()));
    let waited = timeout(Duration::from_millis(500), &mut drained).await;
    assert!(waited.is_err(), "a caller who has a line was forgotten");
    assert_eq!(rig.get("/v1/drain").await.json()["in_flight"], 1);
    let talk = async {
        let mut caller = Double::at(&stream, json!({})).await;
        caller.until("the greeting is heard", |double| double.played_ms() >= 700).await;
        caller.stop().await;
        assert_eq!(caller.until_closed().await, 1000);
    };
    tokio::select! {
        () = &mut drained => panic!("the drain ended with a caller on the line"),
        () = talk => {}
    }
    timeout(LIMIT, drained).await.expect("nobody is left");
    assert_eq!(rig.get("/v1/drain").await.json()["in_flight"], 0);
    rig.quiet().await;
}

/// A line whose stream never comes is given up when the window closes.
#[tokio::test]
async fn a_line_without_a_stream_goes_back_when_the_window_closes() {
    let rig = Rig::start(&["twilio.stream_within_ms=60000"]).await;
    let stream = stream_of(&ring(&rig, "", &[]).await);
    assert_eq!(line_taken(&rig), 1);
    let drained = rig.serving.drain(Duration::from_millis(200), std::future::pending());
    timeout(Duration::from_secs(5), drained).await.expect("long before its own deadline");
    assert_eq!(line_taken(&rig), 0);
    let path = stream.split_once("/v1").unwrap().1;
    let mut late = http::knock_at(rig.serving.address, &format!("/v1{path}"), &[]).await;
    assert_eq!(http::answer(&mut late).await.code(), "unknown_seat");
    rig.quiet().await;
}

/// A stream that has not said its start is a caller too: waited for, and told when the window
/// closes.
#[tokio::test]
async fn a_stream_before_its_start_is_waited_for_and_told() {
    let rig = Rig::start(&[]).await;
    let url = format!("ws://{}/v1/twilio", rig.serving.address);
    let mut silent = Double::connected(&url).await;
    eventually("it has its line", || match line_taken(&rig) {
        1 => Ok(()),
        other => Err(format!("{other} are taken")),
    })
    .await;
    let drained = rig.serving.drain(Duration::from_millis(500), std::future::pending());
    let began = tokio::time::Instant::now();
    let told = async {
        let message = timeout(LIMIT, silent.socket.next()).await.expect("in time");
        (message, began.elapsed())
    };
    let ((), (message, told_after)) = tokio::join!(drained, told);
    let Some(Ok(Message::Close(Some(close)))) = message else { panic!("{message:?}") };
    assert_eq!((u16::from(close.code), close.reason.as_str()), (1012, "drained"));
    assert!(told_after >= Duration::from_millis(450), "{told_after:?}: before the window closed");
    rig.quiet().await;
}
