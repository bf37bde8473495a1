//! A caller is greeted, heard and answered, and takes the floor.

use serde_json::json;

use crate::phone::{PCMA, PCMU, Phone, serve, serve_stories};
use crate::providers::last_words;
use crate::rig::{REPLY, STORY};

/// Seven words: 700 ms.
const GREETING: &str = "Good morning, how can I help you?";
pub const GREETS: &str = "agent.default.greeting=\"Good morning, how can I help you?\"";

/// Issue 7: greeted, one spoken turn, one answer; nothing is left behind. What was agreed on is
/// what is sent: PCMU in frames of 20 ms, one number behind the other.
#[tokio::test]
async fn a_caller_is_greeted_heard_and_answered() {
    let rig = serve(&[GREETS]).await;
    let mut phone = Phone::call(&rig).await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    phone.speak(900);
    phone.until("the answer is heard", |phone| phone.heard_ms() >= 1_200).await;
    let request = rig.model.asked("What happened then?").expect("a spoken turn");
    assert_eq!(last_words(&request), GREETING, "the greeting was heard to its end");
    assert!(phone.packets.iter().all(|p| p.payload_type == PCMU && p.payload.len() == 160));
    for pair in phone.packets.windows(2) {
        assert_eq!(pair[1].sequence, pair[0].sequence.wrapping_add(1));
        let ahead = pair[1].timestamp.wrapping_sub(pair[0].timestamp);
        assert!(ahead == 160 || pair[1].marker && ahead % 160 == 0, "{ahead}");
    }
    assert!(phone.packets[0].marker);
    assert_eq!(phone.heard_ms(), (7 + REPLY.split(' ').count()) * 100);
    phone.hang_up().await;
    rig.quiet().await;
}

/// A port for both families knows callers over IPv4 by their own address.
#[tokio::test]
async fn a_port_for_both_families_takes_calls_over_ipv4() {
    let both = ["sip.listen=\"[::]:0\"", "sip.public_address=\"127.0.0.1\""];
    let rig = serve(&[both[0], both[1], "sip.peers=[\"127.0.0.1\"]", GREETS]).await;
    let mut phone = Phone::call(&rig).await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    phone.speak(900);
    phone.until("the answer is heard", |phone| phone.heard_ms() >= 1_200).await;
    phone.hang_up().await;
    rig.quiet().await;
}

/// A caller who makes no offer says only in the ACK where it hears; nothing is said before.
#[tokio::test]
async fn a_caller_who_makes_no_offer_hears_the_whole_greeting() {
    let rig = serve(&["sip.t1_ms=50", GREETS]).await;
    let mut phone = Phone::new(&rig).await;
    phone.invite("", &[]).await;
    let offer = phone.final_answer().await;
    phone.take_answer(&offer);
    assert!(offer.body().contains("a=sendrecv\r\n"), "{}", offer.text);
    for _ in 0..3 {
        assert_eq!(phone.until_told("200").await.text, offer.text, "said until it is acknowledged");
    }
    phone.ack(&phone.offer("0", "sendrecv")).await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    phone.speak(900);
    phone.until("the answer is heard", |phone| phone.heard_ms() >= 1_200).await;
    let request = rig.model.asked("What happened then?").expect("a spoken turn");
    assert_eq!(last_words(&request), GREETING, "the greeting was heard to its end");
    phone.hang_up().await;
    rig.quiet().await;
}

/// DESIGN 4, *Barge-in*: RTP stops, nothing of the old answer follows, and history is what was
/// heard.
#[tokio::test]
async fn a_caller_who_speaks_stops_the_agents_rtp() {
    let rig = serve_stories(&["agent.default.greeting=\"\""]).await;
    let mut phone = Phone::call(&rig).await;
    phone.speak(900);
    phone.until("two seconds are heard", |phone| phone.heard_ms() >= 2_000).await;
    phone.speak(1_200);
    phone.until("the second turn is asked", |_| rig.model.times_asked() == 2).await;
    let asked_at_ms = phone.heard_ms();
    phone.until("the next answer is heard", |phone| phone.heard_ms() >= asked_at_ms + 400).await;
    let (heard_ms, silent_ms) = phone.longest_silence();
    assert!(silent_ms >= 1_000, "RTP stopped for {silent_ms} ms, behind {heard_ms} ms");
    let request = rig.model.asked("What happened then?").expect("a turn");
    assert_eq!(last_words(&request), "", "nothing was said before it");
    let words = rig.model.last_words_of_newest();
    assert!(STORY.starts_with(&words), "{words}");
    let words = words.split(' ').count();
    let told = format!("{words} words of {heard_ms} ms");
    assert!(words * 100 <= heard_ms + 100 && words * 100 + 400 >= heard_ms, "{told}");
    phone.hang_up().await;
    rig.quiet().await;
}

/// A phone that sends nothing in silence (DTX) still ends its turn (B23), and one that speaks
/// A-law is understood and answered in it.
#[tokio::test]
async fn silence_need_not_be_sent_and_a_law_is_spoken() {
    let rig = serve(&["agent.default.greeting=\"\""]).await;
    let mut phone = Phone::new(&rig).await;
    (phone.payload_type, phone.dtx) = (PCMA, true);
    let offer = phone.offer("18 8 0", "sendrecv");
    phone.invite(&offer, &[]).await;
    let answer = phone.answered().await;
    assert!(answer.body().contains(" RTP/AVP 8 121\r\n"), "{}", answer.text);
    assert!(answer.body().contains("a=rtpmap:121 telephone-event/8000\r\n"), "{}", answer.text);
    phone.speak(900);
    phone.until("the answer is heard", |phone| phone.heard_ms() >= 500).await;
    assert!(rig.model.asked("What happened then?").is_some());
    assert!(phone.packets.iter().all(|packet| packet.payload_type == PCMA));
    phone.hang_up().await;
    rig.quiet().await;
}

/// Issue 7, point 5: the agent by what was dialled, and what the call knows of its caller.
#[tokio::test]
async fn what_is_dialled_chooses_who_answers() {
    let shop = [
        "agent.shop.greeting=\"This is the shop.\"",
        "agent.shop.instructions=\"You talk to {{call.from}}, who rang {{call.to}}.\"",
        "agent.shop.metadata.sip=\"{{call.param.Call-ID}}\"",
        GREETS,
    ];
    let rig = serve(&shop).await;
    let mut phone = Phone::new(&rig).await;
    phone.uri = phone.uri.replace("agent@", "shop@");
    let offer = phone.offer("0", "sendrecv");
    phone.invite(&offer, &[]).await;
    phone.answered().await;
    phone.until("the shop's greeting is heard", |phone| phone.heard_ms() >= 400).await;
    phone.speak(900);
    phone.until("the answer is heard", |phone| phone.heard_ms() >= 900).await;
    let request = rig.model.asked("What happened then?").unwrap();
    assert_eq!(last_words(&request), "This is the shop.");
    assert_eq!(request.instructions, "You talk to +15550100, who rang shop.");
    let shown = rig.get("/v1/calls/call-1").await.json();
    assert_eq!((&shown["agent"], &shown["transport"]), (&json!("shop"), &json!("sip")));
    assert_eq!(shown["metadata"]["sip"], phone.call_id.as_str(), "{shown:#}");
    phone.hang_up().await;
    rig.quiet().await;
}

/// The server ends the call: the goodbye is heard, then it hangs up, and says so until it is heard.
#[tokio::test]
async fn a_server_that_ends_the_call_says_bye_until_it_is_answered() {
    let rig = serve(&[GREETS, "agent.default.limits.idle_s=1"]).await;
    let mut phone = Phone::call(&rig).await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    let bye = phone.until_told("BYE").await;
    assert_eq!(phone.until_told("BYE").await.text, bye.text, "said again");
    assert_eq!(bye.field("CSeq"), Some("1 BYE"));
    assert_eq!(bye.field("From"), Some(phone.to.as_str()));
    assert_eq!(bye.field("To"), Some(phone.from.as_str()));
    assert!(
        bye.text.starts_with(&format!("BYE {} SIP/2.0", phone.contact().trim_matches(['<', '>'])))
    );
    let via = bye.field("Via").unwrap();
    let ok = format!(
        "SIP/2.0 200 OK\r\nVia: {via}\r\nFrom: {}\r\nTo: {}\r\nCall-ID: {}\r\nCSeq: 1 BYE\r\n\r\n",
        phone.to, phone.from, phone.call_id
    );
    phone.send_text(&ok).await;
    rig.quiet().await;
    assert_eq!(rig.service().sip().unwrap().dialogs(), (0, 0));
}

/// What pyVoIP does: its ACK and its answer to our BYE have tags that nobody has seen before.
#[tokio::test]
async fn a_telephone_that_makes_up_tags_is_understood() {
    let rig = serve(&[GREETS, "agent.default.limits.idle_s=1"]).await;
    let mut phone = Phone::new(&rig).await;
    let offer = phone.offer("0", "sendrecv");
    phone.invite(&offer, &[]).await;
    let answer = phone.final_answer().await;
    phone.take_answer(&answer);
    let whole = phone.to.clone();
    phone.to = "<sip:agent@floorkeeper.example>;tag=madeup".to_owned();
    phone.ack("").await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    let bye = phone.until_told("BYE").await;
    let ok = format!(
        "SIP/2.0 200 OK\r\nVia: {}\r\nFrom: {whole}\r\nTo: {}x\r\nCall-ID: {}\r\n\
         CSeq: 1 BYE\r\n\r\n",
        bye.field("Via").unwrap(),
        phone.from,
        phone.call_id
    );
    phone.send_text(&ok).await;
    rig.quiet().await;
    let page = rig.get("/metrics").await.text();
    assert!(page.contains("floorkeeper_sip_dropped_total{why=\"nobodys\"} 0"), "{page}");
}
