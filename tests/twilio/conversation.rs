//! A caller is greeted, heard and answered; parameters choose who answers.

use std::time::Duration;

use serde_json::json;

use crate::double::{Came, Double};
use crate::providers::last_words;
use crate::rig::{REPLY, Rig};

/// Seven words: 700 ms.
pub const GREETING: &str = "Good morning, how can I help you?";
pub const GREETS: &str = "agent.default.greeting=\"Good morning, how can I help you?\"";

/// Issue 7, point 1: greeted, one spoken turn, one answer; nothing is left behind.
#[tokio::test]
async fn a_caller_is_greeted_heard_and_answered() {
    let rig = Rig::start(&[GREETS]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    caller.until("the greeting is heard", |double| double.played_ms() >= 700).await;
    assert_eq!(caller.buffered(), 0);
    caller.speak(900);
    caller.until("the answer is heard", |double| double.played_ms() >= 1_200).await;
    let request = rig.model.asked("What happened then?").expect("a spoken turn");
    assert_eq!(last_words(&request), GREETING, "the greeting was heard to its end");
    let frames = caller.came.iter().filter_map(|came| match came {
        Came::Sound(bytes) => Some(*bytes),
        _ => None,
    });
    assert!(frames.clone().all(|bytes| bytes <= 160), "frames of 20 ms at most");
    assert_eq!(frames.sum::<usize>() / 8, (7 + REPLY.split(' ').count()) * 100);
    caller.stop().await;
    rig.quiet().await;
}

/// What the far end does not have yet is at most `playout.lead_ms` (DESIGN 4, *Pacing*).
#[tokio::test]
async fn no_more_than_the_lead_is_sent_ahead() {
    let rig = Rig::telling_stories(&["agent.default.greeting=\"\""]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    caller.speak(900);
    let mut most = 0;
    caller
        .until("two seconds are heard", |double| {
            most = most.max(double.buffered());
            double.played_ms() >= 2_000
        })
        .await;
    // The double's ticks and the server's clock are not in step; the story has six seconds.
    assert!(most <= 8 * (200 + 200), "{} ms were ahead", most / 8);
    caller.stop().await;
    rig.quiet().await;
}

/// A far end that returns no marks is believed to play what it is sent (issue 7, *Bad input*).
#[tokio::test]
async fn marks_that_never_come_back_hold_nobody_up() {
    let rig = Rig::start(&[GREETS]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    caller.returns_marks = false;
    caller.until("the greeting is heard", |double| double.played_ms() >= 700).await;
    caller.speak(900);
    caller.until("the answer is heard", |double| double.played_ms() >= 1_200).await;
    assert_eq!(last_words(&rig.model.asked("What happened then?").unwrap()), GREETING);
    caller.stop().await;
    rig.quiet().await;
}

/// Issue 7, point 5: the agent by a stream parameter, and what the call knows of its caller.
#[tokio::test]
async fn parameters_choose_the_agent_and_are_known_to_it() {
    let shop = [
        "agent.shop.greeting=\"This is the shop of {{call.param.town}}.\"",
        "agent.shop.instructions=\"You talk to {{call.from}}, who rang {{call.to}}.\"",
        "agent.shop.metadata.sid=\"{{call.param.CallSid}}\"",
        GREETS,
    ];
    let rig = Rig::start(&shop).await;
    let params = json!({"agent": "shop", "town": "Ulm", "From": "+15550100", "To": "+15550199"});
    let mut caller = Double::call(&rig, params).await;
    caller.until("the shop's greeting is heard", |double| double.played_ms() >= 600).await;
    caller.speak(900);
    caller.until("the answer is heard", |double| double.played_ms() >= 1_100).await;
    let request = rig.model.asked("What happened then?").unwrap();
    assert_eq!(last_words(&request), "This is the shop of Ulm.");
    assert_eq!(request.instructions, "You talk to +15550100, who rang +15550199.");
    let shown = rig.get("/v1/calls/call-1").await.json();
    assert_eq!((&shown["agent"], &shown["transport"]), (&json!("shop"), &json!("twilio")));
    assert_eq!(shown["metadata"]["sid"], "CA1", "{shown:#}");
    caller.stop().await;
    rig.quiet().await;
}

/// A caller who hangs up in mid-answer: every unit comes back.
#[tokio::test]
async fn a_stop_in_mid_answer_ends_the_call_at_once() {
    let rig = Rig::telling_stories(&[]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    caller.speak(900);
    caller.until("the story is heard", |double| double.played_ms() >= 500).await;
    caller.stop().await;
    assert_eq!(caller.until_closed().await, 1000);
    rig.quiet().await;

    let mut other = Double::call(&rig, json!({})).await;
    other.speak(900);
    other.until("the story is heard", |double| double.played_ms() >= 500).await;
    drop(other);
    rig.quiet().await;
}

/// The caller's sound stops coming in mid-speech: that is silence, and the turn is answered (B23).
#[tokio::test]
async fn a_gap_in_the_callers_sound_ends_the_turn() {
    let rig = Rig::start(&[]).await;
    let mut caller = Double::call(&rig, json!({})).await;
    let mut loud = Vec::new();
    floorkeeper::codec::g711::Law::Mu.encode(&[8_000; 160], &mut loud);
    for at in 0..45 {
        let sound: Vec<u8> = loud.iter().enumerate().map(|(n, s)| s ^ flip(n + at)).collect();
        caller.send_sound(&sound).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let asked = || match rig.model.asked("What happened then?") {
        Some(_) => Ok(()),
        None => Err("nothing was asked".to_owned()),
    };
    crate::rig::eventually("the turn is answered without another frame", asked).await;
    caller.stop().await;
    rig.quiet().await;
}

/// The sign of a square wave, in mu-law.
fn flip(at: usize) -> u8 {
    if at % 16 < 8 { 0x80 } else { 0 }
}
