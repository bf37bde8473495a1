//! REFER in virtual time.

use super::*;

/// RFC 3515: asked until it is answered, and told what came of it; no longer than there is a call.
#[test]
fn a_peer_is_asked_to_ring_somebody_else() {
    let desk = "sip:desk@192.0.2.9";
    let mut dialog = up();
    dialog.refer(at(10), desk);
    let refer = last_text(&mut dialog);
    assert!(refer.starts_with("REFER sip:ada@192.0.2.7:5062 SIP/2.0\r\n"), "{refer}");
    assert!(refer.contains("\r\nRefer-To: <sip:desk@192.0.2.9>\r\n"), "{refer}");
    dialog.tick(at(510));
    assert_eq!(last_text(&mut dialog), refer, "it may have been lost");
    dialog.refer(at(520), desk);
    assert_eq!(said(&mut dialog), [Said::Referred(Referred::Unknown)], "one at a time");
    let notify = |cseq, fragment: &str| {
        let more = "Event: refer\r\nSubscription-State: active\r\n";
        Message::Request(asks("NOTIFY", cseq, Some("ours"), more, fragment))
    };
    dialog.receive(at(600), notify(2, "SIP/2.0 180 Ringing\r\n"), hop());
    assert_eq!(sent(&mut dialog), ["200 to 2 NOTIFY"]);
    assert_eq!(said(&mut dialog), []);
    dialog.receive(at(700), notify(3, "SIP/2.0 200 OK\r\n"), hop());
    assert_eq!(said(&mut dialog), [Said::Referred(Referred::Reached)]);
    dialog.receive(at(800), notify(4, "SIP/2.0 200 OK\r\n"), hop());
    assert_eq!(sent(&mut dialog), ["200 to 3 NOTIFY", "481 to 4 NOTIFY"], "it is over");

    let mut dialog = up();
    dialog.refer(at(10), desk);
    sent(&mut dialog);
    dialog.receive(at(20), Message::Request(asks("BYE", 2, Some("ours"), "", "")), hop());
    dialog.tick(at(600));
    assert_eq!(sent(&mut dialog), ["200 to 2 BYE"], "nobody is asked any more");
    assert_eq!(said(&mut dialog), [Said::Ended("closed")]);
}
