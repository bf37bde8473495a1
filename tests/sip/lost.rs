//! Callers who are lost without a word, and calls that break: every line comes back.

use std::sync::Arc;

use serde_json::json;

use crate::conversation::GREETS;
use crate::phone::{Phone, serve};
use crate::providers::BrokenEar;
use crate::rig::Rig;

/// Reliability D, 74: an INVITE that is answered and never acknowledged is given up.
#[tokio::test]
async fn an_answer_that_nobody_acknowledges_gives_the_line_back() {
    let rig = serve(&[GREETS, "limits.call.slots=1", "sip.t1_ms=10"]).await;
    let mut phone = Phone::new(&rig).await;
    let offer = phone.offer("0", "sendrecv");
    phone.invite(&offer, &[]).await;
    let answer = phone.final_answer().await;
    assert_eq!(phone.until_told("200").await.text, answer.text, "said again");
    phone.until_told("BYE").await;
    rig.quiet().await;
    assert_eq!(rig.get("/v1/calls/call-1").await.json()["ended_why"], json!("caller_gone"));
}

/// A phone that dies in its call: no sound for `sip.media_timeout_s`, and the call is over.
#[tokio::test]
async fn a_phone_that_falls_silent_altogether_is_gone() {
    let rig = serve(&[GREETS, "limits.call.slots=1", "sip.media_timeout_s=1"]).await;
    let mut phone = Phone::call(&rig).await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    let bye = phone.until_told("BYE").await;
    assert_eq!(bye.field("Call-ID"), Some(phone.call_id.as_str()));
    rig.quiet().await;
    assert_eq!(rig.get("/v1/calls/call-1").await.json()["ended_why"], json!("caller_gone"));
}

/// A panic in a call ends that call, with a BYE, and no other.
#[tokio::test]
async fn a_call_that_breaks_says_bye_and_breaks_no_other() {
    let settings = ["sip.listen=\"127.0.0.1:0\"", "sip.t1_ms=25", GREETS];
    let rig = Rig::with(&settings, |backends| backends.detector = Some(Arc::new(BrokenEar))).await;
    for _ in 0..2 {
        let mut phone = Phone::call(&rig).await;
        phone.speak(400);
        for _ in 0..20 {
            phone.say_frame().await;
        }
        let bye = phone.until_told("BYE").await;
        assert_eq!(bye.field("Call-ID"), Some(phone.call_id.as_str()));
    }
    rig.quiet().await;
    assert_eq!(rig.get("/v1/calls/call-1").await.json()["ended_why"], json!("broken"));
}
