//! What makes no sense ends one call at most, and never another's (issue 7, *Bad input*).

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::conversation::GREETS;
use crate::double::Double;
use crate::rig::{LIMIT, Rig};

fn nonsense() -> Vec<Message> {
    let media = |payload: &str, stream: &str| {
        let media = json!({"payload": payload, "chunk": "1"});
        Message::text(json!({"event": "media", "streamSid": stream, "media": media}).to_string())
    };
    vec![
        Message::text("no JSON"),
        Message::text("[]"),
        Message::text("{\"event\": 5}"),
        Message::text("{\"event\": \"media\"}"),
        Message::text("{\"event\": \"mark\"}"),
        Message::text("{\"event\": \"dtmf\", \"dtmf\": {\"digit\": \"no key\"}}"),
        Message::binary(vec![0; 320]),
        media("%%%%", "MZ1"),
        media("/w==", "MZ2"),
        Message::text("{\"event\": \"start\", \"start\": {\"callSid\": \"CA2\"}}"),
    ]
}

/// A little of it changes nothing; what is unknown is nothing at all.
#[tokio::test]
async fn a_little_nonsense_changes_nothing() {
    let rig = Rig::start(&[GREETS]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    for message in nonsense() {
        caller.socket.send(message).await.unwrap();
    }
    for number in 0..200 {
        caller.send(json!({"event": "weather", "number": number})).await;
    }
    caller.send(json!({"event": "mark", "mark": {"name": "item_1.77"}})).await;
    caller.until("the greeting is heard", |double| double.played_ms() >= 700).await;
    caller.speak(900);
    caller.until("the answer is heard", |double| double.played_ms() >= 1_200).await;
    caller.stop().await;
    rig.quiet().await;
}

/// Who goes on like that is ended; the caller beside them hears nothing of it.
#[tokio::test]
async fn much_nonsense_ends_its_own_call_only() {
    let rig = Rig::telling_stories(&[]).await;
    let mut good = Double::call(&rig, json!({})).await;
    good.speak(900);
    good.until("the story is heard", |double| double.played_ms() >= 300).await;
    let mut bad = Double::call(&rig, json!({})).await;
    for message in nonsense().into_iter().cycle().take(60) {
        // The server may have ended it before the last one.
        if bad.socket.send(message).await.is_err() {
            break;
        }
    }
    assert_eq!(bad.until_closed().await, 1008);
    let heard = good.played_ms();
    good.until("the story goes on", |double| double.played_ms() >= heard + 1_000).await;
    good.stop().await;
    rig.quiet().await;
}

/// Who breaks the protocol is told by which code, whatever they still send.
#[tokio::test]
async fn a_close_code_is_seen_by_a_peer_that_sends_on() {
    let rig = Rig::start(&[]).await;
    let endless = "x".repeat(4 << 20);
    for (what, code) in [(endless.as_str(), 1009), ("no JSON", 1008)] {
        let bad = Double::call(&rig, json!({})).await;
        let (mut says, mut hears) = bad.socket.split();
        let sending = async {
            for _ in 0..2_000 {
                // The server may have ended it before the last one.
                if says.send(Message::text(what)).await.is_err() {
                    break;
                }
                if what.len() > 100 {
                    break;
                }
            }
        };
        let hearing = async {
            loop {
                match hears.next().await {
                    Some(Ok(Message::Close(frame))) => return frame.map(|f| u16::from(f.code)),
                    Some(Ok(_)) => {}
                    other => panic!("no close frame: {other:?}"),
                }
            }
        };
        let ((), told) = tokio::join!(sending, tokio::time::timeout(LIMIT, hearing));
        assert_eq!(told.expect("in time"), Some(code));
        drop((says, hears));
    }
    rig.quiet().await;
}

/// A caller's sound may come faster than real time, for a while.
#[tokio::test]
async fn sound_at_many_times_real_time_is_heard() {
    let rig = Rig::start(&[]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    caller.speak(900);
    let loud: Vec<u8> = (0..160).map(|at| if at % 16 < 8 { 0x8f } else { 0x0f }).collect();
    for frame in 0..300 {
        let sound = if frame < 45 { loud.clone() } else { vec![0xff; 160] };
        caller.send_sound(&sound).await;
    }
    caller.until("the answer is heard", |double| double.played_ms() >= 500).await;
    caller.stop().await;
    rig.quiet().await;
}
