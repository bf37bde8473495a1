//! Dialogs in virtual time.

mod refer;

use super::super::codec::{Codec, Spoken};
use super::super::message::parse;
use super::*;
use crate::time::ms;
use proptest::prelude::*;

const T1: Duration = ms(500);

fn peer() -> SocketAddr {
    "192.0.2.7:5062".parse().unwrap()
}

fn hop() -> Hop {
    Hop { from: peer(), transport: "UDP" }
}

fn ours() -> SocketAddr {
    "192.0.2.1:20000".parse().unwrap()
}

fn sdp(direction: &str, port: u16) -> String {
    format!(
        "v=0\r\no=- 1 1 IN IP4 192.0.2.8\r\ns=-\r\nc=IN IP4 192.0.2.8\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 8 0 101\r\na=rtpmap:101 telephone-event/8000\r\na={direction}\r\n"
    )
}

/// A request of the peer's: `to` is the tag of ours, where it knows one.
fn asks(method: &str, cseq: u32, to: Option<&str>, more: &str, body: &str) -> Request {
    asks_as(method, cseq, to, more, body, &format!("z9hG4bK{method}{cseq}"))
}

fn asks_as(
    method: &str,
    cseq: u32,
    to: Option<&str>,
    more: &str,
    body: &str,
    branch: &str,
) -> Request {
    let to = to.map(|tag| format!(";tag={tag}")).unwrap_or_default();
    let kind = if body.is_empty() { "" } else { "c: application/sdp\r\n" };
    let text = format!(
        "{method} sip:agent@192.0.2.1 SIP/2.0\r\nv: SIP/2.0/UDP 192.0.2.7:5062;branch={branch}\r\n\
         Max-Forwards: 70\r\nf: <sip:ada@192.0.2.7>;tag=a\r\nt: <sip:agent@192.0.2.1>{to}\r\n\
         i: c1\r\nCSeq: {cseq} {method}\r\nm: <sip:ada@192.0.2.7:5062>\r\n{more}{kind}\r\n{body}"
    );
    match parse(text.as_bytes()) {
        Ok(Message::Request(request)) => request,
        other => panic!("{other:?}"),
    }
}

fn setup() -> Setup {
    Setup {
        us: "192.0.2.1:5060".parse().unwrap(),
        secure: "192.0.2.1:5061".parse().ok(),
        sips: false,
        transport: "UDP",
        t1: T1,
        srtp: Srtp::Offered,
        codecs: Codecs::default(),
        tag: "ours".to_owned(),
        session: 7,
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn begun(request: Request) -> Dialog {
    Dialog::begin(at(0), setup(), request, peer()).unwrap_or_else(|bytes| panic!("{bytes:?}"))
}

/// The first lines of what is sent, without their version.
fn sent(dialog: &mut Dialog) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some((to, bytes)) = dialog.poll_send() {
        assert_eq!(to, peer());
        let text = std::str::from_utf8(&bytes).unwrap();
        let cseq = text.lines().find_map(|line| line.strip_prefix("CSeq: ")).unwrap();
        let first = text.lines().next().unwrap();
        lines.push(match first.strip_prefix("SIP/2.0 ") {
            Some(status) => format!("{} to {cseq}", &status[..3]),
            None => first.split(' ').next().unwrap().to_owned(),
        });
    }
    lines
}

fn last_text(dialog: &mut Dialog) -> String {
    let mut last = String::new();
    while let Some((_, bytes)) = dialog.poll_send() {
        last = String::from_utf8(bytes.to_vec()).unwrap();
    }
    last
}

fn said(dialog: &mut Dialog) -> Vec<Said> {
    std::iter::from_fn(|| dialog.poll_said()).collect()
}

/// A call that is up since the first millisecond.
fn up() -> Dialog {
    let mut dialog = begun(asks("INVITE", 1, None, "", &sdp("sendrecv", 4_000)));
    dialog.accept(at(0), ours());
    dialog.receive(at(1), Message::Request(asks("ACK", 1, Some("ours"), "", "")), hop());
    sent(&mut dialog);
    said(&mut dialog);
    dialog
}

fn told(dialog: &mut Dialog, now: u64, request: Request) -> Vec<String> {
    dialog.receive(at(now), Message::Request(request), hop());
    sent(dialog)
}

fn media(sends: bool, hears: bool, port: u16) -> Said {
    Said::Media(Media {
        remote: Some(SocketAddr::new("192.0.2.8".parse().unwrap(), port)),
        spoken: Spoken { codec: Codec::Pcma, payload_type: 8, bits_max: None },
        events: Some(101),
        sends,
        hears,
        keys: None,
    })
}

/// Runs the clock to this moment; what is sent, with when.
fn run(dialog: &mut Dialog, until: u64) -> Vec<(u64, String)> {
    let mut all = Vec::new();
    while let Some(due) = dialog.due().filter(|due| *due <= at(until)) {
        dialog.tick(due);
        all.extend(sent(dialog).into_iter().map(|line| (due.as_millis(), line)));
        if dialog.is_over(due) {
            break;
        }
    }
    all
}

/// RFC 3261, 13.3.1.4: the answer is said again until it is acknowledged, then never; one that
/// never is ends the call with a BYE after 64 times T1, itself said again for as long.
#[test]
fn an_answer_that_nobody_acknowledges_ends_the_call() {
    let mut dialog = begun(asks("INVITE", 1, None, "", &sdp("sendrecv", 4_000)));
    assert_eq!(sent(&mut dialog), ["100 to 1 INVITE"]);
    dialog.accept(at(0), ours());
    assert_eq!(sent(&mut dialog), ["200 to 1 INVITE"]);
    assert_eq!(said(&mut dialog), [media(true, true, 4_000)]);
    let again = run(&mut dialog, 31_999);
    let times: Vec<u64> = again.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [500, 1_500, 3_500, 7_500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500]);
    assert!(again.iter().all(|(_, line)| line == "200 to 1 INVITE"));
    assert_eq!(run(&mut dialog, 32_000), [(32_000, "BYE".to_owned())]);
    assert_eq!(said(&mut dialog), [Said::Ended("timeout")]);
    let byes = run(&mut dialog, 100_000);
    assert_eq!(byes.len(), 10, "{byes:?}");
    assert!(dialog.is_over(at(64_000)));
}

/// The same INVITE has the same answer, and an ACK ends the repetitions.
#[test]
fn an_invite_that_comes_again_is_answered_as_before() {
    let invite = || asks("INVITE", 1, None, "", &sdp("sendrecv", 4_000));
    let mut dialog = begun(invite());
    sent(&mut dialog);
    assert_eq!(told(&mut dialog, 10, invite()), ["100 to 1 INVITE"]);
    dialog.ring();
    assert_eq!(told(&mut dialog, 20, invite()), ["180 to 1 INVITE", "180 to 1 INVITE"]);
    dialog.accept(at(30), ours());
    let answer = last_text(&mut dialog);
    dialog.receive(at(40), Message::Request(invite()), hop());
    assert_eq!(last_text(&mut dialog), answer, "byte for byte");
    assert!(told(&mut dialog, 50, asks("ACK", 1, Some("ours"), "", "")).is_empty());
    assert!(told(&mut dialog, 60, invite()).is_empty(), "it is known to have been heard");
    assert_eq!(run(&mut dialog, 100_000), []);
    let merged = asks_as("INVITE", 1, None, "", "", "z9hG4bKother");
    assert_eq!(told(&mut dialog, 70, merged), ["482 to 1 INVITE"], "the same over another way");
}

/// A refusal is said again until its ACK; where nothing is lost only once.
#[test]
fn a_refusal_is_said_until_it_is_acknowledged() {
    let mut dialog = begun(asks("INVITE", 1, None, "", ""));
    sent(&mut dialog);
    dialog.refuse(at(0), 480, Some(3));
    let text = last_text(&mut dialog);
    assert!(text.starts_with("SIP/2.0 480 Temporarily Unavailable\r\n"), "{text}");
    assert!(text.contains("\r\nRetry-After: 3\r\n") && text.contains(";tag=ours\r\n"), "{text}");
    assert_eq!(run(&mut dialog, 1_500).len(), 2);
    told(&mut dialog, 1_600, asks("ACK", 1, Some("ours"), "", ""));
    assert_eq!(run(&mut dialog, 60_000), []);
    assert!(dialog.is_over(at(32_000)));
    let reliable = Setup { transport: "TCP", ..setup() };
    let request = asks("INVITE", 1, None, "", "");
    let mut dialog = Dialog::begin(at(0), reliable, request, peer()).unwrap();
    dialog.refuse(at(0), 480, None);
    sent(&mut dialog);
    assert_eq!(run(&mut dialog, 31_000), []);
}

/// A CANCEL ends what is not answered; one that crosses the answer changes nothing, and one of
/// another transaction is of none.
#[test]
fn a_cancel_counts_until_the_answer() {
    let mut dialog = begun(asks("INVITE", 1, None, "", &sdp("sendrecv", 4_000)));
    sent(&mut dialog);
    let cancel = |branch: &str| asks_as("CANCEL", 1, None, "", "", branch);
    assert_eq!(told(&mut dialog, 10, cancel("z9hG4bKstranger")), ["481 to 1 CANCEL"]);
    let both = ["200 to 1 CANCEL", "487 to 1 INVITE"];
    assert_eq!(told(&mut dialog, 20, cancel("z9hG4bKINVITE1")), both);
    assert_eq!(said(&mut dialog), [Said::Ended("closed")]);
    dialog.accept(at(30), ours());
    assert!(sent(&mut dialog).is_empty(), "it is too late to answer");

    let mut dialog = begun(asks("INVITE", 1, None, "", &sdp("sendrecv", 4_000)));
    dialog.accept(at(0), ours());
    sent(&mut dialog);
    said(&mut dialog);
    assert_eq!(told(&mut dialog, 10, cancel("z9hG4bKINVITE1")), ["200 to 1 CANCEL"]);
    assert_eq!(said(&mut dialog), []);
    told(&mut dialog, 20, asks("ACK", 1, Some("ours"), "", ""));
    assert_eq!(told(&mut dialog, 30, asks("BYE", 2, Some("ours"), "", "")), ["200 to 2 BYE"]);
    assert_eq!(said(&mut dialog), [Said::Ended("closed")]);
    assert_eq!(told(&mut dialog, 40, asks("BYE", 2, Some("ours"), "", "")), ["200 to 2 BYE"]);
    assert_eq!(told(&mut dialog, 50, asks("BYE", 3, Some("ours"), "", "")), ["481 to 3 BYE"]);
}

/// A BYE with other tags, or without, is of no call, and the call goes on.
#[test]
fn a_bye_with_wrong_tags_ends_nothing() {
    let mut dialog = up();
    assert_eq!(told(&mut dialog, 10, asks("BYE", 2, Some("theirs"), "", "")), ["481 to 2 BYE"]);
    assert_eq!(told(&mut dialog, 20, asks("BYE", 2, None, "", "")), ["481 to 2 BYE"]);
    assert_eq!(told(&mut dialog, 30, asks("BYE", 1, Some("ours"), "", "")), ["500 to 1 BYE"]);
    assert_eq!(said(&mut dialog), []);
    assert_eq!(told(&mut dialog, 40, asks("BYE", 2, Some("ours"), "", "")), ["200 to 2 BYE"]);
}

/// RFC 3264, 8.4: on hold and back, also by the address of nobody, and to another port.
#[test]
fn a_call_is_held_and_taken_back() {
    let mut dialog = up();
    let held = sdp("sendonly", 4_000);
    let nobody = sdp("sendrecv", 4_000).replace("c=IN IP4 192.0.2.8", "c=IN IP4 0.0.0.0");
    let moved = sdp("sendrecv", 4_002);
    let steps = [
        (held, "a=recvonly", media(false, true, 4_000)),
        (sdp("inactive", 4_000), "a=inactive", media(false, false, 4_000)),
        (moved, "a=sendrecv", media(true, true, 4_002)),
    ];
    for (cseq, (offer, direction, agreed)) in (2..).zip(steps) {
        let request = asks("INVITE", cseq, Some("ours"), "", &offer);
        dialog.receive(at(10), Message::Request(request), hop());
        let text = last_text(&mut dialog);
        assert!(text.starts_with("SIP/2.0 200 OK") && text.contains(direction), "{text}");
        assert!(text.contains(&format!("o=- 7 {cseq} IN IP4")), "another version: {text}");
        assert_eq!(said(&mut dialog), [agreed]);
        told(&mut dialog, 20, asks("ACK", cseq, Some("ours"), "", ""));
    }
    dialog.receive(at(30), Message::Request(asks("INVITE", 9, Some("ours"), "", &nobody)), hop());
    let [Said::Media(media)] = &said(&mut dialog)[..] else { panic!("an agreement") };
    assert_eq!((media.remote, media.sends, media.hears), (None, false, false));
}

/// What cannot be agreed to leaves the call as it was; so does an offer that comes too early.
#[test]
fn an_offer_that_is_refused_changes_nothing() {
    let mut dialog = up();
    let video = "v=0\r\no=- 1 1 IN IP4 192.0.2.8\r\ns=-\r\nt=0 0\r\nm=audio 4000 RTP/AVP 18\r\n";
    let refused = told(&mut dialog, 10, asks("INVITE", 2, Some("ours"), "", video));
    assert_eq!(refused, ["488 to 2 INVITE"]);
    told(&mut dialog, 20, asks("ACK", 2, Some("ours"), "", ""));
    let update = told(&mut dialog, 30, asks("UPDATE", 3, Some("ours"), "", video));
    assert_eq!(update, ["488 to 3 UPDATE"]);
    assert_eq!(said(&mut dialog), []);
    let mut dialog = begun(asks("INVITE", 1, None, "", &sdp("sendrecv", 4_000)));
    sent(&mut dialog);
    let early = told(&mut dialog, 10, asks("INVITE", 2, Some("ours"), "", &sdp("sendonly", 4_000)));
    assert_eq!(early, ["500 to 2 INVITE"]);
}

/// RFC 3311: an UPDATE holds as an INVITE does, and needs no ACK.
#[test]
fn an_update_changes_what_was_agreed() {
    let mut dialog = up();
    let update = asks("UPDATE", 2, Some("ours"), "", &sdp("sendonly", 4_000));
    assert_eq!(told(&mut dialog, 10, update), ["200 to 2 UPDATE"]);
    assert_eq!(said(&mut dialog), [media(false, true, 4_000)]);
    assert_eq!(told(&mut dialog, 20, asks("UPDATE", 3, Some("ours"), "", "")), ["200 to 3 UPDATE"]);
    assert_eq!(said(&mut dialog), []);
}

/// An INVITE without an offer is answered with ours; the peer's answer is in its ACK, and one that
/// is none ends the call.
#[test]
fn who_offers_nothing_is_offered_something() {
    for (answer, agreed) in [(sdp("sendrecv", 4_000), true), ("v=0\r\n".to_owned(), false)] {
        let mut dialog = begun(asks("INVITE", 1, None, "", ""));
        sent(&mut dialog);
        dialog.accept(at(0), ours());
        let text = last_text(&mut dialog);
        assert!(text.contains("m=audio 20000 RTP/AVP 96 9 0 8 101 97\r\n"), "{text}");
        assert_eq!(said(&mut dialog), []);
        let others = asks("INVITE", 2, Some("ours"), "", &sdp("sendonly", 4_000));
        assert_eq!(told(&mut dialog, 5, others), ["491 to 2 INVITE"], "ours is not answered yet");
        let sent = told(&mut dialog, 10, asks("ACK", 1, Some("ours"), "", &answer));
        match agreed {
            true => assert_eq!(said(&mut dialog), [media(true, true, 4_000)]),
            false => {
                assert_eq!(sent, ["BYE"]);
                assert_eq!(said(&mut dialog), [Said::Ended("protocol")]);
            }
        }
    }
}

/// Who says BYE has heard the answer, or does not want it any more: it is not said again.
#[test]
fn a_bye_that_overtakes_the_ack_ends_the_answer() {
    let mut dialog = begun(asks("INVITE", 1, None, "", &sdp("sendrecv", 4_000)));
    dialog.accept(at(0), ours());
    sent(&mut dialog);
    assert_eq!(told(&mut dialog, 10, asks("BYE", 2, Some("ours"), "", "")), ["200 to 2 BYE"]);
    assert_eq!(run(&mut dialog, 60_000), []);
    assert!(dialog.is_over(at(60_000)));
}

/// What follows goes the way that the peer last came by; who knows only the call's name is no peer.
#[test]
fn the_way_is_the_peers() {
    let mut dialog = up();
    let by_tcp = Hop { transport: "TCP", ..hop() };
    let comes =
        |dialog: &mut Dialog, request| dialog.receive(at(10), Message::Request(request), by_tcp);
    let fork = asks_as("INVITE", 1, None, "", &sdp("sendrecv", 4_000), "z9hG4bKother");
    assert!(!comes(&mut dialog, fork));
    assert_eq!(sent(&mut dialog), ["482 to 1 INVITE"]);
    assert!(!comes(&mut dialog, asks("INFO", 2, Some("theirs"), "", "")));
    assert!(!comes(&mut dialog, asks("ACK", 1, Some("ours"), "", "")), "it came before");
    let again = asks("INVITE", 2, Some("ours"), "", &sdp("sendrecv", 4_000));
    assert!(!comes(&mut dialog, asks("INVITE", 1, Some("ours"), "", "")), "and so did this");
    sent(&mut dialog);
    dialog.hang_up(at(10));
    assert!(last_text(&mut dialog).contains("\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;"));

    let mut dialog = up();
    assert!(comes(&mut dialog, again));
    assert!(last_text(&mut dialog).contains("<sip:192.0.2.1:5060;transport=tcp>"));
    assert!(comes(&mut dialog, asks("ACK", 2, Some("ours"), "", "")));
    dialog.hang_up(at(10));
    assert!(last_text(&mut dialog).contains("\r\nVia: SIP/2.0/TCP 192.0.2.1:5060;"));
    assert_eq!(run(&mut dialog, 31_000), [], "nothing is lost that way");
}

/// RFC 4028: the peer says that it will be heard from again; it is, or the call is over.
#[test]
fn a_session_that_is_not_refreshed_ends() {
    let timer = "k: timer\r\nx: 90;refresher=uac\r\n";
    let mut dialog = begun(asks("INVITE", 1, None, timer, &sdp("sendrecv", 4_000)));
    dialog.accept(at(0), ours());
    let text = last_text(&mut dialog);
    assert!(text.contains("\r\nSession-Expires: 90;refresher=uac\r\nRequire: timer\r\n"), "{text}");
    told(&mut dialog, 1, asks("ACK", 1, Some("ours"), "", ""));
    assert_eq!(run(&mut dialog, 60_000), []);
    assert_eq!(told(&mut dialog, 60_000, asks("UPDATE", 2, Some("ours"), timer, "")).len(), 1);
    assert_eq!(run(&mut dialog, 149_999), []);
    assert_eq!(run(&mut dialog, 150_000), [(150_000, "BYE".to_owned())]);
    let refused = |more: &str| {
        let request = asks("INVITE", 1, None, more, &sdp("sendrecv", 4_000));
        let refusal = Dialog::begin(at(0), setup(), request, peer()).unwrap_err();
        String::from_utf8(refusal.to_vec()).unwrap()
    };
    let short = refused("k: timer\r\nx: 60\r\n");
    assert!(short.starts_with("SIP/2.0 422") && short.contains("Min-SE: 90"), "{short}");
    let unknown = refused("Require: 100rel, timer\r\n");
    assert!(unknown.starts_with("SIP/2.0 420") && unknown.contains("Unsupported: 100rel\r\n"));
}

/// Keys by INFO, once each, however often the INFO comes.
#[test]
fn keys_come_by_info() {
    let mut dialog = up();
    let info = |cseq: u32, kind: &str, body: &str| {
        let more = format!("c: {kind}\r\n");
        let mut request = asks("INFO", cseq, Some("ours"), &more, "");
        request.body = Bytes::copy_from_slice(body.as_bytes());
        request
    };
    let relay = "application/dtmf-relay";
    for (cseq, kind, body, key) in [
        (2, relay, "Signal=5\r\nDuration=160\r\n", Some('5')),
        (3, relay, "Signal= *\r\n", Some('*')),
        (4, relay, "signal=11\r\n", Some('#')),
        (5, "application/dtmf", "7", Some('7')),
        (6, relay, "Signal=flash\r\n", None),
        (7, "application/media_control+xml", "<x/>", None),
    ] {
        for _ in 0..2 {
            let answer = told(&mut dialog, 10, info(cseq, kind, body));
            assert_eq!(answer, [format!("200 to {cseq} INFO")]);
        }
        assert_eq!(said(&mut dialog), key.map(Said::Key).into_iter().collect::<Vec<_>>(), "{body}");
    }
}

/// Our BYE waits until the peer knows that its call began, and ends with its answer.
#[test]
fn we_hang_up_behind_the_acknowledgement() {
    let mut dialog = begun(asks("INVITE", 1, None, "", &sdp("sendrecv", 4_000)));
    dialog.accept(at(0), ours());
    sent(&mut dialog);
    dialog.hang_up(at(10));
    assert!(sent(&mut dialog).is_empty());
    assert_eq!(told(&mut dialog, 20, asks("ACK", 1, Some("ours"), "", "")), ["BYE"]);
    assert_eq!(told(&mut dialog, 25, asks("BYE", 2, Some("ours"), "", "")), ["200 to 2 BYE"]);
    let mut dialog = up();
    dialog.hang_up(at(10));
    let bye = last_text(&mut dialog);
    let answer = bye.replacen("BYE sip:ada@192.0.2.7:5062 SIP/2.0", "SIP/2.0 200 OK", 1);
    assert_ne!(answer, bye, "{bye}");
    dialog.receive(at(20), parse(answer.as_bytes()).unwrap(), hop());
    assert!(dialog.is_over(at(20)));
    assert_eq!(run(&mut dialog, 60_000), []);
}

/// One thing that happens to a dialog.
#[derive(Clone, Debug)]
enum Step {
    Asks(&'static str, u32, Option<&'static str>, bool),
    Ring,
    Accept,
    Refuse,
    HangUp,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let methods = vec!["INVITE", "ACK", "BYE", "CANCEL", "INFO", "UPDATE", "OPTIONS", "REFER", "X"];
    let tags = vec![None, Some("ours"), Some("ours"), Some("ours"), Some("theirs")];
    let asks = (prop::sample::select(methods), 1_u32..6, prop::sample::select(tags), any::<bool>());
    prop_oneof![
        8 => asks.prop_map(|(method, cseq, to, offers)| Step::Asks(method, cseq, to, offers)),
        1 => Just(Step::Ring),
        2 => Just(Step::Accept),
        1 => Just(Step::Refuse),
        1 => Just(Step::HangUp),
        3 => (1_u64..20_000).prop_map(Step::Wait),
    ]
}

proptest! {
    /// Whatever comes in whatever order: every request but an ACK is answered, the call is told
    /// once that it is over, and what has ended is forgotten in bounded time.
    #[test]
    fn every_request_is_answered_and_every_dialog_ends(
        steps in prop::collection::vec(step(), 0..24),
    ) {
        let mut dialog = begun(asks("INVITE", 1, None, "", &sdp("sendrecv", 4_000)));
        sent(&mut dialog);
        let (mut now, mut ended) = (0, 0);
        for step in steps {
            match step {
                Step::Asks(method, cseq, to, offers) => {
                    let body = if offers { sdp("sendonly", 4_000) } else { String::new() };
                    let acked = matches!(dialog.invite.phase, Phase::Acknowledged);
                    let answers = told(&mut dialog, now, asks(method, cseq, to, "", &body));
                    let heard_before = method == "INVITE" && acked;
                    prop_assert!(
                        method == "ACK" || heard_before || !answers.is_empty(),
                        "{method} {cseq} {to:?}"
                    );
                }
                Step::Ring => dialog.ring(),
                Step::Accept => dialog.accept(at(now), ours()),
                Step::Refuse => dialog.refuse(at(now), 480, None),
                Step::HangUp => dialog.hang_up(at(now)),
                Step::Wait(ms) => {
                    now += ms;
                    run(&mut dialog, now);
                    dialog.tick(at(now));
                }
            }
            sent(&mut dialog);
            ended += said(&mut dialog).iter().filter(|s| matches!(s, Said::Ended(_))).count();
            prop_assert!(dialog.answered.len() <= ANSWERED_MAX);
        }
        dialog.hang_up(at(now));
        run(&mut dialog, now + 200_000);
        ended += said(&mut dialog).iter().filter(|s| matches!(s, Said::Ended(_))).count();
        prop_assert!(dialog.is_over(at(now + 200_000)), "{:?}", dialog.state);
        prop_assert!(ended <= 1, "told {ended} times");
    }
}
