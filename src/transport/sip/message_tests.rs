//! Messages as they come. Those named after messages of RFC 4475 have what is peculiar to them.

use proptest::prelude::*;

use super::super::{require, stateless};
use super::*;

/// A message with what every request needs, except where `fields` says something else: lines that
/// begin with a name that is there replace it, others are added, and `-name` takes one away.
fn message(first: &str, fields: &[&str], body: &[u8]) -> Vec<u8> {
    let method = first.split(' ').next().unwrap();
    let mut lines = vec![
        "Via: SIP/2.0/UDP 192.0.2.7:5062;branch=z9hG4bKx".to_owned(),
        "From: <sip:ada@example.com>;tag=a".to_owned(),
        "To: <sip:agent@example.com>".to_owned(),
        "Call-ID: c1@192.0.2.7".to_owned(),
        format!("CSeq: 8 {method}"),
        "Max-Forwards: 70".to_owned(),
        "Contact: <sip:ada@192.0.2.7>".to_owned(),
    ];
    for field in fields {
        let name = |line: &str| line.split(':').next().unwrap().trim().to_ascii_lowercase();
        let wanted = name(field.trim_start_matches(['-', '+']));
        if !field.starts_with('+') {
            lines.retain(|line| name(line) != wanted);
        }
        if !field.starts_with('-') {
            lines.push(field.trim_start_matches('+').to_owned());
        }
    }
    let head = format!("{first}\r\n{}\r\n\r\n", lines.join("\r\n"));
    [head.as_bytes(), body].concat()
}

fn request(bytes: &[u8]) -> Request {
    match parse(bytes) {
        Ok(Message::Request(request)) => request,
        other => panic!("{other:?}: {}", String::from_utf8_lossy(bytes)),
    }
}

/// What a message is answered with when it is for no dialog; 0 is nothing.
fn status(bytes: &[u8]) -> u16 {
    match parse(bytes) {
        Ok(Message::Request(request)) if request.method == "INVITE" => {
            match require::invite(&request) {
                Ok(_) => 200,
                Err(refused) => refused.answer("t").status,
            }
        }
        Ok(Message::Request(request)) => {
            stateless::answer(&request, "t").map_or(0, |answer| answer.status)
        }
        Err(Wrong::Request(request, status)) => {
            stateless::wrong(&request, status, "t").map_or(0, |answer| answer.status)
        }
        Ok(Message::Response(_)) | Err(Wrong::Nothing) => 0,
    }
}

const INVITE: &str = "INVITE sip:agent@example.com SIP/2.0";
const OPTIONS: &str = "OPTIONS sip:agent@example.com SIP/2.0";
const REGISTER: &str = "REGISTER sip:example.com SIP/2.0";

/// RFC 4475, 3.1.1: valid, however odd.
#[test]
fn valid_messages_of_rfc_4475_are_understood() {
    let wsinv = message(
        "INVITE sip:agent@example.com;unknownparam SIP/2.0",
        &[
            "TO :\r\n sip:agent@example.com ;   tag    = 19n",
            "from   : \"A Lovelace \\\\\\\"\"       <sip:ada@example.com>\r\n  ;\r\n  tag = 98a",
            "MaX-fOrWaRdS: 0068",
            "cseq: 0009\r\n  INVITE",
            "Via  : SIP  /   2.0\r\n /UDP\r\n    192.0.2.2;branch=390s",
            "+v:  SIP  / 2.0  / TCP     spindle.example.com   ;\r\n  branch  =   z9hG4bK9 ,\r\n \
             SIP  /    2.0   / UDP  192.168.255.111   ; branch=\r\n z9hG4bK30",
            "s :",
            "NewFangled:   new\r\n more of it",
            "Unusual: ;;,,;;,;",
            "m:\"Quoted \\\"\\\"\" <sip:ada@example.com> ; new =\r\n  value ;\r\n second ; q = 0.3",
        ],
        b"",
    );
    let invite = request(&wsinv);
    assert_eq!(invite.fields.cseq(), Some((9, "INVITE")));
    assert_eq!((invite.fields.tag("to"), invite.fields.tag("from")), (Some("19n"), Some("98a")));
    assert_eq!(invite.fields.list("via").count(), 3);
    let via = Via::parse(invite.fields.list("via").nth(1).unwrap()).unwrap();
    assert_eq!((via.host, via.branch), ("spindle.example.com", Some("z9hG4bK9")));

    let odd = "!interesting-Method0123456789_*+`.%indeed'~ sip:1_unusual.URI~(to-be!sure)&isn't+it\
               $/crazy?,/;;*:&it+has=1,weird!*pas$wo~d_too.(doesn't-it)@example.com SIP/2.0";
    let odd_to = "To: \"BEL:\\\u{7} NUL:\\\u{0} DEL:\\\u{7f}\" <sip:1_unusual.URI~@example.com>";
    let odd_from =
        "From: token1~` token2'+_ token3*%!.- <sip:mundane@example.com>;tag=_t~1'+`*%!-.";
    assert_eq!(status(&message(odd, &[odd_to, odd_from, "e-!.%*+_`'~: \u{feff}大停電"], b"")), 501);

    let esc01 =
        request(&message("INVITE sip:sips%3Auser%40example.com@example.net SIP/2.0", &[], b""));
    assert_eq!(user(&esc01.uri), "sips:user@example.com");
    let null = ["To: sip:null-%00-null@example.com", "Contact: <sip:%00@host5.example.com>"];
    assert_eq!(status(&message(REGISTER, &null, b"")), 200, "escnull");
    assert_eq!(
        status(&message("RE%47IST%45R sip:example.com SIP/2.0", &["C%6Fntact: x"], b"")),
        501
    );
    let lwsdisp = message(OPTIONS, &["From: caller<sip:caller@example.com>;tag=323"], b"");
    assert_eq!(status(&lwsdisp), 200);
    let long = "x".repeat(500);
    let from = format!("From: \"{long}\"<sip:{long}@example.net>;tag=12{long}982424;{long}={long}");
    let longreq = [from.as_str(), &format!("Unknown-{long}: {long}"), &format!("Call-ID: {long}")];
    assert_eq!(status(&message(INVITE, &longreq, b"")), 200);
    let second = message(INVITE, &[], b"");
    let dblreq = request(&message(REGISTER, &["Content-Length: 0"], &second));
    assert!(dblreq.body.is_empty() && dblreq.method == "REGISTER");
    let semiuri = "OPTIONS sip:user;par=u%40example.net@example.com SIP/2.0";
    assert_eq!(status(&message(semiuri, &[], b"")), 200);
    let vias = ["UDP", "SCTP", "TLS", "UNKNOWN", "TCP"]
        .map(|kind| format!("+Via: SIP/2.0/{kind} t.example.com;branch=z9hG4bK{kind}"));
    let vias: Vec<&str> = vias.iter().map(String::as_str).collect();
    assert_eq!(status(&message(OPTIONS, &vias, b"")), 200, "transports");
    let mpart01 =
        message("MESSAGE sip:kumiko@example.org SIP/2.0", &["Content-Length: 4"], &[0; 4]);
    assert_eq!(status(&mpart01), 405);
    for reason in [" = 2**3 * 5**2 но сто", ""] {
        let first = format!("SIP/2.0 200 {}", reason.trim_start());
        let answer = message(&first, &["CSeq: 35 INVITE"], b"");
        assert!(matches!(parse(&answer), Ok(Message::Response(Response { status: 200, .. }))));
    }
}

/// RFC 4475, 3.1.2: what is wrong is told so, and what cannot be told is dropped.
#[test]
fn invalid_messages_of_rfc_4475_are_refused() {
    let bad = |name: &str, first: &str, fields: &[&str], expected: u16| {
        assert_eq!(status(&message(first, fields, b"")), expected, "{name}");
    };
    bad("badinv01", INVITE, &["Via: SIP/2.0/UDP 192.0.2.15;;,;,,"], 400);
    bad("badinv01", INVITE, &["Contact: \"Joe\" <sip:joe@example.org>;;;;"], 400);
    bad("clerr", INVITE, &["Content-Length: 9999"], 400);
    bad("ncl", INVITE, &["Content-Length: -999"], 400);
    bad("scalar02", REGISTER, &["CSeq: 36893488147419103232 REGISTER"], 400);
    bad("scalar02", REGISTER, &["Max-Forwards: 300"], 400);
    bad("scalar02", REGISTER, &["Expires: 10000000000000000000000000000"], 400);
    bad("quotbal", INVITE, &["To: \"Mr. J. User <sip:j.user@example.com>"], 400);
    bad("ltgtruri", "INVITE <sip:user@example.com> SIP/2.0", &[], 400);
    bad("lwsruri", "INVITE sip:user@example.com; lr SIP/2.0", &[], 400);
    bad("lwsstart", "INVITE  sip:user@example.com  SIP/2.0", &[], 400);
    bad("trws", "OPTIONS sip:agent@example.com SIP/2.0  ", &[], 400);
    bad("escruri", "INVITE sip:u@example.com?Route=%3Csip:example.com%3E SIP/2.0", &[], 400);
    bad("baddate", INVITE, &["Date: Fri, 01 Jan 2010 16:00:00 EST"], 400);
    bad("regbadct", REGISTER, &["Contact: sip:u@example.com?Route=%3Csip:example.com%3E"], 400);
    bad("badaspec", OPTIONS, &["To: \"Watson, Thomas\" < sip:t.watson@example.org >"], 400);
    bad("baddn", OPTIONS, &["From: Bell, Alexander <sip:a.g.bell@example.com>;tag=43"], 400);
    bad("badvers", "OPTIONS sip:t.watson@example.org SIP/7.0", &[], 505);
    bad("mismatch01", OPTIONS, &["CSeq: 8 INVITE"], 400);
    bad("mismatch02", "NEWMETHOD sip:agent@example.com SIP/2.0", &["CSeq: 8 INVITE"], 400);
    for first in ["SIP/2.0 4294967301 better not", "SIP/2.0 503", "SIP/2.0 0 x"] {
        assert!(!matches!(
            parse(&message(first, &["CSeq: 9292394834772304023312 INVITE"], b"")),
            Ok(Message::Request(_))
        ));
    }
    assert_eq!(parse(b"SIP/2.0 4294967301 x\r\n\r\n"), Err(Wrong::Nothing), "bigcode");
}

/// RFC 4475, 3.3: well formed, and still not what can be done here.
#[test]
fn what_cannot_be_done_is_said_as_rfc_4475_expects() {
    let case = |name: &str, first: &str, fields: &[&str], body: &[u8], expected: u16| {
        assert_eq!(status(&message(first, fields, body)), expected, "{name}");
    };
    case("insuf", INVITE, &["-Call-ID", "-From", "-To"], b"", 400);
    case("unkscm", "OPTIONS nobodyKnowsThisScheme:opaque SIP/2.0", &[], b"", 416);
    case("novelsc", "OPTIONS soap.beep://192.0.2.103:3002 SIP/2.0", &[], b"", 416);
    case("bext01", OPTIONS, &["Require: nothingSupportsThis, norThis"], b"", 420);
    let kind = ["Content-Type: application/unknownformat", "Content-Length: 1"];
    case("invut", INVITE, &kind, b"x", 415);
    case("regaut01", REGISTER, &["Authorization: NoOneKnowsThisScheme x=y"], b"", 200);
    case("multi01", INVITE, &["+CSeq: 59 INVITE", "+To: <sip:b@example.com>"], b"", 400);
    case("mcl01", OPTIONS, &["Content-Length: 13", "+Content-Length: 5"], b"thirteen bytes", 400);
    case("zeromf", OPTIONS, &["Max-Forwards: 0"], b"", 200);
    case("cparam02", REGISTER, &["Contact: <sip:+19725552222@gw1.example.net;unknown>"], b"", 200);
    let escaped = "Contact: <sip:user@example.com?Route=%3Csip:sip.example.com%3E>";
    case("regescrt", REGISTER, &[escaped], b"", 200);
    case("sdp01", INVITE, &["Accept: text/nobodyKnowsThis"], b"", 406);
    case("an ACK is never answered", "ACK sip:a@b SIP/2.0", &["Max-Forwards: 300"], b"", 0);
    // resiprocate #311: what scanners send.
    case("scanner", INVITE, &["Contact: <sip:>;sip:;1001@192.0.2.4"], b"", 400);
}

#[test]
fn a_stream_is_cut_at_its_lengths() {
    let whole = message(INVITE, &["Content-Length: 5"], b"hello");
    let two = [whole.as_slice(), whole.as_slice()].concat();
    assert_eq!(length_in_stream(&two), Ok(Some(whole.len())));
    assert_eq!(length_in_stream(&whole[..40]), Ok(None));
    assert_eq!(length_in_stream(&whole[..whole.len() - 2]), Ok(Some(whole.len())));
    for length in ["-1", "1, 1", "99999999", "99999999999999999999999"] {
        let bad = message(INVITE, &[&format!("Content-Length: {length}")], b"");
        assert_eq!(length_in_stream(&bad), Err(()), "{length}");
    }
    // Lengths that head and body together are past what a number can be, and at nothing again.
    for missing in 0..1_000 {
        let length = u64::MAX - missing;
        let bad = message(INVITE, &[&format!("Content-Length: {length}")], b"");
        assert_eq!(length_in_stream(&bad), Err(()), "{length}");
    }
    assert_eq!(length_in_stream(&vec![b'x'; MESSAGE_MAX + 1]), Err(()));
}

proptest! {
    /// Nothing that comes breaks what reads it, or what answers it.
    #[test]
    fn anything_can_come(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        status(&bytes);
        let _ = length_in_stream(&bytes);
    }

    /// The same of what nearly is a message.
    #[test]
    fn nearly_anything_can_come(
        at in prop::collection::vec(0_usize..420, 0..8),
        with in prop::collection::vec(prop::sample::select(b"\r\n :;,<>\"\\@=/%\0x9\xff".to_vec()), 8),
    ) {
        let fields = ["Session-Expires: 90;refresher=uas", "Supported: timer", "Accept: */*"];
        let mut bytes = message(INVITE, &fields, b"v=0\r\n");
        for (at, with) in at.into_iter().zip(with) {
            let length = bytes.len();
            bytes[at % length] = with;
        }
        status(&bytes);
        if let Ok(Message::Request(request)) = parse(&bytes) {
            let from = "192.0.2.7:5060".parse().unwrap();
            let answer = super::super::write::Answer::of(200, "t").write(&request, from);
            let text = String::from_utf8(answer.to_vec()).unwrap();
            prop_assert!(!text.replace("\r\n", "").contains(['\r', '\n']), "{text:?}");
        }
    }
}
