//! Packets whole and broken, and whose they are.

use proptest::prelude::*;

use super::*;

#[test]
fn what_is_written_is_read() {
    let bytes = write(8, true, 65_535, 7, 9, b"sound");
    let packet =
        Packet { payload_type: 8, sequence: 65_535, timestamp: 7, ssrc: 9, payload: b"sound" };
    assert_eq!(parse(&bytes), Some(packet));
    assert!(!is_rtcp(&bytes));
}

#[test]
fn contributors_an_extension_and_padding_are_no_sound() {
    let mut bytes = write(0, false, 1, 2, 3, &[]);
    bytes[0] |= 0x20 | 0x10 | 2;
    bytes.extend([1; 8]); // two contributors
    bytes.extend([0xbe, 0xde, 0, 1, 9, 9, 9, 9]); // one word
    bytes.extend(b"sound");
    bytes.extend([0, 0, 3]);
    assert_eq!(parse(&bytes).map(|packet| packet.payload), Some(&b"sound"[..]));
}

/// Truncated everywhere, padded beyond itself, of another version.
#[test]
fn what_is_no_packet_is_none() {
    let mut whole = write(0, false, 1, 2, 3, &[]);
    whole[0] |= 0x10 | 1;
    whole.extend([1, 1, 1, 1, 0, 0, 0, 2, 9, 9, 9, 9, 9, 9, 9, 9]);
    assert!(parse(&whole).is_some());
    for length in 0..whole.len() {
        assert_eq!(parse(&whole[..length]), None, "{length}");
    }
    for padding in [0, 6, 255] {
        let mut padded = write(0, false, 1, 2, 3, &[1, 1, 1, 1, padding]);
        padded[0] |= 0x20;
        assert_eq!(parse(&padded), None, "{padding}");
    }
    let mut other = write(0, false, 1, 2, 3, b"sound");
    other[0] = 0x40;
    assert_eq!(parse(&other), None);
    assert!(is_rtcp(&[0x80, 200, 0, 1]));
}

/// Reliability E, 89: who is believed, and who is not.
#[test]
fn only_the_caller_is_heard() {
    let counts = Counts::default();
    let at = |text: &str| text.parse::<SocketAddr>().unwrap();
    let (agreed, behind_nat) = (at("192.0.2.8:4000"), at("192.0.2.7:9000"));
    let mut source = Source::of(at("192.0.2.7:1").ip());
    source.agree(Some(agreed));
    assert_eq!(source.to(), Some(agreed));
    assert!(!source.hears(at("203.0.113.9:4000"), &counts));
    assert!(source.hears(behind_nat, &counts), "from where the call came");
    assert_eq!(source.to(), Some(behind_nat));
    assert!(!source.hears(at("192.0.2.7:9001"), &counts), "nobody takes it over");
    assert!(source.hears(agreed, &counts), "but what was agreed on counts more");
    assert!(!source.hears(behind_nat, &counts));
    assert_eq!((source.to(), counts.of(Count::RtpOfStrangers)), (Some(agreed), 3));
    let moved = at("192.0.2.9:4002");
    source.agree(Some(moved));
    assert_eq!(source.to(), Some(moved));
    assert!(!source.hears(agreed, &counts), "it has moved");
    source.agree(None);
    assert_eq!(source.to(), Some(moved), "on hold it is where it was");
}

proptest! {
    #[test]
    fn anything_can_come(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Some(packet) = parse(&bytes) {
            prop_assert!(packet.payload.len() <= bytes.len() - 12);
        }
    }
}
