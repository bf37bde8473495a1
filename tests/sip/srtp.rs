//! Encrypted sound: keys in the description (SDES), packets that are proven.

use floorkeeper::transport::sip::Count;

use crate::bad_input::until_counted;
use crate::conversation::GREETS;
use crate::phone::{PCMU, Phone, rtp, serve, serve_stories};
use crate::rig::Rig;
use crate::sealed::{Key, Sealed, context, line, said};

const FIRST: Key = [1; 30];
const SECOND: Key = [2; 30];

/// An offer of this telephone's with a key.
fn offer(phone: &Phone, suite: u32, key: &Key, direction: &str) -> String {
    phone.offer("0 8", direction).replace("RTP/AVP", "RTP/SAVP") + &line(suite, key)
}

/// A call that is encrypted both ways.
async fn call(rig: &Rig, suite: u32) -> Phone {
    let mut phone = Phone::new(rig).await;
    phone.invite(&offer(&phone, suite, &FIRST, "sendrecv"), &[]).await;
    let answer = phone.answered().await;
    assert!(answer.body().contains(" RTP/SAVP 0 "), "{}", answer.text);
    let theirs = said(answer.body(), suite);
    assert_ne!(theirs, FIRST);
    phone.sealed = Some(Sealed::new(suite, &FIRST, &theirs));
    phone
}

async fn reoffer(phone: &mut Phone, key: &Key, direction: &str) -> Key {
    phone.invite(&offer(phone, 80, key, direction), &[]).await;
    let answer = phone.answered().await;
    said(answer.body(), 80)
}

/// Issue 7.2: SRTP (SDES) where it is offered, by both suites.
#[tokio::test]
async fn an_encrypted_call_is_a_call() {
    for suite in [80, 32] {
        let rig = serve(&[GREETS]).await;
        let mut phone = call(&rig, suite).await;
        phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
        phone.speak(900);
        phone.until("the answer is heard", |phone| phone.heard_ms() >= 1_200).await;
        assert!(rig.model.asked("What happened then?").is_some());
        phone.hang_up().await;
        rig.quiet().await;
    }
}

/// Bad input: what was not encrypted with the key, what comes twice and what is plain is counted
/// and not heard; the caller's turn is.
#[tokio::test]
async fn what_is_not_proven_is_counted_and_not_heard() {
    let rig = serve(&[GREETS]).await;
    let mut phone = call(&rig, 80).await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    let to = phone.sound_to.unwrap();
    let mut wrong = context(80, &SECOND);
    for sequence in 0..50 {
        let ssrc = if sequence % 2 == 0 { phone.ssrc } else { u32::from(sequence) };
        let packet = rtp(PCMU, 10_000 + sequence, 9, ssrc, &[0; 160]);
        let forged = wrong.encrypt_rtp(&packet).unwrap();
        phone.rtp.send_to(&forged, to).await.unwrap();
    }
    until_counted(&rig, Count::RtpUnproven, 50).await;
    phone.rtp.send_to(&rtp(PCMU, 10_000, 9, phone.ssrc, &[0; 160]), to).await.unwrap();
    until_counted(&rig, Count::RtpUnproven, 51).await;
    let last = phone.last_sent.clone();
    for _ in 0..3 {
        phone.rtp.send_to(&last, to).await.unwrap();
    }
    until_counted(&rig, Count::RtpReplayed, 3).await;
    phone.rtp.send_to(&[0xff; 30], to).await.unwrap();
    phone.speak(900);
    phone.until("the answer is heard", |phone| phone.heard_ms() >= 1_200).await;
    assert!(rig.model.asked("What happened then?").is_some());
    phone.hang_up().await;
    rig.quiet().await;
}

/// Somebody else at the caller's address is not sent what only the caller's key opens.
#[tokio::test]
async fn who_proves_nothing_is_sent_nothing() {
    let rig = serve(&[GREETS]).await;
    let mut phone = call(&rig, 80).await;
    let other = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    other.send_to(&rtp(PCMU, 1, 9, 7, &[0; 160]), phone.sound_to.unwrap()).await.unwrap();
    until_counted(&rig, Count::RtpUnproven, 1).await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    assert!(other.try_recv_from(&mut [0; 2_048]).is_err());
    phone.hang_up().await;
    rig.quiet().await;
}

/// Whoever cannot prove a packet is silent, and gone when that lasts.
#[tokio::test]
async fn a_caller_with_the_wrong_key_is_a_silent_one() {
    let rig = serve(&["agent.default.greeting=\"\"", "sip.media_timeout_s=1"]).await;
    let mut phone = call(&rig, 80).await;
    phone.sealed.as_mut().unwrap().ours = context(80, &SECOND);
    for _ in 0..20 {
        phone.say_frame().await;
    }
    until_counted(&rig, Count::RtpUnproven, 20).await;
    assert_eq!(phone.until_told("BYE").await.what(), "BYE");
    assert_eq!(rig.model.times_asked(), 0);
    rig.quiet().await;
}

/// Held under the same key, taken back, and under a new one: both ends speak with what was agreed
/// on last.
#[tokio::test]
async fn a_call_is_held_and_its_key_renewed() {
    let rig = serve_stories(&["agent.default.greeting=\"\""]).await;
    let mut phone = call(&rig, 80).await;
    phone.speak(900);
    phone.until("a second is heard", |phone| phone.heard_ms() >= 1_000).await;
    let held = reoffer(&mut phone, &FIRST, "sendonly").await;
    let back = reoffer(&mut phone, &FIRST, "sendrecv").await;
    assert_eq!(held, back, "our key stays for as long as theirs does");
    phone.listen();
    let heard_ms = phone.heard_ms();
    phone.speak(1_200);
    phone.until("the next answer is heard", |phone| phone.heard_ms() >= heard_ms + 400).await;
    phone.listen();
    let renewed = reoffer(&mut phone, &SECOND, "sendrecv").await;
    assert_ne!(renewed, back);
    // What was sent under the key before may still arrive.
    let sealed = phone.sealed.replace(Sealed::new(80, &SECOND, &renewed));
    phone.sealed_before = sealed.map(|sealed| sealed.theirs);
    let heard_ms = phone.heard_ms();
    phone.until("it goes on", |phone| phone.heard_ms() >= heard_ms + 400).await;
    phone.speak(1_200);
    phone.until("the third turn is asked", |_| rig.model.times_asked() == 3).await;
    phone.hang_up().await;
    rig.quiet().await;
}

/// `sip.srtp = "required"`: what is plain is refused, and who makes no offer is made one.
#[tokio::test]
async fn where_it_is_required_nothing_plain_is_spoken() {
    let rig = serve(&["sip.srtp=\"required\"", GREETS]).await;
    let mut phone = Phone::new(&rig).await;
    let to = phone.to.clone();
    phone.invite(&phone.offer("0", "sendrecv"), &[]).await;
    let refused = phone.final_answer().await;
    assert_eq!(refused.what(), "488", "{}", refused.text);
    assert!(refused.field("Warning").unwrap().contains("RTP/SAVP"), "{}", refused.text);
    phone.ack_refusal().await;
    phone.to = to;
    phone.invite("", &[]).await;
    let offered = phone.final_answer().await;
    phone.take_answer(&offered);
    assert!(offered.body().contains(" RTP/SAVP 96 9 0 8 101 97"), "{}", offered.text);
    phone.sealed = Some(Sealed::new(80, &FIRST, &said(offered.body(), 80)));
    phone.ack(&offer(&phone, 80, &FIRST, "sendrecv")).await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    phone.speak(900);
    phone.until("the answer is heard", |phone| phone.heard_ms() >= 1_200).await;
    phone.hang_up().await;
    rig.quiet().await;
}

/// `sip.srtp = "off"`: who offers nothing else is refused.
#[tokio::test]
async fn where_it_is_off_nothing_encrypted_is_spoken() {
    let rig = serve(&["sip.srtp=\"off\""]).await;
    let mut phone = Phone::new(&rig).await;
    phone.invite(&offer(&phone, 80, &FIRST, "sendrecv"), &[]).await;
    assert_eq!(phone.final_answer().await.what(), "488");
    phone.ack_refusal().await;
    rig.quiet().await;
}
