//! Offers of phones and of nobody.

use proptest::prelude::*;

use super::super::Srtp;
use super::super::codec::Codec;
use super::super::crypto::Secrecy;
use super::*;

const PEER: &str = "192.0.2.7";

fn ours() -> SocketAddr {
    "192.0.2.1:20000".parse().unwrap()
}

fn agreed(text: &str) -> Result<Media, BadSdp> {
    agreed_by(Srtp::Offered, text)
}

fn agreed_by(srtp: Srtp, text: &str) -> Result<Media, BadSdp> {
    let secrecy = Secrecy::Offer(srtp, None);
    let codecs = Codecs::default();
    Description::parse(text.as_bytes())?.agree(ours(), PEER.parse().unwrap(), secrecy, codecs)
}

fn offer(host: &str, stream: &str) -> String {
    format!("v=0\r\no=- 1 1 IN IP4 {host}\r\ns=-\r\nc=IN IP4 {host}\r\nt=0 0\r\n{stream}\r\n")
}

fn nothing_common() -> BadSdp {
    BadSdp::NothingCommon(Codecs::default())
}

/// The offer of a phone that calls two kinds of events by two names, and says its address in the
/// stream: the events are those that count as the sound does.
#[test]
fn the_events_that_fit_the_sound_are_chosen() {
    let text = "v=0\r\no=- 1 1 IN IP4 10.0.0.1\r\ns=pj\r\nb=AS:84\r\nt=0 0\r\na=X-nat:0\r\n\
                m=audio 4008 RTP/AVP 96 97 8 0 120 121\r\nc=IN IP4 192.0.2.8\r\n\
                b=TIAS:64000\r\na=rtcp:4009 IN IP4 192.0.2.8\r\na=sendrecv\r\n\
                a=rtpmap:96 speex/16000\r\na=rtpmap:97 iLBC/8000\r\na=rtpmap:8 PCMA/8000\r\n\
                a=rtpmap:120 telephone-event/16000\r\na=fmtp:120 0-16\r\n\
                a=rtpmap:121 telephone-event/8000\r\na=fmtp:121\r\na=rtcp-mux\r\n\
                m=video 4010 RTP/AVP 99\r\na=rtpmap:99 H264/90000\r\n";
    let media = agreed(text).unwrap();
    assert_eq!(media.remote, Some("192.0.2.8:4008".parse().unwrap()));
    let spoken = Spoken { codec: Codec::Pcma, payload_type: 8, bits_max: None };
    assert_eq!((media.spoken, media.events), (spoken, Some(121)));
    let description = Description::parse(text.as_bytes()).unwrap();
    let mut said = Ours::new(ours(), 9, Codecs::default());
    let answer = said.answer(&description, &media);
    assert_eq!(
        answer,
        "v=0\r\no=- 9 1 IN IP4 192.0.2.1\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nt=0 0\r\n\
         m=audio 20000 RTP/AVP 8 121\r\na=rtpmap:8 PCMA/8000\r\n\
         a=rtpmap:121 telephone-event/8000\r\na=fmtp:121 0-15\r\na=ptime:20\r\na=sendrecv\r\n\
         a=rtcp-mux\r\nm=video 0 RTP/AVP 99\r\n"
    );
    assert_eq!(said.answer(&description, &media), answer, "the same says the same version");
}

/// Sound goes to nobody who could not be the peer (reliability D, 69).
#[test]
fn sound_goes_to_no_address_that_is_none() {
    let stream = "m=audio 4000 RTP/AVP 0";
    for host in ["224.0.0.1", "255.255.255.255", "127.0.0.1", "2001:db8::1"] {
        assert_eq!(agreed(&offer(host, stream)), Err(BadSdp::Address), "{host}");
    }
    for port in [1, 80, 1_023] {
        let stream = format!("m=audio {port} RTP/AVP 0");
        assert_eq!(agreed(&offer("192.0.2.8", &stream)), Err(BadSdp::Address), "{port}");
    }
    let to_us = agreed(&offer("192.0.2.1", "m=audio 20000 RTP/AVP 0"));
    assert_eq!(to_us, Err(BadSdp::Address));
    let held = agreed(&offer("0.0.0.0", stream)).unwrap();
    assert_eq!((held.remote, held.sends, held.hears), (None, false, false));
    let named = agreed(&offer("phone.example", stream)).unwrap();
    assert_eq!(named.remote, Some("192.0.2.7:4000".parse().unwrap()), "a name is not looked up");
    let (plain, all) = (Secrecy::Offer(Srtp::Offered, None), Codecs::default());
    let mapped = Description::parse(offer("::ffff:127.0.0.1", stream).as_bytes()).unwrap();
    let over_ipv6 = mapped.agree(
        "[2001:db8::1]:9".parse().unwrap(),
        "2001:db8::7".parse().unwrap(),
        plain,
        all,
    );
    assert_eq!(over_ipv6, Err(BadSdp::Address), "another name of the loopback");
    let here = Description::parse(offer("127.0.0.1", stream).as_bytes()).unwrap();
    assert!(
        here.agree("127.0.0.1:9".parse().unwrap(), "127.0.0.1".parse().unwrap(), plain, all)
            .is_ok()
    );
}

/// ES2018-02, ES2018-03 and the like: no format, no value, no stream, too many of them.
#[test]
fn what_is_no_offer_is_refused() {
    let host = "192.0.2.8";
    for (text, wrong) in [
        (String::new(), BadSdp::NotSdp),
        ("v=1\r\n".to_owned(), BadSdp::NotSdp),
        ("v=0\r\nnonsense\r\n".to_owned(), BadSdp::NotSdp),
        (offer(host, "m=audio 4000 RTP/AVP"), BadSdp::NotSdp),
        (offer(host, "m=audio"), BadSdp::NotSdp),
        (offer(host, "m=audio 99999 RTP/AVP 0"), BadSdp::NotSdp),
        (offer(host, "m=audio 4000 RTP/AVP 0\r\nc=IN"), BadSdp::NotSdp),
        (offer(host, "m=audio 0 RTP/AVP 0"), nothing_common()),
        (offer(host, "m=audio 4000 RTP/AVP 18 4"), nothing_common()),
        (offer(host, "m=audio 4000 RTP/SAVP 0"), BadSdp::Keys),
        (offer(host, "m=video 4000 RTP/AVP 0"), nothing_common()),
        (offer(host, "m=audio 4000 RTP/AVP 300\r\na=rtpmap:300 PCMU/8000"), nothing_common()),
        (offer(host, &"m=audio 4000 RTP/AVP 0\r\n".repeat(1_000)), BadSdp::NotSdp),
        (offer(host, &"m=audio 4000 RTP/AVP 0\r\n".repeat(17)), BadSdp::TooMany),
        ("v=0\r\nm=audio 4000 RTP/AVP 0\r\n".to_owned(), BadSdp::NotSdp),
    ] {
        assert_eq!(agreed(&text), Err(wrong), "{text}");
    }
    let long =
        format!("m=audio 4000 RTP/AVP 0 0 0\r\na={}\r\na=fmtp:0\r\na=rtpmap:0", "x".repeat(10_000));
    assert!(agreed(&offer(host, &long)).is_ok(), "what is only odd is left out");
}

proptest! {
    #[test]
    fn anything_can_be_offered(text in "(v=0\n)?([mcao]=[ -~]{0,40}\n){0,12}") {
        if let Ok(media) = agreed(&text) {
            let description = Description::parse(text.as_bytes()).unwrap();
            let answer = Ours::new(ours(), 9, Codecs::default()).answer(&description, &media);
            prop_assert!(Description::parse(answer.as_bytes()).is_ok(), "{}", answer);
        }
    }
}

/// Issue 7.2: SRTP where it is offered, where it must be, and where it must not.
#[test]
fn who_offers_a_key_is_answered_as_the_configuration_says() {
    let crypto = |suite: &str| {
        format!("\r\na=crypto:3 {suite} inline:d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj|2^31")
    };
    let (known, unknown) = (crypto("AES_CM_128_HMAC_SHA1_80"), crypto("AEAD_AES_256_GCM"));
    let of = |profile: &str, lines: &str| offer(PEER, &format!("m=audio 4000 {profile} 0{lines}"));
    let secure = of("RTP/SAVP", &format!("{unknown}{known}"));
    let tried = of("RTP/AVP", &known);
    let both = of("RTP/AVP", &format!("\r\nm=audio 4002 RTP/SAVP 0{known}"));
    let nothing = Err(BadSdp::Keys);
    let (plain, savp, avp) = (Ok(None), Ok(Some("RTP/SAVP")), Ok(Some("RTP/AVP")));
    for (text, offered, required, off) in [
        (of("RTP/AVP", ""), plain, nothing, plain),
        (secure, savp, savp, nothing),
        (of("RTP/SAVP", ""), nothing, nothing, nothing),
        (of("RTP/SAVP", &unknown), nothing, nothing, nothing),
        (tried, plain, avp, plain),
        (both, savp, savp, plain),
        (of("RTP/SAVPF", &known), Err(nothing_common()), nothing, Err(nothing_common())),
    ] {
        for (srtp, expected) in
            [(Srtp::Offered, offered), (Srtp::Required, required), (Srtp::Off, off)]
        {
            let found = agreed_by(srtp, &text);
            let told = found.clone().map(|media| media.keys.map(|keys| keys.profile));
            assert_eq!(told, expected, "{srtp:?}: {text}");
            let Ok(media) = found else { continue };
            let description = Description::parse(text.as_bytes()).unwrap();
            let answer = Ours::new(ours(), 9, Codecs::default()).answer(&description, &media);
            let profile = media.keys.as_ref().map_or("RTP/AVP", |keys| keys.profile);
            assert!(answer.contains(&format!("m=audio 20000 {profile} 0\r\n")), "{answer}");
            let line = "a=crypto:3 AES_CM_128_HMAC_SHA1_80 inline:";
            assert_eq!(answer.contains(line), media.keys.is_some(), "{answer}");
            assert!(!answer.contains("d0Rmdm"), "a key of our own: {answer}");
        }
    }
}

/// Our own offer has one key, which stays; the answer has to be one to it.
#[test]
fn an_answer_to_our_key_is_one_with_its_name() {
    let mut said = Ours::new(ours(), 9, Codecs::default());
    assert!(said.offer(Srtp::Offered.line(None), None).contains("RTP/AVP 96 9 0 8 101 97"));
    let plain = offer(PEER, "m=audio 4000 RTP/AVP 0");
    let agree = |said: &Ours, text: &str| {
        let answer = Description::parse(text.as_bytes()).unwrap();
        said.agree(&answer, PEER.parse().unwrap())
    };
    assert_eq!(agree(&said, &plain).unwrap().keys, None);
    let offered = said.offer(Srtp::Required.line(None), None);
    assert!(
        offered.contains("RTP/SAVP 96 9 0 8 101 97") && offered.contains("a=crypto:1 "),
        "{offered}"
    );
    assert_eq!(agree(&said, &plain), Err(BadSdp::Keys));
    let answer = |tag: u32, suite: &str| {
        let key = "d0RmdmcmVCspeEc3QGZiNWpVLFJhQX1cfHAwJSoj";
        let line = format!("a=crypto:{tag} AES_CM_128_HMAC_SHA1_{suite} inline:{key}");
        offer(PEER, &format!("m=audio 4000 RTP/SAVP 0\r\n{line}"))
    };
    assert_eq!(agree(&said, &answer(2, "80")), Err(BadSdp::Keys));
    assert_eq!(agree(&said, &answer(1, "32")), Err(BadSdp::Keys));
    let keys = agree(&said, &answer(1, "80")).unwrap().keys.expect("keys");
    let again = said.offer(Srtp::Offered.line(Some(&keys)), None);
    let line = offered.lines().find(|line| line.starts_with("a=crypto")).unwrap();
    assert!(again.contains(line), "{again}");
}

const OPUS: &str = "a=rtpmap:107 opus/48000/2\r\na=fmtp:107 stereo=1;maxaveragebitrate=20000";
const NARROW_KEYS: &str = "a=rtpmap:121 telephone-event/8000";
const WIDE_KEYS: &str = "a=rtpmap:122 telephone-event/48000";

/// Issue 7.2: the first that both can, in the order of the offer; keys beside it that count as it
/// does, and where there are none, none (RFC 4733, 2.1).
#[test]
fn the_first_codec_that_both_can_is_spoken() {
    let of = |codec, payload_type, bits_max| Spoken { codec, payload_type, bits_max };
    let (opus, g722) = (of(Codec::Opus, 107, Some(20_000)), of(Codec::G722, 9, None));
    let (pcmu, pcma) = (of(Codec::Pcmu, 0, None), of(Codec::Pcma, 8, None));
    let all = Codecs::default();
    let old = Codecs::new(&[Codec::Pcma, Codec::Pcmu]).unwrap();
    for (formats, lines, codecs, spoken, events) in [
        ("107 9 0 121 122", &[OPUS, NARROW_KEYS, WIDE_KEYS][..], all, opus, Some(122)),
        ("107 9 0 121", &[OPUS, NARROW_KEYS], all, opus, None),
        ("107 9 0 121 122", &[OPUS, NARROW_KEYS, WIDE_KEYS], old, pcmu, Some(121)),
        ("18 9 107 8 122 121", &[OPUS, NARROW_KEYS, WIDE_KEYS], all, g722, Some(121)),
        ("8 0 107 9", &[OPUS], all, pcma, None),
        ("107 0", &["a=rtpmap:107 opus/48000"], all, pcmu, None),
        ("107 0", &["a=rtpmap:107 OPUS/48000/2"], all, of(Codec::Opus, 107, None), None),
        ("96 0", &["a=rtpmap:96 g722/8000/1"], all, of(Codec::G722, 96, None), None),
        ("9 8", &["a=rtpmap:9 G722/16000"], all, pcma, None),
        ("107", &[OPUS, "a=rtpmap:107 PCMU/8000"], all, opus, None),
    ] {
        let text =
            offer(PEER, &format!("m=audio 4000 RTP/AVP {formats}\r\n{}", lines.join("\r\n")));
        let (peer, secrecy) = (PEER.parse().unwrap(), Secrecy::Offer(Srtp::Offered, None));
        let description = Description::parse(text.as_bytes()).unwrap();
        let media = description.agree(ours(), peer, secrecy, codecs).unwrap();
        assert_eq!((media.spoken, media.events), (spoken, events), "{text}");
        let answer = Ours::new(ours(), 9, codecs).answer(&description, &media);
        let name = spoken.codec.name();
        let number = spoken.payload_type;
        let keys = events.map_or(String::new(), |events| format!(" {events}"));
        assert!(answer.contains(&format!("m=audio 20000 RTP/AVP {number}{keys}\r\n")), "{answer}");
        assert!(answer.contains(&format!("a=rtpmap:{number} {name}\r\n")), "{answer}");
        let fec = format!("a=fmtp:{number} useinbandfec=1\r\n");
        assert_eq!(answer.contains(&fec), spoken.codec == Codec::Opus, "{answer}");
    }
    for bits in ["5999", "510001", "99999999999999999999", "-1", "x", ""] {
        let line = format!("a=rtpmap:107 opus/48000/2\r\na=fmtp:107 maxaveragebitrate={bits}");
        let media = agreed(&offer(PEER, &format!("m=audio 4000 RTP/AVP 107\r\n{line}"))).unwrap();
        assert_eq!(media.spoken, of(Codec::Opus, 107, None), "{bits:?} bounds nothing");
    }
}

/// Who is refused is told what would be right.
#[test]
fn a_refusal_says_what_is_spoken() {
    let told = |codecs| BadSdp::NothingCommon(codecs).told();
    let all = "305 floorkeeper \"spoken over RTP/AVP: opus, G722, PCMU, PCMA\"";
    assert_eq!(told(Codecs::default()), (488, all.to_owned()));
    let some = "305 floorkeeper \"spoken over RTP/AVP: PCMA, G722\"";
    assert_eq!(told(Codecs::new(&[Codec::Pcma, Codec::G722]).unwrap()), (488, some.to_owned()));
    assert_eq!(Codecs::new(&[]), None);
    assert_eq!(Codecs::new(&[Codec::Opus, Codec::Pcmu, Codec::Opus]), None);
}

/// Our own offer has what is spoken here, in our order, and events of each clock. What was agreed
/// on before keeps its numbers (RFC 3264, 8.3.2), which nothing else gets.
#[test]
fn our_own_offer_has_every_codec_and_its_keys() {
    let mut said = Ours::new(ours(), 9, Codecs::default());
    let whole = "m=audio 20000 RTP/AVP 96 9 0 8 101 97\r\na=rtpmap:96 opus/48000/2\r\n\
                 a=fmtp:96 useinbandfec=1\r\na=rtpmap:9 G722/8000\r\na=rtpmap:0 PCMU/8000\r\n\
                 a=rtpmap:8 PCMA/8000\r\na=rtpmap:101 telephone-event/8000\r\n\
                 a=fmtp:101 0-15\r\na=rtpmap:97 telephone-event/48000\r\na=fmtp:97 0-15\r\n";
    assert!(said.offer(None, None).contains(whole));
    let lines = "a=rtpmap:97 opus/48000/2\r\na=rtpmap:96 telephone-event/48000";
    let before = agreed(&offer(PEER, &format!("m=audio 4000 RTP/AVP 97 96\r\n{lines}"))).unwrap();
    assert!(said.offer(None, Some(&before)).contains("RTP/AVP 97 9 0 8 101 96\r\n"));
    let lines = "a=rtpmap:101 opus/48000/2\r\na=rtpmap:97 telephone-event/8000";
    let before = agreed(&offer(PEER, &format!("m=audio 4000 RTP/AVP 101 97\r\n{lines}"))).unwrap();
    assert!(said.offer(None, Some(&before)).contains("RTP/AVP 101 9 0 8 102 97\r\n"));
    let mut some = Ours::new(ours(), 9, Codecs::new(&[Codec::Pcma, Codec::G722]).unwrap());
    assert!(some.offer(None, None).contains("RTP/AVP 8 9 101\r\n"));
    let mut opus = Ours::new(ours(), 9, Codecs::new(&[Codec::Opus]).unwrap());
    assert!(opus.offer(None, None).contains("RTP/AVP 96 97\r\n"));
}
