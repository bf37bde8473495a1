//! Telephones that speak G.722 and Opus (issue 7.2), and those that change what they speak.

use floorkeeper::transport::sip::Count;

use crate::bad_input::until_counted;
use crate::conversation::GREETS;
use crate::keys::{info, press};
use crate::phone::{Heard, PCMU, Phone, serve, serve_stories};
use crate::rig::{REPLY, Rig};
use crate::voice::{Voice, loud_ms, part_of};

const G722: u8 = 9;
/// What this telephone calls Opus, and the keys beside it.
const OPUS: u8 = 107;
const WIDE_KEYS: u8 = 122;
const OPUS_MAP: &str = "a=rtpmap:107 opus/48000/2\r\na=fmtp:107 useinbandfec=1;stereo=1\r\n";
const WIDE_KEYS_MAP: &str = "a=rtpmap:122 telephone-event/48000\r\n";
/// The pitch of the agent's voice.
const PITCH_HZ: f32 = 130.0;

/// Offers this, and takes the answer; from now on the caller speaks so.
async fn agree(phone: &mut Phone, formats: &str, lines: &str, voice: Voice, kind: u8) -> Heard {
    let offer = phone.offer(formats, "sendrecv") + lines;
    phone.invite(&offer, &[]).await;
    let answer = phone.answered().await;
    let first = format!(" RTP/AVP {kind}");
    assert!(answer.body().contains(&first), "{}", answer.text);
    (phone.voice, phone.payload_type) = (voice, kind);
    answer
}

async fn opus_call(rig: &Rig, formats: &str, lines: &str) -> (Phone, Heard) {
    let mut phone = Phone::new(rig).await;
    let answer = agree(&mut phone, formats, lines, Voice::opus(), OPUS).await;
    (phone, answer)
}

/// Greeted, heard and answered, and what is heard is the agent's voice.
async fn is_a_conversation(rig: &Rig, phone: &mut Phone) {
    let kind = phone.payload_type;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    let greeting = phone.voice.heard(&phone.packets[..35]);
    let (loud, pitch) = (loud_ms(&greeting), part_of(&greeting, PITCH_HZ));
    assert!(loud >= 400 && pitch > 0.4, "{loud} ms are loud, {pitch} of it the agent's pitch");
    phone.speak(900);
    let whole_ms = (7 + REPLY.split(' ').count()) * 100;
    phone.until("the answer is heard", |phone| phone.heard_ms() >= whole_ms).await;
    assert!(rig.model.asked("What happened then?").is_some(), "the caller was heard");
    for two in phone.packets.windows(2) {
        assert_eq!((two[1].payload_type, two[1].ssrc), (kind, two[0].ssrc));
        assert_eq!(two[1].sequence, two[0].sequence.wrapping_add(1));
        let ahead = two[1].timestamp.wrapping_sub(two[0].timestamp);
        assert!(ahead > 0 && ahead % phone.voice.ticks() == 0, "{ahead}");
    }
    let heard = phone.voice.heard(&phone.packets);
    assert!(loud_ms(&heard) >= 700, "{} ms of {whole_ms} are loud", loud_ms(&heard));
}

/// G.722 in both directions, whose timestamps count half of its samples (RFC 3551, 4.5.2).
#[tokio::test]
async fn g722_is_spoken_both_ways() {
    let rig = serve(&[GREETS]).await;
    let mut phone = Phone::new(&rig).await;
    let answer = agree(&mut phone, "9 0 8", "", Voice::g722(), G722).await;
    assert!(answer.body().contains("a=rtpmap:9 G722/8000\r\n"), "{}", answer.text);
    assert!(answer.body().contains(" RTP/AVP 9 121\r\n"), "{}", answer.text);
    is_a_conversation(&rig, &mut phone).await;
    phone.hang_up().await;
    rig.quiet().await;
}

/// Opus in both directions, though every tenth packet is lost, with the keys that count as it does
/// (RFC 4733, 2.1).
#[tokio::test]
async fn opus_is_spoken_both_ways() {
    let rig = serve(&[GREETS]).await;
    let (mut phone, answer) =
        opus_call(&rig, "107 9 0 122", &format!("{OPUS_MAP}{WIDE_KEYS_MAP}")).await;
    assert!(answer.body().contains(" RTP/AVP 107 122\r\n"), "{}", answer.text);
    assert!(answer.body().contains("a=fmtp:107 useinbandfec=1\r\n"), "{}", answer.text);
    phone.loses_every = Some(10);
    is_a_conversation(&rig, &mut phone).await;
    phone.loses_every = None;
    assert_eq!(rig.model.times_asked(), 1, "the losses end no turn");
    press(&mut phone, WIDE_KEYS, 4).await;
    phone.timestamp = phone.timestamp.wrapping_add(960);
    press(&mut phone, WIDE_KEYS, 11).await;
    let asked = || rig.model.asked("Keys pressed: 4#").is_some();
    phone.until("the keys are one turn", |_| asked()).await;
    phone.hang_up().await;
    rig.quiet().await;
}

/// A telephone whose keys count 8,000 beside its Opus: Opus is spoken, keys come as messages.
#[tokio::test]
async fn opus_is_worth_more_than_keys_in_the_sound() {
    let rig = serve(&["agent.default.greeting=\"\""]).await;
    let (mut phone, answer) = opus_call(&rig, "107 0", OPUS_MAP).await;
    assert!(answer.body().contains(" RTP/AVP 107\r\n"), "{}", answer.text);
    press(&mut phone, 121, 5).await;
    until_counted(&rig, Count::RtpUnknownType, 5).await;
    info(&mut phone, '4').await;
    info(&mut phone, '#').await;
    let asked = || rig.model.asked("Keys pressed: 4#").is_some();
    phone.until("the keys are one turn", |_| asked()).await;
    phone.hang_up().await;
    rig.quiet().await;
}

/// RFC 3264, 8.3.2: another codec in the middle of an answer. It goes on, under another name where
/// its timestamps count something else (RFC 7160, 4.2), and the caller is heard in each.
#[tokio::test]
async fn a_call_may_change_its_codec() {
    let rig = serve_stories(&["agent.default.greeting=\"\""]).await;
    let mut phone = Phone::call(&rig).await;
    phone.speak(900);
    phone.until("half a second is heard", |phone| phone.heard_ms() >= 500).await;
    let whole = [("107", OPUS_MAP, OPUS), ("9", "", G722)];
    let mut kinds = vec![PCMU];
    for (formats, lines, kind) in whole {
        let voice = if kind == OPUS { Voice::opus() } else { Voice::g722() };
        agree(&mut phone, formats, lines, voice, kind).await;
        let of = |phone: &Phone| phone.packets.iter().filter(|p| p.payload_type == kind).count();
        phone.until("it is heard so", |phone| of(phone) >= 20).await;
        kinds.push(kind);
    }
    phone.packets.dedup_by_key(|packet| packet.payload_type);
    let spoken: Vec<u8> = phone.packets.iter().map(|packet| packet.payload_type).collect();
    assert_eq!(spoken, kinds, "each behind the other");
    assert!(phone.packets.windows(2).all(|two| two[0].ssrc != two[1].ssrc));
    assert_eq!(rig.model.times_asked(), 1, "a change interrupts nobody");
    phone.speak(1_200);
    phone.until("the second turn is asked", |_| rig.model.times_asked() == 2).await;
    phone.hang_up().await;
    rig.quiet().await;
}

/// What the configuration leaves out is not spoken, and who offers nothing else is told what would
/// be right.
#[tokio::test]
async fn only_what_is_configured_is_spoken() {
    let rig = serve(&["sip.codecs=[\"pcma\", \"g722\"]"]).await;
    let mut phone = Phone::new(&rig).await;
    let offer = phone.offer("107 0", "sendrecv") + OPUS_MAP;
    phone.invite(&offer, &[]).await;
    let refused = phone.final_answer().await;
    assert_eq!(refused.what(), "488", "{}", refused.text);
    let right = "305 floorkeeper \"spoken over RTP/AVP: PCMA, G722\"";
    assert_eq!(refused.field("Warning"), Some(right), "{}", refused.text);
    phone.ack_refusal().await;
    let mut phone = Phone::new(&rig).await;
    phone.invite("", &[]).await;
    let offered = phone.final_answer().await;
    assert!(offered.body().contains(" RTP/AVP 8 9 101\r\n"), "{}", offered.text);
    phone.take_answer(&offered);
    phone.ack(&phone.offer("9", "sendrecv")).await;
    phone.hang_up().await;
    rig.quiet().await;
}
