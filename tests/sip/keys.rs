//! Keys take the floor and are a turn, as sound or as a message.

use crate::phone::{EVENTS, Phone, serve_stories};
use crate::rig::STORY;

enum By {
    Sound,
    Message,
}

/// The packets of one key (RFC 4733, 2.5): the first marked, the last three times.
pub async fn press(phone: &mut Phone, kind: u8, event: u8) {
    let timestamp = phone.timestamp;
    for (ends, duration) in [(0, 160), (0, 320), (0x80, 480), (0x80, 480), (0x80, 480)] {
        let [high, low] = u16::to_be_bytes(duration);
        phone.send_rtp(kind, timestamp, &[event, ends | 10, high, low]).await;
    }
}

pub async fn info(phone: &mut Phone, signal: char) {
    let kind = ["Content-Type: application/dtmf-relay"];
    phone.ask("INFO", &kind, &format!("Signal={signal}\r\nDuration=160\r\n")).await;
}

async fn a_key_interrupts(by: By) {
    let rig = serve_stories(&["agent.default.greeting=\"\""]).await;
    let mut phone = Phone::call(&rig).await;
    phone.speak(900);
    phone.until("a second is heard", |phone| phone.heard_ms() >= 1_000).await;
    match by {
        By::Sound => {
            press(&mut phone, EVENTS, 4).await;
            press(&mut phone, EVENTS, 4).await; // the same press, come twice
            phone.timestamp = phone.timestamp.wrapping_add(160);
            press(&mut phone, EVENTS, 11).await;
        }
        By::Message => {
            info(&mut phone, '4').await;
            info(&mut phone, '#').await;
        }
    }
    let asked = || rig.model.asked("Keys pressed: 4#").is_some();
    phone.until("the keys are one turn", |_| asked()).await;
    let heard_ms = phone.heard_ms();
    let words = rig.model.last_words_of_newest();
    assert!(STORY.starts_with(&words) && !words.is_empty(), "{words}");
    let words = words.split(' ').count();
    assert!(words * 100 <= heard_ms + 100, "{words} words of {heard_ms} ms");
    assert!(words < STORY.split(' ').count(), "the story was not told to its end");
    phone.until("the next answer is heard", |phone| phone.heard_ms() >= heard_ms + 400).await;
    phone.hang_up().await;
    rig.quiet().await;
}

/// Issue 7, point 6, by telephone events.
#[tokio::test]
async fn a_key_in_the_sound_takes_the_floor_and_is_a_turn() {
    a_key_interrupts(By::Sound).await;
}

/// The same by INFO.
#[tokio::test]
async fn a_key_by_message_takes_the_floor_and_is_a_turn() {
    a_key_interrupts(By::Message).await;
}
