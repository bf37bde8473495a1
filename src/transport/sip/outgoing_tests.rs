//! Calls that we place, message by message.

use super::super::Srtp;
use super::super::codec::Codecs;
use super::super::message::parse;
use super::*;
use crate::time::ms;

const US: &str = "192.0.2.1:5060";
const PEER: &str = "192.0.2.9:5060";
const SDP: &str = "v=0\r\no=- 1 1 IN IP4 192.0.2.9\r\ns=-\r\nc=IN IP4 192.0.2.9\r\nt=0 0\r\n\
     m=audio 4000 RTP/AVP 8 101\r\na=rtpmap:101 telephone-event/8000\r\n";

fn hop() -> Hop {
    Hop { from: PEER.parse().unwrap(), transport: "UDP" }
}

fn at(now_ms: u64) -> Timestamp {
    Timestamp::from_millis(now_ms)
}

struct Rig {
    call: Outgoing,
    sent: Vec<String>,
}

impl Rig {
    fn new() -> Rig {
        Rig::encrypted(Srtp::Offered)
    }

    fn encrypted(srtp: Srtp) -> Rig {
        let setup = Setup {
            us: US.parse().unwrap(),
            secure: None,
            sips: false,
            transport: "UDP",
            t1: ms(500),
            srtp,
            codecs: Codecs::default(),
            tag: "ours".to_owned(),
            session: 7,
        };
        let wanted = Wanted {
            uri: "sip:+15550100@192.0.2.9".to_owned(),
            from: "<sip:+15550199@192.0.2.1>".to_owned(),
            call_id: "call-1".to_owned(),
            peer: PEER.parse().unwrap(),
            hears_at: "192.0.2.1:30000".parse().unwrap(),
            ring_max: ms(20_000),
            credentials: Some(Credentials { user: "us".to_owned(), password: "pw".to_owned() }),
        };
        let mut rig = Rig { call: Outgoing::begin(at(0), setup, wanted), sent: Vec::new() };
        rig.collect();
        rig
    }

    fn collect(&mut self) {
        while let Some((to, bytes)) = self.call.poll_send() {
            assert_eq!(to.to_string(), PEER);
            self.sent.push(String::from_utf8(bytes.to_vec()).unwrap());
        }
    }

    /// The peer answers the newest request of this method.
    fn answer(&mut self, now_ms: u64, status: u16, method: &str, more: &str, body: &str) {
        let newest = self.sent.iter().rev().find(|sent| sent.starts_with(method)).unwrap();
        let field = |name: &str| newest.lines().find(|line| line.starts_with(name)).unwrap();
        let (via, cseq) = (field("Via: "), field("CSeq: "));
        let to = match status {
            100 => "To: <sip:+15550100@192.0.2.9>\r\n",
            _ if more.contains("To: ") => "",
            _ => "To: <sip:+15550100@192.0.2.9>;tag=theirs\r\n",
        };
        let (from, length) = (field("From: "), body.len());
        let text = format!(
            "SIP/2.0 {status} Whatever\r\n{via}\r\n{to}{from}\r\nCall-ID: call-1\r\n{cseq}\r\n\
             {more}Content-Length: {length}\r\n\r\n{body}"
        );
        let message = parse(text.as_bytes()).unwrap();
        self.call.receive(at(now_ms), message, hop());
        self.collect();
    }

    fn tick(&mut self, now_ms: u64) {
        self.call.tick(at(now_ms));
        self.collect();
    }

    fn said(&mut self) -> Option<Said> {
        self.call.poll_said()
    }

    /// The methods of what was sent since.
    fn methods(&mut self) -> Vec<String> {
        let first = |text: &String| text.split(' ').next().unwrap().to_owned();
        std::mem::take(&mut self.sent).iter().map(first).collect()
    }
}

const CONTACT: &str = "Contact: <sip:desk@192.0.2.9:5070>\r\n";

fn answered() -> Rig {
    let mut rig = Rig::new();
    rig.answer(10, 180, "INVITE", "", "");
    let routes = "Record-Route: <sip:near.example;lr>, <sip:far.example;lr>\r\n";
    rig.answer(900, 200, "INVITE", &format!("{CONTACT}{routes}"), SDP);
    rig
}

#[test]
fn an_answer_is_acknowledged_and_makes_a_call() {
    let mut rig = answered();
    assert!(rig.sent[0].contains("m=audio 30000 RTP/AVP 96 9 0 8 101 97"), "{}", rig.sent[0]);
    let ack = rig.sent[1].clone();
    assert!(ack.starts_with("ACK sip:desk@192.0.2.9:5070 SIP/2.0\r\n"), "{ack}");
    let (far, near) = (ack.find("far.example").unwrap(), ack.find("near.example").unwrap());
    assert!(far < near && ack.contains("CSeq: 1 ACK") && ack.contains(";tag=theirs"), "{ack}");
    let Some(Said::Media(media)) = rig.said() else { panic!() };
    assert_eq!((media.spoken.payload_type, media.remote), (8, "192.0.2.9:4000".parse().ok()));
    rig.answer(1_500, 200, "INVITE", CONTACT, SDP);
    assert_eq!(rig.sent[2], ack, "the answer came again, and so does our word");
    rig.methods();
    rig.call.hang_up(at(2_000));
    rig.collect();
    let bye = &rig.sent[0];
    assert!(bye.starts_with("BYE sip:desk@192.0.2.9:5070") && bye.contains("CSeq: 2 BYE"), "{bye}");
    rig.answer(2_010, 200, "BYE", "", "");
    assert!(rig.call.has_ended() && rig.call.is_over(at(2_010)));
}

/// Where SRTP is required whom we ring has to speak it; what they say else is ended.
#[test]
fn whom_we_ring_is_offered_a_key_where_one_is_required() {
    let key = "inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj";
    let secure = SDP.replace("RTP/AVP", "RTP/SAVP");
    let with_key = format!("{secure}a=crypto:1 AES_CM_128_HMAC_SHA1_80 {key}\r\n");
    for (sdp, taken) in [(with_key.as_str(), true), (&secure, false), (SDP, false)] {
        let mut rig = Rig::encrypted(Srtp::Required);
        assert!(rig.sent[0].contains("m=audio 30000 RTP/SAVP 96 9 0 8 101 97"), "{}", rig.sent[0]);
        assert!(rig.sent[0].contains("a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:"));
        rig.answer(900, 200, "INVITE", CONTACT, sdp);
        match rig.said() {
            Some(Said::Media(media)) => assert!(taken && media.keys.is_some(), "{sdp}"),
            Some(Said::Refused(488)) => assert!(!taken && rig.methods().contains(&"BYE".into())),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn whom_we_rang_may_end_the_call() {
    let mut rig = answered();
    assert!(matches!(rig.said(), Some(Said::Media(_))));
    rig.methods();
    let bye = "BYE sip:x@192.0.2.1:5060 SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.9;branch=z9hG4bKq\r\n\
         From: <sip:+15550100@192.0.2.9>;tag=theirs\r\nTo: <sip:+15550199@192.0.2.1>;tag=ours\r\n\
         Call-ID: call-1\r\nCSeq: 1 BYE\r\nMax-Forwards: 70\r\n\r\n";
    rig.call.receive(at(3_000), parse(bye.as_bytes()).unwrap(), hop());
    rig.collect();
    assert_eq!(rig.methods(), ["SIP/2.0"]);
    assert_eq!(rig.said(), Some(Said::Ended("closed")));
    assert!(rig.call.has_ended());
}

#[test]
fn a_refusal_is_acknowledged_as_often_as_it_comes() {
    let mut rig = Rig::new();
    rig.answer(10, 100, "INVITE", "", "");
    rig.answer(20, 486, "INVITE", "", "");
    assert_eq!(rig.said(), Some(Said::Refused(486)));
    let ack = rig.sent[1].clone();
    let branch =
        |text: &str| text.split("branch=").nth(1).unwrap().split(';').next().unwrap().to_owned();
    assert_eq!(branch(&ack), branch(&rig.sent[0]), "of the INVITE's own transaction");
    assert!(ack.starts_with("ACK sip:+15550100@192.0.2.9 SIP/2.0") && ack.contains("tag=theirs"));
    rig.answer(520, 486, "INVITE", "", "");
    assert_eq!(rig.sent[2], ack);
    assert!(rig.call.has_ended() && rig.said().is_none());
    assert!(!rig.call.is_over(at(600)) && rig.call.is_over(at(32_020)));
}

#[test]
fn a_password_is_said_once_and_to_who_asks() {
    let mut rig = Rig::new();
    let ask = "WWW-Authenticate: Digest realm=\"trunk\", nonce=\"n1\", qop=\"auth\"\r\n";
    rig.answer(10, 401, "INVITE", ask, "");
    assert_eq!(rig.said(), None);
    assert!(rig.sent[1].starts_with("ACK "));
    let again = rig.sent[2].clone();
    assert!(again.starts_with("INVITE ") && again.contains("CSeq: 2 INVITE"), "{again}");
    assert!(again.contains("Authorization: Digest username=\"us\", realm=\"trunk\""), "{again}");
    assert!(!again.contains("pw"), "{again}");
    rig.answer(20, 401, "INVITE", ask, "");
    assert_eq!(rig.said(), Some(Said::Refused(401)), "the password is wrong");
    assert_eq!(rig.methods(), ["INVITE", "ACK", "INVITE", "ACK"]);
}

/// RFC 3261, 9.1.
#[test]
fn who_hangs_up_while_it_rings_takes_it_back() {
    let mut rig = Rig::new();
    rig.call.hang_up(at(5));
    rig.collect();
    assert_eq!(rig.methods(), ["INVITE"], "nobody has answered yet");
    let mut rig = Rig::new();
    rig.call.hang_up(at(5));
    rig.answer(10, 180, "INVITE", "", "");
    let cancel = rig.sent[1].clone();
    assert!(
        cancel.starts_with("CANCEL sip:+15550100@192.0.2.9") && cancel.contains("CSeq: 1 CANCEL")
    );
    rig.answer(20, 200, "CANCEL", "", "");
    rig.tick(5_000);
    assert_eq!(rig.sent.len(), 2, "it was heard, and is not said again");
    rig.answer(5_010, 487, "INVITE", "", "");
    assert_eq!(rig.methods(), ["INVITE", "CANCEL", "ACK"]);
    assert!(rig.call.has_ended() && rig.said().is_none());
}

#[test]
fn an_answer_that_crosses_the_cancel_is_told_goodbye() {
    let mut rig = Rig::new();
    rig.answer(10, 180, "INVITE", "", "");
    rig.call.hang_up(at(20));
    rig.collect();
    rig.answer(30, 200, "INVITE", CONTACT, SDP);
    assert_eq!(rig.methods(), ["INVITE", "CANCEL", "ACK", "BYE"]);
    assert_eq!(rig.said(), None, "nobody speaks with them");
}

#[test]
fn who_cannot_be_spoken_with_is_told_goodbye() {
    let mut rig = Rig::new();
    let video = SDP.replace("RTP/AVP 8 101", "RTP/AVP 34");
    rig.answer(30, 200, "INVITE", CONTACT, &video);
    assert_eq!(rig.methods(), ["INVITE", "ACK", "BYE"]);
    assert_eq!(rig.said(), Some(Said::Refused(488)));
}

#[test]
fn nobody_at_all_is_asked_for_as_long_as_it_may_ring() {
    let mut rig = Rig::new();
    for now_ms in (0..20_000).step_by(100) {
        rig.tick(now_ms);
    }
    assert_eq!(rig.sent.len(), 1 + 7, "after 0.5, 1.5, 3.5, 7.5, 11.5, 15.5 and 19.5 s");
    rig.tick(20_000);
    assert_eq!(rig.said(), Some(Said::Ended("timeout")));
    rig.tick(32_000);
    assert!(rig.call.has_ended() && rig.said().is_none());
}

#[test]
fn it_rings_for_a_bounded_time() {
    let mut rig = Rig::new();
    rig.answer(10, 180, "INVITE", "", "");
    rig.tick(19_999);
    assert_eq!(rig.said(), None);
    rig.tick(20_000);
    assert_eq!(rig.said(), Some(Said::Ended("no_answer")));
    assert_eq!(rig.methods(), ["INVITE", "CANCEL"]);
}

/// RFC 3261, 13.2.2.4: the call was shown to several, and two have answered.
#[test]
fn a_second_answer_is_told_goodbye() {
    let mut rig = answered();
    rig.methods();
    rig.sent.push("INVITE\r\nVia: v\r\nCSeq: 1 INVITE\r\nFrom: f\r\n".to_owned());
    let other = "To: <sip:+15550100@192.0.2.9>;tag=other\r\nContact: <sip:o@192.0.2.9>\r\n";
    rig.answer(1_000, 200, "INVITE", other, SDP);
    assert!(rig.sent[1].starts_with("ACK sip:o@") && rig.sent[1].contains("tag=other"));
    assert!(rig.sent[2].starts_with("BYE sip:o@") && rig.sent[2].contains("tag=other"));
    assert!(!rig.call.has_ended(), "the first goes on");
}
