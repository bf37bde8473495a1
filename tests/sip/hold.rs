//! The caller puts the call on hold, takes it back, and moves.

use std::net::SocketAddr;

use crate::phone::{Phone, serve_stories};
use crate::rig::{Rig, STORY, eventually};

async fn reoffer(phone: &mut Phone, direction: &str) -> crate::phone::Heard {
    let offer = phone.offer("0 8", direction);
    phone.invite(&offer, &[]).await;
    let answer = phone.final_answer().await;
    assert_eq!(answer.what(), "200", "{}", answer.text);
    phone.ack("").await;
    answer
}

/// The call has come to this.
async fn until_traced(rig: &Rig, line: &str) {
    let call = || rig.service().registry.find("call-1").map(|call| call.show().to_string());
    eventually(line, || match call() {
        Some(shown) if shown.contains(line) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

/// A caller who holds the call hears nothing, and nothing of what is said then is in the history;
/// the music that they may send is no speech. Taken back, the call goes on.
#[tokio::test]
async fn what_is_said_on_hold_was_not_heard() {
    let rig = serve_stories(&["agent.default.greeting=\"\"", "sip.media_timeout_s=1"]).await;
    let mut phone = Phone::call(&rig).await;
    phone.speak(900);
    phone.until("a second is heard", |phone| phone.heard_ms() >= 1_000).await;
    let held = reoffer(&mut phone, "sendonly").await;
    assert!(held.body().contains("a=recvonly"), "{}", held.text);
    until_traced(&rig, "<- truncate").await;
    phone.listen();
    let heard_ms = phone.heard_ms();
    phone.speak(1_000);
    let music_is_over = phone.sequence.wrapping_add(60);
    phone.until("the music is over", |phone| phone.sequence == music_is_over).await;
    let held = reoffer(&mut phone, "inactive").await;
    assert!(held.body().contains("a=inactive"), "{}", held.text);
    // Longer than a caller who is to be heard may be silent.
    tokio::time::sleep(std::time::Duration::from_millis(1_300)).await;
    let back = reoffer(&mut phone, "sendrecv").await;
    assert!(back.body().contains("a=sendrecv"), "{}", back.text);
    phone.listen();
    assert_eq!(phone.heard_ms(), heard_ms, "nothing is sent on hold");
    assert_eq!(rig.model.times_asked(), 1, "music is no turn");
    phone.speak(1_200);
    phone.until("the next answer begins", |phone| phone.heard_ms() > heard_ms).await;
    let words = rig.model.last_words_of_newest();
    assert!(STORY.starts_with(&words) && !words.is_empty(), "{words}");
    let words = words.split(' ').count();
    let told = format!("{words} words of {heard_ms} ms");
    assert!(words * 100 <= heard_ms + 100 && words * 100 + 400 >= heard_ms, "{told}");
    phone.hang_up().await;
    rig.quiet().await;
}

/// A phone that moves to another port says so, and is heard and spoken to there.
#[tokio::test]
async fn a_phone_may_move_to_another_port() {
    let rig = serve_stories(&["agent.default.greeting=\"\""]).await;
    let mut phone = Phone::call(&rig).await;
    phone.speak(900);
    phone.until("a second is heard", |phone| phone.heard_ms() >= 1_000).await;
    phone.rtp = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    phone.ssrc = 99;
    phone.sequence = 4;
    let answer = reoffer(&mut phone, "sendrecv").await;
    assert_eq!(Some(SocketAddr::new(phone.server.ip(), answer.sound_port())), phone.sound_to);
    phone.until("two seconds are heard", |phone| phone.heard_ms() >= 2_000).await;
    phone.speak(1_200);
    phone.until("the second turn is asked", |_| rig.model.times_asked() == 2).await;
    let heard_ms = phone.heard_ms();
    phone.until("the next answer is heard", |phone| phone.heard_ms() >= heard_ms + 400).await;
    let (heard_ms, silent_ms) = phone.longest_silence();
    assert!(silent_ms >= 1_000, "RTP stopped for {silent_ms} ms, behind {heard_ms} ms");
    phone.hang_up().await;
    rig.quiet().await;
}
