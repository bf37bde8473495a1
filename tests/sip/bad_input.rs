//! Nonsense, strangers and floods: answered by the book or dropped and counted, and never another
//! caller's problem.

use floorkeeper::transport::sip::Count;
use tokio::net::UdpSocket;

use crate::conversation::GREETS;
use crate::phone::{PCMU, Phone, branch, rtp, serve};
use crate::rig::{Rig, eventually};

fn counted(rig: &Rig, what: Count) -> u64 {
    rig.service().sip().unwrap().counts().of(what)
}

pub async fn until_counted(rig: &Rig, what: Count, count: u64) {
    eventually("it is counted", || match counted(rig, what) {
        found if found >= count => Ok(()),
        found => Err(format!("{found} {}", what.label())),
    })
    .await;
}

/// Messages that are none, while another calls.
#[tokio::test]
async fn nonsense_is_told_so_and_disturbs_nobody() {
    let rig = serve(&[GREETS]).await;
    let mut caller = Phone::call(&rig).await;
    let mut fool = Phone::new(&rig).await;
    for nonsense in
        ["nonsense", "\0\0\0\u{1}", "INVITE", "GET / HTTP/1.1\r\n\r\n", "SIP/2.0 2\r\n\r\n"]
    {
        fool.send_text(nonsense).await;
    }
    until_counted(&rig, Count::Malformed, 5).await;
    let offer = fool.offer("0", "sendrecv");
    let right = fool.write("INVITE", 1, &branch(), &["Content-Type: application/sdp"], &offer);
    for (from, to, status) in [
        ("Content-Length: ", "Content-Length: 9", "400"),
        ("CSeq: 1 INVITE", "CSeq: 99999999999 INVITE", "400"),
        ("SIP/2.0\r\nVia", "SIP/3.0\r\nVia", "505"),
        ("INVITE sip:", "INVITE mailto:", "416"),
        ("Max-Forwards: 70", "Require: mind-reading", "420"),
        ("application/sdp", "text/plain", "415"),
        ("m=audio", "m=video", "488"),
        ("c=IN IP4 127.0.0.1", "c=IN IP4 224.0.0.1", "488"),
        ("v=0", "v=", "400"),
    ] {
        assert!(right.contains(from), "{from}");
        fool.send_text(&right.replacen(from, to, 1)).await;
        let answer = fool.next().await;
        assert_eq!(answer.what(), status, "{to}: {}", answer.text);
        assert!(answer.field("To").unwrap().contains(";tag="));
    }
    // Of a dialog that is none; an ACK is never answered.
    fool.to += ";tag=none";
    fool.ack("").await;
    until_counted(&rig, Count::Nobodys, 1).await;
    for method in ["BYE", "INFO", "INVITE", "UPDATE", "CANCEL"] {
        fool.ask(method, &[], "").await;
        let answer = fool.next().await;
        let cseq = format!("{} {method}", fool.cseq);
        assert_eq!((answer.what(), answer.field("CSeq")), ("481", Some(cseq.as_str())));
    }
    // Who knows the call's name and not its tags ends nothing of it.
    let (call_id, from, to) = (fool.call_id.clone(), fool.from.clone(), fool.to.clone());
    fool.call_id = caller.call_id.clone();
    fool.ask("BYE", &[], "").await;
    assert_eq!(fool.next().await.what(), "481");
    fool.from = caller.from.clone();
    fool.cseq = 6;
    fool.ask("BYE", &[], "").await;
    assert_eq!(fool.next().await.what(), "481");
    (fool.call_id, fool.from, fool.to) = (call_id, from, to);

    caller.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    caller.speak(900);
    caller.until("the answer is heard", |phone| phone.heard_ms() >= 1_200).await;
    caller.hang_up().await;
    rig.quiet().await;
    assert_eq!(counted(&rig, Count::Broken), 0);
    assert_eq!(rig.service().sip().unwrap().dialogs().0, 0);
}

/// RTP of strangers, broken RTP, another SSRC, jumping numbers: the turn is heard all the same.
#[tokio::test]
async fn a_turn_is_heard_between_broken_and_strange_packets() {
    let rig = serve(&[GREETS]).await;
    let mut phone = Phone::call(&rig).await;
    phone.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let to = phone.sound_to.unwrap();
    for n in 0..50 {
        stranger.send_to(&rtp(PCMU, n, 9, 666, &[0; 160]), to).await.unwrap();
    }
    until_counted(&rig, Count::RtpOfStrangers, 50).await;
    for broken in [
        &[][..],
        &[0x80],
        &[0x80, 0, 0],
        &[0xff; 20],
        &[0x90, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0xff, 0xff],
    ] {
        phone.rtp.send_to(broken, to).await.unwrap();
    }
    phone.rtp.send_to(&rtp(PCMU, 1, 1, 7, &[0; 2_000]), to).await.unwrap();
    phone.rtp.send_to(&rtp(13, 1, 1, 7, &[64]), to).await.unwrap();
    phone.rtp.send_to(&[0x80, 200, 0, 1, 0, 0, 0, 7], to).await.unwrap();
    until_counted(&rig, Count::RtpUnknownType, 1).await;
    until_counted(&rig, Count::Rtcp, 1).await;
    phone.speak(300);
    phone.until("it has begun to speak", |phone| phone.sequence.is_multiple_of(10)).await;
    (phone.ssrc, phone.sequence, phone.timestamp) = (8, 40_000, 123);
    phone.speak(600);
    phone.until("the answer is heard", |phone| phone.heard_ms() >= 1_200).await;
    assert!(rig.model.asked("What happened then?").is_some());
    assert!(counted(&rig, Count::RtpMalformed) >= 4);
    let mut buffer = [0; 2_048];
    assert!(stranger.try_recv_from(&mut buffer).is_err(), "strangers are sent nothing");
    phone.hang_up().await;
    rig.quiet().await;
}

/// Reliability D, 71: INVITEs beyond what is remembered are refused without a memory of them; the
/// calls that are there go on.
#[tokio::test]
async fn a_flood_of_invites_is_refused_without_a_memory_of_it() {
    let settings =
        [GREETS, "connections.per_address=20", "limits.call.slots=1", "limits.call.queue=8"];
    let rig = serve(&settings).await;
    let mut caller = Phone::call(&rig).await;
    let mut flood = Phone::new(&rig).await;
    let offer = flood.offer("0", "sendrecv");
    let fields = ["Content-Type: application/sdp"];
    for n in 0..300 {
        flood.call_id = format!("flood{n}@phone.example");
        let text = flood.write("INVITE", 1, &branch(), &fields, &offer);
        flood.send_text(&text).await;
        if n % 20 == 19 {
            caller.until("the caller speaks on", |_| true).await;
        }
    }
    until_counted(&rig, Count::Flood, 1).await;
    let refused = flood.until_told("503").await;
    assert_eq!(refused.field("Retry-After"), Some("5"));
    assert!(rig.service().sip().unwrap().dialogs().0 <= 20);
    caller.until("the greeting is heard", |phone| phone.heard_ms() >= 700).await;
    caller.speak(900);
    caller.until("the answer is heard", |phone| phone.heard_ms() >= 1_200).await;
    caller.hang_up().await;
    rig.quiet().await;
    assert_eq!(rig.service().sip().unwrap().dialogs(), (0, 0), "nothing is remembered of it");
}

/// Who may not ring is not even answered.
#[tokio::test]
async fn who_is_no_peer_hears_nothing() {
    let rig = serve(&["sip.peers=[\"192.0.2.0/24\"]"]).await;
    let mut phone = Phone::new(&rig).await;
    phone.ask("OPTIONS", &[], "").await;
    until_counted(&rig, Count::Strangers, 1).await;
    let mut buffer = [0; 2_048];
    assert!(phone.sip.try_recv_from(&mut buffer).is_err());
    let page = rig.get("/metrics").await.text();
    assert!(page.contains("floorkeeper_sip_dropped_total{why=\"strangers\"} 1"), "{page}");
    rig.quiet().await;
}
