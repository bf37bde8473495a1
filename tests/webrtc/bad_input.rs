//! Channels and messages that are none of ours, and a thousand of what comes to nothing.

use serde_json::json;

use crate::http;
use crate::peer::{Peer, post};
use crate::rig::{Rig, eventually};

const SDP: &str = "application/sdp";

#[tokio::test]
async fn a_channel_with_another_label_is_told_the_right_one() {
    let rig = Rig::start(&[]).await;
    let (mut peer, offer) = Peer::offering_on("my-events").await;
    peer.take_answer(&post(&rig, SDP, &offer).await);
    let error = peer.until("error").await["error"].clone();
    assert_eq!((&error["code"], &error["param"]), (&json!("invalid_value"), &json!("label")));
    assert!(error["message"].as_str().unwrap().contains("'oai-events'"), "{error}");
    peer.send(json!({"type": "response.create"}));
    peer.listen(crate::peer::MOMENT).await;
    assert_eq!(peer.events.len(), 1, "nothing is read on it: {:?}", peer.kinds());
    peer.close().await;
    rig.quiet().await;
}

/// A client that takes messages of 65,536 bytes and sends longer ones.
async fn takes_little(rig: &Rig) -> Peer {
    let (mut peer, offer) = Peer::offering().await;
    let small = offer.replace("max-message-size:262144", "max-message-size:65536");
    assert_ne!(small, offer);
    peer.take_answer(&post(rig, SDP, &small).await);
    peer.until("session.created").await;
    peer
}

#[tokio::test]
async fn a_client_may_send_more_than_it_takes() {
    let rig = Rig::start(&[]).await;
    let mut peer = takes_little(&rig).await;
    assert!(peer.answers[0].contains("a=max-message-size:262144\r\n"), "{}", peer.answers[0]);
    peer.send(json!({"type": "no.such.event", "event_id": "mine", "x": "x".repeat(200_000)}));
    assert_eq!(peer.until("error").await["error"]["event_id"], "mine");
    peer.close().await;
    rig.quiet().await;
}

/// A client that sends longer events than the server takes, which are dropped by the library. One
/// of the same library sends nothing that is longer than its own limit: so the server's is the
/// smaller one here, and the client does not know it.
async fn sends_much() -> (Rig, Peer) {
    let rig = Rig::start(&["realtime.message_max=64KiB"]).await;
    let (mut peer, offer) = Peer::offering().await;
    let mut answer = post(&rig, SDP, &offer).await;
    let told = answer.text();
    assert!(told.contains("a=max-message-size:65536\r\n"), "{told}");
    answer.body = told.replace("max-message-size:65536", "max-message-size:262144").into_bytes();
    peer.take_answer(&answer);
    peer.until("session.created").await;
    (rig, peer)
}

fn event(id: &str, bytes: usize) -> serde_json::Value {
    json!({"event_id": id, "type": "no.such", "x": "x".repeat(bytes)})
}

#[tokio::test]
async fn an_event_that_is_too_long_for_us_is_told_of_and_the_call_lives() {
    let (rig, mut peer) = sends_much().await;
    peer.send(event("before", 60_000));
    for _ in 0..3 {
        peer.send(event("long", 70_000));
    }
    peer.send(event("longest", 262_000));
    peer.send(event("behind", 60_000));
    for expected in ["before", "", "", "", "", "behind"] {
        let error = peer.until("error").await["error"].clone();
        assert_eq!(error["event_id"].as_str().unwrap_or_default(), expected, "{error:#}");
        if expected.is_empty() {
            assert_eq!(error["code"], "event_too_large");
            assert!(error["message"].as_str().unwrap().contains("65536"), "{error:#}");
        }
    }
    peer.ask("Are you there?");
    peer.until("output_audio_buffer.stopped").await;
    peer.close().await;
    rig.quiet().await;
}

/// What nothing comes of is kept for a while, and not for ever.
#[tokio::test]
async fn a_client_that_goes_on_sending_what_is_too_long_is_told_and_closed() {
    let (rig, mut peer) = sends_much().await;
    for _ in 0..12 {
        peer.send(event("long", 262_000));
    }
    peer.until_closed().await;
    let last = peer.events.last().unwrap();
    assert_eq!(last["error"]["code"], "event_too_large", "{last:#}");
    rig.quiet().await;
    let shown = rig.service().registry.find("call-1").unwrap().show();
    assert!(shown["trace"].to_string().contains("<- caller gone: protocol"), "{shown:#}");
}

#[tokio::test]
async fn an_event_that_is_too_long_for_the_client_is_told_of() {
    let rig = Rig::start(&[]).await;
    let mut peer = takes_little(&rig).await;
    let content = json!([{"type": "input_text", "text": "x".repeat(100_000)}]);
    let item = json!({"id": "long", "type": "message", "role": "user", "content": content});
    peer.send(json!({"type": "conversation.item.create", "item": item}));
    for kind in ["conversation.item.added", "conversation.item.done"] {
        let error = peer.until("error").await["error"].clone();
        assert_eq!(error["code"], "event_too_large");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(kind) && message.contains("65536"), "{message}");
    }
    peer.send(json!({"type": "conversation.item.delete", "item_id": "long"}));
    peer.until("conversation.item.deleted").await;
    peer.ask("Hello?");
    peer.until("output_audio_buffer.stopped").await;
    peer.close().await;
    rig.quiet().await;
}

/// Files and sockets of this process.
pub fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Far fewer than a thousand are left over; a few belong to the tests that run beside this one.
pub async fn no_more_files_than(before: usize) {
    eventually("its sockets are closed", || match open_files() {
        open if open <= before + 100 => Ok(()),
        open => Err(format!("{open} open files, {before} before")),
    })
    .await;
}

#[tokio::test]
async fn a_thousand_bad_offers_and_a_thousand_finished_calls_leave_nothing() {
    let rig = Rig::start(&["limits.call.slots=1000"]).await;
    let (_, offer) = Peer::offering().await;
    let wrong = offer.replace("opus/48000", "speex/8000");
    let before = open_files();
    for _ in 0..100 {
        let bad = (0..10).map(|_| post(&rig, SDP, &wrong));
        for answer in futures_util::future::join_all(bad).await {
            assert_eq!((answer.status, answer.code().as_str()), (400, "no_common_codec"));
        }
        let good = (0..10).map(|_| post(&rig, SDP, &offer));
        let calls = futures_util::future::join_all(good).await;
        let over = calls.iter().map(|call| async {
            let hang_up = format!("{}/hangup", call.header("location").unwrap());
            http::ask(rig.serving.address, "POST", &hang_up, &[], "").await.status
        });
        assert_eq!(futures_util::future::join_all(over).await, [200; 10]);
    }
    rig.quiet().await;
    assert_eq!(rig.serving.port_stats().map(|stats| stats.seats), Some(0));
    no_more_files_than(before).await;
}
